"""Which lines of code read the samples: what is seen, and that nothing else changes."""

import random
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

import loaderviz as lv
from frames import let_go
from loaderviz.recorder import line_log
from loaderviz.recorder.line_looks import SIGNAL, USED

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a timer for a thread")
pytestmark = on_linux


def busy(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class TwoLines(Dataset):
    """Three quarters of each sample are in one line, and the rest in another."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, key: int) -> int:
        time.sleep(0.015)
        busy(0.005)
        return key


def seen(loader, **options):
    with lv.record(loader, lines=True, **options) as rec:
        batches = list(loader)
    return rec.trace, batches


def by_source(trace):
    return trace.lines().set_index("source")


class Point(NamedTuple):
    x: int
    y: int


class OneLine(Dataset):
    """Nearly all of each sample is in one line, which has functions of its own in it."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, key: int) -> int:
        found = [sorted([*range(300)], key=lambda n: Point(n % 7, n).y) for _ in range(20)]
        return len(found)


def test_functions_within_a_line_are_that_line(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py"])  # not -c, whose own code is "<string>"
    trace, _ = seen(DataLoader(OneLine()))
    lines = trace.lines()
    here = lines[lines["source"].str.startswith("found =")]
    assert [*here["function"]] == ["OneLine.__getitem__"]
    assert here["total_share"].item() > 0.5
    assert here["seconds"].item() == pytest.approx(here["total_s"].item())
    assert "<string>" not in {*lines["file"]}


class TellsItsTimes(TwoLines):
    """A sample is how long each line took: where others have the CPU, that is longer."""

    def __getitem__(self, key: int) -> tuple[float, float]:
        begun = time.perf_counter()
        time.sleep(0.015)
        slept = time.perf_counter()
        busy(0.005)
        return slept - begun, time.perf_counter() - slept


@pytest.mark.parametrize("num_workers", [0, 2])
def test_each_line_has_its_part_of_the_time(num_workers):
    trace, batches = seen(DataLoader(TellsItsTimes(), batch_size=4, num_workers=num_workers))
    slept_s, busy_s = torch.stack([torch.stack(batch).sum(1) for batch in batches]).sum(0).tolist()
    lines = by_source(trace)
    sleeps = lines.loc["time.sleep(0.015)"]
    both_s = slept_s + busy_s
    assert sleeps["share"] == pytest.approx(slept_s / both_s, abs=0.2)
    assert lines.loc["busy(0.005)"]["total_share"] == pytest.approx(busy_s / both_s, abs=0.2)
    assert sleeps["cpu_s"] < sleeps["seconds"] / 10
    assert (sleeps["phase"], sleeps["function"]) == ("read", "TellsItsTimes.__getitem__")
    assert sleeps["file"].endswith("test_lines.py")
    assert sleeps["waited_s"] > 0  # nobody steps: the loop waits for one worker or the other
    if not num_workers:
        reading_s = (trace.batches["ready_s"] - trace.batches["started_s"]).sum()
        assert 0.7 * reading_s < trace.lines(user=False)["seconds"].sum() <= 1.01 * reading_s


class Few(TwoLines):
    """Of them, where it does not matter how much time a line has."""

    def __len__(self) -> int:
        return 8


class Turns(Dataset):
    """Sleeps and computes in turns that are shorter than the time between two looks."""

    def __len__(self) -> int:
        return 300

    def __getitem__(self, key: int) -> int:
        time.sleep(0.002)
        end = time.thread_time() + 0.001
        while time.thread_time() < end:
            pass
        return key


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_line_that_computes_has_the_cpu_time_however_short_its_turns_are(num_workers):
    trace, _ = seen(DataLoader(Turns(), batch_size=4, num_workers=num_workers))
    lines = by_source(trace)
    assert lines["cpu_s"].idxmax() == "while time.thread_time() < end:"
    assert lines["cpu_s"].max() > 0.15  # of 0.3 s
    sleeps = lines.loc["time.sleep(0.002)"]
    assert sleeps["cpu_s"] < sleeps["seconds"] / 10


def slow_collate(samples):
    time.sleep(0.03)
    return samples


def slow_init(worker):
    time.sleep(0.2)


class SlowSampler:
    def __iter__(self):
        for key in range(0, 24, 2):
            time.sleep(0.02)
            yield [key, key + 1]

    def __len__(self):
        return 12


class SlowToBegin(IterableDataset):
    def __iter__(self):
        time.sleep(0.2)
        return iter(range(16))


@pytest.mark.parametrize(
    ("phase", "source", "make"),
    [
        ("collate", "time.sleep(0.03)", partial(DataLoader, range(16), collate_fn=slow_collate)),
        ("init", "time.sleep(0.2)", partial(DataLoader, range(16), worker_init_fn=slow_init)),
        ("init", "time.sleep(0.2)", partial(DataLoader, SlowToBegin())),
        (
            "sampler",
            "time.sleep(0.02)",
            partial(DataLoader, range(24), batch_sampler=SlowSampler()),
        ),
    ],
    ids=["collate", "worker_init_fn", "iter of a stream", "sampler"],
)
def test_the_phases_are_told_apart(phase, source, make):
    trace, _ = seen(make(num_workers=1))
    assert by_source(trace).loc[source]["phase"] == phase
    if phase in ("collate", "sampler"):
        trace, _ = seen(make(num_workers=0))
        assert by_source(trace).loc[source]["phase"] == phase


class Retries(Dataset):
    """One sample in fifty waits once more, for less than the usual line takes in all."""

    def __len__(self):
        return 300

    def __getitem__(self, key):
        time.sleep(0.005)
        if key % 50 == 7:
            time.sleep(0.12)
        return key


class OneHuge(Dataset):
    """One call in C takes a hundred times as long: there is a single look at it."""

    def __len__(self):
        return 200

    def __getitem__(self, key):
        time.sleep(0.004)
        return sum(range(20_000_000 if key == 77 else 1_000))


class SetsUp(Dataset):
    """On first use, in each worker."""

    opened = False

    def __len__(self):
        return 200

    def __getitem__(self, key):
        if not self.opened:
            time.sleep(0.3)
            self.opened = True
        time.sleep(0.004)
        return key


@pytest.mark.parametrize(
    ("dataset", "cause", "line"),
    [
        (Retries(), "slow_samples", "time.sleep(0.12)"),
        pytest.param(OneHuge(), "slow_samples", "return sum(range(", marks=pytest.mark.slow),
        pytest.param(SetsUp(), "start", "time.sleep(0.3)", marks=pytest.mark.slow),
    ],
    ids=["a retry", "a huge file", "a set-up"],
)
def test_the_line_that_takes_longer_in_slow_samples_is_named(dataset, cause, line):
    trace, _ = seen(DataLoader(dataset, batch_size=4, num_workers=2))
    evidence = trace.summary().causes.set_index("cause").loc[cause]["evidence"]
    assert line in evidence


class Arithmetic(Dataset):
    """An operator takes the time, and a function of the user's is called after it."""

    def __init__(self):
        self.matrix = np.random.default_rng(0).random((400, 400))

    def __len__(self):
        return 40

    def __getitem__(self, key):
        product = self.matrix @ self.matrix
        return plain(product)


def plain(value):
    return float(value[0, 0])


class EndsInArithmetic(Arithmetic):
    def __getitem__(self, key):
        return self.matrix @ self.matrix


@pytest.mark.parametrize("cls", [Arithmetic, EndsInArithmetic])
def test_an_operator_is_not_told_as_what_comes_after_it(cls):
    # Without making a batch of the products, which takes long, too.
    trace, _ = seen(DataLoader(cls(), batch_size=4, collate_fn=len))
    first = trace.lines().iloc[0]
    assert "self.matrix @ self.matrix" in first["source"]
    assert first["share"] > 0.9


class Drawing(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, key):
        time.sleep(0.004)
        return key, torch.rand(2), random.random(), float(np.random.rand())


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_and_draws_are_those_of_a_loader_that_is_not_recorded(num_workers):
    def batches(recorded):
        for seeded in (torch.manual_seed, random.seed, np.random.seed):
            seeded(0)
        loader = DataLoader(Drawing(), batch_size=4, num_workers=num_workers, shuffle=True)
        found = seen(loader)[1] if recorded else list(loader)
        return found, torch.rand(1).item(), random.random()

    assert str(batches(True)) == str(batches(False))


class UsesAlarms(Dataset):
    """The usual time limit for a sample: the one timer and signal that a process has for it."""

    def __len__(self):
        return 40

    def __getitem__(self, key):
        def give_up(_signal, _frame):
            raise TimeoutError

        before = signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, 0.02 if key == 7 else 20)
        try:
            time.sleep(0.005 if key != 7 else 10)
        except TimeoutError:
            return -1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        return key


@pytest.mark.parametrize("num_workers", [0, 1])
def test_time_limits_by_alarms_work_as_ever(num_workers):
    _, batches = seen(DataLoader(UsesAlarms(), batch_size=40, num_workers=num_workers))
    assert [key for key in batches[0].tolist() if key < 0] == [-1]


class GoesDeep(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, key):
        def down(n):
            return down(n + 1)

        try:
            down(0)
        except RecursionError:
            time.sleep(0.005)
        if key == 5:
            raise ValueError("sample 5")
        return key


@pytest.mark.parametrize("num_workers", [0, 1])
def test_errors_of_a_sample_are_its_own(num_workers):
    loader = DataLoader(GoesDeep(), num_workers=num_workers)
    with (
        lv.record(loader, lines=True) as rec,
        pytest.raises(ValueError, match="sample 5") as raised,
    ):
        list(loader)
    let_go(raised.value)
    assert "line_log" not in str(raised.value)
    assert (rec.trace.batches["state"] == "delivered").sum() >= 5


def test_nothing_is_looked_at_unless_asked_for(monkeypatch):
    loader = DataLoader(Few(), batch_size=4)
    with lv.record(loader) as rec:
        assert signal.getsignal(SIGNAL) is signal.SIG_DFL
        list(loader)
    with pytest.raises(lv.LoaderVizError, match="lines=True"):
        rec.trace.lines()
    monkeypatch.setenv("LOADERVIZ_LINES", "1")
    with lv.record(loader) as rec:
        list(loader)
    assert len(rec.trace.lines())
    with lv.record(loader, lines=False) as rec:
        list(loader)
    assert "lines" not in rec.trace.meta


def test_the_signal_is_given_back():
    seen(DataLoader(Few(), batch_size=4))
    assert signal.getsignal(SIGNAL) is signal.SIG_DFL


def test_a_handler_in_c_is_put_back():
    """As readline has one, which Python's ``signal`` does not know."""
    readline = pytest.importorskip("readline")
    assert readline
    before = caught()
    seen(DataLoader(Few(), batch_size=4))
    assert caught() == before


def caught() -> str:
    """The signals that this process handles (proc(5), status)."""
    return Path("/proc/self/status").read_text().partition("\nSigCgt:")[2].split()[0]


def test_where_the_program_uses_the_signal_nothing_is_looked_at_and_that_is_said(restored):
    calls = []
    signal.signal(SIGNAL, lambda *_: calls.append(1))
    trace, batches = seen(DataLoader(Few(), batch_size=4))
    assert len(batches) == 2
    assert trace.lines().empty
    assert trace.meta["lines"]["not_seen"] == [f"main process: {USED}"]
    assert trace.meta["complete"]
    signal.raise_signal(SIGNAL)
    assert calls == [1]


def test_two_recordings_at_once_look_once():
    loader = DataLoader(Few(), batch_size=4)
    with lv.record(loader, lines=True) as outer, lv.record(loader, lines=True) as inner:
        list(loader)
    assert len(outer.trace.lines())
    assert inner.trace.lines().empty
    assert USED in inner.trace.meta["lines"]["not_seen"][0]


def test_a_recording_in_another_thread_says_that_it_does_not_look():
    found = []
    loader = DataLoader(Few(), batch_size=4)
    thread = threading.Thread(target=lambda: found.append(seen(loader)[0]))
    thread.start()
    thread.join()
    assert "main one" in found[0].meta["lines"]["not_seen"][0]


def test_lines_are_saved_with_the_trace(tmp_path):
    trace, _ = seen(DataLoader(Few(), batch_size=4, num_workers=1), path=tmp_path / "run")
    trace.save(tmp_path / "saved.parquet")
    for path in ("run", "saved.parquet"):
        assert lv.load(tmp_path / path).lines().equals(trace.lines())


def test_within_max_bytes_it_stops_looking():
    loader = DataLoader(TwoLines(), batch_size=4, num_workers=2)
    trace, batches = seen(loader, max_bytes=1 << 20, max_spans=8)
    assert len(batches) == 10
    assert trace.lines()["looks"].sum() < 100


def test_a_failure_of_the_log_ends_the_looks_and_nothing_else(monkeypatch):
    monkeypatch.setattr(line_log, "MOST_STACKS", "many")
    loader = DataLoader(Few(), batch_size=4)
    with pytest.warns(UserWarning, match="lines: TypeError"):
        trace, batches = seen(loader)
    assert len(batches) == len(trace.batches) == 2


@pytest.fixture
def restored():
    yield
    signal.signal(SIGNAL, signal.SIG_DFL)


@pytest.mark.slow
def test_spawned_and_persistent_workers_are_looked_at_in_each_epoch():
    loader = DataLoader(
        TwoLines(), batch_size=4, num_workers=1, multiprocessing_context="spawn",
        persistent_workers=True,
    )  # fmt: skip
    with lv.record(loader, lines=True) as rec:
        one = [len(batch) for batch in loader]
        seconds = rec.snapshot().lines()["seconds"].sum()
        assert [len(batch) for batch in loader] == one
    assert rec.trace.lines()["seconds"].sum() > 1.5 * seconds
