"""Whatever breaks, the training sees what it would have seen, and what was finished is kept."""

import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter

import loaderviz as lv
from forked import TALK, Forked, forked
from loaderviz.recorder import (
    control_page,
    dataloader_hooks,
    fetch_spool,
    iterator_log,
    iterator_watcher,
    recording_files,
    session,
    timed_fetch,
    worker_process,
)
from loaderviz.spool import Spool
from loaderviz.trace import Trace
from oddities import ClosesFiles, Stuck
from own_code import in_recorder
from probes import Deadly, Keys, Stream, as_it_is, die
from test_record_exactly import assert_complete, run
from trace_laws import assert_lawful, assert_orderly, delivered

RECORDER = Path(lv.__file__).parent / "recorder"
PREFIX = "loaderviz-"  # of the folder of a recording that is not kept


def temporary_recordings() -> list[str]:
    home = Path(tempfile.gettempdir())
    return [path.name for path in home.iterdir() if path.name.startswith(PREFIX)]


def of_ours(caught: Any) -> list[str]:
    """The warnings that loaderviz gave; Python 3.12 also warns of forks where threads run."""
    return [each for each in map(str, (w.message for w in caught)) if "loaderviz" in each]


def assert_failed_alike(make: Callable[[], DataLoader]) -> tuple[Trace, list[Any]]:
    """The loop fails as without a recording, which is complete; what it tells, and the loop was."""
    without, _, _ = run(make, recorded=False)
    with_, trace, told = run(make, recorded=True)
    assert with_.batches == without.batches
    assert with_.error is not None
    assert without.error is not None
    assert with_.error[:2] == without.error[:2]
    assert_complete(trace, told)
    return trace, told


class TestAWorkerThatDies:
    @pytest.mark.parametrize(
        ("how", "persistent", "exit_"),
        [("kill", False, "killed"), (3, True, "failed")],
    )
    def test_leaves_the_training_what_it_would_have_had(self, how, persistent, exit_):
        def make() -> DataLoader:
            return DataLoader(
                Deadly(20, 5, how), num_workers=2, persistent_workers=persistent, batch_size=1
            )

        trace, _ = assert_failed_alike(make)
        batches = trace.batches.set_index("batch")
        assert batches["ready_s"][[0, 1, 2, 3, 4]].notna().all()
        assert list(batches["state"][[4, 5, 6]]) == ["delivered", "lost", "ready"]
        dead, alive = trace.workers.iloc[1], trace.workers.iloc[0]
        assert (dead["exit"], dead["last_key"]) == (exit_, 5)
        assert alive["last_key"] is None

    @pytest.mark.parametrize("how", ["interrupt", "leave", "close everything"])
    def test_or_is_made_to_leave(self, how):
        def make() -> DataLoader:
            return DataLoader(Deadly(20, 5, how), num_workers=1, batch_size=1, timeout=1.5)

        assert len(assert_failed_alike(make)[1]) == 5

    def test_before_it_has_begun_to_record(self):
        def make() -> DataLoader:
            return DataLoader(Keys(4), num_workers=1, worker_init_fn=gives_up)

        trace, _ = assert_failed_alike(make)
        assert list(trace.workers["exit"]) == ["failed"]


def gives_up(_: int) -> None:
    """End the worker once torch waits for it: of an earlier death it may not tell the exit code."""
    time.sleep(0.5)
    os._exit(7)


class TestAWorkerThatClosesFiles:
    def test_and_opens_its_own_finds_them_as_it_left_them(self, tmp_path):
        """The number of a closed file is given to the next one that is opened."""

        def make(name: str) -> DataLoader:
            return DataLoader(
                ClosesFiles(60_000, tmp_path / name),
                batch_size=500,
                num_workers=1,
                collate_fn=as_it_is,
            )

        expected = list(make("without"))
        loader = make("with")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is incomplete may be said
            with lv.record(loader) as rec:
                received = list(loader)
        assert (tmp_path / "with").read_bytes() == b""
        assert received == expected
        assert len(delivered(rec.trace)) == len(expected)


def train_and_die(how: str | int, num_workers: int, path: Path | None = None) -> None:
    loader = DataLoader(Keys(30), batch_size=2, num_workers=num_workers)
    with lv.record(loader, path=path):
        for step, _batch in enumerate(loader):
            if step == 4:
                die(how)


