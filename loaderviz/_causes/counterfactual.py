"""What would be saved without a cause: the same run, simulated with it and without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from loaderviz._causes.recorded_loader import RecordedLoader, Run
from loaderviz.errors import LoaderVizError

if TYPE_CHECKING:
    from loaderviz._causes.other_loaders import OtherLoaders
    from loaderviz.trace import Trace
    from loaderviz.trace.analysis.reading_time import Reading

LEAST_S = 1e-3  # a cause of less is not looked into
UNLIKE = 0.5  # of a cause's seconds: as far as the simulation may be off
NEGLIGIBLE = 0.02  # of the run
DEEP = 4  # times the prefetch_factor, and at least twice this


def savings(
    trace: Trace,
    loader: int,
    seconds: Mapping[str, float],
    reading: Reading,
    others: OtherLoaders,
) -> dict[str, float]:
    """How many seconds shorter the run would be without each of the causes, by cause.

    ``seconds`` are those of the causes, of all ranks; what is saved is that of one rank.
    ``others`` of the recording may be waited for instead.

    Without ``workers`` means one worker more, of a stream in equal shares with as many and with one
    more; without ``main_process`` two workers. A cause is left out where nobody can tell: where it
    is unknown, where the trace does not say enough to simulate it, or where the simulation of the
    run as it was does not show it as the trace does.
    """
    n_ranks = max(1, trace.batches["rank"].nunique())
    saved = {cause: 0.0 for cause, spent_s in seconds.items() if spent_s < LEAST_S * n_ranks}
    if len(saved) == len(seconds):
        return saved
    try:
        recorded = RecordedLoader.of(trace, loader, reading)
        as_seen = sharing = recorded.run()
        if any(cause in SHARING for cause in seconds):
            sharing = recorded.run(sharing_cpus=True)
        shown = as_seen.causes()
    except LoaderVizError:
        return {}
    for cause in seconds.keys() - saved.keys():
        spent_s = seconds[cause] / n_ranks
        if cause in WITHOUT and _is_shown(cause, spent_s, shown, as_seen.elapsed_s):
            run = sharing if cause in SHARING else as_seen
            part = run.scale
            if cause == "workers":
                if recorded.has_slow_worker:
                    continue  # whether one more would be as slow, nobody knows
                run = run.with_workers(run.settings["num_workers"])
            elif cause == "start":
                run, part = replace(run, epochs=1), 1.0
            elif cause == "restart":
                run, part = run.costing(**recorded.costs_of_a_restart(run)), 1.0
            part *= _of_shown(cause, spent_s, shown)
            with suppress(LoaderVizError):
                saved_s = max(0.0, run.elapsed_s - WITHOUT[cause](run).elapsed_s) * part
                saved[cause] = max(0.0, saved_s - others.spend_s(loader, cause, saved_s))
    return saved


def _of_shown(cause: str, spent_s: float, shown: Mapping[str, float]) -> float:
    """Recorded seconds for each that the simulated run has of this cause, as far as that goes."""
    if cause not in SHOWN_ALIKE or not shown.get(cause):
        return 1.0
    return min(max(spent_s / shown[cause], 1 - UNLIKE), 1 / (1 - UNLIKE))


def _is_shown(cause: str, spent_s: float, shown: Mapping[str, float], elapsed_s: float) -> bool:
    """Whether the simulated run has this cause too, at something like its size."""
    if cause not in SHOWN_ALIKE:
        return True
    off_s = abs(shown.get(cause, 0.0) - spent_s)
    return off_s <= max(UNLIKE * spent_s, NEGLIGIBLE * elapsed_s)


SHARING = ("restart", "workers", "main_process", "prefetch")
SHOWN_ALIKE = ("handover", "pin", "sampler", "collate", "slow_samples", "drift")
WITHOUT: Mapping[str, Callable[[Run], Run]] = {
    "start": lambda run: run.costing(
        startup_s=0.0, boot_s=0.0, init_s=0.0, shutdown_s=0.0
    ).reading_less("start"),
    "restart": lambda run: run.keeping_workers(),
    "workers": lambda run: run.with_workers(run.settings["num_workers"] + 1),
    "main_process": lambda run: run.with_workers(2),
    "cpu": lambda run: run.reading_less("cpu"),
    "throttled": lambda run: run.reading_less("throttled"),
    "slow_samples": lambda run: run.reading_less("slow_samples"),
    "drift": lambda run: run.reading_less("drift"),
    "uneven": lambda run: run.with_workers(run.settings["num_workers"]),
    "collate": lambda run: run.costing(collate_s=0.0, collate_sample_s=0.0),
    "handover": lambda run: run.costing(transport_s=0.0, take_s=0.0, take_gil_s=0.0, send_s=0.0),
    "pin": lambda run: run.set(pin_memory=False),
    "sampler": lambda run: run.costing(sampler_s=0.0, first_key_s=0.0),
    "prefetch": lambda run: run.set(
        prefetch_factor=DEEP * max(2, run.settings.get("prefetch_factor") or 2)
    ),
}
