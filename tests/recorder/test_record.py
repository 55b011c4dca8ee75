"""Recording changes nothing: the same batches, draws, errors, warnings and objects as without."""

import copy
import gc
import os
import pickle
import random
import shutil
import signal
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    IterableDataset,
    RandomSampler,
    StackDataset,
    Subset,
    WeightedRandomSampler,
    _DatasetKind,
    random_split,
)
from torch.utils.data.datapipes.iter import IterableWrapper

import loaderviz as lv
from loaderviz.record_layout import Tag
from loaderviz.recorder import recording_files
from loaderviz.recorder import worker_process as worker_module
from loaderviz.recorder.fetch_spool import HereSpool
from loaderviz.recorder.worker_process import WorkerHook
from loaderviz.spool import Spool, SpoolFile
from own_code import in_recorder
from probes import (
    Bulk,
    Columns,
    Keys,
    Refusing,
    SizedStream,
    Stream,
    as_it_is,
    draws,
    refuse_to_start,
    seed_alike,
    shift_dataset,
)


def plain(value: Any) -> Any:
    """A batch as nested Python values, so that == means bit for bit."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.shape, value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [plain(item) for item in value]
    return value


def outcome(make: Callable[[], DataLoader], *, recorded: bool, epochs: int = 1) -> dict[str, Any]:
    """All that a training loop can tell of a loader."""
    torch.manual_seed(7)
    np.random.seed(7)
    random.seed(7)
    batches, error = [], None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = make()
        with lv.record(loader) if recorded else nullcontext():
            try:
                for _ in range(epochs):
                    batches.append([plain(batch) for batch in loader])
            except Exception as raised:
                # A worker's error carries its traceback; its last line is the user's own error.
                error = type(raised), str(raised).splitlines()[-1:]
                # What torch raises again holds itself, and through its frames the workers.
                traceback.clear_frames(raised.__traceback__)
        after = draws()
    told = [(each.category, str(each.message), Path(each.filename).name) for each in caught]
    return {"batches": batches, "error": error, "warnings": told, "draws afterwards": after}


def assert_recording_changes_nothing(make: Callable[[], DataLoader], epochs: int = 1) -> None:
    without = outcome(make, recorded=False, epochs=epochs)
    assert outcome(make, recorded=True, epochs=epochs) == without


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(5)


LOADERS: dict[str, Callable[..., DataLoader]] = {
    "in order": lambda **kw: DataLoader(Keys(10), batch_size=3, **kw),
    "shuffled": lambda **kw: DataLoader(Keys(10), batch_size=3, shuffle=True, **kw),
    "shuffled by a generator": lambda **kw: DataLoader(
        Keys(10), batch_size=3, shuffle=True, generator=seeded(), **kw
    ),
    "drop_last": lambda **kw: DataLoader(Keys(10), batch_size=3, drop_last=True, **kw),
    "no batches": lambda **kw: DataLoader(Keys(5), batch_size=None, **kw),
    "a weighted sampler": lambda **kw: DataLoader(
        Keys(10), batch_size=3, sampler=WeightedRandomSampler([0.1] * 10, 7), **kw
    ),
    "a batch sampler": lambda **kw: DataLoader(
        Keys(10), batch_sampler=BatchSampler(RandomSampler(range(10)), 4, False), **kw
    ),
    "lists as batch sampler": lambda **kw: DataLoader(
        Keys(10), batch_sampler=[[3], [], [1, 1, 2]], collate_fn=as_it_is, **kw
    ),
    "strings": lambda **kw: DataLoader(Keys(0), batch_size=2, sampler=["a", "bc", "ä"], **kw),
    "tuples": lambda **kw: DataLoader(
        Keys(0), batch_size=2, sampler=[(0, "a"), (1, "b"), (1, 2.5)], collate_fn=as_it_is, **kw
    ),
    "a batch index": lambda **kw: DataLoader(
        Keys(9), batch_size=None, sampler=BatchSampler(range(9), 4, True), **kw
    ),
    "a Subset": lambda **kw: DataLoader(Subset(Keys(10), [7, 3, 3]), batch_size=2, **kw),
    "a Subset of a Subset": lambda **kw: DataLoader(
        Subset(Subset(Keys(10), [7, 3, 5]), [2, 0]), batch_size=2, **kw
    ),
    "a Subset of bulk reads": lambda **kw: DataLoader(
        Subset(Bulk(10), [7, 3, 3]), batch_size=2, **kw
    ),
    "random_split": lambda **kw: DataLoader(
        random_split(Keys(10), [0.5, 0.5])[1], batch_size=2, shuffle=True, **kw
    ),
    "ConcatDataset": lambda **kw: DataLoader(
        ConcatDataset([Keys(3), Bulk(4, offset=100)]), batch_size=2, **kw
    ),
    "StackDataset": lambda **kw: DataLoader(StackDataset(Keys(5), Bulk(5)), batch_size=2, **kw),
    "bulk reads": lambda **kw: DataLoader(Bulk(10), batch_size=3, shuffle=True, **kw),
    "columns": lambda **kw: DataLoader(Columns(10), batch_size=3, collate_fn=as_it_is, **kw),
    "an empty dataset": lambda **kw: DataLoader(Keys(0), batch_size=3, **kw),
    "a list": lambda **kw: DataLoader([1.5, 2.5, 3.5], batch_size=2, **kw),
    "a failing sample": lambda **kw: DataLoader(
        Refusing(10, 2, ValueError("no third sample")), batch_size=2, **kw
    ),
    "a failing collate": lambda **kw: DataLoader(
        Keys(4), batch_size=2, collate_fn=lambda _: 1 / 0, **kw
    ),
    "a KeyError": lambda **kw: DataLoader(Refusing(4, 1, KeyError("b")), batch_size=2, **kw),
    "a stream": lambda **kw: DataLoader(Stream(5, 4), batch_size=2, **kw),
    "a stream with drop_last": lambda **kw: DataLoader(
        Stream(5, 4), batch_size=2, drop_last=True, **kw
    ),
    "a stream without batches": lambda **kw: DataLoader(Stream(2, 3), batch_size=None, **kw),
    "an empty share": lambda **kw: DataLoader(Stream(5, 0), batch_size=2, **kw),
    "an empty stream": lambda **kw: DataLoader(Stream(0, 0), batch_size=2, **kw),
    "a data pipe": lambda **kw: DataLoader(
        IterableWrapper(range(7)).shuffle().sharding_filter(), batch_size=2, shuffle=True, **kw
    ),
}


class TestTheLoopSeesTheSame:
    @pytest.mark.parametrize("num_workers", [0, 2])
    @pytest.mark.parametrize("name", LOADERS)
    def test_as_without_a_recording(self, name, num_workers):
        assert_recording_changes_nothing(lambda: LOADERS[name](num_workers=num_workers))

    @pytest.mark.parametrize("name", ["shuffled", "a stream", "a data pipe"])
    def test_over_several_epochs_of_persistent_workers(self, name):
        assert_recording_changes_nothing(
            lambda: LOADERS[name](num_workers=2, persistent_workers=True), epochs=3
        )

    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_over_several_epochs(self, num_workers):
        assert_recording_changes_nothing(
            lambda: LOADERS["shuffled"](num_workers=num_workers), epochs=2
        )

    @pytest.mark.parametrize(
        "make",
        [
            lambda: DataLoader(Keys(10, make=repr), batch_sampler=torch.arange(6).reshape(2, 3)),
            lambda: DataLoader(Keys(10), batch_sampler=[(i for i in (3, 1)), iter([2])]),
            lambda: DataLoader(Refusing(4, 1, StopIteration("b")), batch_size=2),
        ],
        ids=["tensors as index lists", "iterators as index lists", "a sample that stops"],
    )
    def test_with_what_would_leave_things_behind_in_workers(self, make):
        assert_recording_changes_nothing(make)

    @pytest.mark.parametrize("init", [shift_dataset, seed_alike, refuse_to_start])
    def test_with_a_worker_init_fn(self, init):
        assert_recording_changes_nothing(
            lambda: LOADERS["in order"](num_workers=2, worker_init_fn=init)
        )

    @pytest.mark.parametrize("method", ["spawn", "forkserver"])
    def test_under_other_start_methods(self, method):
        assert_recording_changes_nothing(
            lambda: LOADERS["shuffled"](
                num_workers=1, multiprocessing_context=method, worker_init_fn=shift_dataset
            )
        )

    @pytest.mark.parametrize("name", ["in order", "a stream"])
    def test_the_same_samples_out_of_order(self, name):
        seen = []
        for recorded in (False, True):
            result = outcome(
                lambda: LOADERS[name](num_workers=2, in_order=False), recorded=recorded
            )
            seen.append(sorted(batch["key"][2] for batch in result["batches"][0]))
        assert seen[0] == seen[1]

    def test_torch_warns_of_a_wrong_length_as_ever(self):
        def make() -> DataLoader:
            loader = DataLoader(SizedStream(3, 3), batch_size=None, num_workers=2)
            len(loader)
            return loader

        assert_recording_changes_nothing(make)
        assert any(
            "Length of IterableDataset" in text
            for _, text, _ in outcome(make, recorded=True)["warnings"]
        )

    def test_what_cannot_be_pickled_for_spawn_fails_as_ever(self):
        assert_recording_changes_nothing(
            lambda: DataLoader(
                Keys(2, make=lambda key: key), num_workers=1, multiprocessing_context="spawn"
            )
        )

    @settings(max_examples=40)
    @given(
        n=st.integers(0, 12),
        batch_size=st.none() | st.integers(1, 5),
        shuffle=st.booleans(),
        drop_last=st.booleans(),
        bulk=st.booleans(),
    )
    def test_whatever_the_settings_in_one_process(self, n, batch_size, shuffle, drop_last, bulk):
        assert_recording_changes_nothing(
            lambda: DataLoader(
                (Bulk if bulk else Keys)(n),
                batch_size=batch_size,
                shuffle=shuffle and n > 0,
                drop_last=drop_last and batch_size is not None,
            ),
            epochs=2,
        )

    @settings(max_examples=10)
    @given(
        shares=st.tuples(st.integers(0, 5), st.integers(0, 5)),
        batch_size=st.none() | st.integers(1, 3),
        drop_last=st.booleans(),
        prefetch_factor=st.integers(1, 3),
    )
    def test_whatever_the_settings_of_a_stream(
        self, shares, batch_size, drop_last, prefetch_factor
    ):
        assert_recording_changes_nothing(
            lambda: DataLoader(
                Stream(*shares),
                batch_size=batch_size,
                drop_last=drop_last and batch_size is not None,
                num_workers=2,
                prefetch_factor=prefetch_factor,
            )
        )


class Proud(DataLoader):
    """A loader with an ``_get_iterator`` of its own, as other libraries' loaders have."""

    def _get_iterator(self):
        iterator = super()._get_iterator()
        iterator.proud = True
        return iterator


