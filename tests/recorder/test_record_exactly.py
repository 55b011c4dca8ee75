"""Recording changes nothing, to the letter, and misses nothing: also of the less usual loaders."""

import copy
import pickle
import random
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    IterDataPipe,
    RandomSampler,
    Subset,
    WeightedRandomSampler,
    random_split,
)
from torch.utils.data.dataloader import _BaseDataLoaderIter
from torch.utils.data.datapipes.iter import IterableWrapper

import loaderviz as lv
from loaderviz.trace import Trace
from oddities import (
    Draining,
    EachIsOwn,
    Endless,
    FailsInAChain,
    FailsLater,
    FailsToBegin,
    Hostile,
    Moving,
    Mute,
    Numbered,
    Parcel,
    ReadsForgetfully,
    Resumable,
    ResumableKeys,
    Sets,
    Slow,
    WarnsOfItsReader,
    Zipped,
    as_tensors,
    divide,
    lazily,
    many_times,
    nothing,
    one_by_one,
    parcel,
    picture,
    refuse_in_words,
    warn_of_the_caller,
)
from probes import Bulk, Columns, Keys, Refusing, Stream, as_it_is, draws, seed_alike, shift_dataset
from trace_laws import assert_lawful, assert_orderly, delivered, keys_of

OURS = str(Path(lv.__file__).parent)


