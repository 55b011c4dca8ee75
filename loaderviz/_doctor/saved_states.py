"""Why a saved state does not fit a loader: it is compared with a state of the loader's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_KEYS = 4  # that are named


def why_it_does_not_fit(given: Mapping[str, Any], own: Any, error: str) -> str:
    """What was raised when it was loaded, and where it differs from the loader's own state."""
    difference = first_difference(given, own)
    if not difference and error.startswith("StopIteration"):
        difference = "It was saved further on than this loader goes: its dataset was longer"
    return f"{error.rstrip(': ')}{f'. {difference}' if difference else ''}"


def first_difference(given: Any, own: Any, path: str = "the state") -> str:
    """The nearest difference in keys, or in a number of workers; empty where there is none."""
    if not isinstance(given, Mapping) or not isinstance(own, Mapping):
        return ""
    for number in own:
        if str(number).endswith("num_workers") and given.get(number, own[number]) != own[number]:
            return f"It is of a loader with num_workers={given[number]}, not {own[number]}"
    missing, extra = ([*map(str, a.keys() - b.keys())] for a, b in ((own, given), (given, own)))
    if missing or extra:
        lacks = f"{path} lacks {_named(missing)}" if missing else ""
        has = f"{path} has {_named(extra)}" if extra else ""
        return " and ".join(filter(None, [lacks, has])) + ", unlike this loader's own state"
    differences = (first_difference(given[key], own[key], f"{path}[{key!r}]") for key in own)
    return next(filter(None, differences), "")


def _named(keys: list[str]) -> str:
    names = ", ".join(repr(key) for key in sorted(keys)[:MOST_KEYS])
    return names + (", ..." if len(keys) > MOST_KEYS else "")
