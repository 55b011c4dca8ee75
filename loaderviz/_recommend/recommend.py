"""``recommend``: the settings that a loader should have, by real runs; or bounds of a trace."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from torch.utils.data import DataLoader

from loaderviz import machine
from loaderviz._recommend.bounds_of_trace import recommend_bounds
from loaderviz._recommend.look_at_loader import Look, look_at
from loaderviz._recommend.measured_run import Run, run_setting
from loaderviz._recommend.memory_budget import FreeBytes
from loaderviz._recommend.recommendation import Recommendation
from loaderviz._recommend.recommendation_of_runs import Outcome, Request, recommendation_of
from loaderviz._recommend.search import SHARE, Question, Search
from loaderviz._recommend.settings_to_try import first_settings, needed_workers
from loaderviz.argument_checks import number, whole_number
from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders.describe_loader import dataloader_behind, describe, foreign_loader_error
from loaderviz.loaders.forked_run import may_fork
from loaderviz.status_line import StatusLine
from loaderviz.text import duration, wrapped
from loaderviz.trace import Trace
from loaderviz.why.causes.savings import most_workers

BUDGET_S: Final = 30.0  # as long as one waits without doing something else
LOOK_SHARE: Final = 2 * SHARE  # of the budget: twice as long as the first run of a setting


def recommend(
    loader_or_trace: DataLoader[Any] | Trace,
    *,
    step_s: float | None = None,
    step: Callable[[Any], object] | None = None,
    epochs: int | None = None,
    n_batches: int | None = None,
    max_workers: int | None = None,
    budget_s: float = BUDGET_S,
    loader: int | None = None,
) -> Recommendation:
    """The cheapest settings that are as good as the fastest, by real runs of the loader.

    >>> found = recommend(loader, step_s=0.02)
    >>> print(found)
    >>> DataLoader(dataset, batch_size=32, **found.settings)

    Copies of the loader run for a moment each, with steps of that length between the batches:
    first with a worker or two, to see what a batch costs, then with today's settings, without
    workers, and with several numbers of workers around what that asks for; the best of them longer;
    the last two in turns, until one is better beyond the noise or it is known that the cheaper one
    is as good. Where noise hides what another gains, today's setting is kept, and ``verdict`` says
    so. Fewest workers are the cheapest, then plain options. What lies ready when a run
    begins does not count. ``prefetch_factor=8`` and ``in_order=False`` are run where batches are
    uneven; the order is given up for 5 % or more only. ``persistent_workers`` is recommended where
    a training of several ``epochs`` gains by it. All other options stay as they are.

    Afterwards the loader and the random generators of torch, NumPy, ``random`` and the loader are
    as before. Each run reads the first batches of an epoch: what a disk brings to the first run,
    later ones may find in memory. Without workers a copy of this process runs, which only Linux can
    make.

    From a recording alone nothing can be run: then ``verdict`` and ``candidates`` hold bounds, from
    what the loop takes and the workers make at pace, and a note has the call that measures.

    Args:
        loader_or_trace: a ``DataLoader``, or a ``Trace`` of one, as ``record`` makes it.
        step_s: seconds that the model takes for a batch. None: as recorded in the trace; for a
            loader no step at all, so that the fastest loading is recommended.
        step: called with each batch in place of such a pause: your own training step, such as one
            that keeps a CPU busy. It goes on training with each run. Without workers it runs in a
            copy of this process, too.
        epochs: how often the loop goes through the loader; None: once. For a loader that is run.
        n_batches: batches of an epoch, where the loader does not tell, or where the loop ends
            earlier. Where it is known, the start of the workers counts. For a loader that is run.
        max_workers: the most workers to try. None: twice the CPUs, at least 16.
        budget_s: seconds of measuring in all. A batch that is slower than what is left of them is
            waited for no longer. If it is too short to tell settings apart, a note says so.
        loader: which loader of a trace that holds several. None: the one that is waited for most;
            ``notes`` names it and others.

    Returns:
        A ``Recommendation``: ``settings``, ``code``, ``limits``, ``notes``, ``candidates``;
        ``print`` it, or ``figure()``.

    Raises:
        LoaderVizError: for an argument that is neither a loader nor a trace, a bad number, a loader
            that delivers no batch in time, a trace without a batch or
            without that loader, an option that does not suit
            what was given.
        Exception: whatever else the loader, its dataset or ``step`` raises, unchanged.
    """
    asked = Request(step_s, step, epochs, n_batches, max_workers, budget_s)
    _check(asked)
    if isinstance(loader_or_trace, Trace):
        if step is not None or budget_s != BUDGET_S:
            given = "step" if step is not None else f"budget_s={budget_s!r}"
            raise LoaderVizError(
                f"{given} is for a loader that can be run: pass the loader instead of its trace, "
                "or leave it out"
            )
        return recommend_bounds(loader_or_trace, loader, step_s=step_s, max_workers=max_workers)
    data_loader = dataloader_behind(loader_or_trace)
    if data_loader is None:
        raise foreign_loader_error(
            "recommend() takes a torch DataLoader or a Trace", loader_or_trace
        )
    if loader is not None:
        raise LoaderVizError(f"loader={loader!r} chooses among those of a trace: leave it out")
    return _measure(data_loader, asked)


def _measure(loader: DataLoader[Any], asked: Request) -> Recommendation:
    begun = time.monotonic()
    deadline = begun + asked.budget_s
    cpus = machine.cpu_allowance() / (machine.local_world_size() or 1)
    print(wrapped(_announced(loader, asked), hanging=2))
    with StatusLine() as line:
        line.write("recommend: a first look")
        look = look_at(
            loader,
            asked.step,
            seconds=LOOK_SHARE * asked.budget_s,
            deadline=deadline,
            budget_s=asked.budget_s,
        )
        step_s = asked.step_s or (0.0 if asked.step is None else look.step_s)
        read_s = 0.0 if math.isnan(look.read_s) else look.read_s

        def pause(batch: Any) -> None:
            if step_s:
                time.sleep(step_s)

        def measure(setting: LoaderSettings, seconds: float, n_batches: int) -> Run:
            so_far = f"{time.monotonic() - begun:.0f} of {asked.budget_s:g} s"
            line.write(f"recommend: {so_far}, {setting}")
            run = run_setting(
                loader,
                setting,
                asked.step or pause,
                seconds=seconds,
                deadline=deadline,
                read_s=read_s,
                n_batches=n_batches,
            )
            copies = max(1, setting.num_workers) if look.naive else 1
            parts_s = tuple(copies * part for part in run.parts_s)
            return replace(run, pace_s=copies * run.pace_s, parts_s=parts_s)

        question = _question(look, asked, LoaderSettings.of(describe(loader)), step_s, cpus)
        found = Search(question, measure, budget_s=asked.budget_s, deadline=deadline).run()
    took_s = time.monotonic() - begun
    return recommendation_of(Outcome(asked, look, found, step_s, cpus, took_s, describe(loader)))


def _question(
    look: Look, asked: Request, present: LoaderSettings, step_s: float, cpus: float
) -> Question:
    """What to search for."""
    most = 1 if look.naive else asked.max_workers or most_workers(cpus)
    needed = 1  # where no worker could be run
    if not math.isnan(look.read_s):
        needed = needed_workers(look.read_s, step_s, look.cpu_s, cpus, most)
    first = first_settings(needed, most, present)
    if look.naive and present.num_workers > 1:  # run where there is time: it is no answer
        first = [*first[1:], present]
    n_batches = asked.n_batches or look.n_batches
    free = FreeBytes.now()

    def fits(setting: LoaderSettings) -> bool:
        can_run = setting.num_workers > 0 or may_fork(0)
        return can_run and look.sizes.fit(setting, free)

    return Question(
        first=first,
        present=present,
        needed=needed,
        most=most,
        uneven=look.uneven,
        starts=1 / ((asked.epochs or 1) * n_batches) if n_batches else 0.0,
        fits=fits,
    )


def _announced(loader: DataLoader[Any], asked: Request) -> str:
    steps = "no step after a batch"
    if asked.step is not None:
        steps = "your own step after each batch"
    elif asked.step_s:
        steps = f"a step of {duration(asked.step_s)} after each batch"
    return (
        f"recommend: runs copies of the {type(loader).__name__} with several settings, {steps}, "
        f"for {asked.budget_s:g} s at most."
    )


def _check(asked: Request) -> None:
    for name in ("step_s", "budget_s"):
        if getattr(asked, name) is not None:
            number(name, getattr(asked, name))
    for name in ("epochs", "n_batches", "max_workers"):
        if getattr(asked, name) is not None:
            whole_number(name, getattr(asked, name), at_least=1)
    step = asked.step
    if not asked.budget_s:
        raise LoaderVizError("budget_s=0: give seconds to measure in, such as 30")
    if step is not None and not callable(step):
        raise LoaderVizError(f"step={step!r}: give a function that takes a batch, or step_s=0.02")
    if step is not None and asked.step_s is not None:
        raise LoaderVizError(f"step_s={asked.step_s!r} beside a step: give one of them")
