"""The last keys of a dataset that is longer than its data: they hold nothing of their own."""

from __future__ import annotations

from typing import NamedTuple

from loaderviz._contents.read_alone import Reference

LEAST_TAIL = 4  # keys that hold what earlier ones hold: fewer may be rows that are there twice


class Tail(NamedTuple):
    """The last keys, where they hold nothing of their own.

    Attributes:
        first: of these keys.
        held: what they hold.
        is_one: whether that is one sample, as of an index that is clamped; else those from 0 on.
    """

    first: int
    held: str
    is_one: bool


def repeated_tail(reference: Reference) -> Tail | None:
    """The keys from one on that hold what the keys from 0 on do, or the last one before them."""
    held = reference.numbers
    n = len(held)
    if None in held.values() or set(held) != set(range(n)):
        return None
    numbers = [held[key] for key in range(n)]
    first = len(set(numbers))
    if n - first < LEAST_TAIL or first == 1 or len(set(numbers[:first])) < first:
        return None
    if {*numbers[first:]} == {numbers[first - 1]}:
        return Tail(first, f"what key {first - 1:,} holds", is_one=True)
    repeats = all(numbers[k] == numbers[k - first] for k in range(first, n))
    return Tail(first, "what the keys from 0 on hold", is_one=False) if repeats else None
