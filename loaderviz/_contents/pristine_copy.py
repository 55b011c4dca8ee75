"""A copy of a dataset from before its loader ran, to be read, or collated, when it is asked to.

A fork of this process, or where it cannot be forked what comes of a pickle.
"""

from __future__ import annotations

import io
import multiprocessing
import pickle
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from torch.utils.data import DataLoader

from loaderviz._contents.collate_trial import CollateTrial, try_collate
from loaderviz._contents.one_sample import SEED
from loaderviz._contents.read_alone import (
    LEAST_S,
    READABLE,
    Reference,
    read_in_copies,
    read_twice,
)
from loaderviz.loaders.forked_run import ChildProcess, may_fork, run_forked
from loaderviz.own_errors import own_errors

MOST_PICKLED = 256 << 20  # bytes of a dataset that may be there twice
TOOK_TOO_LONG = CollateTrial(not_tried="it took too long to call it")


class PristineCopy:
    """A copy of a dataset, made now, that is read when it is asked to.

    It is used in a ``with`` statement, at whose end it is gone. Where it is no process of its own
    (see ``may_fork``), global random generators are seeded by reading.
    """

    def __init__(self, dataset: Any, collate_fn: Any = None) -> None:
        """``collate_fn``: to be tried by ``try_collate``; None where it gets no list of samples."""
        self._child: ChildProcess | None = None
        self._collates = collate_fn is not None
        self._pickled: bytes | None = None
        if not may_fork(num_workers=1):  # in a fork, a dataset that uses CUDA says that it cannot
            self._pickled = _pickled(dataset)
        else:
            self._orders, orders = multiprocessing.get_context("fork").Pipe()
            self._child = ChildProcess(
                _serve, dataset, collate_fn, orders, self._orders, method="fork"
            )
            orders.close()

    def __enter__(self) -> PristineCopy:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None
            self._orders.close()

    def read_alone(self, keys: Sequence[Any], n_processes: int, budget_s: float) -> Reference:
        """Read the keys, for at most about ``budget_s`` seconds.

        Where that does not suffice, a random part of the keys is read. Raises nothing.

        Args:
            keys: as a recording has them; those that are no numbers or texts are left out.
            n_processes: as many share the keys.
            budget_s: seconds.
        """
        keys = list(dict.fromkeys(key for key in keys if isinstance(key, READABLE)))
        if not keys:
            return Reference(not_read="their keys are no numbers or texts")
        if not budget_s:
            return Reference(not_read="budget_s=0 leaves no time for it")
        if self._child is None and self._pickled is None:
            return Reference(not_read="the dataset cannot be copied, by a fork or by pickle")
        order = random.Random(SEED).sample(range(len(keys)), len(keys))
        shuffled = [keys[place] for place in order]
        answer = self._ask(read_in_copies, shuffled, n_processes, budget_s)
        found: Reference = answer or Reference()
        if not found.numbers:
            found.not_read = "read alone, the dataset gave no sample in time"
        return found

    def read_again(self, keys: Sequence[Any], budget_s: float) -> dict[Any, int | None]:
        """What keys hold whatever the seed, as far as the time goes; None where it is by chance.

        In one fork after another: where processes share an open file, or another handle, only one
        that reads by itself is right.
        """
        answer = self._ask(read_twice, list(keys), budget_s) if keys else None
        return answer or {}

    def try_collate(self, batches: Sequence[Sequence[Any]], budget_s: float) -> CollateTrial:
        """Call ``collate_fn`` on samples of these keys, a list for each batch. Raises nothing."""
        if not self._collates:
            return CollateTrial(
                not_tried="it is called with one sample, and not with a list of them"
            )
        batches = [[key for key in keys if isinstance(key, READABLE)] for keys in batches]
        if not all(batches) or not batches or self._child is None:
            return CollateTrial(not_tried="its samples have no keys to read them by in a copy")
        return self._ask(_try_collate, batches, budget_s) or TOOK_TOO_LONG

    def _ask(self, function: Callable[..., Any], keys: list[Any], *arguments: Any) -> Any:
        if self._pickled is not None:
            return function(self._pickled, keys, *arguments)
        if self._child is None:
            return None
        n_before = len(self._child.sent)
        try:
            self._orders.send((function, keys, *arguments))
        except own_errors(OSError):  # it has died
            return None
        budget_s = arguments[-1]
        end = time.monotonic() + 4 * (budget_s + LEAST_S)
        while len(self._child.sent) == n_before and time.monotonic() < end:
            if self._child.receive(min(end, time.monotonic() + 0.02)):
                break
        if len(self._child.sent) > n_before:
            return self._child.sent[-1]
        self.__exit__()  # or what it says too late would answer the next question
        return None


def collates(loader: DataLoader[Any]) -> Any:
    """The loader's ``collate_fn`` where that makes a batch of a list of samples; else None.

    With ``batch_size=None`` it is called with what the dataset returns (torch/utils/data/_utils/
    fetch.py, ``auto_collation``).
    """
    return None if loader.batch_sampler is None else loader.collate_fn


class _Bounded(io.BytesIO):
    """Holds what is written, up to ``MOST_PICKLED`` bytes."""

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > MOST_PICKLED:
            raise OverflowError
        return super().write(data)


def _pickled(dataset: Any) -> bytes | None:
    """None for a dataset that cannot be pickled, or is large."""
    file = _Bounded()
    try:
        pickle.Pickler(file).dump(dataset)
        pickle.loads(file.getvalue())
    except Exception:  # the reader's own, too
        return None
    return file.getvalue()


def _serve(
    dataset: Any, collate_fn: Any, orders: Any, orders_end: Any, send: Callable[[Any], None]
) -> None:
    orders_end.close()  # the asking process's: where that dies, there are no more orders
    while True:
        try:
            function, *arguments = orders.recv()
        except own_errors(EOFError):
            return
        given = (dataset, collate_fn) if function is _try_collate else (dataset,)
        send(function(*given, *arguments))


def _try_collate(
    dataset: Any, collate_fn: Any, batches: list[list[Any]], budget_s: float
) -> CollateTrial:
    """In a fork of its own: what the reader's code does there has reached nobody else."""
    arguments = dataset, collate_fn, batches, budget_s
    run = run_forked(_collate_in_fork, *arguments, timeout_s=budget_s + LEAST_S)
    return run.sent[-1] if run.sent else TOOK_TOO_LONG


def _collate_in_fork(
    dataset: Any,
    collate_fn: Any,
    batches: list[list[Any]],
    budget_s: float,
    send: Callable[[CollateTrial], None],
) -> None:
    try:
        send(try_collate(dataset, collate_fn, batches, time.monotonic() + budget_s))
    except Exception as error:  # the reader's own, and the end of its time
        if not isinstance(error, TimeoutError):
            send(CollateTrial(not_tried=f"called by itself, it raises {type(error).__name__}"))
