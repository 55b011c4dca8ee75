"""A run in a process of its own: what it sends comes back, and nothing of it stays."""

import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from fake_cuda import FakeCuda
from leak_guard import processes
from loaderviz._doctor import examination
from loaderviz._doctor.loader_setup import Setup
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders import forked_run
from loaderviz.loaders.forked_run import ChildProcess, fork_loses_cuda, may_fork, run_forked
from loaderviz.widgets.explorer_settings import ExplorerSettings
from loaderviz.widgets.real_runs import LoaderRun

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process can be copied on Unix")

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="asked of Linux alone")
PATIENCE_S = 60.0
BRIEF_S = 0.5
Send = Callable[[Any], None]


def tells(text: str, send: Send) -> None:
    send(text)
    send(os.getpid())


def fails(send: Send) -> None:
    send("before")
    raise SystemExit(3)


def dies(send: Send) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def goes_on(send: Send) -> None:
    send("begun")
    time.sleep(PATIENCE_S)


def waits_in_workers(folder: Path, send: Send) -> None:
    context = multiprocessing.get_context("fork")
    for _ in range(2):
        context.Process(target=waits, args=(folder,)).start()
    send("begun")


def computes(send: Send) -> None:
    large = torch.ones(4_000_000)
    send(float((large + large).sum()))
    send(torch.get_num_threads())


def waits(folder: Path) -> None:
    (folder / str(os.getpid())).touch()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(PATIENCE_S)


def leaves_a_worker(send: Send) -> None:
    worker = os.fork()
    if not worker:
        time.sleep(PATIENCE_S)
    send(worker)
    os._exit(0)


def loads(method: str, send: Send) -> None:
    loader = DataLoader(range(4), num_workers=1, multiprocessing_context=method)
    send([batch.item() for batch in loader])


