"""Exercises of notebook 07: what limits a loader, how many workers, memory that stays shared."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

from torch.utils.data import DataLoader

from loaderviz._plot_timings import take
from loaderviz.course.datasets import WordList, WorkingDataset
from loaderviz.course.datasets.word_lists import Words
from loaderviz.course.exercises import (
    Check,
    Hints,
    explains_errors,
    first_wrong,
    whole_number_between,
)
from loaderviz.course.figures.chart import chart
from loaderviz.course.in_a_worker import own_mib
from loaderviz.figures import timeline
from loaderviz.recorder import record
from loaderviz.simulator import Costs, simulate
from loaderviz.text import count, percent, rate
from loaderviz.trace import Trace

LIMITS = ("the CPU", "waiting", "the model")
_LIMITED_BY = {"A": "waiting", "B": "the model", "C": "the CPU"}

CPUS, SAMPLE_S, CPU_SHARE, STEP_S, BATCH_SIZE = 4, 0.01, 0.1, 0.0125, 8
MOST_WORKERS = 16
GOOD_ENOUGH = 0.95  # of the best rate

N_WORDS, N_READINGS = 200_000, 20
MOST_GROWTH = 0.3  # of what a worker that reads a list grows by

limits_hint = Hints(
    "look at the consumer first: is it busy, or does it wait? If busy, the model is the limit.",
    "for the other two: cpu_s is how long the CPU worked on a batch, ready_s - started_s is how "
    "long the batch took.",
)

fewest_hint = Hints(
    "a worker needs 8 x 0.01 s for a batch. The model takes one every 0.0125 s.",
    "0.08 s / 0.0125 s, rounded up.",
    "are there enough CPUs? 8 x 0.001 s of CPU time for a batch every 0.0125 s keep 0.6 of 4 busy.",
)

pack_hint = Hints(
    "a list, a tuple or an array of objects holds one Python object for each word, and each has a "
    "reference count.",
    "all words are 16 letters of ASCII: numpy has a dtype of 16 bytes, 'S16'.",
)


def recording(name: str) -> Trace:
    """A new recording of loader A, B or C: two workers, batches of 4."""
    step_s = 0.06 if name == "B" else 0.002
    dataset = {
        "A": WorkingDataset(64, 0.02, cpu_share=0.05),
        "B": WorkingDataset(64, 0.002, cpu_share=0.5),
        "C": WorkingDataset(64, 0.01, cpu_share=1.0),
    }[name]
    loader = DataLoader(dataset, batch_size=4, num_workers=2)
    with record(loader) as rec:
        take(loader, step_s)
    return rec.trace


@explains_errors
def limits(answers: Mapping[str, str]) -> Check:
    """Whether the reader names what limits each loader; draws the first where that is wrong.

    ``answers`` maps the loader's letter to one of ``LIMITS``.
    """
    name = first_wrong(answers, _LIMITED_BY, LIMITS)
    if name is None:
        text = "A waits, B's model is slow, and C computes: only one needs more workers."
        return Check(True, text)
    return Check(False, f"{name} is not limited by {answers[name]}.", timeline(recording(name)))


@explains_errors
def fewest(num_workers: int) -> Check:
    """Whether this is the fewest workers that are as fast as any; simulated on four CPUs."""
    whole_number_between("num_workers", num_workers, 0, MOST_WORKERS)
    rates = _rates()
    best = max(rates)
    n_needed = next(n for n, rate in enumerate(rates) if rate >= GOOD_ENOUGH * best)
    figure = chart(
        {"simulated": (range(len(rates)), rates)},
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


@explains_errors
def stays_shared(pack: Callable[[list[str]], Any]) -> Check:
    """Whether a forked worker can read ``pack(words)`` without copying the words' memory.

    Compares how much memory of its own the worker gets with what it gets by reading a list.
    """
    words = WordList(N_WORDS).words
    packed = pack(list(words))
    n_packed = len(packed)
    read = {index: packed[index] for index in (0, 1, min(n_packed, N_WORDS) - 1)}
    for index, word in read.items():
        if (word.decode() if isinstance(word, bytes) else word) != words[index]:
            return Check(False, f"Word {index} should be {words[index]!r}: {word!r}.")
    if n_packed != N_WORDS:
        return Check(False, f"{N_WORDS:,} words went in, {n_packed:,} came out.")
    if sys.platform != "linux":
        return Check(False, "The words are right. What a fork copies is checked on Linux only.")
    growth_mib = {"a list": _growth_mib(Words(words)), "yours": _growth_mib(Words(packed))}
    each = N_WORDS // N_READINGS
    of_list, of_yours = growth_mib["a list"][-1], growth_mib["yours"][-1]
    figure = chart(
        {name: (range(each, N_WORDS + 1, each), mib) for name, mib in growth_mib.items()},
        title=f"Your words cost the worker {of_yours:.0f} MiB",
        numbers=f"one forked worker, measured · a list costs {of_list:.0f} MiB",
        x="words read",
        y="MiB more of its own",
    )
    if of_yours > MOST_GROWTH * of_list:
        return Check(False, "Not yet: the worker copies the words while it reads them.", figure)
    return Check(True, "The worker reads all words, and their memory stays shared.", figure)


def _growth_mib(dataset: Words) -> list[float]:
    """By how many MiB a forked worker's own memory has grown since the first batch, by batch."""
    loader = DataLoader(
        dataset,
        batch_size=len(dataset) // N_READINGS,
        num_workers=1,
        collate_fn=own_mib,
        multiprocessing_context="fork",
    )
    own = list(loader)
    return [max(0.0, mib - own[0]) for mib in own]
