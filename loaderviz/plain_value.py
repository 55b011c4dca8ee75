"""Whatever a reader passes, as plain values that a recording can keep.

Nothing raises, and only ``as_text`` runs code of the user's (a TorchFunctionMode of theirs sees
what a tensor is asked). torch is not imported: where there is a tensor, it is loaded.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import numpy as np

from loaderviz.own_errors import own_errors

MOST_ITEMS: Final = 100  # of a list or dict, that are kept
MOST_DEPTH: Final = 4  # of lists and dicts within one another
MOST_BITS: Final = 4096  # of a whole number: Python refuses to write many more in decimal
_TRUTH_IS_KNOWN: Final = ("builtins", "enum", "numpy", "torch")  # packages


def plain(value: Any, depth: int = MOST_DEPTH) -> Any:
    """A value as None, a bool, a number, text, or a list or dict of such.

    Numbers and truths of any type become Python's, and so does what is in a tensor or array of one
    element; tuples and sets become lists. Anything else becomes the name of its type.
    """
    cls = type(value)
    if value is None or cls is bool:
        return value
    if issubclass(cls, int):
        number = int.__pos__(value)
        return number if number.bit_length() <= MOST_BITS else type_name(cls)
    if issubclass(cls, float):
        return float.__pos__(value)
    if issubclass(cls, str):
        return str.__str__(value)
    if _is_array(value, cls) or _is_tensor(value, cls):
        return plain(value.item())
    for base in (list, tuple, set, frozenset):
        if depth and issubclass(cls, base):
            return [plain(each, depth - 1) for each in islice(base.__iter__(value), MOST_ITEMS)]
    if depth and issubclass(cls, dict):
        some = islice(dict.items(value), MOST_ITEMS)
        return {str(plain(key, 0)): plain(each, depth - 1) for key, each in some}
    return type_name(cls)


def whole(value: Any) -> int | None:
    """A value as a whole number; None where it is none."""
    number = plain(value)
    if isinstance(number, float) and math.isfinite(number) and number == int(number):
        return int(number)
    return int(number) if isinstance(number, int) else None


def truth(value: Any) -> bool | None:
    """Whether a value counts as true; None where only code of the user's could tell."""
    cls = type(value)
    for name in ("__bool__", "__len__"):
        for base in cls.__mro__:
            if name in vars(base):
                package = base.__module__.partition(".")[0]
                is_odd = package == "torch" and not _is_tensor(value, cls)
                return None if is_odd or package not in _TRUTH_IS_KNOWN else _bool(value)
    return True


def as_text(value: Any, write: Callable[[Any], str] = str) -> str:
    """A value as ``write``, ``str`` or ``repr``, has it; where its class fails, what object has."""
    try:
        try:
            return str.__str__(write(value))
        except own_errors(Exception, method="__str__", of=(value,)):
            return repr(value)
    except own_errors(Exception, method="__repr__", of=(value,)):
        return f"<{type_name(type(value))} object>"


def type_name(cls: type) -> str:
    """The name of a class, whatever its metaclass says of it."""
    name: str = type.__dict__["__name__"].__get__(cls)
    return name


def _is_array(value: Any, cls: type) -> bool:
    """Whether it is a number, truth or text of numpy's, or a plain array of one such."""
    if cls.__module__ != "numpy" or not issubclass(cls, np.generic | np.ndarray):
        return False
    return bool(value.size == 1 and value.dtype.kind in "biufU" and value.dtype != np.longdouble)


def _is_tensor(value: Any, cls: type) -> bool:
    """Whether it is a plain tensor of one real number, in memory."""
    torch = sys.modules.get("torch")
    if torch is None or cls is not torch.Tensor or value.device.type != "cpu":
        return False
    return bool(value.layout is torch.strided and value.numel() == 1 and not value.is_complex())


def _bool(value: Any) -> bool | None:
    try:
        return bool(value)
    except (TypeError, ValueError):  # an array of several elements, say
        return None
