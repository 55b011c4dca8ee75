"""The list of checks. A check is one decorated function; to add one, change nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loaderviz._doctor.findings import Finding, Severity, State, Undecided
from loaderviz.failed_part import raise_in_tests

if TYPE_CHECKING:
    from loaderviz._doctor.examination import Case

CHECKS: dict[str, Check] = {}
OF_RECORDINGS: dict[str, Check] = {}  # checks of what only the reader's own run shows

_NOTEBOOKS = {
    1: "01 Map and iterable",
    2: "02 Inside the DataLoader",
    3: "03 Workers on a timeline",
    4: "04 Duplicates and losses",
    5: "05 Randomness",
    6: "06 Streaming",
    7: "07 How many workers",
    8: "08 Feeding the GPU",
    9: "09 Many ranks",
    11: "11 Stop and resume",
}


@dataclass(frozen=True)
class Seen:
    """What a check returns that found its pitfall: the evidence, in lines, and code for a fix."""

    evidence: tuple[str, ...]
    fix: str


@dataclass(frozen=True)
class Check:
    """A check: the text of its finding, and the function that looks for the pitfall."""

    code: str
    title: str
    severity: Severity
    notebook: str
    links: tuple[str, ...]
    find: Callable[[Case], Seen | None]  # see ``check``
    recorded: bool = False  # whether a recording can decide it, without the loader

    def judge(self, case: Case) -> Finding | None:
        """The answer of this check; None where all is well. One that raises counts as broken."""
        try:
            seen = self.find(case)
        except Undecided as reason:
            return self._finding("undecided", (str(reason),))
        except Exception as error:
            raise_in_tests()
            return self._finding("broken", (f"the check failed: {type(error).__name__}: {error}",))
        return None if seen is None else self._finding("found", seen.evidence, seen.fix)

    def _finding(self, state: State, evidence: tuple[str, ...], fix: str = "") -> Finding:
        return Finding(
            self.code,
            self.title,
            self.severity,
            state,
            evidence,
            fix,
            self.notebook,
            self.links,
        )


def check(
    code: str,
    title: str,
    severity: Severity,
    *,
    notebook: int,
    threads: str = "",
    recorded: bool = False,
    into: dict[str, Check] = CHECKS,
) -> Callable[[Callable[[Case], Seen | None]], Callable[[Case], Seen | None]]:
    """Add the decorated function to the list of checks.

    It returns ``seen(...)`` if it finds the pitfall, None if all is well, or raises Undecided.

    Args:
        code: as in the design's table of pitfalls; never reused for another one.
        title: the pitfall in one line.
        severity: see ``Finding``.
        notebook: the number of the notebook that shows it.
        threads: issues, separated by spaces: ``owner/name#number``, or a number of pytorch/pytorch.
        recorded: whether the recording of a run can decide it, without the loader.
        into: the list to add it to.
    """

    def add(find: Callable[[Case], Seen | None]) -> Callable[[Case], Seen | None]:
        links = tuple(map(_link, threads.split()))
        into[code] = Check(code, title, severity, _NOTEBOOKS[notebook], links, find, recorded)
        return find

    return add


def seen(*evidence: str, fix: str) -> Seen:
    """The pitfall was found: each line of evidence, and Python code that fixes it."""
    return Seen(evidence, fix.strip("\n"))


def _link(thread: str) -> str:
    match = re.fullmatch(r"(?:([\w.-]+/[\w.-]+)#)?(\d+)", thread)
    assert match is not None, thread
    return f"https://github.com/{match[1] or 'pytorch/pytorch'}/issues/{match[2]}"
