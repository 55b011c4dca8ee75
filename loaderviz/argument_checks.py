"""Checks of arguments that several rooms share. Imports the errors alone."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError


def whole_number(name: str, value: Any, *, at_least: int) -> int:
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
