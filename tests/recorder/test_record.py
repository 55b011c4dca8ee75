"""The user's objects, threads and processes are as without a recording; what is refused."""

import gc
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import psutil
import pytest
import torch
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    _DatasetKind,
)
from torch.utils.data.dataloader import _BaseDataLoaderIter

import loaderviz as lv
from loaderviz.record_layout import Tag
from loaderviz.recorder import recording_files
from loaderviz.recorder.worker_process import WorkerHook
from loaderviz.spool import SpoolFile
from own_code import in_recorder
from probes import (
    Keys,
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
    """Attributes stay while it records, as `identities` of test_record_exactly.py sees."""

    @pytest.mark.parametrize(
        "settings",
        [{"num_workers": 0}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}],
        ids=str,
    )
    def test_classes_and_iterators_are_as_before_also_after_an_error(self, settings):
        loader = DataLoader(Keys(4), batch_size=2, **settings)
        proud = Proud(Keys(2))
        plain_class = type(iter(DataLoader(Keys(4), num_workers=settings["num_workers"])))
        classes = DataLoader, Proud, _BaseDataLoaderIter
        before = [dict(vars(cls)) for cls in classes]
        with suppress(ZeroDivisionError), lv.record(loader, proud):
            list(proud)
            iterator = iter(loader)
            assert isinstance(iterator, plain_class)
            assert type(iterator).__name__ == plain_class.__name__
            next(iterator)
            raise ZeroDivisionError
        assert [dict(vars(cls)) for cls in classes] == before
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

    def test_a_loader_with_its_own_get_iterator_is_recorded_once(self):
        loader, other = Proud(Keys(4)), DataLoader(Keys(4))
        with lv.record(loader, other) as rec:
            iterator = iter(loader)
            assert iterator.proud
            list(iterator)
            list(other)
        assert list(rec.trace.batches["loader"]) == [0] * 4 + [1] * 4

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
        list(loader)
        gc.collect()
        at_first = psutil.Process().num_fds()
        with lv.record(loader):
            for _ in range(2):  # the file of ended workers is there from the second epoch on
                list(loader)
            gc.collect()
            before = psutil.Process().num_fds()
            for _ in range(3):
                list(loader)
            gc.collect()
            assert psutil.Process().num_fds() <= before
        assert psutil.Process().num_fds() <= at_first


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
                with held_by_another_thread(rec._watcher.files.lock):
                    pid = os.fork()
                if not pid:
                    signal.alarm(10)  # should it wait for a thread that is not there
                else:
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


class TestPersistentWorkersFromBefore:
    @pytest.mark.parametrize("n_before", [9, 1])
    def test_are_warned_of_and_their_batches_are_seen(self, n_before):
        loader = DataLoader(Keys(9), batch_size=1, num_workers=2, persistent_workers=True)
        iterator = iter(loader)
        for _ in range(n_before):
            next(iterator)
        with pytest.warns(UserWarning, match="started before") as caught, lv.record(loader) as rec:
            received = list(loader if n_before == 9 else iterator)
        assert caught[0].filename == __file__
        batches = rec.trace.batches
        assert list(batches["batch"]) == [batch["key"].item() for batch in received]
        assert list(batches["worker"]) == [batch["worker"].item() for batch in received]
        assert set(batches["epoch"]) == {0}
        assert batches["delivered_s"].notna().all()
        assert len(list(loader)) == 9

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
        ("given", "named"),
        [(42, "42"), (None, "NoneType"), ([1, 2], "list"), (Keys(3), "Keys"), ("loader", "str")],
    )
    def test_what_is_no_loader_is_named(self, given, named):
        for loaders in ([given], [DataLoader(Keys(3)), given]):
            with pytest.raises(lv.LoaderVizError, match=named):
                lv.record(*loaders)

    def test_a_path_that_is_taken_is_refused_and_left_alone(self, tmp_path):
        mine = tmp_path / "mine" / "thesis.txt"
        mine.parent.mkdir()
        mine.write_text("my thesis")
        with lv.record(DataLoader(Keys(3)), path=tmp_path / "run") as first:
            refused = {tmp_path / "run": "taken", mine.parent: "taken"}
            refused |= {mine: "thesis.txt", mine / "below": "thesis.txt"}
            for path, named in refused.items():
                with pytest.raises(lv.LoaderVizError, match=named):
                    lv.record(DataLoader(Keys(3)), path=path).__enter__()
        with pytest.raises(lv.LoaderVizError, match="taken"):
            lv.record(DataLoader(Keys(3)), path=tmp_path / "run").__enter__()
        assert first.trace.meta["complete"]
        assert mine.read_text() == "my thesis"
        assert [*mine.parent.iterdir()] == [mine]

    def test_a_full_disk_at_the_start_is_an_error_and_nothing_is_changed(self, monkeypatch):
        @in_recorder
        def full_disk(*args: Any, **kwargs: Any) -> None:
            raise OSError(28, "No space left on device")

        before = dict(vars(DataLoader))
        monkeypatch.setattr(recording_files, "Spool", full_disk)
        with pytest.raises(lv.LoaderVizError, match="No space left"):
            lv.record(DataLoader(Keys(6))).__enter__()
        assert dict(vars(DataLoader)) == before


def test_a_recording_says_how_it_stands():
    loader = DataLoader(Keys(4))
    rec = lv.record(loader)
    assert repr(rec) == "<Recording: not begun>"
    with pytest.raises(lv.LoaderVizError, match="enter"):
        rec.snapshot()
    with rec:
        assert repr(rec) == "<Recording: running>"
        with pytest.raises(lv.LoaderVizError, match=r"snapshot\(\)"):
            _ = rec.trace
        with pytest.raises(lv.LoaderVizError, match="once"):
            rec.__enter__()
        list(loader)
    assert repr(rec) == str(rec.trace.summary())
    assert rec.snapshot() is rec.trace
    with pytest.raises(lv.LoaderVizError, match="once"):
        rec.__enter__()
