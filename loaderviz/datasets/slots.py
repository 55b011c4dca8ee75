"""Batches along sequences: each slot of a batch is a stream of its own.

`SlotStreams` makes such batches, and `MultiStreamDataLoader` lets several workers make them
together, each some of the slots.
"""

import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, cycle
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from loaderviz.datasets._checks import number, whole_number
from loaderviz.errors import LoaderVizError

ORDERS = ("same", "shuffled", "dealt")


class SlotStreams(IterableDataset[torch.Tensor]):
    """Iterable-style: whole batches, slot i of each the next sample of stream i. Endless.

    For `DataLoader(..., batch_size=None)`: it yields int64 tensors of shape (batch_size,). A stream
    goes through sequences, one after another, without end, and each sample in its turn.

    sequences: of whole numbers; a sample is one of them.
    batch_size: how many streams there are, one for each slot.
    order: in which each stream goes through the sequences. "same": all streams as they are given,
        so that all hold the same sample. "shuffled": each in a random order of its own, and
        another in each round. "dealt": stream i goes through every batch_size-th sequence, from
        the i-th, so that no two ever hold the same.
    seed: of the random orders; None: torch's own, which differs in each worker
        (`torch/utils/data/_utils/worker.py`, `_worker_loop`).
    sample_s: seconds that a sample takes, asleep.

    Naive on purpose under workers: each makes all batches, of all slots. `split` is the cure.

    Raises LoaderVizError for no sequence or an empty one, a batch_size below 1, an unknown order,
    fewer sequences than slots where they are dealt, or an impossible time.
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
        if not self.sequences or not all(len(each) for each in self.sequences):
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
        """Datasets that make these batches together, one for each worker: its share of the slots.

        Joined, their batches are those of the whole, slot by slot.

        Raises LoaderVizError where the slots cannot be shared out evenly.
        """
        workers = whole_number("workers", workers, at_least=1)
        if len(self.slots) % workers:
            fitting = [str(n) for n in range(1, len(self.slots) + 1) if len(self.slots) % n == 0]
            raise LoaderVizError(
                f"{len(self.slots)} slots cannot be shared evenly by {workers} workers: "
                f"give {' or '.join(fitting)}"
            )
        each = len(self.slots) // workers
        return [self._part(self.slots[at : at + each]) for at in range(0, len(self.slots), each)]

    def _part(self, slots: range) -> "SlotStreams":
        part = SlotStreams(
            self.sequences,
            self.batch_size,
            order=self.order,
            seed=self.seed,
            sample_s=self.sample_s,
        )
        part.slots = slots
        return part

    def _stream(self, slot: int, seed: int) -> Iterator[int]:
        for sample in chain.from_iterable(self._in_order(slot, seed)):
            if self.sample_s:
                time.sleep(self.sample_s)
            yield sample

    def _in_order(self, slot: int, seed: int) -> Iterator[Sequence[int]]:
        """Sequences without end."""
        if self.order == "same":
            yield from cycle(self.sequences)
        if self.order == "dealt":
            yield from cycle(self.sequences[slot :: self.batch_size])
        # A generator of the slot's own, the same whichever worker has the slot.
        orders = random.Random(f"{seed}, slot {slot}")
        while True:
            yield from orders.sample(self.sequences, len(self.sequences))

    def __repr__(self) -> str:
        slots = f"slots {self.slots[0]} to {self.slots[-1]} of {self.batch_size}"
        return f"SlotStreams({len(self.sequences)} sequences, {slots}, order={self.order!r})"


class MultiStreamDataLoader:
    """Several workers make every batch together: one worker a dataset, parts joined to a batch.

    >>> loader = MultiStreamDataLoader(SlotStreams(sequences, batch_size=4).split(2))
    >>> for batch in itertools.islice(loader, 100): ...

    Each dataset yields its part of every batch: a tensor of shape (slots, ...), or a tuple or dict
    of such. Inside is a `DataLoader` for each dataset, with `batch_size=None` and one worker. A
    batch is as late as its latest part, and the first dataset that ends is the end.

    options: for each of the loaders, such as prefetch_factor or persistent_workers.

    Raises LoaderVizError for no dataset, options that are set already, or parts that cannot be
    joined.
    """

    def __init__(self, datasets: Iterable[IterableDataset[Any]], **options: Any) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise LoaderVizError("give at least one dataset: each has a worker")
        for name in ("batch_size", "num_workers"):
            if name in options:
                raise LoaderVizError(
                    f"{name}={options[name]!r}: each dataset makes its part of a batch, in one "
                    "worker; leave it out"
                )
        self.loaders = [
            DataLoader(each, batch_size=None, num_workers=1, **options) for each in self.datasets
        ]

    def __iter__(self) -> Iterator[Any]:
        # zip() starts all the workers before it asks for the first part.
        for parts in zip(*self.loaders, strict=False):
            yield _joined(parts)

    def __repr__(self) -> str:
        return f"MultiStreamDataLoader({len(self.datasets)} datasets)"


def _joined(parts: Sequence[Any]) -> Any:
    """One batch of its parts, slot after slot."""
    first = parts[0]
    if isinstance(first, torch.Tensor):
        return torch.cat(list(parts))
    if isinstance(first, Mapping):
        return {key: _joined([part[key] for part in parts]) for key in first}
    if isinstance(first, tuple | list):
        return tuple(_joined(column) for column in zip(*parts, strict=True))
    raise LoaderVizError(
        f"a part of a batch is {type(first).__name__} {first!r:.60}: "
        "yield tensors of shape (slots, ...), or tuples or dicts of them"
    )
