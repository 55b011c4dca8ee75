"""A copy of the tree in which `mutants.py` changes a file and runs tests.

Its processes import the changed file from the disk, workers that are spawned included: the copy has
an environment of its own, of links. A server in there has imported what the tests need, loaderviz
not, and forks for each run of tests.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MOST_MEMORY_BYTES = 8 * 2**30  # of addresses: a loop that no longer ends may fill a list
POLL_S = 0.02
PRELOADED = (
    *("IPython", "hypothesis", "ipywidgets", "jinja2", "nbformat", "numpy", "pandas", "psutil"),
    *("plotly.graph_objects", "pyarrow.parquet", "pytest", "rich.console", "torch"),
    *("torch.utils.data", "typer", "xxhash"),
)
STARTED, FAILED = "started ", "failed "


@dataclass(frozen=True)
class Outcome:
    """Of a run of tests: which failed, if one did; the run stops there."""

    failed: str | None
    hung: bool
    cpu_s: float


class Slot:
    """A copy of the tree, with a server that runs tests in it."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.tree, self._temporary = folder / "tree", folder / "tmp"
        tracked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(tracked, cwd=root, capture_output=True, text=True, check=True)
        for name in filter(None, listed.stdout.split("\0")):
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, self.tree / name)
        python = _environment_of_links(self.tree)
        self._temporary.mkdir()  # before the server looks for it
        self._writes = 0
        self._changed: tuple[Path, str] | None = None
        self._log = (folder / "log.txt").open("w")
        self._python = python
        self._start()

    def _start(self) -> None:
        self._server = subprocess.Popen(
            [self._python, "-u", self.tree / "benchmarks" / Path(__file__).name],
            cwd=self.tree,
            env={**os.environ, "TMPDIR": str(self._temporary)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def change(self, file: str, text: str) -> None:
        self._changed = (self.tree / file, (self.tree / file).read_text())
        self._write(self.tree / file, text)

    def restore(self) -> None:
        if self._changed is not None:
            self._write(*self._changed)
            self._changed = None

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        # What is compiled is taken for current by the file's size and the second of its change.
        self._writes += 1
        os.utime(path, (10**9 + self._writes,) * 2)

    def test(self, tests: Sequence[str], limits_s: Sequence[float]) -> Outcome:
        """Run tests in this order; one that takes longer than its limit is taken to hang."""
        shutil.rmtree(self.tree / ".hypothesis", ignore_errors=True)  # what failed before
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir()
        request = json.dumps({"tests": list(tests), "limits_s": list(limits_s)})
        self._server.stdin.write(request + "\n")
        self._server.stdin.flush()
        reply = self._server.stdout.readline()
        if not reply:  # what the change let loose has ended the server, too
            self._server.stdin.close()
            self._server.stdout.close()
            self._server.wait()
            self._start()
            return Outcome(tests[0], True, 0.0)
        return Outcome(**json.loads(reply))

    def close(self) -> None:
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()
        self._log.close()


def _environment_of_links(tree: Path) -> Path:
    """A copy of the running environment in which loaderviz is that of the tree; its Python."""
    old, new = Path(sys.prefix), tree / ".venv"
    packages = Path(*Path(os.__file__).parent.parts[-2:], "site-packages")
    (new / packages).mkdir(parents=True)
    (new / "bin").mkdir()
    shutil.copy2(old / "pyvenv.cfg", new)
    (new / "share").symlink_to(old / "share")
    for entry in (old / packages).iterdir():
        if entry.suffix == ".pth" and "loaderviz" in entry.name:
            (new / packages / entry.name).write_text(str(tree))
        else:
            (new / packages / entry.name).symlink_to(entry)
    for entry in (old / "bin").iterdir():
        if entry.is_symlink():
            (new / "bin" / entry.name).symlink_to(entry.readlink())
        else:
            script = entry.read_bytes().replace(bytes(old), bytes(new))
            (new / "bin" / entry.name).write_bytes(script)
            shutil.copymode(entry, new / "bin" / entry.name)
    return new / "bin" / "python"


class _Chosen:
    """A plugin of pytest: these tests, in this order; tells what runs."""

    def __init__(self, tests: list[str], told: int) -> None:
        self._places = {test: place for place, test in enumerate(tests)}
        self._told = told

    def _tell(self, what: str) -> None:
        os.write(self._told, what.encode() + b"\n")

    def pytest_collection_modifyitems(self, config, items) -> None:
        items[:] = [item for item in items if item.nodeid in self._places]
        items.sort(key=lambda item: self._places[item.nodeid])

    def pytest_runtest_logstart(self, nodeid) -> None:
        self._tell(STARTED + nodeid)

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            self._tell(FAILED + report.nodeid)


def _serve() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        replies.write(json.dumps(_run(**json.loads(line))) + "\n")


def _run(tests: list[str], limits_s: list[float]) -> dict[str, object]:
    reads, told = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reads)
        _exit_with_tests(tests, told)
    os.close(told)
    os.set_blocking(reads, False)
    limits = dict(zip(tests, limits_s, strict=True))
    # To collect comes first; it is quick, but not with this change, perhaps.
    running, said, since, hung = tests[0], "", time.monotonic(), False
    while True:
        with contextlib.suppress(BlockingIOError):
            said += os.read(reads, 2**16).decode()
        started = [one for one in said.splitlines() if one.startswith(STARTED)]
        if started and started[-1] != STARTED + running:
            running, since = started[-1].removeprefix(STARTED), time.monotonic()
        ended, status, used = os.wait4(pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() - since > limits[running] and not hung:
            hung = True
            _kill(pid)
        time.sleep(POLL_S)
    with contextlib.suppress(BlockingIOError):
        said += os.read(reads, 2**20).decode()
    os.close(reads)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # what it left running
    failed = [one.removeprefix(FAILED) for one in said.splitlines() if one.startswith(FAILED)]
    if not failed and (hung or status):
        failed = [running]  # which crashed, or never began
    return {
        "failed": failed[0] if failed else None,
        "hung": hung,
        "cpu_s": used.ru_utime + used.ru_stime,
    }


def _exit_with_tests(tests: list[str], told: int) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, resource.RLIM_INFINITY))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    import pytest

    sys.path.insert(0, str(Path.cwd()))  # as `python -m pytest` does
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    options = ["-x", "-q", "--hypothesis-seed=0", "-p", "no:nbval", "-p", "no:cacheprovider"]
    code = 1
    try:
        code = int(pytest.main([*options, *files], [_Chosen(tests, told)]))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _kill(pid: int) -> None:
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in [*root.children(recursive=True), root]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


if __name__ == "__main__":
    _serve()