class Wrapper:
    """Answers isinstance as the loader that it iterates, as accelerate's prepared loaders do."""

    def __init__(self, loader: DataLoader) -> None:
        self.base_dataloader = loader

    @property
    def __class__(self):
        return self.base_dataloader.__class__

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["base_dataloader"], name)

    def __iter__(self):
        for batch in self.base_dataloader:
            yield batch["key"]


class TestTheUsersObjects:
    @pytest.mark.parametrize(
        "settings",
        [{"num_workers": 0}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}],
        ids=str,
    )
    def test_the_loader_keeps_its_attributes_and_its_iterators_their_class(self, settings):
        loader = DataLoader(Keys(4), batch_size=2, worker_init_fn=seed_alike, **settings)
        plain_class = type(iter(DataLoader(Keys(4), num_workers=settings["num_workers"])))
        before = {name: id(value) for name, value in vars(loader).items() if name != "_iterator"}

        def attributes() -> dict[str, int]:
            return {name: id(value) for name, value in vars(loader).items() if name != "_iterator"}

        with lv.record(loader):
            assert attributes() == before
            iterator = iter(loader)
            assert attributes() == before
            assert isinstance(iterator, plain_class)
            assert type(iterator).__name__ == plain_class.__name__
            next(iterator)
            assert attributes() == before
        assert attributes() == before
        assert type(iterator) is plain_class
        assert not [name for name in vars(iterator) if "loaderviz" in name]
        assert len(list(iterator)) == 1
        del iterator
        assert type(iter(loader)) is plain_class
        assert [len(batch["key"]) for batch in loader] == [2, 2]

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_an_iterator_that_outlives_the_recording_goes_on_unrecorded(
        self, num_workers, tmp_path
    ):
        loader = DataLoader(Keys(20), batch_size=1, num_workers=num_workers)
        with lv.record(loader, path=tmp_path / "run") as rec:
            iterator = iter(loader)
            first = [next(iterator)["key"].item() for _ in range(3)]
        rest = [batch["key"].item() for batch in iterator]
        assert first + rest == list(range(20))
        assert rec.trace.batches["delivered_s"].count() == 3
        fetches = [
            len(SpoolFile(path).records()[Tag.TASK])
            for name in ("here", "worker")
            for path in (tmp_path / "run").glob(f"{name}-*.spool")
        ]
        assert 3 <= sum(fetches) < 10

    def test_torchs_classes_are_as_before_also_after_an_error(self):
        before = {cls: dict(vars(cls)) for cls in (DataLoader, Proud)}
        loaders = DataLoader(Keys(2)), Proud(Keys(2))

        def raise_in_the_block() -> None:
            with lv.record(*loaders):
                list(loaders[0])
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            raise_in_the_block()
        assert {cls: dict(vars(cls)) for cls in (DataLoader, Proud)} == before

    def test_a_loader_with_its_own_get_iterator_is_recorded_once(self):
        loader, other = Proud(Keys(4)), DataLoader(Keys(4))
        with lv.record(loader, other) as rec:
            iterator = iter(loader)
            assert iterator.proud
            list(iterator)
            list(other)
        assert list(rec.trace.batches["loader"]) == [0] * 4 + [1] * 4

    @pytest.mark.parametrize(
        "twin", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
    )
    def test_a_copy_made_during_a_recording_is_a_plain_loader(self, twin):
        loader = DataLoader(Keys(4), batch_size=2)
        with lv.record(loader) as rec:
            iterator = iter(loader)
            next(iterator)
            other = twin(loader)
            assert len(list(other)) == 2
        assert len(list(other)) == 2
        assert len(rec.trace.batches) == 1

    def test_a_wrapped_loader_is_recorded_through_its_wrapper(self):
        loader = Wrapper(DataLoader(Keys(4), batch_size=2))
        with lv.record(loader) as rec:
            assert [key.tolist() for key in loader] == [[0, 1], [2, 3]]
        assert len(rec.trace.batches) == 2

    def test_an_unrecorded_loader_stays_so(self):
        loader, other = DataLoader(Keys(4)), DataLoader(Keys(4))
        plain_class = type(iter(other))
        with lv.record(loader) as rec:
            assert type(iter(other)) is plain_class
            list(other)
        assert rec.trace.batches.empty

    def test_the_start_method_can_still_be_chosen(self, monkeypatch):
        context = torch.multiprocessing.get_context()
        default = __import__("multiprocessing").context._default_context
        monkeypatch.setattr(default, "_actual_context", None)
        with lv.record(DataLoader(Keys(4), num_workers=1)):
            torch.multiprocessing.set_start_method(context.get_start_method())

    def test_a_stream_is_closed_as_soon_as_its_loop_is_left(self):
        closed = []

        class Closing(IterableDataset):
            def __iter__(self):
                try:
                    yield from range(10)
                finally:
                    closed.append(True)

        loader = DataLoader(Closing())
        gc.disable()
        try:
            with lv.record(loader):
                for _ in loader:
                    break
                assert closed == [True]
        finally:
            gc.enable()

    def test_long_recordings_do_not_gather_open_files(self):
        loader = DataLoader(Keys(2), num_workers=1)
        with lv.record(loader):
            for _ in range(2):  # the file of ended workers is there from the second epoch on
                list(loader)
            gc.collect()
            before = psutil.Process().num_fds()
            for _ in range(5):
                list(loader)
            gc.collect()
            assert psutil.Process().num_fds() <= before


