"""The leak guard fails what it should, passes what it should, and never blames the next test."""

import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from segments import SHARED_MEMORY

LEAKY = """
    import multiprocessing, subprocess, sys, tempfile, threading, time
    from multiprocessing.shared_memory import SharedMemory
    import pytest

    kept = []

    def test_process():
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])

    def test_after_process(): pass

    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_worker(method):
        context = multiprocessing.get_context(method)
        context.Process(target=time.sleep, args=(60,), daemon=True).start()

    def test_after_worker(): pass

    def test_thread():
        threading.Thread(target=time.sleep, args=(60,), name="idler", daemon=True).start()

    def test_after_thread(): pass

    def test_segment():
        kept.append(SharedMemory(create=True, size=16))

    def test_after_segment(): pass

    def test_file():
        tempfile.mkstemp(prefix="lv-leak")

    def test_folder():
        tempfile.mkdtemp(prefix="lv-leak")

    def test_after_file(): pass
"""

CLEAN = """
    import multiprocessing, subprocess, sys, tempfile, threading, time
    from multiprocessing.shared_memory import SharedMemory
    import pytest

    @pytest.fixture(scope="module")
    def server():
        code = "import subprocess, time; time.sleep(0.3); subprocess.run(['sleep', '60'])"
        process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        yield process
        import os, signal
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def test_the_later_child_of_a_wider_fixture(server):
        time.sleep(0.6)

    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_worker_that_is_joined(method):
        process = multiprocessing.get_context(method).Process(target=time.sleep, args=(0.01,))
        process.start()
        process.join()

    def test_what_ends_within_the_grace_period():
        threading.Thread(target=time.sleep, args=(0.3,)).start()
        subprocess.Popen(["sleep", "0.3"])

    def test_segment_that_is_unlinked():
        segment = SharedMemory(create=True, size=16)
        segment.close()
        segment.unlink()

    def test_file_that_is_removed():
        with tempfile.NamedTemporaryFile(), tempfile.TemporaryDirectory():
            pass

    def test_files_of_pytest(tmp_path):
        (tmp_path / "kept").touch()
"""

# Each waits for the other's file, so that the semaphores appear while the test runs.
WITNESS = """
    import pathlib, time

    def test_beside_another_program():
        pathlib.Path("running").touch()
        while not pathlib.Path("made").exists():
            time.sleep(0.01)
"""
OTHER_PROGRAM = """
import multiprocessing, pathlib, time
while not pathlib.Path("running").exists():
    time.sleep(0.01)
spawn = multiprocessing.get_context("spawn")
lock = spawn.Lock()
pathlib.Path("made").touch()
input()
child = spawn.Process(target=repr, args=(lock,))  # opens the semaphore by its name
child.start()
child.join()
raise SystemExit(child.exitcode)
"""


# No tracker ever heard of this one, and nobody has it in memory.
UNTRACKED = """
    import subprocess, sys, time

    def test_with_a_program_that_is_killed():
        make = "import os; open('/dev/shm/NAME', 'w').close(); os.kill(os.getpid(), 9)"
        subprocess.run([sys.executable, "-c", make])
        time.sleep(0.1)
"""
LATER = """
    import time

    def test_that_leaves_nothing(): time.sleep(0.2)
"""


@pytest.fixture
def run_under_guard(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Run test modules in a pytest of its own, since a leak could not be undone in this one.

    Unless it is a `whole` run, what nobody claims is left to the pytest that has started it.
    """
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # nbval takes seconds to import

    def run(
        *sources: str, grace_s: float = 0.2, whole: bool = False, processes: int = 0
    ) -> pytest.RunResult:
        if whole:
            monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
        else:
            monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
        pytester.makeconftest(
            f"import leak_guard, unclaimed\nleak_guard.GRACE_S = unclaimed.GRACE_S = {grace_s}"
        )
        for number, source in enumerate(sources):
            pytester.makepyfile(**{f"test_module_{number}": source})
        plugins = ["-p", "xdist", "-p", "leak_guard", "-p", "no:cacheprovider"]
        return pytester.runpytest_subprocess(*plugins, "-n", str(processes), "--dist=loadfile")

    return run


def test_each_kind_of_leak_fails_its_test_and_no_other(run_under_guard):
    result = run_under_guard(LEAKY)

    result.assert_outcomes(passed=13, errors=8)
    for test, leak in [
        ("test_process", "process * (*time.sleep(60)*)"),
        ("test_worker[[]fork[]]", "process *"),
        ("test_worker[[]spawn[]]", "process *"),
        ("test_worker[[]forkserver[]]", "process *"),
        ("test_thread", "thread 'idler'"),
        ("test_segment", "shared-memory segment psm_*"),
        ("test_file", "temporary file lv-leak*"),
        ("test_folder", "temporary file lv-leak*"),
    ]:
        result.stdout.fnmatch_lines(
            [f"*ERROR at teardown of {test} *", f"the test left behind: {leak}"]
        )


def test_what_is_put_away_passes(run_under_guard):
    result = run_under_guard(CLEAN, grace_s=2)

    result.assert_outcomes(passed=8)


@pytest.mark.slow
def test_a_segment_of_another_program_is_neither_blamed_nor_touched(run_under_guard, pytester):
    # A child of this process is no relative of the pytest that is run under the guard.
    command = [sys.executable, "-c", OTHER_PROGRAM]
    with subprocess.Popen(command, cwd=pytester.path, stdin=subprocess.PIPE) as other:
        try:
            result = run_under_guard(WITNESS, whole=True)
            other.communicate(b"\n")
        finally:
            other.kill()

    assert other.returncode == 0, "its semaphore is gone"
    result.assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [0, 2])
def test_a_segment_of_which_nobody_tells_fails_the_run(run_under_guard, processes):
    name = f"lv-untracked-{uuid.uuid4()}"
    try:
        source = UNTRACKED.replace("NAME", name)
        result = run_under_guard(source, LATER, whole=True, processes=processes)
    finally:
        (SHARED_MEMORY / name).unlink(missing_ok=True)

    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            f"shared-memory segment {name} was left behind by one of these, *",
            "  test_module_0.py::test_with_a_program_that_is_killed",
        ]
    )
    if not processes:
        result.stdout.no_fnmatch_line("  test_module_1.py::*")
