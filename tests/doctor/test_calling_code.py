"""Whether the code that called the doctor calls a method: LV108 asks it of ``set_epoch``."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from loaderviz._doctor.loader_setup import callers_call

SPEAKS_OF_IT = """
def told():
    "Call wind_up before."
    print("wind_up", {"wind_up": 1})
found = asked()
"""
DEFINES_IT = """
class Clock:
    def wind_up(self): ...
found = asked()
"""
BY_METHOD = """
class Owner:
    def morning(self, clock): clock.wind_up()
def visit(): return asked()
found = visit()
"""
BY_FUNCTION = """
def morning(clock): clock.wind_up()
def visit(): return asked()
found = visit()
"""
BY_ITSELF = """
clock = Clock()
found = asked()
clock.wind_up()
"""


def run(source: str) -> bool:
    scope: dict[str, Any] = {
        "__name__": "made_up",
        "asked": lambda: callers_call("wind_up", sys._getframe(1)),
        "Clock": lambda: SimpleNamespace(wind_up=bool),
    }
    exec(compile(source, "made_up.py", "exec"), scope)
    return scope["found"]


@pytest.mark.parametrize("source", [BY_METHOD, BY_FUNCTION, BY_ITSELF])
def test_a_call_counts_wherever_it_is(source):
    assert run(source)


@pytest.mark.parametrize("source", [SPEAKS_OF_IT, DEFINES_IT])
def test_a_word_or_a_definition_is_no_call(source):
    assert not run(source)
