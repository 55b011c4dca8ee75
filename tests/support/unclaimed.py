"""Fails a run that leaves segments behind of which no test could be convicted by `leak_guard.py`.

When the test processes have ended, such a segment is in nobody's memory any more. The tests that
ran when it was made are named; where tests run one after another, that is one test.
"""

import os
import time
from collections.abc import Iterator

import psutil
import pytest

from segments import SHARED_MEMORY, Segment, holders, segments

# The resource trackers of the test processes end after them, and other programs put theirs away.
GRACE_S = 10.0
TICK_S = 0.01  # by which the coarse clock of files may be late


def pytest_sessionstart(session: pytest.Session) -> None:
    # Not for each worker of pytest-xdist, nor for a pytest that a test in one of them has started.
    if "PYTEST_XDIST_WORKER" not in os.environ:
        session.config.pluginmanager.register(Unclaimed())


class Unclaimed:
    """Watches over the run, from the process that hands out the tests if there are several."""

    def __init__(self) -> None:
        self._before = set(segments())
        self._ran: dict[str, tuple[float, float]] = {}
        self._left: list[tuple[Segment, list[str]]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        start, _ = self._ran.get(report.nodeid, (report.start, None))
        # Of a test process that dies there is no last report.
        stop = report.stop if report.when == "teardown" else float("inf")
        self._ran[report.nodeid] = (start, stop)

    @pytest.hookimpl(trylast=True)  # when the test processes have ended
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        deadline = time.monotonic() + GRACE_S
        while (left := list(self._new())) and time.monotonic() < deadline:
            time.sleep(0.05)
        self._left = [(segment, self._beside(segment)) for segment in left]
        if left and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _new(self) -> Iterator[Segment]:
        for segment in set(segments()) - self._before:
            if not holders(segment, psutil.pids()):
                yield segment

    def _beside(self, segment: Segment) -> list[str]:
        try:
            made = (SHARED_MEMORY / segment.name).stat().st_ctime
        except FileNotFoundError:
            return []
        return [test for test, (start, stop) in self._ran.items() if start - TICK_S <= made <= stop]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for segment, tests in self._left:
            terminalreporter.section("left behind", red=True)
            terminalreporter.line(
                f"shared-memory segment {segment.name} was left behind by one of these, which ran "
                "when it was made:"
            )
            for test in tests:
                terminalreporter.line(f"  {test}")
