"""Streams that yield whole batches, for `DataLoader(..., batch_size=None)`.

`SlotStreams` makes batches along sequences: each slot of a batch has its own stream.
`MultiStreamDataLoader` lets several workers make them together: each worker fills some of the
slots. The batches of `LengthBuckets` and `LineChunks` differ in size: sequences of similar length,
lines of a file in chunks.
"""

import copy
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, IterableDataset

from loaderviz.argument_checks import number, whole_number
from loaderviz.errors import LoaderVizError
from loaderviz.sharding import shard

ORDERS = ("same", "shuffled", "dealt")


class SlotStreams(IterableDataset[torch.Tensor]):
    """Iterable-style, endless: yields whole batches, with the next sample of stream i in slot i.

    For `DataLoader(..., batch_size=None)`: it yields int64 tensors of shape (batch_size,). A stream
    goes through whole sequences, one after another, sample by sample, without end.

    sequences: sequences of whole numbers; each number is a sample.
    batch_size: number of streams, one for each slot.
    order: the order in which each stream goes through the sequences. "same": all streams in the
        given order, so that all slots hold the same sample. "shuffled": each stream in its own
        random order, a new one in each round. "dealt": stream i takes every batch_size-th sequence,
        from the i-th, so that no two slots ever hold the same sequence.
    seed: seed of the random orders. None: torch's seed, which differs in each worker
        (`torch/utils/data/_utils/worker.py`, `_worker_loop`).
    sample_s: seconds that a sample takes, asleep.

    Naive on purpose if there are workers: each makes all slots of all batches. `split` cures that.

    Raises LoaderVizError if there is no sequence or an empty one, batch_size is below 1, the order
    is unknown, sequences are dealt and fewer than the slots, or sample_s is negative or infinite.
    """

    def __init__(
        self,
        sequences: Iterable[Sequence[int]],
        batch_size: int,
        *,
        order: str = "shuffled",
        seed: int | None = 0,
        sample_s: float = 0.0,
    ) -> None:
        self.sequences = tuple(sequences)
        if not self.sequences or not all(len(sequence) for sequence in self.sequences):
            raise LoaderVizError("give at least one sequence, and none that is empty")
        self.batch_size = whole_number("batch_size", batch_size, at_least=1)
        if order not in ORDERS:
            raise LoaderVizError(f"order={order!r} is not one of {', '.join(ORDERS)}")
        if order == "dealt" and len(self.sequences) < self.batch_size:
            raise LoaderVizError(
                f"{len(self.sequences)} sequences cannot be dealt to {self.batch_size} slots: "
                "give at least one for each"
            )
        self.order = order
        self.seed = seed
        self.sample_s = number("sample_s", sample_s)
        self.slots = range(self.batch_size)

    def __iter__(self) -> Iterator[torch.Tensor]:
        seed = torch.initial_seed() if self.seed is None else self.seed
        streams = [self._stream(slot, seed) for slot in self.slots]
        return map(torch.tensor, zip(*streams, strict=True))

    def split(self, workers: int) -> "list[SlotStreams]":
        """One dataset for each worker: each makes its share of the slots of these same batches.

        Raises LoaderVizError if the slots cannot be shared out evenly.
        """
        workers = whole_number("workers", workers, at_least=1)
        if len(self.slots) % workers:
            fitting = [str(n) for n in range(1, len(self.slots) + 1) if len(self.slots) % n == 0]
            raise LoaderVizError(
                f"{len(self.slots)} slots cannot be shared evenly by {workers} workers: "
                f"give {' or '.join(fitting)}"
            )
        n_slots = len(self.slots) // workers
        parts = [copy.copy(self) for _ in range(workers)]
        for worker, part in enumerate(parts):
            part.slots = self.slots[worker * n_slots : (worker + 1) * n_slots]
        return parts

    def _stream(self, slot: int, seed: int) -> Iterator[int]:
        for sample in chain.from_iterable(self._ordered_sequences(slot, seed)):
            if self.sample_s:
                time.sleep(self.sample_s)
            yield sample

    def _ordered_sequences(self, slot: int, seed: int) -> Iterator[Sequence[int]]:
        """The sequences that the stream of this slot goes through, without end."""
        if self.order == "same":
            yield from cycle(self.sequences)
        if self.order == "dealt":
            yield from cycle(self.sequences[slot :: self.batch_size])
        # Each slot has its own generator, so that its order does not depend on the worker.
        rng = random.Random(f"{seed}, slot {slot}")
        while True:
            yield from rng.sample(self.sequences, len(self.sequences))

    def __repr__(self) -> str:
        slots = f"slots {self.slots[0]} to {self.slots[-1]} of {self.batch_size}"
        return f"SlotStreams({len(self.sequences)} sequences, {slots}, order={self.order!r})"


class MultiStreamDataLoader:
    """Several workers make every batch together: one worker for each dataset, each makes a part.

    >>> loader = MultiStreamDataLoader(SlotStreams(sequences, batch_size=4).split(2))
    >>> for batch in itertools.islice(loader, 100): ...

    Each dataset yields its part of every batch, a tensor of shape (slots, ...). Parts are joined
    slot by slot. Inside, each dataset has a `DataLoader` with `batch_size=None` and one worker. A
    batch is as late as its latest part, and the loop ends with the first dataset that ends.

    Raises LoaderVizError if there is no dataset.
    """

    def __init__(self, datasets: Iterable[IterableDataset[Any]]) -> None:
        self.loaders = [DataLoader(dataset, batch_size=None, num_workers=1) for dataset in datasets]
        if not self.loaders:
            raise LoaderVizError("give at least one dataset: each has its own worker")

    def __iter__(self) -> Iterator[Any]:
        # zip() starts all the workers before it asks for the first part.
        for parts in zip(*self.loaders, strict=False):
            yield torch.cat(parts)


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
