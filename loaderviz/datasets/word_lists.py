"""Words, held as Python objects or as one block: what workers copy when they read them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from loaderviz.datasets._checks import position, whole_number


class Words(Dataset[int]):
    """Map-style: `ds[i]` is the length of `words[i]`.

    words: anything that is asked for an item by its number.
    """

    def __init__(self, words: Any) -> None:
        self.words: Sequence[Any] = words

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> int:
        return len(self.words[position(index, len(self))])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)})"


class WordList(Words):
    """`Words` of a list of n texts of 16 letters, each a Python object of its own.

    Raises LoaderVizError for a negative n.
    """

    def __init__(self, n: int) -> None:
        super().__init__([f"word{number:012d}" for number in range(whole_number("n", n))])


class WordArray(Words):
    """`Words` of a NumPy array of the same n texts, as bytes: one block of memory, no objects."""

    def __init__(self, n: int) -> None:
        super().__init__(np.array(WordList(n).words, dtype="S16"))
