"""Notebook 16's exercise: a check that lets a good night pass, and stops a bad one."""

from __future__ import annotations

import shlex
from pathlib import Path

from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.course.run_in_shell import run_python

check_hint = Hints(
    "print(loaderviz.load(RUN).summary()) tells how much of its time each run waited.",
    "a limit between the two; well above the good one, for nights on which the machine is busy.",
)


@explains_errors
def nightly(options: str, *, good: str | Path, bad: str | Path) -> Check:
    """Whether ``loaderviz check RUN`` with these options passes the good run, and not the bad."""
    good_code, good_text = _checked(good, options)
    if good_code not in (0, 1):
        return Check(False, f"It cannot run so:\n{good_text.rstrip()}")
    bad_code, bad_text = _checked(bad, options)
    if good_code == bad_code == 0:
        return Check(False, f"Not yet: the bad night passes, too.\n{bad_text.rstrip()}")
    if good_code:
        return Check(False, f"Not yet: the good night fails.\n{good_text.rstrip()}")
    return Check(True, f"The bad night is stopped, and the good one passes.\n{bad_text.rstrip()}")


def _checked(run: str | Path, options: str) -> tuple[int, str]:
    return run_python(["-m", "loaderviz", "check", str(run), *shlex.split(options)])
