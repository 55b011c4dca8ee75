"""Tables as dicts of numpy arrays, to compute with: pandas takes longer for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

Table = dict[str, Any]  # a numpy array a column, all of one length
BATCH = ("rank", "loader", "epoch", "batch", "worker")
MOST_CODES = 2**40


def arrays(frame: pd.DataFrame) -> Table:
    """The columns of a table as numpy arrays, by name."""
    return {column: frame[column].to_numpy() for column in frame.columns}


def where(table: Table, rows: Any) -> Table:
    """The rows of a table that a mask or an array of positions picks."""
    return {column: values[rows] for column, values in table.items()}


def codes(columns: Sequence[str], *tables: Table) -> list[Any]:
    """For each table an int64 array of one number per row, over all the tables.

    Two rows have the same number if they are equal in all these columns, be they of one table or of
    two. The numbers are in the order of the columns' values.
    """
    sizes = [len(table[columns[0]]) for table in tables]
    numbers, n_codes = np.zeros(sum(sizes), np.int64), 1
    for column in columns:
        values = np.concatenate([table[column] for table in tables])
        if not len(values) or values[0] == values.min() == values.max():
            continue
        least, n = int(values.min()), int(values.max()) - int(values.min()) + 1
        if n_codes * n > MOST_CODES:
            values, n = np.unique(values, return_inverse=True)[1], len(values)
            numbers, least = np.unique(numbers, return_inverse=True)[1], 0
            n_codes = len(values)
        numbers = numbers * n + (values - least)
        n_codes *= n
    return np.split(numbers, np.cumsum(sizes)[:-1])


def batch_rows(samples: Table, batches: Table) -> Any:
    """For each sample the row of its batch in ``batches``; -1 where that does not have it."""
    batch, batch_of_sample = codes(BATCH, batches, samples)
    order = np.argsort(batch, kind="stable")
    place = np.searchsorted(batch, batch_of_sample, sorter=order)
    row = np.append(order, -1)[place]
    return np.where(np.append(batch, -1)[row] == batch_of_sample, row, -1)
