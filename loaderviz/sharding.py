"""``shard`` and ``shard_init``: this worker's share of a dataset, nothing lost and nothing twice.

Depends on torch and the errors only. The shares of all workers of all ranks together are the whole,
remainder included, and no two ranks' shares differ by more than one sample.
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
_SHARES = "_loaderviz_shares"  # of a dataset: by attribute, the whole and the share cut from it


def shard(iterable: Iterable[T], *, contiguous: bool = False) -> Iterable[T]:
    """This worker's share of ``iterable``, for use inside ``IterableDataset.__iter__``.

    >>> class Words(IterableDataset):
    ...     def __iter__(self):
    ...         for path in shard(self.paths):
    ...             yield from path.read_text().split()

    Without it every worker reads all of the dataset, since each iterates a copy of its own
    (torch/utils/data/_utils/fetch.py, ``_IterableDatasetFetcher``). Outside a worker, in one
    process, the share is the whole.

    Ranks are those of ``torch.distributed`` where it is initialised, else of ``RANK`` and
    ``WORLD_SIZE``, as torchrun sets them. Workers that are started by spawn or forkserver know only
    the two variables: set them where you call ``init_process_group(rank=...)`` yourself. All ranks
    have to use the same number of workers.

    Args:
        iterable: a list, tuple, range, array, tensor or DataFrame gives its own type back, cut
            along its first axis; anything else that can be iterated gives an iterator, which goes
            through all of it and leaves out what other workers take.
        contiguous: one stretch for each worker, in order, in place of every n-th sample.

    Raises:
        LoaderVizError: for what has no order (a set), is no collection of samples (a text, a dict),
            has no length where ``contiguous`` needs one, or ``RANK`` and ``WORLD_SIZE`` that do not
            fit together.
    """
    _check(iterable)
    place = _place()
    n = _length(iterable)
    cut: Iterable[T] | None = (
        None if n is None else _cut(iterable, _slice(n, place, contiguous=contiguous))
    )
    if cut is not None:
        return cut
    if n is None and contiguous:
        raise LoaderVizError(
            f"{_named(iterable)} has no length, so it has no contiguous shares: "
            "make it a list, or leave contiguous=False"
        )
    own = _slice(n or 0, place, contiguous=contiguous)
    return islice(iterable, own.start, own.stop if contiguous else None, own.step)


def shard_init(attribute: str, *, contiguous: bool = False) -> ShardInit:
    """A ``worker_init_fn`` that gives each worker its share of ``dataset.<attribute>``.

    >>> DataLoader(dataset, num_workers=4, worker_init_fn=shard_init("paths"))

    For an iterable-style dataset that cannot be edited: it cuts the attribute of the worker's own
    copy of the dataset. The share is always cut from the whole, however often a worker is
    initialised. It can be pickled, so that any start method will do, and takes the rank of the
    process that starts the workers (see ``shard``).

    Args:
        attribute: its name; the value is a list, tuple, range, array, tensor or DataFrame.
        contiguous: as in ``shard``.

    Raises:
        LoaderVizError: here for a name that is none; in the worker for a dataset without the
            attribute, a value that cannot be cut, or a map-style dataset, whose samples the sampler
            shares out already.
    """
    if not isinstance(attribute, str) or not attribute.isidentifier():
        raise LoaderVizError(
            f"shard_init({attribute!r}): give the name of the dataset's attribute that holds "
            "what is to be shared, such as shard_init('paths')"
        )
    return ShardInit(attribute, contiguous)


class ShardInit:
    """What ``shard_init`` returns: called in each worker, with its number."""

    def __init__(self, attribute: str, contiguous: bool) -> None:
        self.attribute = attribute
        self.contiguous = contiguous
        self._ranks: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"shard_init({self.attribute!r}{', contiguous=True' * self.contiguous})"

    def __getstate__(self) -> dict[str, Any]:
        # Pickled where workers are started by spawn or forkserver: they know of no process group.
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
                f"{self!r}: {type(dataset).__name__} is map-style, and its sampler shares the "
                "samples out among the workers already: leave worker_init_fn out"
            )
        whole = self._whole(dataset)
        place = _Place(*(self._ranks or ranks()), worker_id, info.num_workers)
        n = _length(whole)
        share = None if n is None else _cut(whole, _slice(n, place, contiguous=self.contiguous))
        if share is None:
            raise LoaderVizError(
                f"{self!r}: {_named(whole)} cannot be cut into shares that can be read again and "
                "again: make it a list, or use shard() inside __iter__"
            )
        setattr(dataset, self.attribute, share)
        vars(dataset).setdefault(_SHARES, {})[self.attribute] = whole, share

    def _whole(self, dataset: Any) -> Any:
        """What is to be shared: untouched, also where this worker was initialised before."""
        if not hasattr(dataset, self.attribute):
            known = ", ".join(name for name in vars(dataset) if not name.startswith("_")) or "none"
            raise LoaderVizError(
                f"{self!r}: {type(dataset).__name__} has no attribute {self.attribute!r}; "
                f"it has {known}"
            )
        value = getattr(dataset, self.attribute)
        whole, share = vars(dataset).get(_SHARES, {}).get(self.attribute, (value, value))
        if value is not share:  # the dataset has set it anew since
            whole = value
        _check(whole)
        return whole


class _Place(NamedTuple):
    """Where this process stands among all that read the dataset."""

    rank: int
    n_ranks: int
    worker: int
    n_workers: int


def _place() -> _Place:
    info = get_worker_info()
    return _Place(*ranks(), *((0, 1) if info is None else (info.id, info.num_workers)))


def ranks() -> tuple[int, int]:
    """This process's rank, and how many there are."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    given = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE")}
    if given["RANK"] is None and given["WORLD_SIZE"] in (None, "1"):
        return 0, 1
    shown = ", ".join(f"{name}={text}" for name, text in given.items() if text is not None)
    if not all(text is not None and text.isdecimal() for text in given.values()):
        raise LoaderVizError(
            f"{shown} in the environment does not say which rank this is of how many: "
            "set both RANK and WORLD_SIZE, as torchrun does, or neither"
        )
    rank, n_ranks = int(str(given["RANK"])), int(str(given["WORLD_SIZE"]))
    if rank >= n_ranks:
        raise LoaderVizError(f"{shown} in the environment: ranks count from 0 to WORLD_SIZE - 1")
    return rank, n_ranks


