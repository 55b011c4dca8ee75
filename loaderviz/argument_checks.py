"""Checks of arguments that several rooms share. Imports the errors alone."""

from __future__ import annotations

import math
import operator
import re
from numbers import Real
from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError

LEAST_LAST_S = 10  # of ``record(last_s=...)``


def whole_number(name: str, value: Any, *, at_least: int = 0) -> int:
    """The value as an int, for any integer type (numpy's too) but bool.

    Raises:
        LoaderVizError: for anything but a whole number, or one below ``at_least``.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < at_least:
        raise LoaderVizError(f"{name}={value!r}: give a whole number, {at_least} or more")
    return number


def true_or_false(name: str, value: Any) -> bool:
    """The value as a bool, for Python's bools and numpy's.

    Raises:
        LoaderVizError: for anything else.
    """
    if not isinstance(value, bool | np.bool_):
        raise LoaderVizError(f"{name}={value!r}: give True or False")
    return bool(value)


def number(name: str, value: float, *, at_most: float = math.inf) -> float:
    """`value` as a float; it must be a finite real number from 0 to `at_most`.

    Raises:
        LoaderVizError: which names the argument, for anything else.
    """
    # Real is what int, float and numpy's numbers have in common.
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= at_most or value == math.inf:
        limit = "" if at_most == math.inf else f" and at most {at_most:g}"
        raise LoaderVizError(f"{name}={value!r}: give a finite number, 0 or more{limit}")
    return float(value)


def seconds_of(name: str, text: str) -> float:
    """A time such as ``10min``, ``90s``, ``1.5h`` or ``600`` in seconds.

    Raises:
        LoaderVizError: for any other text.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|sec|m|min|h)?", text.strip())
    if found is None:
        raise LoaderVizError(f"{name} {text!r}: give a time such as 10min, 90s or 1h")
    units = {"h": 3600.0, "m": 60.0, "min": 60.0}
    return float(found[1]) * units.get(found[2] or "s", 1.0)


def position(index: int, length: int) -> int:
    """`index` as a position from 0: as in a list, a negative index counts from the end.

    Raises IndexError where a list would. A plain `for sample in dataset` relies on it: without
    an `__iter__`, Python counts up from 0 until IndexError.
    """
    integer = operator.index(index)
    if not -length <= integer < length:
        raise IndexError(f"index {integer} is out of range for a dataset of {length} samples")
    return integer % length


def checked_last_s(last_s: float) -> float:
    """``last_s`` of a recording that is left on; raises LoaderVizError for less than 10 seconds."""
    seconds = number("last_s", last_s)
    if seconds < LEAST_LAST_S:
        raise LoaderVizError(f"last_s={last_s!r}: give {LEAST_LAST_S} seconds or more")
    return seconds
