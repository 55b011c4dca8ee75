"""From the tables of a comparison to the ``Audit``: its verdict, its notes, each worker's share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz._audit.audit_result import Audit
from loaderviz._audit.count_deliveries import IN_PART, Tables, lanes_of
from loaderviz._audit.delivered_and_expected import SEEDED
from loaderviz._contents.compared_contents import ComparedContents
from loaderviz.text import count

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace import Trace

TIMES = {1: "once", 2: "twice"}
SAME_ORDER = "The order is the same in every epoch"
SAME_BATCH = "Every epoch gave the loop the same single batch"
MIN_TO_JUDGE_ORDER = 8  # two shuffles of 8 samples agree by chance once in 40,000 times


@dataclass(frozen=True)
class Evidence:
    """What is known of the loader and its samples, and what can be proven from it.

    Attributes:
        kind: of the dataset, ``map`` or ``iterable``.
        n_known: how many samples the delivered ones are compared with.
        which_samples: says which these are, such as `` in the trace``; empty: the whole dataset.
        proves_missing: whether a sample that did not come can be called missing.
        judged: of a trace, what can be said not to be in it, such as ``the keys 0 to 9``; or empty.
        n_workers: how many there are; 0: the main process itself loads.
        by_content: whether samples are known by their content.
        sampler: the name of its class; empty where there is none, or it is not known.
        shuffles: whether the sampler does.
        as_told: why samples come again by the sampler's own rule, a sentence; empty where not.
        left_early: whether workers were sent for batches that the loop did not take.
        is_part: whether a trace left out some of what was delivered, so that the rest tells nothing
            of an order, or of who delivered none.
        remarks: sentences for the notes.
    """

    kind: str
    n_known: int = 0
    which_samples: str = ""
    proves_missing: bool = False
    judged: str = ""
    n_workers: int = 0
    by_content: bool = False
    sampler: str = ""
    shuffles: bool = False
    as_told: str = ""
    left_early: bool = False
    is_part: bool = False
    remarks: tuple[str, ...] = ()

    def noting(self, remark: str) -> Evidence:
        """The same, with one remark more; "" is none."""
        return replace(self, remarks=(*self.remarks, *filter(None, [remark])))


def conclude(
    tables: Tables,
    evidence: Evidence,
    trace: Trace,
    keys: Any = None,
    contents: ComparedContents | None = None,
) -> Audit:
    """The ``Audit`` of these tables; ``trace`` tells which workers there were.

    ``keys`` holds what the sample of each delivery is known by, ``contents`` what each held.
    """
    per_worker = _per_worker(tables, trace)
    notes = _notes(tables, evidence, per_worker)
    return Audit(
        exactly_once=_exactly_once(tables, evidence),
        verdict=_verdict(tables, evidence, contents),
        notes=notes if contents is None else (*contents.notes, *notes),
        n_samples=(
            evidence.n_known if evidence.proves_missing and not evidence.which_samples else None
        ),
        duplicates=tables.duplicates,
        missing=tables.missing,
        extra=tables.extra,
        per_worker=per_worker,
        epochs=tables.epochs,
        deliveries=tables.deliveries,
        keys=keys,
        contents=None if contents is None else contents.table,
        n_left_out=0 if contents is None else contents.n_left_out,
        is_changed=contents is not None and contents.wrong,
        as_told=evidence.as_told,
    )


def _exactly_once(tables: Tables, evidence: Evidence) -> bool | None:
    """None where it can be neither proven nor refuted."""
    epochs = tables.epochs
    if epochs["duplicates"].isna().any():
        return None
    if (epochs["duplicates"] > 0).any() or (epochs["extra"] > 0).any():
        return False
    if not evidence.proves_missing:
        return None
    return not bool((epochs["missing"] > 0).any())


def _per_worker(tables: Tables, trace: Trace) -> pd.DataFrame:
    """The table ``Audit.per_worker``, also for workers that delivered nothing."""
    import pandas as pd

    deliveries, n_epochs = tables.deliveries, len(tables.epochs)
    epoch, batch = deliveries["epoch"].to_numpy(), deliveries["batch"].to_numpy()
    ranks, workers, lane = lanes_of(trace.workers, deliveries)
    n_lanes = len(ranks)
    row = epoch * n_lanes + lane[len(trace.workers) :]
    n_batches = int(batch.max(initial=0)) + 1
    row_of_batch = np.unique(row * n_batches + batch) // n_batches
    samples = np.bincount(row, minlength=n_epochs * n_lanes)
    in_epoch = samples.reshape(n_epochs, n_lanes).sum(axis=1).repeat(n_lanes)
    return pd.DataFrame(
        {
            "epoch": tables.epochs["epoch"].to_numpy().repeat(n_lanes),
            "rank": np.tile(ranks, n_epochs),
            "worker": np.tile(workers, n_epochs),
            "samples": samples,
            "batches": np.bincount(row_of_batch, minlength=n_epochs * n_lanes),
            "share": samples / np.maximum(in_epoch, 1),
        }
    )


def _verdict(tables: Tables, evidence: Evidence, contents: ComparedContents | None = None) -> str:
    """The verdict in one sentence, without its full stop.

    "Every sample" came exactly once where what each holds was compared; otherwise "every key" did.
    """
    words = _verdict_on_keys(tables, evidence)
    if contents is None or contents.whole or not len(contents.table):
        return words
    faults = tables.epochs[["duplicates", "missing", "extra"]]
    keys_are_right = not bool((faults > 0).any(axis=None))
    but = ", but " if contents.wrong and keys_are_right else "; "
    return f"{words.replace('very sample', 'very key')}{but}{contents.sentence}"


def _verdict_on_keys(tables: Tables, evidence: Evidence) -> str:
    rows: list[Any] = tables.epochs.to_dict("records")
    if tables.epochs["duplicates"].isna().any():
        n = sum(row["delivered"] for row in rows)
        return f"{count(n, 'sample')} came, but which ones is not known"
    sentences = [_epoch_sentence(tables, evidence, row) for row in rows]
    if len(rows) == 1:
        return _capitalise(sentences[0])
    if len(set(sentences)) == 1:
        head, colon, tail = sentences[0].partition(":")
        return _capitalise(f"{head} in each of {len(rows)} epochs{colon}{tail}")
    faults = ("duplicates", "missing", "extra")
    wrong_epochs = [epoch for epoch, row in enumerate(rows) if any(row[name] for name in faults)]
    if not wrong_epochs:
        return f"No sample{evidence.which_samples} came more than once in any epoch"
    first = wrong_epochs[0]
    n_others = len(wrong_epochs) - 1
    others = f" (and {count(n_others, 'other epoch is', 'other epochs are')} wrong)"
    return f"In epoch {first}, {sentences[first]}{others if n_others else ''}"


def _epoch_sentence(tables: Tables, evidence: Evidence, row: dict[str, Any]) -> str:
    """The verdict on one epoch, from its row of the table."""
    n = evidence.n_known
    if row["delivered"] == 0 and evidence.which_samples and not n:
        return f"its samples are not{evidence.which_samples}"
    if row["delivered"] == 0:
        return (
            f"nothing came: all {count(n, 'sample')} are missing"
            if n
            else "nothing came: the dataset is empty"
        )
    repeated = tables.duplicates[tables.duplicates["epoch"] == row["epoch"]]
    every = f"every sample{evidence.which_samples}"
    all_alike = len(repeated) == n and repeated["times"].nunique() == 1
    if len(repeated) and all_alike and not row["extra"]:
        times = int(repeated["times"].iloc[0])
        once_per_worker = evidence.kind == "iterable" and times == evidence.n_workers
        why = f": each of {times} workers delivered all of them" if once_per_worker else ""
        return f"{every} came {TIMES.get(times, f'{times} times')}{why}"
    parts = []
    if len(repeated):
        parts.append(
            f"{len(repeated):,} of {count(n, 'sample')}{evidence.which_samples} came more than once"
        )
    if row["missing"]:
        parts.append(_missing_words(tables, evidence, row))
    if row["extra"]:
        parts.append(f"{count(row['extra'], 'sample')} came that one process does not read")
    if parts:
        return "; ".join(parts)
    if evidence.proves_missing:
        return f"{every} came exactly once"
    if evidence.judged:
        return f"each of {evidence.judged} came once{evidence.which_samples}"
    return f"no sample{evidence.which_samples} came more than once"


def _missing_words(tables: Tables, evidence: Evidence, row: dict[str, Any]) -> str:
    """How many samples an epoch lacks and, where it is known, why."""
    n, missing, dropped = evidence.n_known, int(row["missing"]), int(row["dropped"])
    if not evidence.proves_missing:
        of_keys = f"{missing:,} of {evidence.judged}"
        of_epoch = tables.missing[tables.missing["epoch"] == row["epoch"]]
        if (of_epoch["cause"] == IN_PART).any():
            return f"{of_keys} are not in the trace: {IN_PART}"
        if dropped == missing:
            return f"{of_keys} were left out by drop_last: less than a batch, as intended"
        return f"{of_keys} are not in the trace"
    words = f"{missing:,} of {count(n, 'sample')}{evidence.which_samples} never arrived"
    if dropped == missing:
        per_worker = evidence.kind == "iterable" and evidence.n_workers > 1
        taken = "each worker's last, partial batch" if per_worker else "the last, partial batch"
        others = ", and others in each epoch" if evidence.shuffles else ""
        return f"{words}: drop_last takes {taken}{others}"
    if dropped:
        return f"{words}, {dropped:,} of them dropped by drop_last"
    if _are_remainder(tables, evidence, row):
        return f"{words}: the remainder of {n:,} by {evidence.n_workers} workers"
    return words


def _are_remainder(tables: Tables, evidence: Evidence, row: dict[str, Any]) -> bool:
    """Whether just the last samples are missing, as many as a floor division leaves over."""
    missing = tables.missing.loc[tables.missing["epoch"] == row["epoch"], "sample"]
    remainder = evidence.n_known % evidence.n_workers if evidence.n_workers > 1 else 0
    at_end = bool((missing >= evidence.n_known - remainder).all())
    return evidence.kind == "iterable" and len(missing) == remainder > 0 and at_end


def _notes(tables: Tables, evidence: Evidence, per_worker: pd.DataFrame) -> tuple[str, ...]:
    """The notes, a sentence or two each: the ways out first."""
    samples_known = bool(tables.epochs["duplicates"].notna().all())
    sentences = [*_ways_out(tables, evidence)] if samples_known else []
    sentences += evidence.remarks
    if not evidence.is_part:
        sentences += _notes_on_workers(per_worker, evidence)
        sentences += _notes_on_order(tables, evidence) if samples_known and evidence.n_known else []
    return tuple(sentences)


def _ways_out(tables: Tables, evidence: Evidence) -> Iterator[str]:
    epochs = tables.epochs
    repeats, has_extra = (bool((epochs[name] > 0).any()) for name in ("duplicates", "extra"))
    lacks = evidence.proves_missing and bool((epochs["missing"] > epochs["dropped"]).any())
    if has_extra and evidence.by_content:
        yield (
            "Samples are known by their content here. Where that depends on chance (random "
            "augmentation) or on the worker, a sample seems to be missing and another one extra: "
            "say what it is known by, audit(loader, key=lambda sample: ...)."
        )
    elif (repeats or lacks) and evidence.kind == "iterable" and evidence.n_workers > 1:
        yield (
            "Remedy: share the samples out, with loaderviz.shard(...) inside __iter__ or with "
            "worker_init_fn=loaderviz.shard_init(...)."
        )
        if repeats and lacks:
            yield (
                "Workers that have shared out what each has in another order overlap and leave "
                "gaps: where a stream is shuffled before that, all need the same seed."
            )
    repeats = any(len({*ranks}) < len(ranks) for ranks in tables.duplicates["ranks"])
    if evidence.as_told:
        yield evidence.as_told
    elif evidence.sampler and (repeats or lacks):
        asks = "asks for some samples more than once" if repeats else "does not ask for all samples"
        others = " and does not ask for others" if repeats and lacks else ""
        yield f"{evidence.sampler} {asks}{others}."
    if (epochs["dropped"] > 0).any() and evidence.proves_missing:
        yield "Remedy: drop_last=False, or a number of samples that fills the batches."
    elif (epochs["dropped"] > 0).any():
        yield (
            "That is usual in training, where each shuffle leaves out others; to "
            "evaluate, use drop_last=False."
        )


def _notes_on_workers(per_worker: pd.DataFrame, evidence: Evidence) -> Iterator[str]:
    totals = per_worker.groupby(["rank", "worker"], as_index=False)["samples"].sum()
    is_idle = (totals["samples"] == 0) & (totals["worker"] >= 0)
    idle = [str(worker) for worker in totals.loc[is_idle, "worker"]]
    if idle and len(idle) < len(totals):
        names = f"Worker {idle[0]}" if len(idle) == 1 else f"Workers {', '.join(idle)}"
        why = "" if evidence.left_early else ": there is less to share out than there are workers"
        yield f"{names} delivered nothing{why}."


def _notes_on_order(tables: Tables, evidence: Evidence) -> Iterator[str]:
    same_order = tables.epochs["same_order"].iloc[1:]
    enough = evidence.n_known >= MIN_TO_JUDGE_ORDER
    if evidence.shuffles and enough and len(same_order) and bool(same_order.all()):
        yield f"{SAME_ORDER}, although {evidence.sampler} shuffles: " + (
            "call its set_epoch(epoch) before each one, where your loop does not."
            if evidence.sampler not in SEEDED
            else "seed torch, or the sampler's generator, once and not before each one."
        )
    if bool(tables.epochs["in_order"].all()):
        yield "They come in the order in which one process reads them."
    elif evidence.kind == "iterable" and evidence.n_workers > 1:
        yield "Their order is not that of one process: workers take turns, batch by batch."


def _capitalise(words: str) -> str:
    return words[:1].upper() + words[1:]