@contextmanager
def held_by_another_thread(lock: Any) -> Iterator[None]:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    yield
    done.set()
    thread.join()


class TestOtherThreadsAndProcesses:
    def test_a_loader_in_a_thread_does_not_block_another(self):
        """The one is built only when the other, in another thread, has been built."""

        class Waiting(IterableDataset):
            def __iter__(self):
                built = threading.Thread(target=lambda: sums.append(sum(other)))
                built.start()
                built.join(timeout=10)
                return iter(sums)

        sums: list[int] = []
        other = DataLoader(range(4), batch_size=None)
        for recorded in ([], [other]):
            sums.clear()
            loader = DataLoader(Waiting(), batch_size=None)
            with lv.record(loader, *recorded):
                assert list(loader) == [6]

    def test_an_iterator_that_is_built_while_the_recording_ends_is_plain(self, tmp_path):
        begun, ended = threading.Event(), threading.Event()

        class Slow(IterableDataset):
            def __iter__(self):
                begun.set()
                ended.wait()
                return iter(range(3))

        loader = DataLoader(Slow())
        built = []
        thread = threading.Thread(target=lambda: built.append(iter(loader)))
        with lv.record(loader, path=tmp_path / "run") as rec:
            thread.start()
            begun.wait()
        ended.set()
        thread.join()
        assert type(built[0]) is type(iter(DataLoader([1])))
        assert len(list(built[0])) == 3
        assert rec.trace.batches.empty

    def test_a_worker_that_starts_after_the_recording_makes_no_file(self, tmp_path, monkeypatch):
        monkeypatch.setattr(_DatasetKind, "create_fetcher", _DatasetKind.create_fetcher)
        for path in (None, tmp_path / "run"):
            with lv.record(DataLoader(Keys(1)), path=path) as rec:
                hook = WorkerHook(None, rec._folder, 0)
            hook._made_by = 0  # as in a process of its own
            hook(0)
        assert not list((tmp_path / "run").glob("worker-*"))

    def test_a_worker_that_is_a_thread_changes_nothing_here_and_the_recording_says_so(self):
        """No release has such workers yet, but 2.15 has a name for them: ``worker_method``."""
        create_fetcher, began = _DatasetKind.create_fetcher, []

        def record_one():
            with lv.record(DataLoader(Keys(1))) as rec:
                hook = WorkerHook(began.append, rec._folder, 0, answers=True)
                thread = threading.Thread(target=hook, args=(1,))
                thread.start()
                thread.join()

        with pytest.warns(UserWarning, match="worker 1 is a thread"):
            record_one()
        assert began == [1]
        assert _DatasetKind.create_fetcher is create_fetcher

    def test_a_forked_process_leaves_the_recording_alone(self, tmp_path):
        loader = DataLoader(Keys(4))
        with lv.record(loader, path=tmp_path / "run") as rec:
            iterator = iter(loader)
            next(iterator)
            with held_by_another_thread(rec._watcher.files.lock):  # as if it was just writing
                pid = os.fork()
                if pid == 0:
                    signal.alarm(10)
                    ok = len(list(iterator)) == 3 and len(list(loader)) == 4
                    os._exit(0 if ok else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            next(iterator)
        assert rec.trace.batches["delivered_s"].count() == 2

    def test_a_forked_process_that_leaves_the_block_does_not_end_the_recording(self):
        loader = DataLoader(Keys(4))
        parent = os.getpid()
        try:
            with lv.record(loader) as rec:
                pid = os.fork()
                if pid:
                    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
                    list(loader)
        except BaseException:
            if os.getpid() != parent:
                os._exit(1)
            raise
        if os.getpid() != parent:
            os._exit(0)
        assert len(rec.trace.batches) == 4


class Lookup(torch.utils.data.Dataset):
    def __getitem__(self, key: Any) -> int:
        return 1


@pytest.mark.parametrize("num_workers", [0, 1])
def test_keys_that_are_integers_only_at_times(num_workers):
    batches = [[0, 1], [2, 2**70], ["a", "b"], [3, 4], [(5,), None], [6, 7]]
    loader = DataLoader(Lookup(), batch_sampler=batches, num_workers=num_workers)
    with lv.record(loader) as rec:
        received = list(loader)
    assert len(received) == len(batches)
    assert list(rec.trace.batches["batch"]) == list(range(len(batches)))
    assert rec.trace.batches["delivered_s"].is_monotonic_increasing
    assert list(rec.trace.samples["key"]) == [key for batch in batches for key in batch]
    assert rec.trace.meta["complete"]


class TestSeveralRecordings:
    def test_one_inside_the_other(self):
        loader = DataLoader(Keys(6), batch_size=2, num_workers=2)
        with lv.record(loader) as outer:
            list(loader)
            with lv.record(loader) as inner:
                list(loader)
            list(loader)
        assert [len(rec.trace.samples) for rec in (outer, inner)] == [18, 6]
        assert sorted(set(outer.trace.batches["epoch"])) == [0, 1, 2]

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_the_first_may_end_first(self, num_workers):
        loader = DataLoader(Keys(8), batch_size=1, num_workers=num_workers)
        with ExitStack() as second_block:
            with lv.record(loader) as first:
                second = second_block.enter_context(lv.record(loader))
                iterator = iter(loader)
                next(iterator)
            rest = list(iterator)
        assert first.trace.batches["delivered_s"].count() == 1
        assert second.trace.batches["delivered_s"].count() == 8
        assert second.trace.samples["end_s"].count() == 8
        assert len(rest) == 7

    def test_one_after_the_other(self):
        loader = DataLoader(Keys(6), batch_size=2)
        traces = []
        for _ in range(2):
            with lv.record(loader) as rec:
                list(loader)
            traces.append(rec.trace)
        assert [list(trace.batches["epoch"]) for trace in traces] == [[0, 0, 0]] * 2

    def test_a_recording_runs_once(self):
        with lv.record(DataLoader(Keys(1))) as rec, pytest.raises(lv.LoaderVizError, match="once"):
            rec.__enter__()
        with pytest.raises(lv.LoaderVizError, match="once"):
            rec.__enter__()


class TestPersistentWorkersFromBefore:
    def test_are_warned_of_and_their_batches_are_seen(self):
        loader = DataLoader(Keys(6), batch_size=2, num_workers=2, persistent_workers=True)
        list(loader)
        with pytest.warns(UserWarning, match="started before") as caught, lv.record(loader) as rec:
            received = list(loader)
        assert caught[0].filename == __file__
        batches = rec.trace.batches
        assert list(batches["worker"]) == [batch["worker"][0] for batch in received]
        assert set(batches["epoch"]) == {0}
        assert batches["delivered_s"].notna().all()
        assert len(list(loader)) == 3

    def test_in_the_middle_of_an_epoch(self):
        loader = DataLoader(Keys(9), batch_size=1, num_workers=2, persistent_workers=True)
        iterator = iter(loader)
        next(iterator)
        with pytest.warns(UserWarning, match="started before"), lv.record(loader) as rec:
            received = list(iterator)
        batches = rec.trace.batches
        assert list(batches["batch"]) == [batch["key"].item() for batch in received]
        assert list(batches["worker"]) == [batch["worker"].item() for batch in received]

    def test_a_warning_made_an_error_leaves_nothing_attached(self):
        loader = DataLoader(Keys(2), num_workers=1, persistent_workers=True)
        list(loader)
        before = dict(vars(DataLoader))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning):
                lv.record(loader).__enter__()
        assert dict(vars(DataLoader)) == before
        assert len(list(loader)) == 2


