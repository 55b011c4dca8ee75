"""The list of checks. A check is one decorated function and a page; to add one, change no more.

A check runs nothing. What two epochs of the loader do not show, a look beside it may learn from the
loader's parts: ``lv3_items.py`` has one of each, to be copied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loaderviz._doctor.findings import Finding, State, Undecided
from loaderviz._explain import About, about
from loaderviz.failed_part import raise_in_tests

if TYPE_CHECKING:
    from loaderviz._doctor.examination import Case
    from loaderviz._doctor.loader_setup import Setup

    Look = Callable[[Setup, float], Any]

CHECKS: dict[str, Check] = {}
OF_RECORDINGS: dict[str, Check] = {}  # checks of what only the reader's own run shows
LOOKS: list[LookFor] = []


@dataclass(frozen=True)
class LookFor:
    """A look, and what it learns: see ``look``."""

    function: Look
    learns: type
    after_failure: bool
    anywhere: bool


@dataclass(frozen=True)
class NotLearnt:
    """Sent in place of what a look learns."""

    learns: type
    why: str = ""  # it was broken off; empty: there is nothing to learn


@dataclass(frozen=True)
class Seen:
    """What a check returns that found its pitfall: the evidence, in lines, and code for a fix."""

    evidence: tuple[str, ...]
    fix: str


@dataclass(frozen=True)
class Check:
    """A check: a function that looks for the pitfall whose page has this code."""

    code: str
    find: Callable[[Case], Seen | None]  # see ``check``
    recorded: bool = False  # whether a recording can decide it, without the loader

    @property
    def about(self) -> About:
        """Title, severity, notebook and links, as the page has them."""
        return about(self.code)

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
        page = self.about
        return Finding(
            self.code,
            page.title,
            page.severity,
            state,
            evidence,
            fix,
            page.notebook,
            page.links,
        )


def check(
    code: str, *, recorded: bool = False, into: dict[str, Check] = CHECKS
) -> Callable[[Callable[[Case], Seen | None]], Callable[[Case], Seen | None]]:
    """Add the decorated function to the list of checks.

    It returns ``seen(...)`` if it finds the pitfall, None if all is well, or raises Undecided.

    Args:
        code: of its page in ``_explain/pages``, which has the title, the severity, the notebook
            and the threads; never reused for another pitfall.
        recorded: whether the recording of a run can decide it, without the loader.
        into: the list to add it to.
    """

    def add(find: Callable[[Case], Seen | None]) -> Callable[[Case], Seen | None]:
        into[code] = Check(code, find, recorded)
        return find

    return add


def seen(*evidence: str, fix: str) -> Seen:
    """The pitfall was found: each line of evidence, and Python code that fixes it."""
    return Seen(evidence, fix.strip("\n"))


def look(
    learns: type, *, after_failure: bool = False, anywhere: bool = False
) -> Callable[[Look], Look]:
    """Add the decorated function to what is learnt of a loader without an epoch.

    It is called as ``look(setup, until)`` in a copied process, once the epochs are over, and
    returns an observation for ``Case.observed``, or None where there is nothing to learn. It starts
    no process. At ``until``, in seconds of ``time.monotonic()``, it is broken off. Whatever it
    raises leaves undecided what it would have learnt.

    Args:
        learns: the class of the observation.
        after_failure: whether it looks, too, at a loader that failed.
        anywhere: whether it may look in the reader's own process, where that cannot be copied.
    """

    def add(function: Look) -> Look:
        LOOKS.append(LookFor(function, learns, after_failure, anywhere))
        return function

    return add
