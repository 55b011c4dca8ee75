"""What an audit found, in words: the verdict, and the notes with the ways out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loaderviz._audit.count_deliveries import Tables
from loaderviz.text import count

if TYPE_CHECKING:
    import pandas as pd

TIMES = {1: "once", 2: "twice"}
ONCE = "exactly once"
FEWEST_TO_SHUFFLE = 8  # so many come in one and the same order by chance once in 40,000 times


@dataclass(frozen=True)
class Setting:
    """What is known of the loader, and what can be proven."""

    kind: str  # map or iterable
    n_known: int = 0  # samples that what came is compared with
    known_as: str = ""  # what they are where they are not all that the dataset holds
    proves_missing: bool = False
    keys_count_up: bool = False  # from 0, where they are all that is known
    n_workers: int = 0
    by_content: bool = False
    sampler: str = ""  # its class, where there is one
    shuffles: bool = False
    remarks: tuple[str, ...] = ()


def verdict(found: Tables, setting: Setting) -> str:
    """One sentence, without its full stop."""
    rows: list[Any] = found.epochs.to_dict("records")
    if found.epochs["duplicates"].isna().any():
        n = sum(row["delivered"] for row in rows)
        return f"{count(n, 'sample')} came, and which ones they were is not known"
    said = [_epoch(found, setting, row) for row in rows]
    if len(rows) == 1:
        return _upper(said[0])
    if len(set(said)) == 1:
        head, colon, tail = said[0].partition(":")
        return _upper(f"{head} in each of {len(rows)} epochs{colon}{tail}")
    wrong = ("duplicates", "missing", "extra")
    bad = [epoch for epoch, row in enumerate(rows) if any(row[name] for name in wrong)]
    if not bad:
        return f"No sample{setting.known_as} came more than once in any epoch"
    first = bad[0]
    others = len(bad) - 1
    more = f" (and {count(others, 'other epoch is', 'other epochs are')} wrong)"
    return f"In epoch {first}, {said[first]}{more if others else ''}"


def _epoch(found: Tables, setting: Setting, row: dict[str, Any]) -> str:
    """What is said of one epoch, from its row of the table."""
    n, delivered = setting.n_known, int(row["delivered"])
    if delivered == 0:
        return (
            f"nothing came: all {count(n, 'sample')} are missing"
            if n
            else "nothing came: the dataset is empty"
        )
    twice = found.duplicates[found.duplicates["epoch"] == row["epoch"]]
    every = f"every sample{setting.known_as}"
    if len(twice) and len(twice) == n and twice["times"].nunique() == 1 and not row["extra"]:
        times = int(twice["times"].iloc[0])
        each = setting.kind == "iterable" and times == setting.n_workers
        why = f": each of {times} workers delivered all of them" if each else ""
        return f"{every} came {TIMES.get(times, f'{times} times')}{why}"
    parts = []
    if len(twice):
        parts.append(
            f"{len(twice):,} of {count(n, 'sample')}{setting.known_as} came more than once"
        )
    if row["missing"]:
        parts.append(_missing(found, setting, row))
    if row["extra"]:
        parts.append(f"{count(row['extra'], 'sample')} came that one process does not read")
    if parts:
        return "; ".join(parts)
    if setting.proves_missing:
        return f"{every} came {ONCE}"
    if setting.keys_count_up:
        return f"each of the keys 0 to {n - 1:,} came once{setting.known_as}"
    return f"no sample{setting.known_as} came more than once"


def _missing(found: Tables, setting: Setting, row: dict[str, Any]) -> str:
    """How many samples an epoch lacks and, where that is plain, why."""
    n, missing, dropped = setting.n_known, int(row["missing"]), int(row["dropped"])
    if not setting.proves_missing:
        return f"{missing:,} of the keys 0 to {n - 1:,} are not in the trace"
    words = f"{missing:,} of {count(n, 'sample')}{setting.known_as} never arrived"
    if dropped == missing:
        several = setting.kind == "iterable" and setting.n_workers > 1
        whose = "each worker's last, partial batch" if several else "the last, partial batch"
        return f"{words}: drop_last takes {whose}"
    if dropped:
        return f"{words}, {dropped:,} of them dropped by drop_last"
    if _are_remainder(found, setting, row):
        return f"{words}: the remainder of {n:,} by {setting.n_workers} workers"
    return words


def _are_remainder(found: Tables, setting: Setting, row: dict[str, Any]) -> bool:
    """Whether just the last samples are missing, as many as a floor division leaves over."""
    lost = found.missing.loc[found.missing["epoch"] == row["epoch"], "sample"]
    rest = setting.n_known % setting.n_workers if setting.n_workers > 1 else 0
    at_end = bool((lost >= setting.n_known - rest).all())
    return setting.kind == "iterable" and len(lost) == rest > 0 and at_end


def notes(found: Tables, setting: Setting, per_worker: pd.DataFrame) -> tuple[str, ...]:
    """The ways out first."""
    known = bool(found.epochs["duplicates"].notna().all())
    facts = [*_ways_out(found, setting)] if known else []
    facts += setting.remarks
    facts += _of_workers(per_worker)
    facts += _of_order(found, setting) if known and setting.n_known else []
    return tuple(facts)


def _ways_out(found: Tables, setting: Setting) -> Iterator[str]:
    epochs = found.epochs
    twice, extra = (bool((epochs[name] > 0).any()) for name in ("duplicates", "extra"))
    lost = setting.proves_missing and bool((epochs["missing"] > epochs["dropped"]).any())
    if extra and setting.by_content:
        yield (
            "Samples are known by their content here. Where that depends on chance (random "
            "augmentation) or on the worker, a sample seems to be missing and another one extra: "
            "say what it is known by, audit(loader, key=lambda sample: ...)."
        )
    elif (twice or lost) and setting.kind == "iterable" and setting.n_workers > 1:
        yield (
            "Way out: share the samples out, with loaderviz.shard(...) inside __iter__ or with "
            "worker_init_fn=loaderviz.shard_init(...)."
        )
    if setting.sampler and (twice or lost):
        asks = "asks for some samples more than once" if twice else "does not ask for all samples"
        yield f"{setting.sampler} {asks}{' and does not ask for others' if twice and lost else ''}."
    if (epochs["dropped"] > 0).any():
        yield "Way out: drop_last=False, or a number of samples that fills the batches."


def _of_workers(per_worker: pd.DataFrame) -> Iterator[str]:
    totals = per_worker.groupby(["rank", "worker"], as_index=False)["samples"].sum()
    nothing = totals[(totals["samples"] == 0) & (totals["worker"] >= 0)]
    idle = [str(worker) for worker in nothing["worker"]]
    if idle and len(idle) < len(totals):
        who = f"Worker {idle[0]}" if len(idle) == 1 else f"Workers {', '.join(idle)}"
        yield f"{who} delivered nothing: there is less to share out than there are workers."


def _of_order(found: Tables, setting: Setting) -> Iterator[str]:
    in_order, same = found.epochs["in_order"], found.epochs["same_order"].iloc[1:]
    enough = setting.n_known >= FEWEST_TO_SHUFFLE
    if setting.shuffles and enough and len(same) and bool(same.all()):
        yield (
            f"The order is the same in every epoch, although {setting.sampler} shuffles: call "
            "its set_epoch(epoch) before each one, where your loop does not."
        )
    elif not setting.shuffles and len(same) and not bool(same.all()):
        yield "The order changes from epoch to epoch."
    if bool(in_order.all()):
        yield "They come in the order in which one process reads them."
    elif setting.shuffles:
        yield f"{setting.sampler} shuffles the order."
    elif setting.kind == "iterable" and setting.n_workers > 1:
        yield "Their order is not that of one process: workers take turns, batch by batch."
    else:
        yield "Their order is not that in which one process reads them."


def _upper(words: str) -> str:
    return words[:1].upper() + words[1:]
