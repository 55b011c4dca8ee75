"""Streams as they occur in practice: rows of a table, words of a text, lines of a log.

All are naive on purpose: every worker reads the whole file. `loaderviz.shard` would share it out.
"""

import itertools
from collections.abc import Hashable, Iterator
from os import PathLike
from typing import Any

from torch.utils.data import IterableDataset

from loaderviz.argument_checks import whole_number

_EVENTS = ("batch loaded", "batch sent", "worker idle", "batch taken")


class TsvRows(IterableDataset[dict[Hashable, Any]]):
    """Iterable-style: the rows of a tab-separated table, read in chunks.

    A sample is a row as a dict from the column's name to its value: an int, float or str. Only one
    chunk is in memory at a time, so the table may be larger than the memory.

    path: the file; its first line names the columns.
    chunk_rows: how many rows pandas reads at once, when the first sample of a chunk is asked for.

    Raises LoaderVizError if chunk_rows is below 1. Errors of pandas, such as a missing file, come
    when the first sample is asked for.
    """

    def __init__(self, path: str | PathLike[str], chunk_rows: int = 100) -> None:
        self.path = path
        self.chunk_rows = whole_number("chunk_rows", chunk_rows, at_least=1)

    def __iter__(self) -> Iterator[dict[Hashable, Any]]:
        import pandas as pd

        with pd.read_csv(self.path, sep="\t", chunksize=self.chunk_rows) as chunks:
            for chunk in chunks:
                yield from chunk.to_dict("records")

    def __repr__(self) -> str:
        return f"TsvRows({str(self.path)!r}, chunk_rows={self.chunk_rows})"


class Tokens(IterableDataset[str]):
    """Iterable-style: the words of a text file one by one, in lower case, split at white space.

    path: a text file in UTF-8. One line is in memory at a time.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = path

    def __iter__(self) -> Iterator[str]:
        with open(self.path, encoding="utf-8") as lines:  # noqa: PTH123 (a str has no open())
            for line in lines:
                yield from line.lower().split()

    def __repr__(self) -> str:
        return f"Tokens({str(self.path)!r})"


class EndlessLog(IterableDataset[str]):
    """Iterable-style: the lines of a log that never ends, numbered from 0.

    The lines are the same each time: a line depends on its number alone.
    """

    def __iter__(self) -> Iterator[str]:
        for number in itertools.count():
            yield f"{number:06d} {_EVENTS[number * 7 // 3 % 4]}"

    def __repr__(self) -> str:
        return "EndlessLog()"
