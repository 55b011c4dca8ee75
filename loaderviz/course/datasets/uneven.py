"""Batches whose size depends on the data: sequences of similar length, lines of a file in chunks.

Both datasets yield whole batches, for `DataLoader(..., batch_size=None)`.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import IterableDataset

from loaderviz.argument_checks import number, whole_number
from loaderviz.errors import LoaderVizError
from loaderviz.sharding import shard


class LengthBuckets(IterableDataset[torch.Tensor]):
    """Iterable-style: batches of sequences of similar length, none larger than a budget.

    A batch is a tensor of shape (sequences, longest); shorter sequences are padded with 0. Each
    sequence goes into the bucket for its length. A bucket is yielded as a batch when the next
    sequence would bring it over the budget; what is left in the buckets comes at the end. Every
    worker takes its share of the sequences.

    sequences: tensors of shape (length,).
    budget: the most numbers that a batch may have, padding included.
    width: how many lengths share a bucket: 1 to width, width + 1 to 2 * width, and so on.
    sample_s: seconds that a sequence takes to read, asleep.

    Raises LoaderVizError if budget or width is below 1, a sequence is longer than the budget, or
    sample_s is negative or infinite.
    """

    def __init__(
        self,
        sequences: Sequence[torch.Tensor],
        budget: int,
        width: int,
        *,
        sample_s: float = 0.0,
    ) -> None:
        self.sequences = sequences
        self.budget = whole_number("budget", budget, at_least=1)
        self.width = whole_number("width", width, at_least=1)
        self.sample_s = number("sample_s", sample_s)
        longest = max(map(len, sequences), default=0)
        if longest > self.budget:
            raise LoaderVizError(
                f"budget={budget} has no room for a sequence of {longest}: give {longest} or more"
            )

    def __iter__(self) -> Iterator[torch.Tensor]:
        buckets: dict[int, list[torch.Tensor]] = {}
        for sequence in shard(self.sequences):
            time.sleep(self.sample_s)
            bucket_number = (len(sequence) - 1) // self.width
            bucket = buckets.setdefault(bucket_number, [])
            longest = max(map(len, [*bucket, sequence]))
            if (len(bucket) + 1) * longest > self.budget:
                yield pad_sequence(bucket, batch_first=True)
                bucket = buckets[bucket_number] = []
            bucket.append(sequence)
        for _, bucket in sorted(buckets.items()):
            yield pad_sequence(bucket, batch_first=True)


class LineChunks(IterableDataset[list[str]]):
    """Iterable-style: the lines of text files, in chunks of about `n_chars` characters.

    A batch is a list of whole lines: it ends with the line that brings it above `n_chars`
    characters, line ends included, or with the file. Every worker takes its share of the files.

    Raises LoaderVizError if n_chars is below 1.
    """

    def __init__(self, paths: Iterable[Path], n_chars: int) -> None:
        self.paths = tuple(paths)
        self.n_chars = whole_number("n_chars", n_chars, at_least=1)

    def __iter__(self) -> Iterator[list[str]]:
        for path in shard(self.paths):
            with path.open(encoding="utf-8") as file:
                while lines := file.readlines(self.n_chars):
                    yield [line.rstrip("\n") for line in lines]
