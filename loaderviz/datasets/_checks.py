"""Checks of arguments that the datasets of this folder share. Imports nothing but the errors."""

import math
import operator
from numbers import Real

from loaderviz.errors import LoaderVizError


def whole_number(name: str, value: int, *, at_least: int = 0) -> int:
    """`value` as an int, for any integer type (numpy's too).

    Raises LoaderVizError, naming the argument, if it is no whole number or below `at_least`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or number < at_least:
        raise LoaderVizError(f"{name}={value!r}: give a whole number, {at_least} or more")
    return number


def number(name: str, value: float, *, at_most: float = math.inf) -> float:
    """`value` as a float, for any real number from 0 to `at_most`, and finite.

    Raises LoaderVizError, naming the argument, for anything else.
    """
    # Real is what int, float and numpy's numbers have in common.
    if not isinstance(value, Real) or not 0 <= value <= at_most or value == math.inf:
        limit = "" if at_most == math.inf else f" and at most {at_most:g}"
        raise LoaderVizError(f"{name}={value!r}: give a finite number, 0 or more{limit}")
    return float(value)


def position(index: int, length: int) -> int:
    """`index` as a list would take it: negative counts from the end.

    Raises IndexError where a list would. A plain `for sample in dataset` relies on it: without
    an `__iter__`, Python counts up from 0 until IndexError.
    """
    number = operator.index(index)
    if not -length <= number < length:
        raise IndexError(f"index {number} is out of range for a dataset of {length} samples")
    return number % length
