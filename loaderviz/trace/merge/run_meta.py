"""What the ``meta`` of a merged run says of the recordings in it; whatever a file holds there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def meta_of_ranks(meta: Mapping[str, Any], ranks: Collection[int]) -> dict[str, Any]:
    picked = [each for each in recordings(meta) if each["rank"] in ranks]
    return {**meta, **({"ranks": picked} if "ranks" in meta else {})}


def recordings(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the meta of a merged run says of each recording in it; nothing for one recording."""
    found = meta.get("ranks")
    if not isinstance(found, list):
        return []
    return [each for each in found if isinstance(each, dict) and is_rank(each.get("rank"))]


def left_out(meta: Mapping[str, Any]) -> tuple[int, int]:
    """How many samples and spans, and how many batches, were past a limit of the recording."""
    return whole(meta.get("left_out")), whole(meta.get("left_out_batches"))


def whole(number: Any) -> int:
    """A number of things; 0 for what is none."""
    return number if isinstance(number, int) and number > 0 else 0


def is_rank(rank: Any) -> bool:
    return isinstance(rank, int) and 0 <= rank < 2**31
