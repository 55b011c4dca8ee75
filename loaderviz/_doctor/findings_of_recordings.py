"""The known pitfalls that a recording alone shows.

The recording of the reader's own loop is made into cases. They go to the checks that can decide
from one (``recorded`` in ``@check``) and to those of ``OF_RECORDINGS``. The others need what no
recording holds: the dataset and its samples.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz._doctor.batch_probe import Note
from loaderviz._doctor.checks import CHECKS, OF_RECORDINGS
from loaderviz._doctor.examination import Case, RecordedLoop
from loaderviz._doctor.findings import Diagnosis, Finding, diagnosis_of
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.rank_messages import RankMessages
from loaderviz._doctor.run_epochs import Epoch
from loaderviz.trace import Trace
from loaderviz.trace.described_loaders import loader_description
from loaderviz.trace.loaders_as_one import as_one
from loaderviz.trace.steps import step_ends
from loaderviz.why.loader_share import loader_shares, short_names
from loaderviz.why.summary import Summary
from loaderviz.why.unequal_epochs import Unequal, unequal

if TYPE_CHECKING:
    import pandas as pd

MOST_BATCHES = 20_000  # that are looked at in one epoch
MOST_CASES = 64  # one for each loader of each rank
OF_WAITS = "LV3"  # the codes of checks that tell what a loop waits for
_DEFAULT_SETTINGS = {
    "batch_size": None,
    "prefetch_factor": None,
    "drop_last": False,
    "pin_memory": False,
}


def findings_of(trace: Trace, summary: Summary | None = None) -> Diagnosis:
    """The pitfalls that this recording shows; ``summary`` is that of the trace, if there is one.

    ``.undecided`` holds the checks that could not decide from it. The checks that need the loader
    itself are in none of its lists: ``need_the_loader()`` names them.
    """
    trace = as_one(trace)
    shares = loader_shares(trace)
    unseen = {share.loader: share.name for share in shares if not share.seen}
    read_ahead = {share.loader: share for share in shares if share.read_ahead}
    lanes = [lane for lane in _sorted_lanes(trace) if lane[1] not in unseen]
    cases = _cases_of(trace, summary or trace.summary(), lanes)
    checks = {code: check for code, check in CHECKS.items() if check.recorded} | OF_RECORDINGS
    answers: dict[str, list[tuple[str, Finding]]] = {code: [] for code in checks}
    judged = set()
    for name, case in cases:
        assert case.recording is not None
        for code, check in checks.items():
            if code.startswith(OF_WAITS) and case.recording.loader in read_ahead:
                continue
            judged.add(code)
            finding = check.judge(case)
            if finding is not None:
                answers[code].append((name, finding))
    n_left_out = len(lanes) - len(cases)
    return diagnosis_of(
        "",
        {code: _merged(answers[code]) for code in checks if code in judged},
        (
            *(f"{name} was not examined: its own work is not seen" for name in unseen.values()),
            *(
                f"what the loop waits for was not examined: {share.name} is {share.read_ahead}"
                for share in read_ahead.values()
            ),
            *([f"{n_left_out} more loaders and ranks were not examined"] if n_left_out else []),
        ),
    )


def need_the_loader() -> tuple[tuple[str, str], ...]:
    """Code and title of each check that no recording can decide."""
    return tuple(
        (code, check.about.title) for code, check in sorted(CHECKS.items()) if not check.recorded
    )


def _merged(named_findings: list[tuple[str, Finding]]) -> Finding | None:
    """One finding for several loaders and ranks: found if it was found in one of them."""
    if not named_findings:
        return None
    order = ("found", "broken", "undecided")
    name, first = min(named_findings, key=lambda named: order.index(named[1].state))
    n_same = sum(finding.state == first.state for _, finding in named_findings)
    if not name or first.code == "LV505":  # which is about all ranks
        return first
    others = f" and in {n_same - 1} more" if n_same > 1 else ""
    return replace(first, evidence=(f"seen in {name}{others}", *first.evidence))


def _sorted_lanes(trace: Trace) -> list[tuple[int, int]]:
    """Rank and loader of each lane: first those with a failure, then those that waited longest."""
    batches, workers = trace.batches, trace.workers
    lanes = {*_lanes(batches), *_lanes(workers)}
    failed = {
        *_lanes(workers[workers["exit"].isin(("killed", "failed"))]),
        *_lanes(batches[batches["state"].isin(("failed", "lost"))]),
    }
    wait_s = (batches["delivered_s"] - batches["requested_s"]).fillna(0)
    waited_s: dict[Any, float] = (
        wait_s.groupby([batches["rank"], batches["loader"]]).sum().to_dict()
    )
    return sorted(lanes, key=lambda lane: (lane not in failed, -waited_s.get(lane, 0.0), lane))


def _cases_of(
    trace: Trace, summary: Summary, lanes: list[tuple[int, int]]
) -> list[tuple[str, Case]]:
    """A name and a case for each loader of each rank, ``MOST_CASES`` at most."""
    several_ranks = len({rank for rank, _ in lanes}) > 1
    several_loaders = len({loader for _, loader in lanes}) > 1
    loader_names = short_names(trace)
    unequal_epochs, ranks = unequal(trace), _ranks(trace)
    cases = []
    for rank, loader in lanes[:MOST_CASES]:
        name = [f"rank {rank}"] if several_ranks else []
        name += [loader_names[loader]] if several_loaders else []
        case = _case(trace, rank, loader, unequal_epochs, ranks, summary)
        cases.append((", ".join(name), case))
    return cases


@dataclass(frozen=True)
class _RecordedSetup(Setup):
    """A loader as the recorder described it: there is no dataset to look at."""

    description: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def settings(self) -> dict[str, Any]:
        return {**_DEFAULT_SETTINGS, "dataset": None, **self.description}

    @property
    def iterable(self) -> bool:
        return bool(self.description.get("kind") == "iterable")

    @property
    def start_method(self) -> str | None:
        return self.description.get("start_method")

    @property
    def persistent(self) -> bool:
        made_anew = (self.description.get("made") or 1) > 1  # which keeps no worker
        return bool(self.description.get("persistent_workers")) and not made_anew


def _lanes(table: pd.DataFrame) -> list[tuple[int, int]]:
    rows = table[["rank", "loader"]].drop_duplicates().to_numpy().tolist()
    return [(int(rank), int(loader)) for rank, loader in rows]


def _case(
    trace: Trace,
    rank: int,
    loader: int,
    unequal_epochs: list[Unequal],
    ranks: RankMessages,
    summary: Summary,
) -> Case:
    # The samples may not fit into memory: LV507 reads those that it needs.
    without_samples = replace(trace, samples=Trace.from_columns().samples)
    lane = without_samples.of_ranks([rank]).of_loader(loader)
    batches = lane.batches
    description = loader_description(trace.meta, loader)
    if description.get("num_workers") is None:
        description["num_workers"] = int(lane.workers["worker"].nunique())
    parts, whole = _two_parts(batches[batches["delivered_s"].notna()].sort_values("delivered_s"))
    epochs = [_epoch(number, part, whole) for number, part in enumerate(parts)]
    return Case(
        _RecordedSetup(None, description=description),  # type: ignore[arg-type]  # no loader
        ran=True,
        observations=tuple(epochs),
        trace=replace(lane, batches=_numbered(parts, batches)),
        ranks=ranks,
        recording=RecordedLoop(
            lane,
            loader=loader,
            summary=summary,
            complete=trace.meta.get("complete", True),
            cpu_allowance=trace.meta.get("cpu_allowance"),
            unequal_epochs=[epoch for epoch in unequal_epochs if epoch.loader == loader],
            read_samples=lambda: trace.of_ranks([rank]).samples,
        ),
    )


def _numbered(parts: list[pd.DataFrame], batches: pd.DataFrame) -> pd.DataFrame:
    """The parts as one table, in which each is an epoch."""
    import pandas as pd

    if not parts:
        return batches.iloc[:0]
    return pd.concat([part.assign(epoch=number) for number, part in enumerate(parts)])


def _two_parts(batches: pd.DataFrame) -> tuple[list[pd.DataFrame], bool]:
    """The first two epochs, or the halves of the only one; and whether they are epochs.

    Two, because one alone may be disturbed by what else the machine does.
    """
    epochs = [epoch for _, epoch in batches.groupby("epoch", sort=True)]
    if len(epochs) > 1:
        return [epoch.iloc[:MOST_BATCHES] for epoch in epochs[:2]], True
    if not epochs:
        return [], False
    only = epochs[0].iloc[: 2 * MOST_BATCHES]
    half = (len(only) + 1) // 2
    return [part for part in (only.iloc[:half], only.iloc[half:]) if len(part)], False


def _epoch(number: int, batches: pd.DataFrame, whole: bool) -> Epoch:
    """The loop as it went, from its first request on."""
    requested = batches["requested_s"].to_numpy()
    delivered = batches["delivered_s"].to_numpy()
    columns = ("rank", "requested_s", "delivered_s", "released_s")
    steps = step_ends({column: batches[column].to_numpy() for column in columns}) - delivered
    return Epoch(
        number,
        tuple(_notes(batches)),
        complete=whole,
        delivered_s=tuple((delivered - requested[0]).tolist()),
        steps_s=float(np.nansum(steps[:-1])),
    )


def _notes(batches: pd.DataFrame) -> list[Note]:
    """A note for each batch."""
    columns = (batches["worker"], batches["n_samples"], batches["shapes"].fillna(""))
    return [
        Note(worker, n_samples, signature=signature)
        for worker, n_samples, signature in zip(*(c.tolist() for c in columns), strict=True)
    ]


def _ranks(trace: Trace) -> RankMessages:
    """No messages; says so if there are other ranks that are not in this trace."""
    if trace.batches["rank"].nunique() < 2 and (trace.meta.get("world_size") or 1) > 1:
        return RankMessages(
            why_missing="the other ranks' recordings are not here: open the folder of all ranks"
        )
    return RankMessages()
