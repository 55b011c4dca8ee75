"""An exercise of notebook 15: batches of similar lengths, each within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch.nn.utils.rnn import pad_sequence

from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.course.figures.padding import padding
from loaderviz.text import percent

BUDGET, MOST_PADDING, MOST_BATCHES = 240, 0.1, 24
LENGTHS = [1 + (37 * i % 101) ** 2 // 172 for i in range(200)]  # 1 to 59, short ones more often
batches_hint = Hints(
    "which texts should share a batch? Put the keys into that order first.",
    "sorted(range(len(lengths)), key=lambda key: lengths[key]) begins with the shortest.",
    "a batch is full when one more text would bring it over the budget: its longest is the last.",
)


@explains_errors
def batches(make: Callable[[list[int], int], Iterable[Iterable[int]]]) -> Check:
    """Whether ``make(lengths, budget)`` puts 200 texts into few batches with little padding.

    A batch is a list of keys, and counts its longest text as many times as it has texts: at most
    240. There may be 24 batches, and a tenth of all tokens may be padding.
    """
    made: list[Sequence[int]] = [list(batch) for batch in make([*LENGTHS], BUDGET)]
    keys = sorted(key for batch in made for key in batch)
    if keys != list(range(len(LENGTHS))):
        message = f"{len(keys)} keys came, {len(set(keys))} different ones"
        return Check(False, f"Not yet: {message}. Each of {len(LENGTHS)} has to come once.")
    if not all(made):
        return Check(False, "Not yet: a batch is empty, and pad_sequence refuses to pad it.")
    sizes = [len(batch) * max(LENGTHS[key] for key in batch) for batch in made]
    share = 1 - sum(LENGTHS) / sum(sizes)
    padded = [
        pad_sequence([torch.ones(LENGTHS[key]) for key in batch], batch_first=True)
        for batch in made
    ]
    figure = padding({"in your batches": padded})
    if max(sizes) > BUDGET:
        message = f"a batch has {max(sizes)} tokens with its padding, {BUDGET} are allowed."
    elif share > MOST_PADDING:
        message = f"{percent(share)} is padding, {percent(MOST_PADDING)} are allowed."
    elif len(made) > MOST_BATCHES:
        message = f"{len(made)} batches, {MOST_BATCHES} are allowed: fill them."
    else:
        return Check(True, f"{len(made)} batches, {percent(share)} padding.", figure)
    return Check(False, f"Not yet: {message}", figure)
