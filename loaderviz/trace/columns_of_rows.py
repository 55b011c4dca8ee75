"""Tables as dicts of numpy arrays, to compute with: pandas takes longer for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

Table = dict[str, Any]  # a numpy array a column, all of one length
BATCH = ("rank", "loader", "epoch", "batch", "worker")
MOST_CODES = 2**40  # numbers of groups: their product with a column's range still fits int64


def arrays(frame: pd.DataFrame) -> Table:
    """The columns of a table as numpy arrays, by name."""
    return {str(name): column.to_numpy() for name, column in frame.items()}


def where(table: Table, rows: Any) -> Table:
    """The rows of a table that a mask or an array of positions picks."""
    return {column: values[rows] for column, values in table.items()}


def numbered(columns: Sequence[Any]) -> Any:
    """An int64 array of one number per row: two rows that are equal in all columns have the same.

    Columns are int arrays of one length; numbers are in the order of the columns' values.
    """
    numbers, n_codes = np.zeros(len(columns[0]), np.int64), 1
    for values in columns:
        if not len(values) or values[0] == values.min() == values.max():
            continue
        least, n = int(values.min()), int(values.max()) - int(values.min()) + 1
        if n_codes * n > MOST_CODES:
            values, n = np.unique(values, return_inverse=True)[1], len(values)
            numbers, least = np.unique(numbers, return_inverse=True)[1], 0
            n_codes = len(values)
        numbers = numbers * n + (values - least)
        n_codes *= n
    return numbers


def codes(columns: Sequence[str], *tables: Table) -> list[Any]:
    """For each table what ``numbered`` says of these columns of its rows, over all the tables.

    Two rows have the same number if they are equal in all these columns, be they of one table or of
    two.
    """
    numbers = numbered([np.concatenate([table[column] for table in tables]) for column in columns])
    sizes = [len(table[columns[0]]) for table in tables]
    return np.split(numbers, np.cumsum(sizes)[:-1])


def batch_rows(samples: Table, batches: Table) -> Any:
    """For each sample the row of its batch in ``batches``; -1 where that does not have it."""
    n = len(samples["batch"])
    changes = np.zeros(max(n - 1, 0), bool)
    for column in BATCH:
        changes |= samples[column][1:] != samples[column][:-1]
    first = np.flatnonzero(np.append(True, changes)[:n])  # of neighbours of one batch
    heads = {column: samples[column][first] for column in BATCH}
    batch, batch_of_head = codes(BATCH, batches, heads)
    order = np.argsort(batch, kind="stable")
    place = np.searchsorted(batch, batch_of_head, sorter=order)
    row = np.append(order, -1)[place]
    row = np.where(np.append(batch, -1)[row] == batch_of_head, row, -1)
    return np.repeat(row, np.diff(first, append=n))
