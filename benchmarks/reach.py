"""Which lines of the package each test reaches, and what it costs: measured and read.

`mutants.py --coverage` runs the unit tests with this plugin of pytest, under coverage.py. Lines
that run in a subprocess, or in a worker that is forked, count as reached by the test that started
it; those that run in a fixture of a wider scope, as reached by each test that uses the fixture.
What a test finds in a cache counts for the test that filled it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import coverage
import pytest
from mutations import ROOT, folder_of_tests, room_of

CONTEXT = "LOADERVIZ_REACHED_FROM"  # names the test, for the processes that it starts
FOLDER = "LOADERVIZ_REACH"  # names the folder for what is measured

_LEFT_OUT = {"browser", "strangers"}  # folders of tests that `make unit` leaves out, too
_MEASURED = "measured.txt"  # the tests that an earlier run measured
_exit = os._exit


@dataclass(frozen=True)
class Test:
    """A test, what it used of the processors, and how long it took."""

    name: str
    cpu_s: float
    wall_s: float

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]

    @property
    def folder(self) -> str:
        return str(Path(self.file).parent)


class Reach:
    """What was measured: which tests reach a line.

    Without coverage, as after `mutants.py --times`, those of its room are taken to.
    """

    def __init__(self, folder: Path) -> None:
        entries = {entry["test"]: entry for entry in _entries(folder)}
        self.tests = {
            name: Test(name, entry["cpu_s"], entry["wall_s"])
            for name, entry in entries.items()
            if entry["passed"]
        }
        self.left_out = sorted(entries.keys() - self.tests.keys())
        self._users = defaultdict(set)
        for name, entry in entries.items():
            for fixture in entry["fixtures"]:
                self._users[fixture].add(name)
        self._data = None
        if (folder / "coverage").exists():
            self._data = coverage.CoverageData(str(folder / "coverage"))
            self._data.read()

    @cache  # noqa: B019 - there is one
    def _of_file(self, path: str) -> dict[int, list[str]]:
        return self._data.contexts_by_lineno(path)

    def tests_of(self, path: Path, lines: Iterable[int]) -> set[Test]:
        """The tests that reach one of these lines, but those that did not pass."""
        if self._data is None:
            of_room = folder_of_tests(room_of(str(path.relative_to(ROOT))))
            below = () if of_room == "tests" else (f"{of_room}/",)  # `course/datasets` has a folder
            return {
                test
                for test in self.tests.values()
                if test.folder == of_room or test.folder.startswith(below)
            }
        of_file = self._of_file(str(path))
        names = {name for line in lines for name in of_file.get(line, ())}
        names |= {user for name in names for user in self._users.get(name, ())}
        return {self.tests[name] for name in names if name in self.tests}


def _entries(folder: Path) -> Iterator[dict[str, object]]:
    for file in sorted(folder.glob("tests.*.jsonl")):
        yield from map(json.loads, file.read_text().splitlines())


def note_what_is_measured(folder: Path) -> None:
    """For a run that goes on where one was interrupted; what failed may have been cut off."""
    passed = (entry["test"] for entry in _entries(folder) if entry["passed"])
    (folder / _MEASURED).write_text("\n".join(passed))


def _save_and_exit(status: int) -> None:
    """As `os._exit`, which is how a process ends that multiprocessing, or a test, forked."""
    with contextlib.suppress(Exception):
        coverage.Coverage.current().save()
    _exit(status)


def pytest_configure() -> None:
    os._exit = _save_and_exit


def pytest_unconfigure() -> None:
    if measured := coverage.Coverage.current():
        measured.save()


@contextlib.contextmanager
def _reached_from(name: str) -> Iterator[None]:
    before = os.environ.get(CONTEXT, "")
    _switch(name)
    try:
        yield
    finally:
        _switch(before)


def _switch(name: str) -> None:
    os.environ[CONTEXT] = name
    if measured := coverage.Coverage.current():
        measured.switch_context(name)


def _key(fixture: pytest.FixtureDef[object]) -> str:
    return f"fixture {fixture.argname} of {fixture.baseid}"


def _wider(item: pytest.Item) -> list[str]:
    known = item._fixtureinfo.name2fixturedefs
    return [_key(one) for some in known.values() for one in some if one.scope != "function"]


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
    if fixturedef.scope == "function":
        return (yield)
    with _reached_from(_key(fixturedef)):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    begun, before = time.perf_counter(), sum(os.times()[:4])
    item.stash[_failed] = False
    with _reached_from(item.nodeid):
        result = yield
    entry = {
        "test": item.nodeid,
        "passed": not item.stash[_failed],
        "cpu_s": round(sum(os.times()[:4]) - before, 3),
        "wall_s": round(time.perf_counter() - begun, 3),
        "fixtures": _wider(item),
    }
    with (Path(os.environ[FOLDER]) / f"tests.{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps(entry) + "\n")
    return result


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return collection_path.name in _LEFT_OUT or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A run that was interrupted goes on: what was measured by then need not be again."""
    measured = set((Path(os.environ[FOLDER]) / _MEASURED).read_text().splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in measured])
    items[:] = [item for item in items if item.nodeid not in measured]


_failed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if not report.passed:  # a skipped test catches nothing, either
        item.stash[_failed] = True
    return report