def plain(value: Any) -> Any:
    """A batch as nested Python values, so that == means bit for bit."""
    if isinstance(value, torch.Tensor):
        about = value.dtype, tuple(value.shape), value.is_shared(), value.stride()
        return about, value.numpy().tobytes()
    if isinstance(value, Image.Image):
        return value.mode, value.size, value.tobytes()
    if isinstance(value, Parcel):
        return Parcel, plain(value.samples)
    if isinstance(value, dict):
        return type(value), [(key, plain(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [plain(item) for item in list.__iter__(value)] if isinstance(
            value, list
        ) else [plain(item) for item in value]
    return (Iterator, [plain(item) for item in value]) if isinstance(value, Iterator) else value


def samples_of(batch: Any) -> list[tuple[int, Any]] | None:
    """The worker and the key of each sample, as the batch itself tells them."""
    if isinstance(batch, Parcel):
        batch = batch.samples
    if isinstance(batch, dict) and "moved" in batch:
        batch = batch["batch"]
    if isinstance(batch, dict) and isinstance(batch["worker"], torch.Tensor):
        keys = batch["key"]
        keys = keys.reshape(-1).tolist() if isinstance(keys, torch.Tensor) else keys
        return list(zip(batch["worker"].reshape(-1).tolist(), keys, strict=True))
    if isinstance(batch, dict):
        return [(batch["worker"], batch["key"])]
    if isinstance(batch, list) and all(isinstance(each, dict) for each in list.__iter__(batch)):
        return [(each["worker"], each["key"]) for each in list.__iter__(batch)]
    return None


@dataclass
class Seen:
    """All that a training loop can tell of a loader."""

    batches: list[Any]
    error: tuple[type, str, list[tuple[str, str]]] | None
    warnings: list[tuple[type, str, str, int]]
    iterator: list[Any]
    draws: list[float]
    objects_stay: bool

    def same(self, other: "Seen") -> None:
        """Asserts, part by part, for the sake of a short message."""
        assert self.batches == other.batches
        assert self.error == other.error
        assert self.warnings == other.warnings
        assert self.iterator == other.iterator
        assert self.draws == other.draws
        assert self.objects_stay
        assert other.objects_stay


def identities(loader: Any) -> list[Any]:
    """Every attribute of a loader and of its dataset, by identity."""
    of_loader = {name: id(value) for name, value in vars(loader).items() if name != "_iterator"}
    of_dataset = {  # a data pipe notes in itself how far it is read
        name: id(value)
        for name, value in getattr(loader.dataset, "__dict__", {}).items()
        if not isinstance(loader.dataset, IterDataPipe)
    }
    for moving in ("at", "reads"):  # which the dataset itself changes as it is read
        of_dataset.pop(moving, None)
    return [of_loader, of_dataset, type(loader), type(loader.dataset)]


def described(error: BaseException) -> tuple[type, str, list[tuple[str, str]]]:
    """An error as a training script shows it: type, the whole message, and the way it took."""
    text = re.sub(r"pid\(?s?\)? [\d, ]+", "pid", str(error))
    way = [
        (Path(frame.filename).name, frame.name)
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((OURS, __file__))
    ]
    return type(error), text, way


def run(
    make: Callable[[], DataLoader],
    *,
    recorded: bool,
    epochs: int = 1,
    take: int | None = None,
    leave: BaseException | None = None,
) -> tuple[Seen, Trace | None, list[Any]]:
    torch.manual_seed(7)
    np.random.seed(7)
    random.seed(7)
    batches: list[Any] = []
    told: list[Any] = []
    classes: list[Any] = []
    error, stay = None, True
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = make()
        before = identities(loader)
        with lv.record(loader) if recorded else nullcontext() as rec:
            try:
                for _ in range(epochs):
                    iterator = iter(loader)
                    classes.append(
                        (type(iterator).__name__, isinstance(iterator, _BaseDataLoaderIter))
                    )
                    stay &= identities(loader) == before
                    for i, batch in enumerate(iterator):
                        told.append(samples_of(batch))
                        batches.append(plain(batch))
                        stay &= identities(loader) == before
                        if leave is not None and i == 1:
                            raise leave
                        if i + 1 == take:
                            break
                    del iterator
            except BaseException as raised:
                error = described(raised)
                traceback.clear_frames(raised.__traceback__)
                raised.__traceback__ = None
        stay &= identities(loader) == before
        after = draws()
    warned = [(w.category, str(w.message), Path(w.filename).name, w.lineno) for w in caught]
    return (
        Seen(batches, error, warned, classes, after, stay),
        rec.trace if recorded else None,
        told,
    )


def assert_complete(trace: Trace, told: list[Any], keys: Any = "own") -> None:
    """Each delivered batch once with its true worker, each sample once under its true key."""
    assert_lawful(trace)
    assert trace.meta["complete"]
    rows = delivered(trace)
    assert len(rows) == len(told)
    assert set(rows["state"]) <= {"delivered"}
    undelivered = trace.batches[trace.batches["delivered_s"].isna()]
    assert not set(undelivered["state"]) - {"ready", "started", "dispatched", "failed", "lost"}
    for i, (row, samples) in enumerate(zip(rows.itertuples(), told, strict=True)):
        if samples is None:
            continue
        assert {worker for worker, _ in samples} <= {row.worker}
        assert row.n_samples == len(samples)
        seen = keys_of(trace, row)
        assert len(seen) == len(samples)
        if keys == "own":
            assert seen == [key for _, key in samples]
        elif keys is not None:
            assert seen == keys[i]


def assert_exact(make: Callable[[], DataLoader], keys: Any = "own", **how: Any) -> Trace:
    """With and without a recording all is the same, and the recording is complete."""
    without, _, _ = run(make, recorded=False, **how)
    with_, trace, told = run(make, recorded=True, **how)
    with_.same(without)
    assert trace is not None
    assert_complete(trace, told, keys)
    return trace


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def of(
    dataset: Any,
    keys: Any = "own",
    *,
    kind: Callable[..., DataLoader] = DataLoader,
    with_workers: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[Callable[..., DataLoader], Any]:
    """How a loader is made, and the keys of its batches as its sampler asked for them.

    "own" where those are what the samples say, None where no order of them is fixed.
    """
    size = {} if {"batch_size", "batch_sampler"} & {*options} else {"batch_size": 2}

    def make(num_workers: int, **more: Any) -> DataLoader:
        if num_workers:
            more |= with_workers or {}
        return kind(dataset, num_workers=num_workers, **size, **options, **more)

    return make, keys


# Anew for each loader: of some there is only one pass.
LOADERS: dict[str, Callable[[], tuple[Callable[..., DataLoader], Any]]] = {
    "tensors": lambda: of(Keys(7), batch_size=3, shuffle=True, collate_fn=as_tensors),
    "pictures": lambda: of(Keys(5, make=picture), collate_fn=as_it_is),
    "objects that pin themselves": lambda: of(Keys(5), collate_fn=parcel),
    "bare strings": lambda: of(Keys(5, make=str), [[0, 1], [2, 3], [4]]),
    "nothing": lambda: of(Keys(4), collate_fn=nothing),
    "huge lists": lambda: of(Keys(4), collate_fn=many_times),
    "a Subset of a Subset": lambda: of(
        Subset(Subset(Keys(10), [7, 3, 5]), [2, 0, 1]), [[0, 1], [2]], collate_fn=as_it_is
    ),
    "a Subset of bulk reads": lambda: of(
        Subset(Bulk(10), [7, 3, 3]), [[0, 1], [2]], collate_fn=as_it_is
    ),
    "random_split of a ConcatDataset": lambda: of(
        random_split(ConcatDataset([Keys(4), Bulk(4)]), [5, 3])[0],
        [[0, 1], [2, 3], [4]],
        collate_fn=as_it_is,
    ),
    "strings and numbers": lambda: of(Keys(0), sampler=["a", 3, "ä/b"], collate_fn=as_it_is),
    "tuples": lambda: of(Keys(0), None, sampler=[(0, "a"), (1, "b")], collate_fn=as_it_is),
    "a weighted sampler with a generator": lambda: of(
        Keys(10),
        batch_size=3,
        sampler=WeightedRandomSampler([0.1] * 10, 7, generator=seeded()),
        generator=seeded(),
    ),
    "one batch ahead and a timeout": lambda: of(
        Keys(6), with_workers={"prefetch_factor": 1, "timeout": 30}
    ),
    "memory to be pinned": lambda: of(Keys(6), pin_memory=True),
    "index lists: ranges": lambda: of(
        Keys(9), batch_sampler=[range(0, 6, 2), range(1)], collate_fn=as_it_is
    ),
    "index lists: tuples of NumPy numbers": lambda: of(
        Keys(9, make=lambda key: {"key": int(key), "worker": -1}),
        batch_sampler=[tuple(np.arange(3)), (np.int32(7),)],
        collate_fn=lambda batch: [each["key"] for each in batch],
    ),
    "index lists: sets": lambda: of(Keys(9), batch_sampler=Sets(), collate_fn=as_it_is),
    "lists as a batch sampler": lambda: of(
        Keys(10), batch_sampler=[[3], [], [1, 1, 2]], collate_fn=as_it_is
    ),
    "bulk reads by sets": lambda: of(_BulkOfSets(9), batch_sampler=Sets(), collate_fn=as_it_is),
    "bulk reads of unknown length": lambda: of(ReadsForgetfully(5), collate_fn=one_by_one),
    "keys without words": lambda: of(Numbered(), None, sampler=[Mute(3), Mute(1), Mute(2)]),
    "hostile keys": lambda: of(Numbered(), None, sampler=[Hostile(3), Hostile(1), Hostile(2)]),
    "a hostile key for each batch": lambda: of(
        Numbered(), None, batch_size=None, sampler=[Hostile(3), Mute(1)]
    ),
    "columns": lambda: of(
        Columns(10), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]], batch_size=4, collate_fn=columns
    ),
    "an empty dataset": lambda: of(Keys(0)),
    "a data pipe": lambda: of(
        IterableWrapper(range(7)).shuffle().sharding_filter(), None, shuffle=True
    ),
    "a ChainDataset": lambda: of(
        ChainDataset([Stream(3, 1), Stream(2, 2)]), None, collate_fn=as_it_is
    ),
    "a stream of objects": lambda: of(Stream(3, 2), collate_fn=parcel),
    "a subclass that moves batches": lambda: of(Keys(7), None, kind=Moving),
    # Below, what raises.
    "a failing sample with a cause": lambda: of(FailsInAChain(9)),
    "a KeyError": lambda: of(Refusing(4, 1, KeyError("b"))),
    "a failing collate": lambda: of(Keys(4), collate_fn=divide),
    "a stream that fails to begin": lambda: of(FailsToBegin(3, 3)),
    "a stream that fails later": lambda: of(FailsLater(3, 3)),
    "a failing bulk read": lambda: of(_FailingBulk(4)),
    "samples that do not fit together": lambda: of([torch.zeros(1), torch.zeros(2)]),
}


def context_without_processes() -> Any:
    def refuse(*args: Any) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    context = copy.copy(torch.multiprocessing.get_context("fork"))
    context.Process = refuse
    return context


@dataclass
class Iterated:
    """What it gives when it is iterated anew: a sampler, say."""

    make: Callable[[], Iterator[Any]]

    def __iter__(self) -> Iterator[Any]:
        return self.make()


def five_and_an_error() -> Iterator[int]:
    yield from range(5)
    raise LookupError("the sampler ran out of luck")


def warned(what: Any) -> Any:
    warnings.warn("drawn", stacklevel=3)
    return what


class Warning(Stream):
    def __iter__(self) -> Iterator[Any]:
        warnings.warn("opened", stacklevel=2)
        return super().__iter__()


# Of these only one number of workers makes sense. A warning blames the line that called: of torch,
# with a recording as without.
WITH: dict[str, tuple[int, Callable[[], tuple[Callable[..., DataLoader], Any]]]] = {
    "a sampler that fails": (0, lambda: of(Keys(9), sampler=Iterated(five_and_an_error))),
    "index lists that draw in turns with the samples": (
        0,
        lambda: of(Keys(9), batch_sampler=Draining(), collate_fn=as_it_is),
    ),
    "a collate that returns a generator": (0, lambda: of(Keys(4), collate_fn=lazily)),
    "samples that warn of their reader": (0, lambda: of(WarnsOfItsReader(4))),
    "a collate that warns": (0, lambda: of(Keys(4), collate_fn=warn_of_the_caller)),
    "a stream that begins with a warning": (0, lambda: of(Warning(4))),
    "a sampler that warns": (
        1,
        lambda: of(Keys(4), batch_sampler=Iterated(lambda: warned(iter([[1], [2]])))),
    ),
    "a worker_init_fn that fails": (1, lambda: of(Keys(4), worker_init_fn=refuse_in_words)),
    "no process can be started": (
        1,
        lambda: of(Keys(4), multiprocessing_context=context_without_processes()),
    ),
    "a dataset that worker_init_fn edits": (
        2,
        lambda: of(
            Keys(8),
            [[0, 1], [2, 3], [4, 5], [6, 7]],
            worker_init_fn=shift_dataset,
            collate_fn=as_it_is,
        ),
    ),
    "a worker that is too slow": (
        1,
        lambda: of(Slow(6), batch_size=1, with_workers={"timeout": 0.5}),
    ),
}


def columns(batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return tuple(batch.values())


class _BulkOfSets(Keys):
    def __getitems__(self, keys: set[int]) -> list[Any]:
        assert type(keys) is set
        return [self[key] for key in keys]


class _FailingBulk(Keys):
    def __getitems__(self, keys: list[int]) -> list[Any]:
        raise FileNotFoundError(f"no file for {keys}")


# These have no trace that is complete, or would leave things behind in workers.
ALIKE: dict[str, Callable[[], DataLoader]] = {
    "tensors as index lists": lambda: DataLoader(
        Keys(10, make=repr), batch_sampler=torch.arange(6).reshape(2, 3)
    ),
    "iterators as index lists": lambda: DataLoader(
        Keys(10), batch_sampler=[(i for i in (3, 1)), iter([2])]
    ),
    "a sample that stops": lambda: DataLoader(Refusing(4, 1, StopIteration("b")), batch_size=2),
    # Torch's worker loses the batch without a word; the loop waits until its timeout.
    "a generator that cannot be sent": lambda: DataLoader(
        Keys(4), batch_size=2, collate_fn=lazily, num_workers=1, timeout=0.5
    ),
    "what cannot be pickled for spawn": lambda: DataLoader(
        Keys(2, make=lambda key: key), num_workers=1, multiprocessing_context="spawn"
    ),
}


@pytest.mark.parametrize("name", ALIKE)
def test_all_is_the_same_where_the_trace_cannot_be_complete(name):
    without, _, _ = run(ALIKE[name], recorded=False)
    with_, trace, _ = run(ALIKE[name], recorded=True)
    if "spawn" in name:  # its message names an object
        assert with_.error[:2] == without.error[:2]
    else:
        with_.same(without)
    assert_orderly(trace)


# What they have that is unusual is met in the same code, whichever process runs it.
ONLY_HERE = {
    *("pictures", "objects that pin themselves", "bare strings", "nothing"),
    *("a Subset of a Subset", "a Subset of bulk reads", "random_split of a ConcatDataset"),
    *("tuples", "a weighted sampler with a generator", "index lists: ranges"),
    *("index lists: tuples of NumPy numbers", "bulk reads by sets"),
    *("bulk reads of unknown length", "keys without words", "a hostile key for each batch"),
    *(
        "columns",
        "an empty dataset",
        "a ChainDataset",
        "a subclass that moves batches",
        "a KeyError",
    ),
    *("a failing collate", "a stream that fails later", "a failing bulk read"),
    "samples that do not fit together",
}
ONLY_IN_A_WORKER = {
    *("huge lists", "strings and numbers", "one batch ahead and a timeout", "hostile keys"),
    *("memory to be pinned", "lists as a batch sampler", "index lists: sets", "a data pipe"),
    "a stream of objects",
}


@pytest.mark.parametrize(
    ("name", "num_workers"),
    [
        *((name, 0) for name in LOADERS if name not in ONLY_IN_A_WORKER),
        *((name, 1) for name in LOADERS if name not in ONLY_HERE),
        *((name, n) for name, (n, _) in WITH.items()),
    ],
)
def test_all_is_the_same_and_the_trace_is_complete(name, num_workers):
    of_this_name = LOADERS.get(name) or WITH[name][1]

    def make() -> DataLoader:
        return of_this_name()[0](num_workers)

    if name == "a subclass that moves batches":
        without, _, _ = run(make, recorded=False)
        with_, trace, told = run(make, recorded=True)
        with_.same(without)
        assert_lawful(trace)
        rows = delivered(trace)
        assert len(rows) == len(told) + 1  # the one that its loop skips
        for row, samples in zip(rows[1:].itertuples(), told, strict=True):
            assert keys_of(trace, row) == [key for _, key in samples]
        return
    assert_exact(make, of_this_name()[1])


@pytest.mark.parametrize(
    ("name", "num_workers"),
    [("tensors", 2), ("a stream of objects", 2), ("strings and numbers", 0)],
)
def test_over_several_epochs_each_left_early(name, num_workers):
    kept = {"persistent_workers": True} if num_workers else {}
    assert_exact(
        lambda: LOADERS[name]()[0](num_workers, **kept), LOADERS[name]()[1], epochs=2, take=2
    )


def test_an_endless_stream_that_is_left():
    trace = assert_exact(lambda: DataLoader(Endless(), batch_size=2, num_workers=2), take=5)
    assert len(delivered(trace)) == 5
    ahead = trace.batches[trace.batches["delivered_s"].isna()]
    assert ahead["delivered_s"].isna().all()
    assert len(ahead) == 4  # 2 workers, 2 batches ahead of each


def test_a_stream_of_uneven_shares_one_of_which_is_empty():
    shares = Stream(5, 0, 3)
    assert_exact(lambda: DataLoader(shares, batch_size=2, drop_last=True, num_workers=3))


@pytest.mark.parametrize(
    ("leave", "num_workers"), [(ZeroDivisionError("a step"), 2), (KeyboardInterrupt(), 0)]
)
def test_a_loop_that_an_exception_leaves(leave, num_workers):
    trace = assert_exact(
        lambda: DataLoader(Keys(20), batch_size=2, num_workers=num_workers), leave=leave
    )
    assert list(delivered(trace)["batch"]) == [0, 1]
    ahead = trace.batches[trace.batches["delivered_s"].isna()]
    assert list(ahead["batch"]) == ([2, 3, 4, 5] if num_workers else [])


def test_in_a_process_that_is_no_fork():
    """A spawned one takes seconds, and gets what this one gets."""
    settings = {"multiprocessing_context": "forkserver", "worker_init_fn": seed_alike}
    pictures = Keys(6, make=picture)
    assert_exact(
        lambda: DataLoader(pictures, batch_size=2, collate_fn=parcel, num_workers=1, **settings)
    )


class TestErrors:
    @pytest.mark.parametrize(
        "make",
        [
            lambda: DataLoader(FailsInAChain(9), batch_size=2),
            lambda: DataLoader(FailsLater(9), batch_size=2),
            lambda: DataLoader(Keys(9), batch_size=2, collate_fn=divide),
        ],
        ids=["a sample", "a stream", "a collate"],
    )
    def test_in_this_process_end_in_the_users_code(self, make):
        """Where a debugger stops, and what pytest and IPython show first."""
        loader = make()
        with pytest.raises(Exception) as caught, lv.record(loader):  # noqa: PT011 - any
            list(loader)
        frames = traceback.extract_tb(caught.tb)
        assert Path(frames[-1].filename).name == "oddities.py"
        ours = [
            f"{frame.name} in {Path(frame.filename).name}"
            for frame in frames
            if frame.filename.startswith(OURS)
        ]
        assert not ours


class TestSamplers:
    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_one_that_looks_at_its_loader_sees_what_it_knows(self, num_workers):
        for recorded in (False, True):
            sampler = EachIsOwn()
            sampler.init = seed_alike
            loader = DataLoader(
                Keys(9), batch_sampler=sampler, num_workers=num_workers, worker_init_fn=seed_alike
            )
            sampler.loader = loader
            with lv.record(loader) if recorded else nullcontext():
                list(loader)
            assert all(sampler.saw), f"recorded: {recorded}"

    @pytest.mark.parametrize("bulk", [False, True])
    def test_of_a_batch_that_has_no_batch_size(self, bulk):
        def make() -> DataLoader:
            return DataLoader(
                (Bulk if bulk else Keys)(9, make=lambda key: {"key": str(key), "worker": -1}),
                batch_size=None,
                sampler=BatchSampler(RandomSampler(range(9)), 4, False),
            )

        without, _, _ = run(make, recorded=False)
        with_, trace, told = run(make, recorded=True)
        with_.same(without)
        rows = delivered(trace)
        assert rows["n_samples"].tolist() == [4, 4, 1]  # as many as the list asks for
        seen = [str(keys_of(trace, row)) for row in rows.itertuples()]
        assert seen == [key for samples in told for _, key in samples]


class TestSeveralAtOnce:
    def test_train_and_validation_loaders_of_one_dataset(self):
        dataset = Keys(6)
        train = DataLoader(dataset, batch_size=2, num_workers=1, shuffle=True)
        validate = DataLoader(dataset, batch_size=3)
        with lv.record(train, validate) as rec:
            told: list[list[Any]] = [[], []]
            for _ in range(2):
                for batch in train:
                    told[0].append(samples_of(batch))
                    if len(told[0]) % 3 == 0:
                        told[1] += [samples_of(batch) for batch in validate]
        assert_lawful(rec.trace)
        for number, expected in enumerate(told):
            rows = delivered(rec.trace)
            rows = rows[rows["loader"] == number]
            for row, samples in zip(rows.itertuples(), expected, strict=True):
                assert keys_of(rec.trace, row) == [key for _, key in samples]
                assert {row.worker} == {worker for worker, _ in samples}

    def test_an_iterator_that_is_left_for_another_one(self):
        loader = DataLoader(Keys(8), batch_size=1, num_workers=1)
        with lv.record(loader) as rec:
            first = iter(loader)
            next(first)
            del first
            second = iter(loader)
            third = iter(loader)
            got = [(next(second)["key"].item(), next(third)["key"].item()) for _ in range(8)]
            del second, third
        assert got == [(i, i) for i in range(8)]
        assert_lawful(rec.trace)
        assert list(delivered(rec.trace).groupby("epoch").size()) == [1, 8, 8]

    def test_nested_recordings_of_different_loaders(self):
        one, two = DataLoader(Keys(2), num_workers=1), DataLoader(Stream(3), num_workers=1)
        with lv.record(one, two) as outer:
            for batch in one:
                with lv.record(two) as inner:
                    told = [samples_of(each) for each in two]
                assert_complete(inner.trace, told)
                assert batch["worker"].item() == 0
        assert_lawful(outer.trace)
        assert list(delivered(outer.trace).groupby("loader").size()) == [2, 6]


class TestCopies:
    def test_of_a_subclass_that_are_made_between_its_batches(self):
        loader = Moving(Keys(4), batch_size=2, num_workers=1)
        with lv.record(loader) as rec:
            twins = [
                twin
                for _ in loader
                for twin in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader)))
            ]
        plain_bytes = len(pickle.dumps(loader))
        for twin in twins:
            assert len(pickle.dumps(twin)) == plain_bytes
            assert len(list(twin)) == 1
        assert len(delivered(rec.trace)) == 2