class TestBadInput:
    @pytest.mark.parametrize(
        "given_", [42, None, [1, 2], Keys(3)], ids=["number", "nothing", "list", "dataset"]
    )
    def test_what_is_no_loader_is_named(self, given_):
        with pytest.raises(lv.LoaderVizError, match=type(given_).__name__):
            lv.record(given_)
        with pytest.raises(lv.LoaderVizError):
            lv.record(DataLoader(Keys(3)), given_)

    def test_the_number_42_is_named(self):
        with pytest.raises(lv.LoaderVizError, match="42"):
            lv.record(42)

    def test_the_trace_comes_after_the_block(self):
        rec = lv.record(DataLoader(Keys(3)))
        with pytest.raises(lv.LoaderVizError, match="enter"):
            rec.snapshot()
        with rec, pytest.raises(lv.LoaderVizError, match=r"snapshot\(\)"):
            _ = rec.trace
        assert rec.snapshot() is rec.trace

    def test_a_folder_that_holds_something_is_refused_and_left_alone(self, tmp_path):
        (tmp_path / "thesis.txt").write_text("mine")
        rec = lv.record(DataLoader(Keys(3)), path=tmp_path)
        with pytest.raises(lv.LoaderVizError, match="taken"):
            rec.__enter__()
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]

    def test_a_folder_that_is_recorded_into_already_is_refused(self, tmp_path):
        second = lv.record(DataLoader(Keys(3)), path=tmp_path / "run")
        with lv.record(DataLoader(Keys(3)), path=tmp_path / "run") as first:  # noqa: SIM117
            with pytest.raises(lv.LoaderVizError, match="taken"):
                second.__enter__()
        with pytest.raises(lv.LoaderVizError, match="taken"):
            lv.record(DataLoader(Keys(3)), path=tmp_path / "run").__enter__()
        assert first.trace.meta["complete"]

    def test_a_path_that_is_a_file_or_below_one_is_refused(self, tmp_path):
        file = tmp_path / "file"
        file.touch()
        for path in (file, file / "below"):
            with pytest.raises(lv.LoaderVizError, match="file"):
                lv.record(DataLoader(Keys(3)), path=path).__enter__()

    def test_a_torch_whose_parts_have_moved_is_refused(self, monkeypatch):
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        monkeypatch.delattr(_BaseDataLoaderIter, "_next_index")
        with pytest.raises(lv.LoaderVizError, match="_next_index"):
            lv.record(DataLoader(Keys(3)))