def lives(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "\nState:\tZ" not in status.read_text()


def test_what_it_sends_comes_back_in_order():
    more_than_fits_into_a_pipe = "a" * 10**6
    run = run_forked(tells, more_than_fits_into_a_pipe, timeout_s=PATIENCE_S)
    assert run.sent[0] == more_than_fits_into_a_pipe
    assert run.sent[1] != os.getpid()
    assert (run.in_time, run.exit_code) == (True, 0)


def test_how_it_failed_is_told():
    run = run_forked(fails, timeout_s=PATIENCE_S)
    assert (run.sent, run.in_time, run.exit_code) == (("before",), True, 3)
    run = run_forked(dies, timeout_s=PATIENCE_S)
    assert (run.sent, run.in_time, run.exit_code) == ((), True, -signal.SIGKILL)


def test_when_its_time_is_up_it_is_ended():
    run = run_forked(goes_on, timeout_s=BRIEF_S)
    assert (run.in_time, run.exit_code) == (False, None)
    assert processes() == []


def test_what_it_has_started_is_ended_with_it(tmp_path):
    child = ChildProcess(waits_in_workers, tmp_path)
    while len(pids := [int(path.name) for path in tmp_path.iterdir()]) < 2:
        time.sleep(0.01)
    assert all(map(lives, pids))
    child.end()
    assert not any(map(lives, pids))
    child.end()  # once more is no harm


def test_what_it_has_left_is_ended_after_it():
    (worker,) = run_forked(leaves_a_worker, timeout_s=BRIEF_S).sent  # it keeps the pipe open
    until = time.monotonic() + PATIENCE_S / 2
    while lives(worker) and time.monotonic() < until:  # nobody here can wait for it
        time.sleep(0.01)
    assert not lives(worker)


def test_an_interrupt_leaves_no_process():
    main = threading.main_thread().ident
    timer = threading.Timer(BRIEF_S, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_forked(goes_on, timeout_s=PATIENCE_S)
    timer.join()
    assert processes() == []


@pytest.mark.slow
def test_a_fork_starts_a_fork_server_of_its_own():
    loader = DataLoader(range(4), num_workers=1, multiprocessing_context="forkserver")
    assert len(list(loader)) == 4  # with the server of this process
    assert run_forked(loads, "forkserver", timeout_s=PATIENCE_S).sent == ([0, 1, 2, 3],)


class TestWhereCudaIsInUse:
    @pytest.fixture(autouse=True)
    def cuda(self, monkeypatch):
        FakeCuda().stand_in(monkeypatch)

    def test_a_loader_without_workers_is_run_in_no_fork(self, monkeypatch):
        assert fork_loses_cuda()
        assert not may_fork(0)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
        assert may_fork(0) == may_fork(2)

    @pytest.mark.slow
    def test_a_process_of_its_own_is_spawned(self):
        child = ChildProcess(tells, "hello")
        child.receive(time.monotonic() + PATIENCE_S)
        child.end()
        assert child.sent[0] == "hello"
        assert type(child._process).__name__ == "SpawnProcess"

    def test_the_doctor_s_fork_pins_no_batch(self, monkeypatch, tmp_path):
        given = []

        def noted(_work: Any, setup: Setup, *_args: Any, timeout_s: float) -> Any:
            given.append(setup.loader)
            return run_forked(tells, "hello", timeout_s=timeout_s)

        monkeypatch.setattr(examination, "run_forked", noted)
        loader = DataLoader(range(4), num_workers=2, pin_memory=True)
        examination._run_in_fork(Setup(loader), tmp_path, PATIENCE_S)
        assert [each.pin_memory for each in given] == [False]
        assert loader.pin_memory


class TestWhereCudaWasAskedAbout:
    """Not in use, and yet lost to a fork: torch says so in the fork alone."""

    @pytest.fixture(autouse=True)
    def cuda(self, monkeypatch):
        here = os.getpid()
        monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: os.getpid() != here)

    def test_a_fork_loses_it(self):
        assert fork_loses_cuda()
        assert processes() == []

    def test_a_fork_has_nothing_to_lose_where_there_is_no_device(self, monkeypatch):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        assert not fork_loses_cuda()

    def test_nobody_asks_before_a_fork_says_that_somebody_has(self, monkeypatch):
        """To ask would make it so."""
        monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: False)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: pytest.fail("asked"))
        assert not fork_loses_cuda()

    def test_a_run_that_pins_is_spawned_and_another_is_forked(self):
        for pins, kind in ((True, "SpawnProcess"), (False, "ForkProcess")):
            settings = ExplorerSettings(LoaderSettings(1, pin_memory=pins), n_samples=4)
            run = LoaderRun(settings)
            try:
                assert type(run._process._process).__name__ == kind
            finally:
                run.close()


def test_a_handler_that_raises_while_it_is_waited_for_is_heard():
    error = TimeoutError("of the script's own")  # an OSError, as a broken pipe is

    def ring(*_):
        raise error

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(TimeoutError) as caught:
            run_forked(lambda send: time.sleep(60), timeout_s=120)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert caught.value is error


@LINUX
class TestThreadsOfTorch:
    """Those that compute one operation; a fork waits for ever for those that it does not have."""

    @pytest.fixture(autouse=True)
    def two_of_them(self):
        before = torch.get_num_threads()
        torch.set_num_threads(2)
        assert float(torch.ones(4_000_000).sum()) == 4e6  # they have begun
        yield
        torch.set_num_threads(before)

    def test_there_are_as_many_in_the_fork_where_that_is_asked_for(self):
        run = run_forked(computes, timeout_s=PATIENCE_S, threads=True)
        assert run.sent == (8e6, 2)
        assert torch.get_num_threads() == 2
        assert float(torch.ones(4_000_000).sum()) == 4e6

    def test_else_there_is_one(self):
        assert run_forked(computes, timeout_s=PATIENCE_S).sent == (8e6, 1)

    @pytest.mark.parametrize("library", ["/lib/libgomp.so.0", ""], ids=["broken", "unknown"])
    def test_so_there_is_where_they_cannot_be_ended(self, monkeypatch, library):
        monkeypatch.setattr(forked_run, "_LIBRARY", re.compile(library or r"(?!)"))
        monkeypatch.setattr(Path, "read_text", lambda *_: library)
        assert run_forked(computes, timeout_s=PATIENCE_S, threads=True).sent == (8e6, 1)
