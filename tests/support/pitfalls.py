"""The sick and the cured loaders of each code: those on its page, and the patients beside them.

``visit`` has the doctor examine each once in a process, for all tests that look at it.
"""

import importlib
import os
import re
import resource
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

import loaderviz as lv
from loaderviz._doctor import Diagnosis
from loaderviz._doctor.checks import CHECKS
from loaderviz._explain import explanation
from patients import VARIANTS

# These take several ranks or a GPU: their pages say so, and their code is only compiled.
NOT_ON_A_PAGE = {"LV125", "LV202", "LV504", "LV505"}
SICK = [*sorted({*CHECKS} - NOT_ON_A_PAGE), *VARIANTS]
CURED = [name for name in SICK if name not in VARIANTS or len(VARIANTS[name]) == 2]

TO_RESUME = ("LV110", "LV111", "LV112")  # where that is asked for
# What hangs takes half of its budget. On a busy machine, a worker that is started anew takes many
# seconds, and LV315 starts several; the others need far less.
BUDGETS_S = {"LV403": 3.0, "LV502": 3.0, "LV315": 120.0}
BUDGET_S = 60.0
# Once it is cured workers deliver, but what is read in a copy of this process still hangs.
CURED_BUDGETS_S = {"LV502": 45.0, "LV315": 120.0}
# Less shows as much, and takes less CPU time: a process that is started anew imports torch, and one
# is enough, for both epochs; what is sent to a cured one may be little.
LIGHTER = {
    "LV306": {"100_000": "40_000"},
    "LV309": {"return 160": "return 80"},
    "LV315": {"num_workers=2": "num_workers=1"},
    "LV501": {'context="spawn")': 'context="spawn", persistent_workers=True)'},
    "LV502": {"timeout=60,": "timeout=60, persistent_workers=True,"},
    "LV508": {'context="spawn")': 'context="spawn", persistent_workers=True)'},
}
LIGHTER_ONCE_CURED = {"LV315": {"1_200_000": "1_200"}}
LOOKS_AT_TIMES = 3  # at most
LOOKS_FOR_IT = 6  # of the sick: other work hides what times tell, and makes none of it


def code_of(name: str) -> str:
    return name.split()[0]


def python_on_page(code: str, section: str) -> str:
    """The code in the section "Sick" or "Cured"."""
    (block,) = re.findall(rf"^## {section}\n+```python\n(.*?)```", explanation(code), re.M | re.S)
    return block


@contextmanager
def imported_page(code: str, *, cured: bool) -> Iterator[ModuleType]:
    """The code of a page as a module that workers can import, too, however they are started."""
    name = f"page_of_{code.replace('-', '_')}"
    text = python_on_page(code, "Sick")
    if cured:
        text += python_on_page(code, "Cured")
    changes = LIGHTER.get(code, {}) | (LIGHTER_ONCE_CURED.get(code, {}) if cured else {})
    for heavy, light in changes.items():
        assert heavy in text or not cured
        text = text.replace(heavy, light)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        Path(folder, f"{name}.py").write_text(text)
        patch.syspath_prepend(folder)
        try:
            yield importlib.import_module(name)
        finally:
            sys.modules.pop(name, None)


@contextmanager
def patient(name: str, *, cured: bool) -> Iterator[Any]:
    """The loader, in the conditions in which it is sick."""
    condition = CONDITIONS.get(code_of(name), nullcontext)
    if name in VARIANTS:
        with condition():
            yield VARIANTS[name][cured]()
    else:
        with imported_page(name, cured=cured) as module:
            around = a_thread_holds(module.LOCK) if name == "LV502" else condition()
            with around:
                yield module.loader


def examine(name: str, *, cured: bool, run: bool = True) -> Diagnosis:
    budgets_s = CURED_BUDGETS_S if cured else BUDGETS_S
    budget_s = budgets_s.get(code_of(name), BUDGET_S)
    with patient(name, cured=cured) as loader:
        return lv.doctor(loader, run=run, budget_s=budget_s, resume=name.startswith(TO_RESUME))


def looked_at(
    look: Callable[[], Diagnosis],
    as_expected: Callable[[Diagnosis], bool],
    times: int = LOOKS_AT_TIMES,
) -> Diagnosis:
    """What is told by times is looked at again where another process may have been in the way."""
    for _ in range(times):
        diagnosis = look()
        if as_expected(diagnosis):
            break
    return diagnosis


@cache
def visit(name: str, *, cured: bool, run: bool = True) -> Diagnosis:
    if not run or not name.startswith("LV3"):
        return examine(name, cured=cured, run=run)
    return looked_at(
        lambda: examine(name, cured=cured),
        lambda found: (code_of(name) in found.codes) != cured,
        LOOKS_AT_TIMES if cured else LOOKS_FOR_IT,
    )


def undecided(diagnosis: Diagnosis) -> dict[str, str]:
    """The reason for each code that could not be told."""
    return {each.code: " ".join(each.evidence) for each in diagnosis.undecided}


@contextmanager
def one_cpu() -> Iterator[None]:
    """As with ``taskset``."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextmanager
def few_files() -> Iterator[None]:
    """As with ``ulimit -n``: hardly more open files than there are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (psutil.Process().num_fds() + 90, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def a_thread_holds(lock: Any) -> Iterator[None]:
    """Another thread of this process has taken the lock."""
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            done.wait()

    thread = threading.Thread(target=hold, name="writes the log")
    thread.start()
    taken.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


CONDITIONS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "LV309": one_cpu,
    "LV403": few_files,
}
