"""What a recording alone shows of the known pitfalls: the doctor's own checks, and some more.

A case is made of the recording of the reader's own loop. Only checks that say so (``recorded`` in
``@check``) are asked: the others need what no recording holds, the dataset and its samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz._doctor.batch_probe import Note
from loaderviz._doctor.checks import CHECKS, OF_RECORDINGS
from loaderviz._doctor.examination import Case
from loaderviz._doctor.examination_runs import Epoch
from loaderviz._doctor.findings import SEVERITIES, Diagnosis, Finding
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.rank_messages import Ranks
from loaderviz.trace import Trace
from loaderviz.trace.analysis.steps import startups, step_ends
from loaderviz.trace.analysis.unequal_epochs import unequal

if TYPE_CHECKING:
    import pandas as pd

MOST_BATCHES = 20_000  # of an epoch that are looked at
MOST_CASES = 64  # loaders and ranks
_NAN = math.nan
_USUAL = {"batch_size": None, "prefetch_factor": None, "drop_last": False, "pin_memory": False}


def findings_of(trace: Trace) -> Diagnosis:
    """The pitfalls that this recording shows.

    ``.undecided`` are the checks that could not tell from it; those that need the loader itself
    are in none of its lists: ``need_the_loader()`` names them.
    """
    lanes = _most_telling_first(trace)
    cases = _cases_of(trace, lanes)
    checks = {code: each for code, each in CHECKS.items() if each.recorded} | OF_RECORDINGS
    found: dict[str, list[tuple[str, Finding]]] = {code: [] for code in checks}
    for name, case in cases:
        for code, each in checks.items():
            judged = each.judge(case)
            if judged is not None:
                found[code].append((name, judged))
    said = [_together(each) for each in found.values() if each]
    by_state = {
        state: tuple(each for each in said if each.state == state)
        for state in ("found", "undecided", "broken")
    }
    more = len(lanes) - len(cases)
    gravest_first = sorted(by_state["found"], key=lambda each: SEVERITIES.index(each.severity))
    return Diagnosis(
        loader="",
        findings=tuple(gravest_first),
        undecided=by_state["undecided"],
        broken=by_state["broken"],
        clear=tuple(code for code, each in sorted(found.items()) if cases and not each),
        troubles=(f"{more} more loaders and ranks were not looked at",) if more > 0 else (),
    )


def need_the_loader() -> tuple[tuple[str, str], ...]:
    """Code and title of each check that no recording can decide."""
    return tuple((code, each.title) for code, each in sorted(CHECKS.items()) if not each.recorded)


def _together(judged: list[tuple[str, Finding]]) -> Finding:
    """One finding of several loaders and ranks: where it was found in one of them, it is found."""
    order = ("found", "broken", "undecided")
    judged = sorted(judged, key=lambda each: order.index(each[1].state))
    name, first = judged[0]
    same = [each for each, finding in judged if finding.state == first.state]
    if not name or first.code == "LV505":  # which is of all ranks
        return first
    others = f", and in {len(same) - 1} more" if len(same) > 1 else ""
    return replace(first, evidence=(f"seen in {name}{others}", *first.evidence))


def _most_telling_first(trace: Trace) -> list[tuple[int, int]]:
    """Rank and loader: those in which something died first, then those that waited longest."""
    batches, workers = trace.batches, trace.workers
    lanes = {*_lanes(batches), *_lanes(workers)}
    ended = {
        *_lanes(workers[workers["exit"].isin(("killed", "failed"))]),
        *_lanes(batches[batches["state"] == "failed"]),
    }
    waited = (batches["delivered_s"] - batches["requested_s"]).fillna(0)
    waits: dict[Any, float] = waited.groupby([batches["rank"], batches["loader"]]).sum().to_dict()
    return sorted(lanes, key=lambda lane: (lane not in ended, -waits.get(lane, 0.0), lane))


def _cases_of(trace: Trace, lanes: list[tuple[int, int]]) -> list[tuple[str, Case]]:
    """A case for each loader of each rank, as far as they are looked at, and what to call it."""
    several_ranks = len({rank for rank, _ in lanes}) > 1
    several_loaders = len({loader for _, loader in lanes}) > 1
    differing, ranks = unequal(trace), _ranks(trace)
    cases = []
    for rank, loader in lanes[:MOST_CASES]:
        name = [f"rank {rank}"] if several_ranks else []
        name += [f"loader {loader}"] if several_loaders else []
        case = _case(trace, rank, loader)
        of_it = [each for each in differing if each.loader == loader]
        facts = {**case.facts, "unequal": of_it}
        cases.append((", ".join(name), replace(case, facts=facts, ranks=ranks)))
    return cases


@dataclass(frozen=True)
class Recorded(Setup):
    """A loader as the recorder described it: there is no dataset to look at."""

    about: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def own(self) -> dict[str, Any]:
        return {**_USUAL, "dataset": None, **self.about}

    @property
    def iterable(self) -> bool:
        return bool(self.about.get("kind") == "iterable")

    @property
    def method(self) -> str | None:
        return self.about.get("start_method")

    @property
    def persistent(self) -> bool:
        return bool(self.about.get("persistent_workers"))


def _described(trace: Trace, loader: int) -> dict[str, Any]:
    """What the recorder says of it; nothing where a stranger's file holds nonsense there."""
    listed = trace.meta.get("loaders")
    listed = listed if isinstance(listed, list) else []
    found = listed[loader] if 0 <= loader < len(listed) else None
    return dict(found) if isinstance(found, dict) else {}