def test_a_path_that_is_none_is_named():
    with pytest.raises(lv.LoaderVizError, match="path=42"):
        lv.record(DataLoader(Keys(4)), path=42)


def test_a_recording_says_how_it_stands():
    loader = DataLoader(Keys(4))
    rec = lv.record(loader)
    assert repr(rec) == "<Recording: not begun>"
    with rec:
        assert repr(rec) == "<Recording: running>"
        list(loader)
    assert repr(rec) == str(rec.trace.summary())


def test_a_recording_that_is_kept_does_not_keep_the_loader_alive():
    loader = DataLoader(Keys(4), num_workers=1, persistent_workers=True)
    with lv.record(loader) as rec:
        list(loader)
    gone = weakref.ref(loader)
    del loader
    gc.collect()
    assert gone() is None
    assert rec.trace.summary().n_batches == 4


@in_recorder
def full_disk(*args: Any, **kwargs: Any) -> None:
    raise OSError(28, "No space left on device")


class TestAFullDisk:
    """One warning; the loop gets all its batches; what was written before is in the trace."""

    def received_with_one_warning(self, loader: DataLoader, rec: Any) -> Any:
        with pytest.warns(UserWarning, match="loaderviz") as caught, rec:
            received = [list(loader) for _ in range(2)]
        assert len([each for each in caught if "loaderviz" in str(each.message)]) == 1
        assert not rec.trace.meta["complete"]
        assert len(list(loader)) == len(received[0])
        return received

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_when_the_files_must_grow(self, num_workers, monkeypatch):
        loader = DataLoader(Keys(6), batch_size=2, num_workers=num_workers)
        monkeypatch.setattr(Spool, "_add_block", full_disk)
        received = self.received_with_one_warning(loader, lv.record(loader))
        assert [len(epoch) for epoch in received] == [3, 3]

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_when_a_file_cannot_be_made(self, num_workers, monkeypatch):
        loader = DataLoader(Keys(6), batch_size=2, num_workers=num_workers)

        monkeypatch.setattr(recording_files, "HereSpool", full_disk)
        monkeypatch.setattr(worker_module, "FetchSpool", full_disk)
        received = self.received_with_one_warning(loader, lv.record(loader))
        assert [len(epoch) for epoch in received] == [3, 3]

    def test_in_the_middle_of_an_epoch(self, monkeypatch):
        loader = DataLoader(Keys(6), batch_size=2)
        rec = lv.record(loader)
        pack = Spool.pack

        @in_recorder
        def pack_some(spool, *args):
            if isinstance(spool, HereSpool) and spool._used > 200:
                full_disk()
            return pack(spool, *args)

        monkeypatch.setattr(Spool, "pack", pack_some)
        self.received_with_one_warning(loader, rec)
        assert 0 < len(rec.trace.batches) < 6

    def test_at_the_start_it_is_an_error_and_nothing_is_changed(self, monkeypatch, tmp_path):
        before = dict(vars(DataLoader))
        monkeypatch.setattr(recording_files, "Spool", full_disk)
        with pytest.raises(lv.LoaderVizError, match="No space left"):
            lv.record(DataLoader(Keys(6))).__enter__()
        assert dict(vars(DataLoader)) == before

    def test_a_folder_that_was_deleted_meanwhile_does_not_break_the_training(self, tmp_path):
        loader = DataLoader(Keys(6), batch_size=2)
        rec = lv.record(loader, path=tmp_path / "run")

        def train() -> None:
            with rec:
                shutil.rmtree(tmp_path / "run")
                assert len(list(loader)) == 3

        with pytest.warns(UserWarning, match="loaderviz"):
            train()
        with pytest.raises(lv.LoaderVizError, match="run"):
            _ = rec.trace