class TestLoadersThatBuildLoaders:
    """``record(multi)`` of an iterable that makes its DataLoaders when it is iterated."""

    def test_each_is_recorded_under_its_own_number(self):
        multi = Zipped(
            Keys(6),
            Bulk(6, offset=100),
            Stream(6),
            batch_size=2,
            num_workers=1,
            collate_fn=as_it_is,
        )
        plain_batches = [plain(batches) for batches in multi]
        with lv.record(multi) as rec:
            received = list(multi)
        assert len(received) == len(plain_batches) == 3
        assert_lawful(rec.trace)
        rows = delivered(rec.trace)
        assert sorted(set(rows["loader"])) == [0, 1, 2]
        assert len(rec.trace.meta["loaders"]) == 3
        for number in range(3):
            own = rows[rows["loader"] == number]
            asked = [keys_of(rec.trace, row) for row in own.itertuples()]
            assert asked == [[0, 1], [2, 3], [4, 5]]


@contextmanager
def quiet() -> Iterator[None]:
    """Without torchdata's word on naive fast-forwarding, which is no matter of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class TestStatefulDataLoader:
    """torchdata's loader: saves where it is in mid-epoch, and goes on from there."""

    DATASETS: dict[str, Callable[[], Any]] = {  # noqa: RUF012
        "map-style": lambda: Keys(14),
        "map-style with a state": lambda: ResumableKeys(14),
        "bulk reads": lambda: Bulk(14),
        "a stateful stream": lambda: Resumable(14),
        "a stream without a state": lambda: Stream(8, 6),
    }

    @staticmethod
    def make(name: str, num_workers: int, **settings: Any) -> Any:
        module = pytest.importorskip("torchdata.stateful_dataloader")
        dataset = TestStatefulDataLoader.DATASETS[name]()
        return module.StatefulDataLoader(
            dataset, batch_size=2, num_workers=num_workers, collate_fn=as_it_is, **settings
        )

    @pytest.mark.parametrize(
        ("name", "num_workers"),
        [("map-style", 1), ("a stateful stream", 1), ("a stream without a state", 0)],
    )
    def test_all_is_the_same_and_the_trace_is_complete(self, name, num_workers):
        own = "own" if name != "a stateful stream" else None
        assert_exact(lambda: self.make(name, num_workers), own, epochs=2)

    def drive(self, name: str, num_workers: int, recorded: bool, every: int) -> dict[str, Any]:
        """Three batches, a checkpoint, and the rest in a loader of its own."""
        torch.manual_seed(7)
        np.random.seed(7)
        random.seed(7)
        settings = {"snapshot_every_n_steps": every}
        shuffle = {} if "stream" in name else {"shuffle": True, "generator": seeded()}
        with quiet():
            loader = self.make(name, num_workers, **settings, **shuffle)
            with lv.record(loader) if recorded else nullcontext():
                iterator = iter(loader)
                head = [next(iterator) for _ in range(3)]
                saved = copy.deepcopy(loader.state_dict())
                del iterator
                loader._iterator = None
            again = self.make(name, num_workers, **settings, **shuffle)
            again.load_state_dict(saved)
            with lv.record(again) if recorded else nullcontext() as rec:
                tail = list(again)
                end = again.state_dict()
                again._iterator = None
        return {
            "seen": [plain(head), repr(saved), plain(tail), repr(end), draws()],
            "told": [samples_of(batch) for batch in tail],
            "trace": rec.trace if recorded else None,
        }

    @pytest.mark.parametrize(
        ("name", "num_workers", "every"),
        [
            ("map-style", 1, 2),
            ("map-style with a state", 0, 2),
            ("bulk reads", 0, 1),
            ("a stateful stream", 1, 1),
            ("a stream without a state", 0, 1),
        ],
    )
    def test_goes_on_from_a_checkpoint_as_without_a_recording(self, name, num_workers, every):
        """And the recording of the resumed run names the true workers and keys."""
        without = self.drive(name, num_workers, False, every)
        recorded = self.drive(name, num_workers, True, every)
        assert recorded["seen"] == without["seen"]
        trace, told = recorded["trace"], recorded["told"]
        assert trace.meta["complete"]
        rows = delivered(trace)
        # Batches that the loader itself reads and drops to get to its place may be there too.
        rows = rows[-len(told) :]
        assert len(rows) == len(told)
        for row, samples in zip(rows.itertuples(), told, strict=True):
            assert {row.worker} == {worker for worker, _ in samples}
            assert row.n_samples == len(samples)
            if "stream" not in name:  # whose keys are counts, of what this process has read
                assert keys_of(trace, row) == [key for _, key in samples]
        assert_lawful(trace)

    @pytest.mark.parametrize("asked_for_its_state", [False, True])
    def test_workers_of_the_epoch_before_are_none_of_those_that_stay(self, asked_for_its_state):
        with quiet():
            loader = self.make("map-style", 1)
            if asked_for_its_state:  # the iterator that answers is the one that begins
                loader.state_dict()
            else:
                list(loader)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            with lv.record(loader) as rec:
                assert len(list(loader)) == 7
            loader._iterator = None
        said = [str(each.message) for each in warned if "were started before" in str(each.message)]
        assert bool(said) == asked_for_its_state
        assert "persistent_workers" not in "".join(said)
        assert len(rec.trace.batches) == 7
