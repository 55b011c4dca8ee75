"""What each setting would do: simulated for a window, and as far beyond it as an epoch goes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderviz._recommend.evidence import Evidence
from loaderviz.loader_settings import LoaderSettings
from loaderviz.simulator import Costs, simulate
from loaderviz.trace import Trace

COUNTED = 240  # batches of which the pace is taken: a multiple of most numbers of workers
FILLING = 40  # batches before them
SEEDS = (1, 2, 3)


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a setting would do. Arrays hold one value a seed."""

    setting: LoaderSettings
    pace_s: Any  # seconds a batch, once it runs
    run_s: Any  # of all epochs, start and end of workers included; NaN where that is not known
    wait_share: float  # of the consumer's time, once it runs
    cpus: float  # that loading and stepping keep busy
    n_batches: float  # of the run; NaN as above

    @property
    def batch_s(self) -> Any:
        """Seconds a batch: over the whole run, where its length is known."""
        return np.where(np.isnan(self.run_s), self.pace_s, self.run_s / self.n_batches)


def predict(
    evidence: Evidence, settings: Iterable[LoaderSettings], epochs: int, costs: Costs | None = None
) -> list[Prediction]:
    """With ``costs`` in place of those of the recording, where they are given.

    All go through the same batches, so that they can be compared.
    """
    settings = list(settings)
    # At the end nothing new is under way, which is no pace to go on with: so many are not counted.
    window = FILLING + COUNTED + max((each.in_flight for each in settings), default=0)
    return [
        _prediction(evidence, costs or evidence.costs_of(each), each, epochs, window)
        for each in settings
    ]


def _prediction(
    evidence: Evidence, costs: Costs, setting: LoaderSettings, epochs: int, most: int
) -> Prediction:
    seen = [_seen(evidence, costs, setting, epochs, most, seed) for seed in SEEDS]
    pace_s, run_s, wait_share, cpus = (np.array(each) for each in zip(*seen, strict=True))
    n = evidence.n_batches
    return Prediction(
        setting,
        pace_s,
        run_s,
        float(wait_share.mean()),
        float(cpus.mean()),
        math.nan if n is None else float(n * epochs),
    )


def _seen(
    evidence: Evidence, costs: Costs, setting: LoaderSettings, epochs: int, most: int, seed: int
) -> tuple[float, float, float, float]:
    n = evidence.n_batches
    window = most if n is None else min(n, most)
    one = _simulated(evidence, costs, setting, window, 1, seed)
    pace_s, wait_share = _pace(one, setting)
    cpu_s = float(one.batches["cpu_s"].mean()) + float(np.mean(costs.step_s)) * costs.step_cpu_share
    cpus = cpu_s / pace_s if pace_s > 0 else 0.0
    if n is None:
        return pace_s, math.nan, wait_share, cpus
    first_s = _end(one)
    later_s = 0.0
    if epochs > 1:
        both = _simulated(evidence, costs, setting, window, 2, seed)
        later_s = _end(both) - first_s
    beyond_s = (n - window) * pace_s
    return pace_s, first_s + (epochs - 1) * later_s + epochs * beyond_s, wait_share, cpus


def _simulated(
    evidence: Evidence, costs: Costs, setting: LoaderSettings, window: int, epochs: int, seed: int
) -> Trace:
    size = evidence.batch_size
    much: dict[str, Any] = {"n_batches": window}
    if evidence.iterable:
        streams = max(1, setting.num_workers)
        much = {"kind": "iterable", "shards": _shares(window, size, streams, evidence.n_batches)}
    options = setting.options()
    return simulate(costs, batch_size=size, epochs=epochs, seed=seed, **options, **much)


def _shares(window: int, size: int, streams: int, n_batches: int | None) -> list[int]:
    """Even ones, of whole batches where the window is a part of what there is."""
    if n_batches is None or n_batches > window:
        return [math.ceil(window / streams) * size] * streams
    each, rest = divmod(window * size, streams)
    return [each + (stream < rest) for stream in range(streams)]


def _pace(trace: Trace, setting: LoaderSettings) -> tuple[float, float]:
    """Seconds a batch once the pipeline is filled, and which part of them the consumer waits."""
    came = trace.batches[trace.batches["delivered_s"].notna()].sort_values("delivered_s")
    released = came["released_s"].to_numpy()
    waited = (came["delivered_s"] - came["requested_s"]).to_numpy()
    workers = max(1, setting.num_workers)
    until = min(FILLING + COUNTED, len(came) - setting.in_flight)
    counted = (until - FILLING) // workers * workers  # whole rounds: batches come in bursts
    begin = until - counted
    if counted <= 0:
        begin, until = 0, len(came)
    took_s = float(released[until - 1] - (released[begin - 1] if begin else 0.0))
    return took_s / (until - begin), float(waited[begin:until].sum() / max(took_s, 1e-12))


def _end(trace: Trace) -> float:
    """When the loop is over, workers shut down."""
    ends = [float(trace.batches["released_s"].max()), float(trace.workers["ended_s"].max())]
    return float(np.nanmax(ends))
