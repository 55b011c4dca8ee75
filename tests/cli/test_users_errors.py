"""What the reader's own code raises is told by their line and exception first, by any command."""

import sys
from pathlib import Path

import pytest

from loaderviz.errors import error_text

USERS = """
from torch.utils.data import DataLoader, Dataset, Sampler

def fail():
    raise ValueError("of the user")

class Rows(Dataset):
    def __init__(self, fails=""):
        self.fails = fails
    def __len__(self):
        return fail() if self.fails == "length" else 12
    def __getitem__(self, index):
        return fail() if self.fails == "item" and index == 5 else index

class Backwards(Sampler):
    def __len__(self):
        return 12
    def __iter__(self):
        yield from range(5)
        fail()

def collate(samples):
    fail()

def start_worker(worker):
    fail()

def item_of_worker(): return DataLoader(Rows("item"), 2, num_workers=2)
def length(): return DataLoader(Rows("length"), 2)
def sampler(): return DataLoader(Rows(), 2, sampler=Backwards())
def collating(): return DataLoader(Rows(), 2, collate_fn=collate)
def collating_in_worker(): return DataLoader(Rows(), 2, collate_fn=collate, num_workers=2)
def starting(): return DataLoader(Rows(), 2, worker_init_fn=start_worker, num_workers=2)
making = fail
"""
COMMANDS = {
    "audit": (),
    "doctor": ("--budget", "30"),
    "recommend": ("--step", "0.001", "--budget", "1"),
}
LINE = 1 + USERS[: USERS.index("raise ValueError")].count("\n")
QUICK = [("audit", "length"), ("doctor", "item_of_worker"), ("recommend", "making")]
# The doctor runs each in a process; where audit runs workers in this one, torch ends it in seconds.
REST = [
    *(("doctor", name) for name in ("length", "sampler", "collating_in_worker", "making")),
    *(("audit", name) for name in ("collating", "starting")),
    ("recommend", "sampler"),
]
CASES = QUICK + [pytest.param(*case, marks=pytest.mark.slow) for case in REST]


@pytest.fixture
def target(tmp_path, monkeypatch):
    (tmp_path / "failing_training.py").write_text(USERS)
    monkeypatch.chdir(tmp_path)
    yield "failing_training.py:{}".format
    sys.modules.pop("failing_training", None)


@pytest.mark.parametrize(("command", "name"), CASES)
def test_their_line_comes_first(command, name, target, loaderviz):
    done = loaderviz(command, target(name), *COMMANDS[command])
    assert done.code == 2
    assert done.out == ""
    told = done.err[done.err.index("loaderviz: ") :].splitlines()[0]
    prefix = "loaderviz: "
    if command == "doctor" and name != "making":
        prefix += "this loader could not be fully examined: "
    assert told.startswith(f"{prefix}failing_training.py:{LINE} in fail: ValueError: of the user")
    assert f"{sys.prefix}/bin" not in done.err
    assert "measured_run.py" not in done.err


class LinesError(Exception):
    """Has a message of several lines."""


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("", "LinesError: "),
        ("one", "LinesError: one"),
        ("one\ntwo\n\nthree", "LinesError: one ... three"),
        (
            "Caught KeyError in DataLoader worker process 0.\nOriginal Traceback:\n"
            '  File "/home/me/train.py", line 3, in read\n    x = fail()\n        ^^^^^^\n'
            "KeyError: 'a\n  b\nc'\n",
            "KeyError: 'a (Caught KeyError in DataLoader worker process 0)",
        ),
    ],
)
def test_a_long_message_is_told_in_short(message, told):
    where = "train.py:3 in read" if "train.py" in message else ""
    with pytest.raises(LinesError) as raised:
        raise LinesError(message)
    here = f"{Path(__file__).name}:{raised.tb.tb_lineno} in test_a_long_message_is_told_in_short"
    assert error_text(raised.value) == f"{where or here}: {told}"


def test_of_an_error_without_a_line_of_theirs_only_the_error_is_told():
    assert error_text(OSError("no room")) == "OSError: no room"
