"""What each setting would do: simulated for a window of batches, extrapolated to an epoch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderviz._recommend.evidence import Evidence
from loaderviz.loader_settings import LoaderSettings
from loaderviz.simulator import Costs
from loaderviz.simulator.simulated_settings import checked
from loaderviz.simulator.simulated_trace import SimulatedRun
from loaderviz.simulator.simulation import run_simulation

COUNTED = 240  # batches over which the pace is measured: a multiple of most numbers of workers
FILLING = 40  # batches before them, while the pipeline fills
SEEDS = (1, 2, 3)


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a setting would do. Arrays hold one value for each seed."""

    setting: LoaderSettings
    pace_s: Any  # seconds a batch, once the pipeline is filled
    run_s: Any  # of all epochs, with the start and end of workers; NaN where not known
    wait_share: float  # of the consumer's time, once the pipeline is filled
    cpus: float  # CPUs that loading and steps keep busy
    n_batches: float  # of all epochs; NaN where not known

    @property
    def batch_s(self) -> Any:
        """Seconds a batch: over the whole run, where its length is known."""
        return np.where(np.isnan(self.run_s), self.pace_s, self.run_s / self.n_batches)


def predict(
    evidence: Evidence,
    settings: Iterable[LoaderSettings],
    epochs: int,
    costs: Costs | None = None,
    *,
    seeds: Sequence[int] = SEEDS,
) -> list[Prediction]:
    """One prediction a setting, with ``costs`` in place of the recorded ones where given.

    With the same seed all settings go through the same batches, so that they can be compared.
    """
    return [
        _prediction(evidence, costs or evidence.costs_of(setting), setting, epochs, seeds)
        for setting in settings
    ]


def _prediction(
    evidence: Evidence,
    costs: Costs,
    setting: LoaderSettings,
    epochs: int,
    seeds: Sequence[int],
) -> Prediction:
    by_seed = [_predict_seed(evidence, costs, setting, epochs, seed) for seed in seeds]
    pace_s, run_s, wait_share, cpus = (np.array(column) for column in zip(*by_seed, strict=True))
    n = evidence.n_batches
    return Prediction(
        setting,
        pace_s,
        run_s,
        float(wait_share.mean()),
        float(cpus.mean()),
        math.nan if n is None else float(n * epochs),
    )


def _predict_seed(
    evidence: Evidence, costs: Costs, setting: LoaderSettings, epochs: int, seed: int
) -> tuple[float, float, float, float]:
    """``pace_s``, ``run_s``, ``wait_share`` and ``cpus`` of a ``Prediction``, for one seed."""
    n = evidence.n_batches
    # The last batches come at another pace, as no new ones are under way: they are not counted.
    window = FILLING + COUNTED + setting.in_flight
    window = window if n is None else min(n, window)
    n_simulated = 1 if n is None else min(epochs, 2)
    run = _simulate(evidence, costs, setting, window, n_simulated, seed)
    batches = run.batches()
    ends_s = [
        float(np.nanmax(batches["released_s"][batches["epoch"] == epoch]))
        for epoch in range(n_simulated)
    ]
    pace_s, wait_share = _steady_pace(batches, setting)
    loading_cpu_s = float(np.nanmean(batches["process_cpu_s"]))
    cpu_s = loading_cpu_s + float(np.mean(costs.step_s)) * costs.step_cpu_share
    cpus = cpu_s / pace_s if pace_s > 0 else 0.0
    if n is None:
        return pace_s, math.nan, wait_share, cpus
    later_s = (epochs - n_simulated) * (ends_s[-1] - ends_s[0])  # of epochs after the second
    beyond_s = epochs * (n - window) * pace_s
    return pace_s, run.elapsed_s + later_s + beyond_s, wait_share, cpus


def _simulate(
    evidence: Evidence, costs: Costs, setting: LoaderSettings, window: int, epochs: int, seed: int
) -> SimulatedRun:
    size = evidence.batch_size
    shards = None
    if evidence.iterable:
        shards = _even_shards(window, size, max(1, setting.num_workers), evidence.n_batches)
    left = setting.in_flight * size if evidence.leaves_early else 0
    settings = checked(
        setting,
        batch_size=size,
        n_batches=window if left or not shards else None,
        n_samples=window * size + left if left and not shards else None,
        kind="iterable" if shards else "map",
        shards=[shard + left for shard in shards] if shards else None,
        drop_last=False,
        start_method=costs.start_method if setting.num_workers else None,
        epochs=epochs,
        seed=seed,
    )
    return run_simulation(costs, settings)


def _even_shards(window: int, size: int, streams: int, n_batches: int | None) -> list[int]:
    """Samples of each stream; whole batches where the window is only a part of the epoch."""
    if n_batches is None or n_batches > window:
        return [math.ceil(window / streams) * size] * streams
    share, remainder = divmod(window * size, streams)
    return [share + (stream < remainder) for stream in range(streams)]


def _steady_pace(batches: Mapping[str, Any], setting: LoaderSettings) -> tuple[float, float]:
    """Seconds a batch of the first epoch once the pipeline is filled, and how much is waiting.

    The second is the part of them that the consumer waits.
    """
    shown = np.flatnonzero((batches["epoch"] == 0) & ~np.isnan(batches["delivered_s"]))
    order = shown[np.argsort(batches["delivered_s"][shown], kind="stable")]
    released_s = batches["released_s"][order]
    wait_s = (batches["delivered_s"] - batches["requested_s"])[order]
    workers = max(1, setting.num_workers)
    until = min(FILLING + COUNTED, len(order) - setting.in_flight)
    counted = (until - FILLING) // workers * workers  # whole rounds: batches come in bursts
    begin = until - counted
    if counted <= 0:
        begin, until = 0, len(order)
    took_s = float(released_s[until - 1] - (released_s[begin - 1] if begin else 0.0))
    return took_s / (until - begin), float(wait_s[begin:until].sum() / max(took_s, 1e-12))
