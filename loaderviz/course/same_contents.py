"""Exercise of notebook 13: leave the data as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.course.figures import beside

whole_hint = Hints(
    "print(dataset[3]) twice: the second time it is another sample.",
    "row is a view of the data, not a copy of it: *= changes both.",
    "row * 2 makes a new array, and leaves self.rows as it is.",
)


@explains_errors
def whole(make_dataset: Callable[[], Dataset[Any]]) -> Check:
    """Whether two epochs deliver 16 samples, each twice its row, from the same dataset.

    ``make_dataset`` is the reader's class; row k of its data is 4 * k, 4 * k + 1 and so on.
    """
    right = 2 * torch.arange(64.0).reshape(16, 4)
    loader = DataLoader(make_dataset(), batch_size=8)
    for epoch in range(2):
        got = torch.cat(list(loader))
        if got.shape != right.shape or not torch.equal(got, right):
            came = {"twice its row": right[:6, 1], f"epoch {epoch}": got[:6, 1]}
            figure = beside(
                {name: [f"{each:g}" for each in rows] for name, rows in came.items()},
                title=f"What the first rows should be, and what epoch {epoch} delivers",
                x="row of the batch; the number is its second value",
            )
            return Check(False, f"In epoch {epoch} the samples are not twice their rows.", figure)
    return Check(True, "Each sample is twice its row, in both epochs.")
