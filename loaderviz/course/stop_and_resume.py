"""An exercise of notebook 11, and the picture of an epoch that two processes share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch

from loaderviz._audit.audit_of_numbers import DeliveredBatch, audit_batches
from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.figures.display import Figure
from loaderviz.text import count

N, BATCH_SIZE, SEED, OTHER_SEED = 32, 4, 3, 11  # samples, samples in a batch
STOP = 12  # samples, before the interruption
LANES = ("before the stop", "after it")

order_hint = Hints(
    "what has to be the same in the process that resumes, and what may not depend on the process?",
    "torch.Generator().manual_seed(...) makes a generator of its own, which nobody else draws "
    "from; torch.randperm(n, generator=...) takes it.",
    "seed + epoch as the seed: each epoch has its own order. The first `start` of it were seen.",
)


def seen_by(
    before: Sequence[Sequence[int]], after: Sequence[Sequence[int]], n_samples: int = N
) -> Figure:
    """Draw one epoch of samples 0 to ``n_samples - 1`` in two lanes, by the key of each sample.

    Args:
        before: the batches until the stop.
        after: those of the process that goes on, which are numbered on.
        n_samples: how many the dataset holds.
    """
    batches = [(0, batch) for batch in before] + [(1, batch) for batch in after]
    listed = (DeliveredBatch(lane, -1, n, batch) for n, (lane, batch) in enumerate(batches))
    figure: Figure = audit_batches(listed, n_samples, idle=[(0, -1), (1, -1)]).figure()
    figure.layout.yaxis.ticktext = LANES
    figure.layout.xaxis.title.text = "key of the sample"
    n_before = count(len(before), "batch", "batches")
    counts = f"in this epoch {n_before} before the stop, {len(after)} after it"
    figure.layout.title.subtitle.text = f"{counts} · the number in a box is its batch"
    figure.layout.meta["loaderviz"]["lanes"] = [*LANES]
    for drawn in figure.data:
        if drawn.name == "delivered":
            drawn.hovertext = [_named(text) for text in drawn.hovertext]
    return figure


def _named(hover: str) -> str:
    """What the mouse shows of a sample, with the name of the lane; the audit calls lanes ranks."""
    for rank, lane in enumerate(LANES):
        hover = hover.replace(f"rank {rank} · main process", lane)
    return hover


@explains_errors
def resumes(order: Callable[[int, int, int, int], Sequence[int]]) -> Check:
    """Whether ``order(n, seed, epoch, start)`` is an order that another process can go on with."""
    torch.manual_seed(1)
    state = torch.get_rng_state()
    whole = [list(order(N, SEED, epoch, 0)) for epoch in range(2)]
    drew = not torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)  # another process
    rest = list(order(N, SEED, 1, STOP))
    figure = seen_by(_batches(whole[1][:STOP]), _batches(rest))
    if sorted(whole[0]) != list(range(N)):
        return Check(False, f"Not yet: an epoch should have each of {N} samples once.", figure)
    if whole[0] == whole[1]:
        return Check(False, "Not yet: epochs 0 and 1 have the same order.")
    if list(order(N, OTHER_SEED, 0, 0)) == whole[0]:
        text = f"seeds {SEED} and {OTHER_SEED} give epoch 0 the same order"
        return Check(False, f"Not yet: {text}, so no seed chooses one.")
    if sum(two == (one + 1) % N for one, two in pairwise(whole[0])) > N / 2:
        return Check(False, "Not yet: most samples still come behind their neighbours.", figure)
    if rest != whole[1][STOP:]:
        text = f"resumed after {STOP} samples of epoch 1, it goes on with {rest[:4]}"
        return Check(False, f"Not yet: {text}, not with {whole[1][STOP : STOP + 4]}.", figure)
    if drew:
        text = "the order is right, but torch's global generator was seeded or drawn from"
        return Check(False, f"Not yet: {text}, and others draw from it.", figure)
    text = "A new process goes on where the other one stopped, in any epoch."
    return Check(True, text, figure)


def _batches(keys: Sequence[int]) -> list[Sequence[int]]:
    return [keys[at : at + BATCH_SIZE] for at in range(0, len(keys), BATCH_SIZE)]
