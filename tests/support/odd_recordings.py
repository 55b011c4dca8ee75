"""Recordings of every shape that real loops leave behind: each a function that makes its trace."""

import itertools
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import loaderviz as lv
from forked import Forked
from loaderviz import Trace
from loaderviz.course.datasets import SleepingDataset
from probes import Deadly, die
from traces import made


class Train(SleepingDataset):
    """Reads a sample in half a millisecond, or fails at ``fails_at``."""

    def __init__(self, n: int = 12, fails_at: int | None = None) -> None:
        super().__init__(n, 5e-4, fail_at=fails_at)


class Evaluation(Train):
    """Another class, so that its loader has another name."""


class Stream(IterableDataset[Any]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[Any]:
        return iter(torch.arange(self.n))


class Shapes(Train):
    def __getitem__(self, key: int) -> Any:
        return torch.zeros(1 + key % 3)


class Streams:
    """A loader that is none of torch's, and iterates some inside."""

    def __init__(self, *loaders: DataLoader[Any]) -> None:
        self.loaders = loaders

    def __iter__(self) -> Iterator[Any]:
        return zip(*self.loaders, strict=False)


class Foreign:
    def __iter__(self) -> Iterator[Any]:
        return iter([torch.zeros(2)] * 5)


def loader(dataset: Any = None, **options: Any) -> DataLoader[Any]:
    return DataLoader(Train() if dataset is None else dataset, **{"batch_size": 4, **options})


def recorded(loop: Callable[..., object], *loaders: Any, **options: Any) -> Trace:
    """The trace of a loop over these loaders, whatever becomes of it."""
    with warnings.catch_warnings(), suppress(Exception, KeyboardInterrupt):
        warnings.simplefilter("ignore")
        with lv.record(*loaders, **options) as rec:
            loop(*loaders)
    return rec.trace


def over(*loaders: Any) -> None:
    for each in loaders:
        for _ in each:
            pass


def two_epochs(*loaders: Any) -> None:
    over(*loaders)
    over(*loaders)


def first_batch(*loaders: Any) -> None:
    for each in loaders:
        next(iter(each))


def ask_never(*loaders: Any) -> None:
    for each in loaders:
        iter(each)


def interrupt(*loaders: Any) -> None:
    for step, _ in enumerate(itertools.chain(*loaders)):
        if step == 1:
            raise KeyboardInterrupt


def validate_in_between(train: Any, valid: Any) -> None:
    for step, _ in enumerate(train):
        if step % 2:
            over(valid)


def in_threads(*loaders: Any) -> None:
    threads = [threading.Thread(target=over, args=(each,)) for each in loaders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def with_spans(each: Any) -> None:
    for _ in each:
        with lv.span("forward"):
            time.sleep(1e-4)


def train_then(*evaluations: Any, workers: int = 0) -> Trace:
    return recorded(over, loader(num_workers=workers), *evaluations)


FAILING = {"fails_at": 0}
SECOND_FAILS: dict[str, Callable[[], Trace]] = {
    "in its first batch": lambda: train_then(loader(Evaluation(**FAILING))),
    "it is an empty stream": lambda: train_then(loader(Stream(0))),
}
IN_ONE_PROCESS: dict[str, Callable[[], Trace]] = {
    "one loader": lambda: recorded(over, loader()),
    "two loaders": lambda: recorded(over, loader(), loader(Evaluation())),
    "twins": lambda: recorded(over, loader(), loader()),
    "the first fails in its first batch": lambda: recorded(over, loader(Train(**FAILING))),
    "it fails in the middle": lambda: recorded(two_epochs, loader(Train(fails_at=6))),
    "the second is never asked": lambda: recorded(
        lambda one, two: (over(one), ask_never(two)), loader(), loader(Evaluation())
    ),
    "none is ever asked": lambda: recorded(ask_never, loader(), loader(Evaluation())),
    "no iterator is made": lambda: recorded(lambda *_: None, loader()),
    "an empty list of batches": lambda: recorded(over, loader(batch_size=1, batch_sampler=[])),
    "empty batches": lambda: recorded(
        over, DataLoader(Train(), batch_sampler=[[], [1], []], collate_fn=list)
    ),
    "a stream": lambda: recorded(two_epochs, loader(Stream(9))),
    "one batch": lambda: recorded(over, loader(batch_size=12)),
    "one batch an epoch, many epochs": lambda: recorded(
        lambda each: [over(each) for _ in range(9)], loader(batch_size=12)
    ),
    "interrupted": lambda: recorded(interrupt, loader(), loader(Evaluation())),
    "nested": lambda: recorded(validate_in_between, loader(), loader(Evaluation())),
    "zipped": lambda: recorded(
        lambda *both: list(zip(*both, strict=False)), loader(), loader(Evaluation(9))
    ),
    "in threads": lambda: recorded(in_threads, loader(), loader(Evaluation())),
    "made anew for each evaluation": lambda: recorded(
        lambda _: [over(loader(Evaluation())) for _ in range(5)], Foreign()
    ),
    "streams inside": lambda: recorded(over, Streams(loader(), loader(Evaluation()))),
    "foreign": lambda: recorded(two_epochs, Foreign()),
    "foreign beside torch's": lambda: recorded(over, Foreign(), loader(Evaluation(**FAILING))),
    "samples left out": lambda: recorded(over, loader(), max_spans=5),
    "batches left out": lambda: recorded(
        over, loader(TensorDataset(torch.arange(4000)), batch_size=1), max_bytes=1 << 20
    ),
    "named steps": lambda: recorded(with_spans, loader()),
    "many shapes": lambda: recorded(over, loader(Shapes(), batch_size=1)),
    "keys of many kinds": lambda: recorded(
        over, loader([0] * 9, sampler=[1, True, 2], batch_size=1), loader({"a": 1}, sampler=["a"])
    ),
    "a snapshot in the middle": lambda: snapshot_in_the_middle(),
}
WITH_WORKERS: dict[str, Callable[[], Trace]] = {
    "workers": lambda: recorded(two_epochs, loader(num_workers=2)),
    "kept workers, out of order": lambda: recorded(
        two_epochs, loader(num_workers=2, persistent_workers=True, in_order=False)
    ),
    "workers, the second fails at once": lambda: train_then(
        loader(Evaluation(**FAILING), num_workers=1), workers=1
    ),
    "a worker is killed": lambda: recorded(over, loader(Deadly(12, 5), num_workers=1)),
    "workers of a short stream": lambda: recorded(over, loader(Stream(2), num_workers=2)),
    "left while workers read ahead": lambda: recorded(first_batch, loader(num_workers=2)),
}


def snapshot_in_the_middle() -> Trace:
    each = loader()
    with lv.record(each) as rec:
        for _ in each:
            return rec.snapshot()
    raise AssertionError


def of_ranks(folder: Path, *traces: Trace) -> Trace:
    """The traces as those of a run's ranks, merged."""
    folder.mkdir()
    for rank, trace in enumerate(traces):
        tables = {
            name: getattr(trace, name).assign(rank=rank)
            for name in ("batches", "samples", "workers", "spans")
        }
        meta = {**trace.meta, "rank": rank, "world_size": len(traces)}
        replace(trace, **tables, meta=meta).save(folder / f"rank-{rank}.parquet")
    return lv.load(folder)


def killed(folder: Path) -> Trace:
    """What a process that was killed leaves of its recording."""

    def train() -> None:
        with lv.record(each := loader(), path=folder):
            for step, _ in enumerate(each):
                if step == 1:
                    die("kill")

    with Forked(train) as process:
        process.exit_code()
    return lv.load(folder)


def _without_folder(make: Callable[[], Trace]) -> Callable[[Path], Trace]:
    return lambda _: make()


# All by name; each gets a folder for what has to be on disk.
ALL: dict[str, Callable[[Path], Trace]] = {
    **{name: _without_folder(make) for name, make in {**IN_ONE_PROCESS, **WITH_WORKERS}.items()},
    "ranks": lambda folder: of_ranks(
        folder / "ranks", IN_ONE_PROCESS["one loader"](), WITH_WORKERS["workers"]()
    ),
    "ranks, of which one failed": lambda folder: of_ranks(
        folder / "ranks", WITH_WORKERS["workers"](), SECOND_FAILS["in its first batch"]()
    ),
    "ranks, of which one has nothing": lambda folder: of_ranks(
        folder / "ranks", IN_ONE_PROCESS["one loader"](), Trace.from_columns()
    ),
    "a process that was killed": lambda folder: killed(folder / "killed"),
    "empty": lambda _: Trace.from_columns(),
    "made by hand, without meta": lambda _: made(),
    "made by hand, batches alone": lambda _: Trace.from_columns(batches=made().batches),
    "simulated": lambda _: lv.simulate(
        lv.Costs(sample_s=1e-3), num_workers=2, n_batches=9, batch_size=2
    ),
}