def _slice(n: int, place: _Place, *, contiguous: bool) -> slice:
    """First among the ranks, then each rank's own share among its workers."""
    if contiguous:
        start, stop = _stretch(0, n, place.rank, place.n_ranks)
        return slice(*_stretch(start, stop, place.worker, place.n_workers), 1)
    start = place.rank + place.worker * place.n_ranks
    return slice(start, max(n, start), place.n_ranks * place.n_workers)


def _stretch(start: int, stop: int, which: int, of: int) -> tuple[int, int]:
    """The first ones are a sample longer where ``of`` does not divide the length."""
    each, rest = divmod(stop - start, of)
    begin = start + which * each + min(which, rest)
    return begin, begin + each + (which < rest)


def _cut(items: Any, own: slice) -> Any:
    """The share as the same kind of collection; None for what does not take a slice for that."""
    if not hasattr(items, "iloc") and not hasattr(items, "__getitem__"):
        return None
    try:
        share = (items.iloc if hasattr(items, "iloc") else items)[own]
        fits = len(share) == len(range(own.start, own.stop, own.step))
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, NotImplementedError):
        return None
    return share if fits and not isinstance(share, Mapping) else None


def _length(items: Any) -> int | None:
    try:
        return len(items)
    except TypeError:  # a generator; an array of no dimensions
        return None


def _check(items: Any) -> None:
    way_out = {
        str: "a text is one sample, not many: put it in a list, or split it",
        bytes: "bytes are one sample, not many: put them in a list",
        Set: "a set has no order that all workers agree on: share sorted(...) of it",
        Mapping: "a dict has no shares: share list(...) of its keys or of its items()",
    }
    for kind, why in way_out.items():
        if isinstance(items, kind):
            raise LoaderVizError(f"cannot cut {_named(items)}: {why}")
    if isinstance(items, Iterator):
        return
    try:
        iter(items)
    except TypeError:
        raise LoaderVizError(
            f"cannot cut {_named(items)}: it cannot be iterated; "
            "give a list, range, array, tensor, DataFrame or any iterable"
        ) from None


def _named(items: Any) -> str:
    try:
        shown = f"{items!r:.60}"
    except Exception:  # of the user's __repr__
        shown = ""
    return f"{type(items).__name__} {shown}".rstrip()