def _lanes(table: pd.DataFrame) -> list[tuple[int, int]]:
    rows = table[["rank", "loader"]].drop_duplicates().to_numpy().tolist()
    return [(int(rank), int(loader)) for rank, loader in rows]


def _case(trace: Trace, rank: int, loader: int) -> Case:
    # Samples may be more than fit into memory: LV507 asks for its own.
    bare = replace(trace, samples=Trace.from_columns().samples)
    all_of = bare.of_ranks([rank]).of_loader(loader)
    batches, workers = all_of.batches, all_of.workers
    about = _described(trace, loader)
    if not isinstance(about.get("num_workers"), int):
        about["num_workers"] = int(workers["worker"].nunique())
    looks, whole = _looks(batches[batches["delivered_s"].notna()].sort_values("delivered_s"))
    renumbered = [each.assign(epoch=number) for number, each in enumerate(looks)]
    starts = [(start, end) for _, start, end in startups(all_of)]
    epochs = [
        epoch
        for number, each in enumerate(looks)
        for epoch in (_plain(number, each, starts, whole), _alone(number, each))
    ]
    looked_at = _joined(renumbered, batches)
    return Case(
        Recorded(None, about=about),  # type: ignore[arg-type]  # the loader is not there
        ran=True,
        epochs=tuple(epochs),
        facts={
            "cpu_allowance": trace.meta.get("cpu_allowance"),
            "complete": trace.meta.get("complete", True),
            "samples of": lambda: trace.of_ranks([rank]).samples,
        },
        traces={"plain": replace(all_of, batches=looked_at), "recorded": all_of},
        recorded=True,
    )


def _joined(parts: list[pd.DataFrame], like: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    return pd.concat(parts) if parts else like.iloc[:0]


def _looks(batches: pd.DataFrame) -> tuple[list[pd.DataFrame], bool]:
    """Two looks at the loop, since one alone may be disturbed; and whether they are whole epochs.

    The first two epochs, or the halves of the only one.
    """
    epochs = [each for _, each in batches.groupby("epoch", sort=True)]
    if len(epochs) > 1:
        return [each.iloc[:MOST_BATCHES] for each in epochs[:2]], True
    if not epochs:
        return [], False
    only = epochs[0].iloc[: 2 * MOST_BATCHES]
    half = (len(only) + 1) // 2
    return [each for each in (only.iloc[:half], only.iloc[half:]) if len(each)], False


def _plain(
    number: int, batches: pd.DataFrame, starts: list[tuple[float, float]], whole: bool
) -> Epoch:
    """The loop as it went."""
    requested, delivered = (batches[c].to_numpy() for c in ("requested_s", "delivered_s"))
    columns = ("rank", "requested_s", "delivered_s", "released_s")
    steps = step_ends({column: batches[column].to_numpy() for column in columns}) - delivered
    asked = float(requested[0])
    begun = max((start for start, end in starts if start < asked <= end + 1e-6), default=asked)
    return Epoch(
        "plain",
        number,
        tuple(_notes(batches)),
        complete=whole,
        first_s=float(delivered[0]) - begun,
        delivered_s=tuple((delivered - begun).tolist()),
        steps_s=float(np.nansum(steps[:-1])),
    )


def _alone(number: int, batches: pd.DataFrame) -> Epoch:
    """One process that makes these batches one after another, at the pace at which they were."""
    made = _made_s(batches)
    made = made[~np.isnan(made)]
    at = np.cumsum(made)
    notes = tuple(_notes(batches.iloc[: len(made)]))
    return Epoch("alone", number, notes, True, float(at[0]) if len(at) else _NAN, tuple(at))


def _made_s(batches: pd.DataFrame) -> Any:
    return (batches["ready_s"] - batches["started_s"]).to_numpy()


def _notes(batches: pd.DataFrame) -> list[Note]:
    """A worker's time is that in which it made batches."""
    worker = batches["worker"].to_numpy()
    at, cpu = np.zeros(len(batches)), np.zeros(len(batches))
    for each in np.unique(worker):
        own = worker == each
        at[own] = np.nancumsum(_made_s(batches)[own])
        cpu[own] = np.cumsum(batches["cpu_s"].to_numpy()[own])
    rows = zip(
        worker.tolist(), batches["n_samples"].tolist(), at.tolist(), cpu.tolist(), strict=True
    )
    return [
        Note(who, who, n, -1, at_s, cpu_s, _NAN, (), False, (), 0.0, {}, {}, {}, None, {})
        for who, n, at_s, cpu_s in rows
    ]


def _ranks(trace: Trace) -> Ranks:
    """What the checks of ranks ask for: whether there are others that are not in this trace."""
    world = trace.meta.get("world_size")
    if trace.batches["rank"].nunique() < 2 and isinstance(world, int) and world > 1:
        return Ranks(missing="the other ranks' recordings are not here: open their folder")
    return Ranks()
