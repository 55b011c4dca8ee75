"""Samples that take far longer than the others: what they took beyond the usual, by cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.array_types import Floats
from loaderviz.trace.columns_of_rows import where
from loaderviz.trace.steps import NS
from loaderviz.why.worker_starts import WHOSE, first_of_each

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loaderviz.trace.trace import Trace


FEWEST_SAMPLES: Final = 20  # that show what is usual
SLOW: Final = 4  # times as long as nine of ten samples: not like the others
MOST_SLOW: Final = (
    0.05  # of the samples: if more are, only what is as much slower than those counts
)
MOSTLY_SLOW: Final = 0.9  # of the first samples of workers: then each sets something up


@dataclass(frozen=True)
class SlowSamples:
    """What samples took beyond the usual.

    Attributes:
        by_cause: in seconds of each batch.
        rows: by cause, the rows of ``trace.samples`` that are slow for it.
        set_up_s: by loader, what a worker's first sample usually takes: of those loaders where that
            is a part of a worker's start.
    """

    by_cause: Mapping[str, Floats]
    rows: Mapping[str, Any]
    set_up_s: Mapping[int, float]


def slow_samples(trace: Trace, batches: Mapping[str, Any]) -> SlowSamples:
    """The slow samples of all loaders.

    Where the first sample is slow in nearly all workers, each sets something up then, as when a
    dataset opens its files on first use: that is a part of the ``start``, or of a ``restart``. All
    other slow ones are ``slow_samples``.
    """
    samples = trace.samples
    took_s = (samples["end_s"] - samples["start_s"]).to_numpy()
    first, were_before = _first_reads(trace)
    again = np.zeros(len(took_s), bool)
    again[first] = were_before
    none = np.zeros(0, np.int64)
    rows: dict[str, list[Any]] = {"start": [none], "restart": [none], "slow_samples": [none]}
    beyond_s = np.zeros(len(took_s))
    set_up_s: dict[int, float] = {}
    for number in np.unique(samples["loader"].to_numpy()):
        own = (samples["loader"].to_numpy() == number) & ~np.isnan(took_s)
        set_up = _set_up(samples, took_s, own, first)
        rows["start"].append(set_up[~again[set_up]])
        rows["restart"].append(set_up[again[set_up]])
        if len(set_up):
            set_up_s[int(number)] = float(np.median(took_s[set_up]))
        own[set_up] = False
        others = np.flatnonzero(own)
        if len(others) >= FEWEST_SAMPLES:
            slow = others[took_s[others] > _most_s(took_s[others])]
            rows["slow_samples"].append(slow)
            usual_s = np.median(took_s[others])
            beyond_s[slow] = took_s[slow] - usual_s
            beyond_s[set_up] = took_s[set_up] - usual_s
    of_cause = {cause: np.concatenate(parts) for cause, parts in rows.items()}
    by_cause = {
        cause: _by_batch(samples, own, beyond_s, batches) for cause, own in of_cause.items()
    }
    return SlowSamples(by_cause, of_cause, set_up_s)


def _first_reads(trace: Trace) -> tuple[Any, Any]:
    """The first sample that each worker process reads; all of a batch, if one call reads it.

    Returns the rows of ``trace.samples``, and of each whether that loader has had a worker of that
    number before. Of a process whose start is not known there is none.
    """
    names = (*WHOSE, "start_s")
    workers = {name: trace.workers[name].to_numpy() for name in (*WHOSE, "started_s")}
    samples = {name: trace.samples[name].to_numpy() for name in names}
    heads = where(samples, trace.samples["position"].to_numpy() == 0)
    first, again = first_of_each(workers, heads, "start_s")
    order = np.argsort(heads["start_s"][first], kind="stable")
    first_s, again = heads["start_s"][first[order]], again[order]
    rows = np.flatnonzero(np.isin(samples["start_s"], first_s))
    return rows, again[np.searchsorted(first_s, samples["start_s"][rows])]


def _set_up(samples: Any, took_s: Floats, own: Any, first: Any) -> Any:
    """Which of the first samples, of those that are ``own``, are far slower than all others."""
    others = own.copy()
    others[first] = False
    first = first[own[first]]
    if others.sum() >= FEWEST_SAMPLES:
        slow = first[took_s[first] > _most_s(took_s[others])]
        if len(slow) >= MOSTLY_SLOW * len(first) and _several_samples(samples, slow):
            return slow
    return first[:0]


def _several_samples(samples: Any, rows: Any) -> bool:
    """Whether they are not one and the same, as with one worker that begins with sample 0."""
    whose = zip(samples["worker"].iloc[rows], samples["key"].iloc[rows], strict=True)
    return len({(worker, repr(key)) for worker, key in whose}) > 1


def _most_s(took_s: Floats) -> float:
    """How long a sample may take that is like the others."""
    most_s = float(np.quantile(took_s, 0.9))
    few = max(1, int(MOST_SLOW * len(took_s)))
    next_s = float(np.partition(took_s, -few - 1)[-few - 1])  # of the others the slowest
    return max(SLOW * (next_s if next_s > SLOW * most_s else most_s), NS)


def _by_batch(samples: Any, rows: Any, beyond_s: Floats, batches: Mapping[str, Any]) -> Floats:
    """The sum over these samples, of each batch; one call that read several counts once."""
    import pandas as pd

    names = ["rank", "loader", "epoch", "batch"]
    seconds = np.zeros(len(batches["rank"]))
    if not len(rows):
        return seconds
    places = pd.DataFrame({name: batches[name] for name in names})
    places["row"] = np.arange(len(places))
    slow = samples.iloc[rows][[*names, "start_s"]].assign(beyond_s=beyond_s[rows])
    slow = slow.drop_duplicates([*names, "start_s"]).merge(places, on=names)
    np.add.at(seconds, slow["row"].to_numpy(), slow["beyond_s"].to_numpy())
    return seconds
