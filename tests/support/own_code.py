"""Makes a function of a test fail as our own code does: ``own_errors`` knows that by its frames."""

import types
from typing import Any


def in_module(name: str) -> Any:
    """Decorates a function, or method, of a test: it is as if it were written in that module."""

    def move(function: Any) -> Any:
        return types.FunctionType(
            function.__code__,
            {**function.__globals__, "__name__": name},
            argdefs=function.__defaults__,
            closure=function.__closure__,
        )

    return move


in_recorder = in_module("loaderviz.recorder")
