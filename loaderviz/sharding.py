"""``shard`` and ``shard_init``: this worker's share of a dataset, nothing lost and nothing twice.

Depends on torch and the errors only. Together, the shares of all workers of all ranks are the
whole, remainder included, and the shares of two ranks differ by one sample at most.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import torch
from torch.utils.data import get_worker_info

from loaderviz.errors import LoaderVizError

T = TypeVar("T")
_SHARES = "_loaderviz_shares"  # set on the dataset: attribute -> (whole, share)


def shard(iterable: Iterable[T], *, contiguous: bool = False) -> Iterable[T]:
    """This worker's share of ``iterable``, for use inside ``IterableDataset.__iter__``.

    >>> class Words(IterableDataset):
    ...     def __iter__(self):
    ...         for path in shard(self.paths):
    ...             yield from path.read_text().split()

    Without it, every worker reads the whole dataset, since each iterates its own copy
    (torch/utils/data/_utils/fetch.py, ``_IterableDatasetFetcher``). Outside a worker, if there is
    one rank, the share is the whole.

    The rank comes from ``torch.distributed`` if that is initialised, else from the environment
    variables ``RANK`` and ``WORLD_SIZE``, which torchrun sets. Workers started by spawn or
    forkserver see only the two variables: set them if you call ``init_process_group(rank=...)``
    yourself. All ranks must use the same number of workers.

    Args:
        iterable: for a list, tuple, range, array, tensor or DataFrame, the share has the same type,
            cut along the first axis. For any other iterable, the share is an iterator that goes
            through all of it and skips what other workers take.
        contiguous: whether each worker gets one stretch, in order, instead of every n-th sample.

    Raises:
        LoaderVizError: if ``iterable`` has no order (a set), is not a collection of samples (a str,
            a dict), or has no length and ``contiguous`` needs one; if ``RANK`` and ``WORLD_SIZE``
            do not fit together.
    """
    _check(iterable)
    n = _length(iterable)
    if n is None and contiguous:
        raise LoaderVizError(
            f"{_describe(iterable)} has no length, so it has no contiguous shares: "
            "make it a list, or leave contiguous=False"
        )
    indices = _indices(n or 0, _place(), contiguous=contiguous)
    share: Iterable[T] | None = None if n is None else _cut(iterable, indices)
    if share is not None:
        return share
    return islice(iterable, indices.start, indices.stop if contiguous else None, indices.step)


def shard_init(attribute: str, *, contiguous: bool = False) -> ShardInit:
    """A ``worker_init_fn`` that gives each worker its share of ``dataset.<attribute>``.

    >>> DataLoader(dataset, num_workers=4, worker_init_fn=shard_init("paths"))

    For an iterable-style dataset whose code you cannot edit: each worker cuts the attribute of its
    own copy of the dataset. The share is always cut from the whole, however often a worker is
    initialised. The function can be pickled, so it works with every start method, and it uses the
    rank of the process that starts the workers (see ``shard``).

    Args:
        attribute: name of the attribute; its value must be a list, tuple, range, array, tensor or
            DataFrame.
        contiguous: as in ``shard``.

    Raises:
        LoaderVizError: here, if ``attribute`` is not a valid name; in the worker, if the dataset
            has no such attribute, its value cannot be cut, or the dataset is map-style (its sampler
            already shares out the samples).
    """
    if not isinstance(attribute, str) or not attribute.isidentifier():
        raise LoaderVizError(
            f"shard_init({attribute!r}): give the name of the dataset attribute whose value is to "
            "be shared out, such as shard_init('paths')"
        )
    return ShardInit(attribute, contiguous)


class ShardInit:
    """The ``worker_init_fn`` that ``shard_init`` returns."""

    def __init__(self, attribute: str, contiguous: bool) -> None:
        self.attribute = attribute
        self.contiguous = contiguous
        self._ranks: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"shard_init({self.attribute!r}{', contiguous=True' * self.contiguous})"

    def __getstate__(self) -> dict[str, Any]:
        # Only spawn and forkserver pickle it, and their workers have no process group to ask.
        return {**self.__dict__, "_ranks": ranks()}

    def __call__(self, worker_id: int) -> None:
        """Give the worker that runs this its share; raises what ``shard_init`` says."""
        info = get_worker_info()
        if info is None:
            raise LoaderVizError(
                f"{self!r} is for the workers of a DataLoader: pass it as worker_init_fn"
            )
        dataset = info.dataset
        if not isinstance(dataset, torch.utils.data.IterableDataset):
            raise LoaderVizError(
                f"{self!r}: {type(dataset).__name__} is map-style, and its sampler already shares "
                "out the samples among the workers: leave worker_init_fn out"
            )
        whole = self._whole(dataset)
        place = _Place(*(self._ranks or ranks()), worker_id, info.num_workers)
        n = _length(whole)
        share = None if n is None else _cut(whole, _indices(n, place, contiguous=self.contiguous))
        if share is None:
            raise LoaderVizError(
                f"{self!r}: {_describe(whole)} cannot be cut into shares that can be read in every "
                "epoch: make it a list, or use shard() inside __iter__"
            )
        setattr(dataset, self.attribute, share)
        vars(dataset).setdefault(_SHARES, {})[self.attribute] = whole, share

    def _whole(self, dataset: Any) -> Any:
        """The uncut value of the attribute, also if this worker has cut it in an earlier call."""
        if not hasattr(dataset, self.attribute):
            names = ", ".join(name for name in vars(dataset) if not name.startswith("_")) or "none"
            raise LoaderVizError(
                f"{self!r}: {type(dataset).__name__} has no attribute {self.attribute!r}; "
                f"it has {names}"
            )
        value = getattr(dataset, self.attribute)
        whole, share = vars(dataset).get(_SHARES, {}).get(self.attribute, (value, value))
        if value is not share:  # the dataset has set a new value since
            whole = value
        _check(whole)
        return whole


class _Place(NamedTuple):
    """This process among all that read the dataset: its rank, and its worker within the rank."""

    rank: int
    n_ranks: int
    worker: int
    n_workers: int


def _place() -> _Place:
    info = get_worker_info()
    return _Place(*ranks(), *((0, 1) if info is None else (info.id, info.num_workers)))


def ranks() -> tuple[int, int]:
    """This process's rank and the number of ranks: (0, 1) if there is only this one.

    From ``torch.distributed`` if it is initialised, else from ``RANK`` and ``WORLD_SIZE``.

    Raises:
        LoaderVizError: if the two variables do not fit together, or only one is set.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    variables = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE")}
    if variables["RANK"] is None and variables["WORLD_SIZE"] in (None, "1"):
        return 0, 1
    shown = ", ".join(f"{name}={text}" for name, text in variables.items() if text is not None)
    if not all(text is not None and text.isdecimal() for text in variables.values()):
        raise LoaderVizError(
            f"{shown} in the environment does not give both the rank and the number of ranks: "
            "set both RANK and WORLD_SIZE, as torchrun does, or neither"
        )
    rank, n_ranks = int(str(variables["RANK"])), int(str(variables["WORLD_SIZE"]))
    if rank >= n_ranks:
        raise LoaderVizError(f"{shown} in the environment: ranks count from 0 to WORLD_SIZE - 1")
    return rank, n_ranks


