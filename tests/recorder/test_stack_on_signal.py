"""The signal by which a recorded process is asked for its stack: when it is taken, and given back.

What it interrupts goes on as if it had not come.
"""

import faulthandler
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import loaderviz as lv
from loaderviz.ask_for_stack import ask
from loaderviz.course.datasets import SleepingDataset
from loaderviz.stack_note import PATTERN, SIGNAL, StackNote, has_signal, stack_path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only there the signal is used")
PID = os.getpid()


def is_caught():
    return has_signal(PID, "SigCgt")


def open_files():
    """Each with what it is: a number may be given out again."""
    gc.collect()  # closes what earlier tests have left to it
    numbers = (path.name for path in Path("/proc/self/fd").iterdir())
    paths = [Path("/proc/self/fd", number) for number in numbers]
    return {(path.name, str(path.readlink())) for path in paths if path.is_symlink()}


def notes_in(folder):
    return [StackNote.read(path) for path in sorted(folder.glob(PATTERN))]


@pytest.fixture
def loader():
    return DataLoader(SleepingDataset(40, 0.001), batch_size=4, num_workers=2)


def test_only_a_recording_at_a_path_of_the_users_takes_the_signal(loader, tmp_path):
    with lv.record(loader):
        list(loader)
        assert not is_caught()
    before = open_files()
    with lv.record(loader, path=tmp_path / "run"):
        assert is_caught()
        assert [note.pid for note in notes_in(tmp_path / "run")] == [PID]
        for _ in range(2):
            list(loader)
    assert open_files() - before == set()
    assert not is_caught()
    assert signal.getsignal(SIGNAL) is signal.SIG_DFL
    assert notes_in(tmp_path / "run") == []


@pytest.mark.parametrize("comes_later", [False, True])
def test_a_handler_of_the_programs_own_stays(comes_later, loader, tmp_path):
    heard = []

    def own_handler(*_):
        heard.append(1)

    before = signal.getsignal(SIGNAL) if comes_later else signal.signal(SIGNAL, own_handler)
    try:
        with lv.record(loader, path=tmp_path / "run"):
            (note,) = notes_in(tmp_path / "run")
            assert (note.fd == -1) != comes_later
            if comes_later:
                signal.signal(SIGNAL, own_handler)
            os.kill(PID, SIGNAL)
        assert signal.getsignal(SIGNAL) is own_handler
        assert heard == [1]
    finally:
        signal.signal(SIGNAL, before)
        faulthandler.unregister(SIGNAL)


def test_a_program_that_waits_for_the_signal_keeps_it(loader, tmp_path):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [SIGNAL])
    try:
        with lv.record(loader, path=tmp_path / "run"):
            (note,) = notes_in(tmp_path / "run")
            assert note.fd == -1
            signal.pthread_kill(threading.get_ident(), SIGNAL)  # it is blocked in no other thread
            assert signal.sigtimedwait([SIGNAL], 10) is not None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_handler_written_in_c_stays(tmp_path, loader):
    with (tmp_path / "stacks").open("w") as file:
        faulthandler.register(SIGNAL, file=file)
        try:
            with lv.record(loader, path=tmp_path / "run"):
                os.kill(PID, SIGNAL)
            assert is_caught()
        finally:
            faulthandler.unregister(SIGNAL)
    assert "test_a_handler_written_in_c_stays" in (tmp_path / "stacks").read_text()


def test_of_two_recordings_the_first_answers(loader, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    with lv.record(loader, path=first), lv.record(loader, path=second):
        next(iter(loader))
        assert notes_in(first)[0].fd >= 0
        assert [note.fd for note in notes_in(second)] == [-1]
        assert list(ask(first, notes_in(first)))
    assert not is_caught()


def test_nobody_is_asked_whose_file_another_has_taken(loader, tmp_path):
    """The user's code may close any file, and open its own under the number of that one."""
    with lv.record(loader, path=tmp_path / "run"):
        (note,) = notes_in(tmp_path / "run")
        os.close(note.fd)
        file = (tmp_path / "theirs").open("w")
        assert file.fileno() == note.fd
        assert ask(tmp_path / "run", [note]) == {}
    file.write("all mine")
    file.close()
    assert (tmp_path / "theirs").read_text() == "all mine"


def test_nobody_is_asked_who_only_has_the_number_of_the_process(loader, tmp_path):
    with lv.record(loader, path=tmp_path / "run"):
        (note,) = notes_in(tmp_path / "run")
        earlier = StackNote(**{**vars(note), "started": note.started - 1})
        elsewhere = StackNote(**{**vars(note), "namespace": "pid:[1]"})
        assert ask(tmp_path / "run", [earlier]) == ask(tmp_path / "run", [elsewhere]) == {}
        assert "Stack" not in stack_path(tmp_path / "run", PID).read_text()


def test_the_stack_is_that_of_the_thread_that_records(loader, tmp_path):
    """And of no other: reading the frames of a thread that runs can end the process."""
    stacks = []

    def named_loop():
        with lv.record(loader, path=tmp_path / "run"):
            stacks.append(ask(tmp_path / "run", notes_in(tmp_path / "run"))[PID])

    thread = threading.Thread(target=named_loop)
    thread.start()
    thread.join()
    assert "named_loop" in [frame.function for frame in stacks[0]]


class Interrupted(Dataset):
    """Each sample waits in the system in all the ways that Python has."""

    def __len__(self):
        return 24

    def __getitem__(self, i):
        begun = time.monotonic()
        one, other = socket.socketpair()
        with one, other:
            threading.Timer(0.005, other.send, (b"x",)).start()
            got = one.recv(1)
        time.sleep(0.005)
        select.select([], [], [], 0.005)
        threading.Event().wait(0.005)
        code = subprocess.run(["sleep", "0.005"]).returncode
        lasted = time.monotonic() - begun >= 0.025
        return torch.tensor([i, got[0], code, lasted, int(torch.randint(1 << 30, ()))])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_what_is_interrupted_goes_on_as_if_nothing_had_come(num_workers, tmp_path):
    loader = DataLoader(Interrupted(), batch_size=4, shuffle=True, num_workers=num_workers)
    torch.manual_seed(5)
    expected = list(loader)
    folder, done, n_answers = tmp_path / "run", threading.Event(), []

    def keep_asking():
        while not done.wait(0.003):
            n_answers.append(len(ask(folder, filter(None, notes_in(folder)))))

    torch.manual_seed(5)
    asker = threading.Thread(target=keep_asking)
    with lv.record(loader, path=folder) as rec:
        asker.start()
        got = list(loader)
        done.set()
        asker.join()
    assert all(torch.equal(one, other) for one, other in zip(got, expected, strict=True))
    assert sum(n_answers) > 5
    assert rec.trace.meta["problems"] == []