def train_at_a_stuck_sample(sign: Path, path: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    loader = DataLoader(Stuck(20, 5, sign), batch_size=1, num_workers=2)
    with lv.record(loader, path=path):
        list(loader)


def until_there(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def record_while_told(talk: Any) -> tuple[int, bool]:
    loader = DataLoader(Keys(4))
    with lv.record(loader) as rec:
        iterator = iter(loader)
        next(iterator)
        talk.send("recording")
        talk.recv()
        list(iterator)
    return len(rec.trace.batches), rec.trace.meta["complete"]


class TestTheTrainingScriptDies:
    @pytest.mark.parametrize(("how", "num_workers"), [(3, 0), ("kill", 2)])
    def test_what_it_had_is_there(self, how, num_workers, tmp_path):
        with Forked(train_and_die, how, num_workers, tmp_path / "run") as process:
            process.exit_code()
            while_workers_end = lv.load(tmp_path / "run")
        for trace in (while_workers_end, lv.load(tmp_path / "run")):
            assert_lawful(trace)
            rows = delivered(trace)
            assert list(rows["batch"]) == [0, 1, 2, 3, 4]
            assert list(trace.samples["key"])[:10] == list(range(10))
            assert not trace.meta["complete"]
            assert len(trace.workers) == num_workers
        assert str(trace.summary())

    def test_with_all_its_workers_each_tells_what_it_was_reading(self, tmp_path):
        """As the out-of-memory killer of a container does it."""
        with Forked(train_at_a_stuck_sample, tmp_path / "sign", tmp_path / "run"):
            until_there(tmp_path / "sign")
        trace = lv.load(tmp_path / "run")
        assert_lawful(trace)
        assert list(trace.workers["exit"]) == ["killed", "killed"]
        assert list(trace.workers["last_key"]) == [None, 5]
        assert list(delivered(trace)["batch"]) == [0, 1, 2, 3, 4]
        assert list(trace.batches["state"])[5:7] == ["started", "ready"]

    def test_what_it_left_in_the_temporary_folder_goes_when_the_next_begins(self):
        other = Path(tempfile.mkdtemp(prefix=PREFIX))  # of somebody else's, called like ours
        (other / "thesis.txt").write_text("mine")
        with Forked(train_and_die, "kill", 1) as process:
            process.exit_code()
        left = {*temporary_recordings()} - {other.name}
        assert left
        loader = DataLoader(Keys(2))
        with lv.record(loader) as rec:
            list(loader)
            during = temporary_recordings()
        assert len(rec.trace.batches) == 2
        assert not left & set(during)
        assert temporary_recordings() == [other.name]
        assert (other / "thesis.txt").read_text() == "mine"
        shutil.rmtree(other)

    def test_but_not_that_of_one_which_runs(self):
        with Forked(record_while_told, TALK) as process:
            assert process.hear() == "recording"
            running = temporary_recordings()
            with lv.record(DataLoader(Keys(1))):
                pass
            assert temporary_recordings() == running
            assert len(running) == 1
            process.say("go on")
            assert process.hear() == (4, True)
        assert not temporary_recordings()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Makes a file system of so many bytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = []

    def mount(n_bytes: int) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("this system has no mount command")
        if done.returncode:
            pytest.skip(f"only root may mount a small disk: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for each in mounted:
        subprocess.run(["umount", str(each)], check=True)


class TestAFullDisk:
    """A real one: what was written is kept, the training gets everything, one warning says so."""

    @pytest.mark.parametrize(("num_workers", "stream"), [(0, True), (2, False)])
    def test_in_the_middle_of_an_epoch(self, num_workers, stream):
        """As a limit of a batch system on the size of files has it, which needs no root."""

        def with_the_limit() -> tuple[int, bool, int]:
            # Room for the first block of each process, not for the second of any.
            resource.setrlimit(resource.RLIMIT_FSIZE, (300 << 10, 300 << 10))
            dataset = Stream(40_000, make=str) if stream else Keys(40_000, make=str)
            loader = DataLoader(
                dataset, batch_size=250, num_workers=num_workers, collate_fn=as_it_is
            )
            expected = list(loader)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with lv.record(loader) as rec:
                    received = list(loader)
            assert received == expected
            assert_orderly(rec.trace)
            n_ready = rec.trace.batches["ready_s"].notna().sum()
            return len(of_ours(caught)), rec.trace.meta["complete"], n_ready

        n_warnings, complete, n_ready = forked(with_the_limit)
        assert (n_warnings, complete) == (1, False)
        assert n_ready > 5

    def test_filled_to_the_last_byte_by_another(self, small_disk):
        folder = small_disk(1 << 20)
        loader = DataLoader(Keys(2000, make=str), batch_size=50, num_workers=1, collate_fn=as_it_is)
        rec = lv.record(loader, path=folder / "run")
        received = []

        def train() -> None:
            with rec:
                received.append(list(loader))
                with (folder / "fill").open("wb", buffering=0) as file, suppress(OSError):
                    while file.write(bytes(1 << 12)):
                        pass
                received.append(list(loader))  # whose worker can make no file
                (folder / "fill").unlink()
                received.append(list(loader))

        with pytest.warns(UserWarning, match="loaderviz"):
            train()
        first, second, third = received
        assert first == second == third
        assert_orderly(rec.trace)
        assert rec.trace.batches[rec.trace.batches["epoch"] == 0]["ready_s"].notna().all()


class TestTheFolderIsRemoved:
    def test_while_workers_run(self, tmp_path):
        loader = DataLoader(
            Keys(40_000, make=str), batch_size=500, num_workers=2, collate_fn=as_it_is
        )
        expected = list(loader)
        rec = lv.record(loader, path=tmp_path / "run")
        received = []

        def train(loader: DataLoader) -> None:
            with rec:
                for _ in range(2):
                    for step, batch in enumerate(loader):
                        received.append(batch)
                        if step == 10:
                            shutil.rmtree(tmp_path / "run", ignore_errors=True)

        with pytest.warns(UserWarning, match="loaderviz") as caught:
            train(loader)
        del loader  # its workers end in good order only where no cycle holds them
        assert received == expected * 2
        assert len(of_ours(caught)) == 1
        assert not (tmp_path / "run").exists()
        with pytest.raises(lv.LoaderVizError, match="run"):
            _ = rec.trace


class TestInterrupts:
    def test_a_real_ctrl_c_ends_a_script_as_ever(self, tmp_path):
        """The whole group gets it, workers too."""

        def train() -> str:
            try:
                train_at_a_stuck_sample(tmp_path / "sign", tmp_path / "run")
            except KeyboardInterrupt:
                return "KeyboardInterrupt"
            return "not interrupted"

        with Forked(train) as process:
            until_there(tmp_path / "sign")
            os.killpg(process.pid, signal.SIGINT)
            assert process.hear() == "KeyboardInterrupt"
            assert process.exit_code() == 0
        trace = lv.load(tmp_path / "run")
        assert_lawful(trace)
        assert trace.meta["complete"]
        assert list(delivered(trace)["batch"]) == [0, 1, 2, 3, 4]


class BugError(Exception):
    """Raised in place of what the recorder does."""


# Where the recorder may fail by itself, once its block has been entered: with
# batches of this process, with those of workers, or with both.
OF_BOTH = [
    (iterator_watcher.Watcher, "wants"),
    (iterator_watcher.Watcher, "iterator_begun"),
    (iterator_watcher.Watcher, "iterator_built"),
    (iterator_watcher.Watcher, "_watch"),
    (iterator_watcher.Watcher, "_note_workers"),
    (iterator_watcher.Watcher, "_note_exits"),
    (iterator_watcher, "watch"),
    (session, "read_folder"),
    (recording_files.RecordingFiles, "write"),
    (recording_files.RecordingFiles, "finish"),
    (iterator_log.IteratorLog, "begin_round"),
    (iterator_log.IteratorLog, "note_requested"),
    (iterator_log.IteratorLog, "note_delivered"),
    (iterator_log.IteratorLog, "note_released"),
    (timed_fetch, "rss_bytes"),
    (fetch_spool.FetchSpool, "measure"),
    (fetch_spool.FetchSpool, "write_text"),
    (timed_fetch, "StampedIndices"),
    (timed_fetch, "rss_peak_bytes"),
    (Spool, "write"),
    (Spool, "pack"),
    (Spool, "close"),
    (control_page.Control, "set_stopped"),
]
OF_THIS_PROCESS = [
    (iterator_watcher.Watcher, "fetcher_made"),
    (iterator_watcher, "FetchTimer"),
    (recording_files.RecordingFiles, "borrow_spool"),
    (iterator_log.IteratorLog, "begin_with_fetch"),
    (timed_fetch.FetchTimer, "detach"),
]
OF_WORKERS = [
    (iterator_watcher.Watcher, "make_worker_hook"),
    (recording_files.RecordingFiles, "write_batch"),
    (iterator_log.IteratorLog, "note_dispatched"),
    (iterator_log.IteratorLog, "hold_oldest_of"),
    (timed_fetch.FetchTimer, "_reserve"),
    (Spool, "reserve"),
    (worker_process, "FetchTimer"),
    (worker_process.WorkerHook, "_record"),
    (worker_process, "FetchSpool"),
    (control_page.Control, "attach"),
    (control_page.Control, "is_stopped"),
    (dataloader_hooks, "time_pins"),
]


def runs_in_worker(part: tuple[Any, str]) -> bool:
    """Whether it is a worker that fails, or where its end is noted, once there is one."""
    owner, name = part
    return owner in (timed_fetch, fetch_spool.FetchSpool, Spool) or name in (
        "_note_workers",
        "_note_exits",
    )


PARTS = [
    *((part, 0) for part in OF_BOTH + OF_THIS_PROCESS),
    *((part, 1) for part in OF_WORKERS),
    *(pytest.param(part, 1, marks=pytest.mark.slow) for part in OF_BOTH if runs_in_worker(part)),
]


def seeded_loader(num_workers: int) -> DataLoader:
    torch.manual_seed(7)
    return DataLoader(Keys(8), batch_size=2, shuffle=True, num_workers=num_workers)


@cache
def without_a_recording(num_workers: int) -> list[list[list[int]]]:
    """The keys of two epochs."""
    loader = seeded_loader(num_workers)
    return [[batch["key"].tolist() for batch in loader] for _ in range(2)]


def named(part: Any) -> str | None:
    return f"{part[0].__name__.split('.')[-1]}.{part[1]}" if isinstance(part, tuple) else None


class TestABugOfTheRecorder:
    """Stops the recording, with one warning; the training never hears of it otherwise."""

    @pytest.mark.parametrize(("part", "num_workers"), PARTS, ids=named)
    def test_does_not_touch_the_training(self, part, num_workers, monkeypatch, tmp_path):
        owner, name = part
        calls = tmp_path / "calls"  # which a worker may make
        classes = {cls: dict(vars(cls)) for cls in (DataLoader, _BaseDataLoaderIter)}

        @in_recorder
        def fail(*args: Any, **kwargs: Any) -> None:
            calls.touch()
            raise BugError(name)

        expected = without_a_recording(num_workers)
        loader = seeded_loader(num_workers)
        rec = lv.record(loader)
        received = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with monkeypatch.context() as patch, rec:
                patch.setattr(owner, name, fail)
                try:
                    for _ in range(2):
                        received.append([batch["key"].tolist() for batch in loader])
                except BugError as bug:
                    traceback.clear_frames(bug.__traceback__)
                    pytest.fail("the training got the recorder's bug")
        assert received == expected
        assert {cls: dict(vars(cls)) for cls in classes} == classes
        assert not [name for name in vars(loader) if "loaderviz" in name]
        assert loader.worker_init_fn is None
        assert not temporary_recordings()
        said = [str(each.message) for each in caught if "loaderviz" in str(each.message)]
        assert calls.exists()
        assert len(said) == 1
        try:
            assert not rec.trace.meta["complete"]
        except lv.LoaderVizError:
            assert name in ("read_folder", "finish")  # then there may be none
        assert len(list(loader)) == 4


@pytest.mark.parametrize("part", dataloader_hooks._NEEDED_ATTRIBUTES, ids=named)
def test_a_torch_whose_parts_have_moved_is_refused_by_name(part, monkeypatch):
    owner, name = part
    loader = DataLoader(Keys(3))
    monkeypatch.delattr(owner, name)
    classes = (DataLoader, _BaseDataLoaderIter, _MultiProcessingDataLoaderIter)
    before = [dict(vars(each)) for each in classes], dict(vars(loader))
    with pytest.raises(lv.LoaderVizError, match=rf"{owner.__name__}\.{name}") as caught:
        lv.record(loader)
    assert torch.__version__ in str(caught.value)
    assert ([dict(vars(each)) for each in classes], dict(vars(loader))) == before
    assert not temporary_recordings()


def test_methods_that_another_tool_has_wrapped_are_no_reason_to_refuse(monkeypatch):
    for owner, name in [
        (DataLoader, "__iter__"),
        (_BaseDataLoaderIter, "__init__"),
        (_MultiProcessingDataLoaderIter, "_reset"),
        (_MultiProcessingDataLoaderIter, "_process_data"),
    ]:
        monkeypatch.setattr(owner, name, wrapped(getattr(owner, name)))
    loader = DataLoader(Keys(12), batch_size=2, num_workers=2)
    with lv.record(loader) as rec:
        assert len(list(loader)) == 6
    assert len(rec.trace.batches) == 6


def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: original(*args, **kwargs)