def _indices(n: int, place: _Place, *, contiguous: bool) -> slice:
    """The indices of this place's share: cut among the ranks, then among the rank's workers."""
    if contiguous:
        start, stop = _stretch(0, n, place.rank, place.n_ranks)
        return slice(*_stretch(start, stop, place.worker, place.n_workers), 1)
    start = place.rank + place.worker * place.n_ranks
    return slice(start, max(n, start), place.n_ranks * place.n_workers)


def _stretch(start: int, stop: int, index: int, n_parts: int) -> tuple[int, int]:
    """Start and stop of one of ``n_parts`` stretches; the first ones take up the remainder."""
    length, remainder = divmod(stop - start, n_parts)
    begin = start + index * length + min(index, remainder)
    return begin, begin + length + (index < remainder)


def _cut(items: Any, indices: slice) -> Any:
    """The share, in the same kind of collection; None if ``items`` cannot be sliced."""
    if not hasattr(items, "iloc") and not hasattr(items, "__getitem__"):
        return None
    try:
        share = (items.iloc if hasattr(items, "iloc") else items)[indices]
        fits = len(share) == len(range(indices.start, indices.stop, indices.step))
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, NotImplementedError):
        return None
    return share if fits and not isinstance(share, Mapping) else None


def _length(items: Any) -> int | None:
    try:
        return len(items)
    except TypeError:  # a generator; an array of no dimensions
        return None


def _check(items: Any) -> None:
    remedies = {
        str: "a str is one sample, not many: put it in a list, or split it",
        bytes: "bytes are one sample, not many: put them in a list",
        Set: "a set has no order that all workers agree on: share out sorted(...) of it",
        Mapping: "a dict cannot be cut: share out list(...) of its keys or of its items()",
    }
    for kind, remedy in remedies.items():
        if isinstance(items, kind):
            raise LoaderVizError(f"cannot cut {_describe(items)}: {remedy}")
    if isinstance(items, Iterator):
        return
    try:
        iter(items)
    except TypeError:
        raise LoaderVizError(
            f"cannot cut {_describe(items)}: it cannot be iterated; "
            "give a list, range, array, tensor, DataFrame or any iterable"
        ) from None


def _describe(items: Any) -> str:
    """The type of ``items`` and the start of its repr, for a message."""
    try:
        shown = f"{items!r:.60}"
    except Exception:  # raised by the user's __repr__
        shown = ""
    return f"{type(items).__name__} {shown}".rstrip()
