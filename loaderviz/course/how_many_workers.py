"""An exercise of notebook 07: how many workers."""

from __future__ import annotations

import functools

from loaderviz.course.exercises import (
    Check,
    Hints,
    explains_errors,
    whole_number_between,
)
from loaderviz.course.figures.chart import chart
from loaderviz.simulator import Costs, simulate
from loaderviz.text import count, percent, rate

CPUS, SAMPLE_S, CPU_SHARE, STEP_S, BATCH_SIZE = 4, 0.01, 0.1, 0.0125, 8
MOST_WORKERS = 16
GOOD_ENOUGH = 0.95  # of the best rate

fewest_hint = Hints(
    "a worker needs 8 x 0.01 s for a batch. The model takes one every 0.0125 s.",
    "0.08 s / 0.0125 s, rounded up.",
    "are there enough CPUs? 8 x 0.001 s of CPU time for a batch every 0.0125 s keep 0.6 of 4 busy.",
)


@explains_errors
def fewest(num_workers: int) -> Check:
    """Whether this is the fewest workers that are as fast as any; simulated on four CPUs."""
    whole_number_between("num_workers", num_workers, 0, MOST_WORKERS)
    rates = _rates()
    best = max(rates)
    n_needed = next(n for n, rate in enumerate(rates) if rate >= GOOD_ENOUGH * best)
    workers = range(len(rates))
    # The curve bends at the answer: until it is found, it is drawn up to the number tried.
    known = len(rates) if num_workers >= n_needed else num_workers + 1
    figure = chart(
        {
            "simulated": (workers[:known], rates[:known]),
            "the model takes": ([0, MOST_WORKERS], [best] * 2),
        },
        title=f"{count(num_workers, 'worker')}: {rate(rates[num_workers])} samples/s",
        numbers=f"simulated on {CPUS} CPUs · the best is {rate(best)}",
        x="workers",
        y="samples/s, simulated",
        points={"your answer": (num_workers, rates[num_workers])},
    )
    if num_workers < n_needed:
        share = percent(rates[num_workers] / best)
        return Check(False, f"Not yet: that is {share} of what the model could take.", figure)
    if num_workers > n_needed:
        return Check(False, "No number is faster, but fewer workers are as fast.", figure)
    return Check(True, f"{num_workers} workers keep the model busy, on {CPUS} CPUs.", figure)


@functools.cache
def _rates() -> tuple[float, ...]:
    """Samples a second, simulated, with 0 to ``MOST_WORKERS`` workers."""
    costs = Costs(sample_s=SAMPLE_S, cpu_share=CPU_SHARE, step_s=STEP_S, cores=CPUS)
    return tuple(
        simulate(costs, num_workers=workers, batch_size=BATCH_SIZE, n_batches=160)
        .summary()
        .samples_per_s
        for workers in range(MOST_WORKERS + 1)
    )
