"""An exercise of notebook 03: three loaders that wait, each for a reason of its own."""

from __future__ import annotations

from loaderviz.course.exercises import Check, Hints, explains_errors, first_wrong
from loaderviz.figures import timeline
from loaderviz.figures.display import Figure
from loaderviz.simulator import Costs, simulate
from loaderviz.text import duration
from loaderviz.trace import Trace

CHOICES = "workers", "prefetch", "collate", "slow_samples", "uneven", "sampler"
ANSWERS = {"A": "workers", "B": "uneven", "C": "sampler"}
TITLE = "What does the loop wait for? Loader {}"

hint = Hints(
    "A: both workers are busy all the time. With what, coloured boxes or grey ones?",
    "B: look at the second half. Who still reads?",
    "C: nobody is busy, and yet the loop waits. Before a batch can be read, the sampler has to "
    "draw the keys of its samples.",
)


def slow_loader(loader: str) -> Figure:
    """The timeline of loader A, B or C, which one cause slows down; simulated."""
    return timeline(_run(loader, sick=True), title=TITLE.format(loader))


@explains_errors
def name_causes(**answers: str) -> Check:
    """Whether these are the causes that the loaders wait for: ``name_causes(A=..., B=..., C=...)``.

    Shows the first loader whose cause is another; or else what cutting each cause would save.
    """
    name = first_wrong(answers, ANSWERS, CHOICES)
    if name is not None:
        text = f"Not yet: it is not {answers[name]!r} that loader {name} waits for."
        return Check(False, text, slow_loader(name))
    gains = [
        f"{name} takes {duration(_took_s(name, sick=False))} instead of "
        f"{duration(_took_s(name, sick=True))}"
        for name in ANSWERS
    ]
    return Check(True, f"Without its cause, {', '.join(gains)}, simulated.")


def _took_s(name: str, *, sick: bool) -> float:
    return float(_run(name, sick=sick).batches["released_s"].max())


def _run(name: str, *, sick: bool) -> Trace:
    """The loader with its cause, or without it: 96 samples in batches of 8, steps of 10 ms."""
    if name == "A":
        costs = Costs(sample_s=0.004, step_s=0.01)
        return simulate(costs, num_workers=2 if sick else 4, batch_size=8, n_batches=12)
    if name == "B":
        shards = [80, 8, 8] if sick else [32, 32, 32]
        costs = Costs(sample_s=0.01, step_s=0.01)
        return simulate(costs, num_workers=3, batch_size=8, kind="iterable", shards=shards)
    costs = Costs(sample_s=0.002, step_s=0.01, sampler_s=0.006 if sick else 0.0)
    return simulate(costs, num_workers=2, batch_size=8, n_batches=12)
