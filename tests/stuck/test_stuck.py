"""Runs that stand still, each for another reason: what ``loaderviz stuck`` says of them."""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from torch.utils.data import DataLoader

import loaderviz as lv
from loaderviz import ask_for_stack
from loaderviz._stuck import examine_rank, process_view
from loaderviz._stuck.examine_run import examine_run
from loaderviz._stuck.rank_now import CURES
from loaderviz.errors import LoaderVizError
from loaderviz.stack_note import PATTERN, StackNote

SCRIPT = Path(__file__).parent.parent / "scripts" / "standstill.py"
LONGEST_S = 90  # for a run to get where it stands still, on a busy machine
STUCK_AT = 21

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems tell less")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(examine_rank, "LEAST_S", 1.0)


@contextmanager
def running(*command, **environment):
    process = subprocess.Popen(
        [sys.executable, *map(str, command)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        kill_with_workers(process.pid)
        process.wait()


def kill_with_workers(pid):
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        children = process.children(recursive=True)
        for child in children:
            with suppress(psutil.Error):
                if "resource_tracker" not in "".join(child.cmdline()):  # which cleans up at the end
                    child.kill()
        process.kill()
        psutil.wait_procs([process, *children], timeout=10)


class Runs:
    """Forks of one script, each of which stands still, and goes on doing so."""

    def __init__(self, script, home):
        self._script, self._home = script, home
        self._pids = {how: self.start(how, home / how) for how in STANDING}

    def start(self, how, folder):
        self._script.stdin.write(f"{how}\t{folder}\n")
        self._script.stdin.flush()
        return int(self._script.stdout.readline())

    @contextmanager
    def own(self, how, folder):
        """One for a test alone."""
        pid = self.start(how, folder)
        try:
            yield pid
        finally:
            kill_with_workers(pid)

    def folder(self, how):
        return self._home / how

    def __call__(self, how, is_so):
        """What is said of that run, and its process."""
        (rank,) = when(self.folder(how), is_so)
        return rank, self._pids[how]


# All at once: until they are where they stand still takes seconds.
STANDING = [
    *("sleep", "lock", "event", "shared lock", "network", "network with a timeout"),
    *("child", "pipe", "stopped", "stopped while it sends", "dead", "names", "stream"),
    *("at once", "main", "start", "two loaders", "foreign", "unrecorded", "step", "own handler"),
]


@pytest.fixture(scope="module")
def still(tmp_path_factory):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-m", SCRIPT.stem]
    with subprocess.Popen(command, cwd=SCRIPT.parent, text=True, **pipes) as script:
        try:
            yield Runs(script, tmp_path_factory.mktemp("still"))
        finally:
            kill_with_workers(script.pid)


def when(folder, is_so):
    """What is said of the run as soon as that is so, or at last."""
    end = time.monotonic() + LONGEST_S
    while True:
        try:
            ranks = examine_run(folder)
        except LoaderVizError:
            ranks = []
        if (ranks and is_so(ranks)) or time.monotonic() > end:
            return ranks
        time.sleep(0.3)


def all_stuck(ranks):
    return all(rank.stuck for rank in ranks)


def stuck_at_a_sample(ranks):
    return all_stuck(ranks) and ranks[0].sample is not None


def known_at_a_sample(ranks):
    """On a busy machine the worker may not have got to where it hangs."""
    return stuck_at_a_sample(ranks) and ranks[0].cause != "unknown"


def functions(process):
    return [frame.function for frame in process.stack]


MAIN = ["main", "<module>", "_run_code", "_run_module_as_main"]  # python -m
HANGS = [
    ("sleep", "sleep", "sleep"),
    ("lock", "lock held at fork", "no thread of its process can end this"),
    ("event", "lock held at fork", "left behind"),
    ("shared lock", "lock", "any process may hold"),
    ("network", "network", "127.0.0.1:"),
    ("network with a timeout", "network", "127.0.0.1:"),
    ("child", "another process", "to end"),
    ("pipe", "another process", "pipe"),
]


def assert_hangs(rank, pid, cause, evidence):
    worker, main = rank.processes[:2]
    assert psutil.pid_exists(pid)
    assert (rank.cause, rank.worker, rank.sample) == (cause, 1, STUCK_AT), rank.verdict
    assert evidence in worker.evidence
    assert (worker.worker, main.worker, main.pid) == (1, -1, pid)
    assert "hang" in functions(worker)
    assert functions(worker)[-1] == "__getitem__"
    assert functions(main) == MAIN
    assert cause in CURES


@pytest.mark.parametrize(("how", "cause", "evidence"), HANGS)
def test_a_worker_that_hangs_is_named_with_its_sample_and_why(how, cause, evidence, still):
    assert_hangs(*still(how, known_at_a_sample), cause, evidence)


def test_a_worker_that_computes_without_an_end_is_named_too(still, tmp_path):
    with still.own("computing", tmp_path / "run") as pid:
        (rank,) = when(tmp_path / "run", stuck_at_a_sample)
        assert_hangs(rank, pid, "computing", "computes")


# How it stands; its cause, worker and sample, where ... is not looked at; what is said; the calls
# at the end of the stack of the first process, None where they are not looked at.
OTHERS = [
    ("stopped", "stopped", 1, ..., "is stopped, by a signal", []),  # and so it is not asked
    ("stopped while it sends", "stopped", 1, None, "is stopped; it may hold the lock", None),
    ("dead", "dead worker", 1, STUCK_AT, "SIGKILL", None),
    ("names", "sleep", 1, f"image-{STUCK_AT}", "", None),
    ("stream", "sleep", 1, STUCK_AT, "", None),
    ("at once", ..., 1, None, "reading the samples 20, 21, 22, 23 at once", None),
    ("main", "sleep", None, STUCK_AT, "", ["hang", "__getitem__", *MAIN]),
    ("start", ..., 1, ..., "has begun no batch", ["hanging_start"]),
    ("two loaders", ..., 1, STUCK_AT, "of loader 1", None),
    ("foreign", "unknown", None, None, "whose own work is not seen", MAIN),
    ("unrecorded", "unknown", None, None, "that is not recorded", MAIN),
    ("step", "consumer", None, ..., "batch 5 of epoch 0", ["never_finish_a_step", *MAIN]),
    # Never sent the signal. By the files it is known which sample, by the kernel what for.
    ("own handler", "sleep", 1, STUCK_AT, "", []),
]


@pytest.mark.parametrize(
    ("how", "cause", "worker", "sample", "said", "calls"), OTHERS, ids=[how for how, *_ in OTHERS]
)
def test_who_holds_a_run_up_is_named_and_why(how, cause, worker, sample, said, calls, still):
    def found(rank):
        seen = (rank.cause, rank.worker, rank.sample)
        wanted = (cause, worker, sample)
        return tuple(... if want is ... else see for see, want in zip(seen, wanted, strict=True))

    wanted = (cause, worker, sample)
    rank, pid = still(how, lambda ranks: all_stuck(ranks) and found(ranks[0]) == wanted)
    assert found(rank) == wanted, rank.verdict
    assert psutil.pid_exists(pid)
    assert said in rank.verdict
    stack = functions(rank.processes[0])
    assert calls is None or (stack[-len(calls) :] if calls else stack) == calls


def test_of_a_worker_that_is_stopped_while_it_sends_another_one_s_batch_does_not_arrive(still):
    rank, _ = still("stopped while it sends", lambda ranks: ranks[0].cause == "stopped")
    assert "Worker 0" in rank.verdict
    assert "has made it, and it has not arrived" in rank.verdict
    assert (rank.processes[0].worker, rank.processes[-1].does) == (0, "is stopped")


def assert_answers_are_whole(folder, monkeypatch):
    """They are known to be, and not waited for as long as one that is cut off."""
    monkeypatch.setattr(ask_for_stack, "ANSWER_S", 60)
    notes = [StackNote.read(path) for path in folder.glob(PATTERN)]
    begun = time.monotonic()
    stacks = ask_for_stack.ask(folder, notes)
    assert time.monotonic() - begun < ask_for_stack.ANSWER_S
    assert len(stacks) == len(notes) > 0


def test_answers_of_a_program_that_is_a_module_are_known_to_be_whole(still, monkeypatch):
    still("step", all_stuck)
    assert_answers_are_whole(still.folder("step"), monkeypatch)


@pytest.mark.slow
def test_those_of_a_worker_that_was_spawned_too(tmp_path, monkeypatch):
    with running(SCRIPT, "spawn", tmp_path / "run"):
        (rank,) = when(tmp_path / "run", stuck_at_a_sample)
        assert_answers_are_whole(tmp_path / "run", monkeypatch)
    assert (rank.cause, rank.worker, rank.sample) == ("sleep", 0, STUCK_AT), rank.verdict


def test_past_max_bytes_it_is_known_where_the_loop_is(tmp_path, monkeypatch):
    monkeypatch.setattr(examine_rank, "LEAST_S", 0.0)
    loader = DataLoader(range(120_000), batch_size=100, collate_fn=len)
    with lv.record(loader, path=tmp_path / "run", max_bytes=1 << 20):
        for _ in loader:
            pass
        (rank,) = examine_run(tmp_path / "run")
    assert rank.cause == "consumer"
    assert "max_bytes" not in rank.verdict


@pytest.mark.slow
def test_a_pause_that_is_no_longer_than_earlier_ones_is_not_called_stuck(
    tmp_path, monkeypatch, loaderviz
):
    monkeypatch.setattr(examine_rank, "LEAST_S", 0.0)
    loader = DataLoader(range(4))
    with lv.record(loader, path=tmp_path / "run"):
        for n, _ in enumerate(loader):
            if n == 1:
                time.sleep(3)
            if n == 2:
                said = loaderviz("stuck", tmp_path / "run")
    assert said.code == 0
    assert "Nothing is stuck, as far as is known." in said.out
    assert "It has paused for 3" in said.out


def test_a_run_that_goes_on_is_not_asked_for_anything(still, tmp_path, monkeypatch):
    monkeypatch.setattr(examine_rank, "LEAST_S", 30.0)
    with still.own("fine", tmp_path / "run") as pid:
        (rank,) = when(tmp_path / "run", lambda ranks: ranks[0].n_batches > 3)
        assert psutil.pid_exists(pid)
        notes = [path.read_text() for path in (tmp_path / "run").glob("stack-*.txt")]
    assert not rank.stuck
    assert "last batch came" in rank.verdict
    assert [text.count("\n") for text in notes] == [1, 1, 1]


@pytest.mark.slow
def test_of_two_ranks_the_one_that_the_other_waits_for_is_named(tmp_path):
    command = (SCRIPT.with_name("standstill_of_ranks.py"), tmp_path / "run", tmp_path / "meeting")
    of_rank = [{"RANK": str(rank), "WORLD_SIZE": "2"} for rank in range(2)]
    with running(*command, **of_rank[0]), running(*command, **of_rank[1]):
        ranks = when(
            tmp_path / "run", lambda ranks: len(ranks) == 2 and all(rank.stuck for rank in ranks)
        )
    assert [rank.cause for rank in ranks] == ["other ranks", "sleep"]
    assert [rank.sample for rank in ranks] == [None, 12]
    assert "barrier()" in ranks[0].verdict


@pytest.mark.slow
def test_where_shared_memory_is_full_that_is_said(tmp_path):
    mount = "mount -t tmpfs -o size=3m tmpfs /dev/shm && exec "
    unshare = ["unshare", "-m", "sh", "-c"]
    if not shutil.which("unshare") or subprocess.run([*unshare, f"{mount} true"]).returncode:
        pytest.skip("needs the right to mount")
    script = SCRIPT.with_name("standstill_of_shared_memory.py")
    command = f"{mount} {sys.executable} {script} {tmp_path / 'run'}"
    code = f"import os; os.execvp('unshare', {[*unshare, command]!r})"
    with running("-c", code):
        (rank,) = when(tmp_path / "run", all_stuck)
    assert rank.cause == "shared memory", rank.verdict
    assert "/dev/shm" in rank.verdict


def test_what_cannot_be_looked_at_is_bad_input(still, tmp_path, loaderviz):
    def error(folder):
        said = loaderviz("stuck", folder)
        assert said.code == 2
        return said.err

    assert "is no folder" in error(tmp_path / "nowhere")
    assert "nothing is recorded" in error(tmp_path)
    with still.own("nothing", tmp_path / "ended") as pid:
        psutil.Process(pid).wait(LONGEST_S)
    assert "has ended" in error(tmp_path / "ended")
    with still.own("sleep", tmp_path / "run"):
        when(tmp_path / "run", all_stuck)
    assert "does not run any more" in error(tmp_path / "run")
    meta_path = tmp_path / "run" / "meta.json"
    meta = json.loads(meta_path.read_text())
    meta_path.write_text(json.dumps({**meta, "clock_domain": "another", "host": "far-away"}))
    assert "far-away" in error(tmp_path / "run")
    (tmp_path / "run" / "main.spool").write_bytes(b"damaged")
    assert "main.spool" in error(tmp_path / "run")


def test_the_command_prints_it_for_people_and_as_json(still, loaderviz):
    still("sleep", all_stuck)
    text, data = (
        loaderviz("stuck", still.folder("sleep"), *options) for options in ([], ["--json"])
    )
    assert (text.code, data.code) == (1, 1)
    assert "stuck: sleep" in text.out
    assert "Worker 1" in text.out
    assert "in hang" in text.out
    document = json.loads(data.out)
    (rank,) = document["ranks"]
    assert document["stuck"]
    assert (rank["worker"], rank["sample"]) == (1, STUCK_AT)
    assert rank["processes"][0]["stack"][0]["function"] == "hang"


@pytest.mark.slow
def test_where_a_system_tells_little_that_is_what_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(process_view, "PROC", tmp_path / "nothing")
    view = process_view.view_process(os.getpid())
    gone = process_view.view_process(2**22 + 1)
    assert view.is_alive
    assert view.cpu_s > 0
    assert (view.call, view.kernel_function, view.waits_on) == ("", "", ())
    assert not gone.is_alive
