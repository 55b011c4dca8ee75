"""What a run of a loader delivered: its samples as columns, and what each batch held.

A copy of the loader delivers, in place of a batch, the batch and a note on what its samples held
when they were collated, in whichever process that was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from loaderviz.array_types import Ints
from loaderviz.loaders.content_hash import content_number
from loaderviz.trace.columns_of_rows import arrays, batch_rows

if TYPE_CHECKING:
    from loaderviz.trace import Trace

NO_LIMIT = 2**62


@dataclass(frozen=True)
class Collated:
    """What a batch held in the process that collated it.

    Attributes:
        numbers: of each sample the hash of its content; None where it has none.
        arrived: whether the loop got the batch as it was collated; None where that is not known.
        n_rows: how many samples it may hold, by its shape.
    """

    numbers: Sequence[int | None]
    arrived: bool | None
    n_rows: int

    @property
    def n_left_out(self) -> int:
        """How many samples it lacks, at least."""
        return max(0, len(self.numbers) - self.n_rows)


def lacking_rows(batches: Iterable[Collated]) -> tuple[int, int]:
    """How many samples that are None have no row in their batch; and how many others have none.

    Of those it is not known whether they were left out, or put together in fewer rows.
    """
    nothing, n_nothing, n_lacking = content_number(None), 0, 0
    for batch in batches:
        if batch.n_left_out:
            n_nothing += min(batch.n_left_out, [*batch.numbers].count(nothing))
            n_lacking += batch.n_left_out
    return n_nothing, n_lacking - n_nothing


def numbers_of_samples(data: Any, *, batched: bool) -> list[int | None]:
    """The hash of each sample that ``collate_fn`` is given; ``batched``: whether it gets a list."""
    return [*map(content_number, data if batched and type(data) in (list, tuple) else [data])]


def most_rows(batch: Any) -> int:
    """The largest number of samples that a batch can hold, as far as its shape shows."""
    if isinstance(batch, torch.Tensor):
        return batch.shape[0] if batch.ndim else 1
    if isinstance(batch, Mapping):
        return max((most_rows(part) for part in islice(batch.values(), 8)), default=0)
    if isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        inner = [part for part in batch[:8] if isinstance(part, torch.Tensor | Mapping | tuple)]
        return max([len(batch), *map(most_rows, inner)])
    return NO_LIMIT


@dataclass(frozen=True)
class Delivered:
    """Samples in the order of delivery: int64 columns, one row a sample."""

    epoch: Ints
    rank: Ints
    worker: Ints
    batch: Ints
    position: Ints
    number: Ints | None  # None where it is not known which samples they were

    def __len__(self) -> int:
        return len(self.epoch)

    def first(self, n: int | None) -> Delivered:
        """The first ``n`` samples; None: all."""
        columns: Any = [getattr(self, field.name) for field in fields(self)]
        cut: list[Any] = [None if column is None else column[:n] for column in columns]
        return Delivered(*cut)


def delivered_by_key(trace: Trace) -> tuple[Delivered, Any]:
    """Samples as the trace lists them, and their keys: what a map-style dataset was asked for.

    A key that is a list stands for as many samples: with ``batch_size=None`` a sampler may ask for
    a whole batch at once. ``Delivered.number`` stays None, because which numbers the keys get
    depends on what is expected. The keys are an array or a list, one for each sample.
    """
    batches = trace.batches[trace.batches["delivered_s"].notna()].sort_values("delivered_s")
    samples = arrays(trace.samples)
    batch_of_sample = batch_rows(samples, arrays(batches))
    order = np.lexsort((samples["position"], batch_of_sample))
    order = order[batch_of_sample[order] >= 0]
    keys: Any = samples["key"][order]
    columns = {
        name: np.asarray(batches[name], np.int64)[batch_of_sample[order]]
        for name in ("epoch", "rank", "worker", "batch")
    }
    position = samples["position"][order]
    if keys.dtype == object and any(isinstance(key, list) for key in keys):
        sizes = np.array([len(key) if isinstance(key, list) else 1 for key in keys], np.int64)
        columns = {name: np.repeat(values, sizes) for name, values in columns.items()}
        position = positions(sizes)
        keys = [part for key in keys for part in (key if isinstance(key, list) else [key])]
    return Delivered(**columns, position=np.asarray(position, np.int64), number=None), keys


def positions(sizes: Ints) -> Ints:
    """0 to size - 1 for each size, one after another."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
