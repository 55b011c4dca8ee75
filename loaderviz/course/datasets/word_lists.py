"""Words as Python objects, or as one block of memory: what workers copy or are sent."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from loaderviz.argument_checks import position, whole_number


class Words(Dataset[int]):
    """Map-style: `ds[i]` is the length of `words[i]`.

    words: a list, tuple, array or other sequence.
    """

    def __init__(self, words: Any) -> None:
        self.words: Sequence[Any] = words

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> int:
        return len(self.words[position(index, len(self))])


class WordList(Words):
    """`Words` in a list of n strings of 16 letters, each a separate Python object.

    To read a Python object is to write its reference count, so that a forked worker that reads the
    words copies the memory pages they are in.

    Raises LoaderVizError if n is negative.
    """

    def __init__(self, n: int) -> None:
        super().__init__([f"word{number:012d}" for number in range(whole_number("n", n))])


class WordArray(Words):
    """`Words` in a NumPy array of the same n words, as bytes: one block of memory, no objects."""

    def __init__(self, n: int) -> None:
        super().__init__(np.array(WordList(n).words, dtype="S16"))
