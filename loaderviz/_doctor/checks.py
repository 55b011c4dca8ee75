"""The list of checks. A check is one decorated function: adding one touches no other place."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loaderviz._doctor.findings import Finding, Severity, State, Undecided

if TYPE_CHECKING:
    from loaderviz._doctor.examination import Case

CHECKS: dict[str, Check] = {}
OF_RECORDINGS: dict[str, Check] = {}  # what only the reader's own run shows

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
}


@dataclass(frozen=True)
class Seen:
    """A check's yes: what it saw, in lines, and the code that cures it."""

    evidence: tuple[str, ...]
    fix: str


@dataclass(frozen=True)
class Check:
    code: str
    title: str
    severity: Severity
    notebook: str
    links: tuple[str, ...]
    look: Callable[[Case], Seen | None]
    recorded: bool = False

    def judge(self, case: Case) -> Finding | None:
        """None where all is well. A check that fails is reported as such; it stops no other."""
        try:
            seen = self.look(case)
        except Undecided as why:
            return self._finding("undecided", (str(why),))
        except Exception as error:
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
    """Add a check: ``look(case)`` returns what it saw, None if all is well, or raises Undecided.

    Args:
        code: of the design's table of pitfalls; never given to another one.
        title: the pitfall in one line.
        severity: see ``Finding``.
        notebook: the number of the one that shows it.
        threads: numbers of issues, ``owner/name#number`` or a number of pytorch/pytorch, spaced.
        recorded: whether the recording of a run can tell it, without the loader.
        into: the list that it joins.
    """

    def add(look: Callable[[Case], Seen | None]) -> Callable[[Case], Seen | None]:
        links = tuple(map(_link, threads.split()))
        named = _NOTEBOOKS[notebook]
        into[code] = Check(code, title, severity, named, links, look, recorded)
        return look

    return add


def seen(*evidence: str, fix: str) -> Seen:
    return Seen(evidence, fix.strip("\n"))


def _link(thread: str) -> str:
    found = re.fullmatch(r"(?:([\w.-]+/[\w.-]+)#)?(\d+)", thread)
    assert found is not None, thread
    return f"https://github.com/{found[1] or 'pytorch/pytorch'}/issues/{found[2]}"
