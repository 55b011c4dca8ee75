"""What the ``meta`` of a merged run says of the recordings in it.

The ``meta`` may come from a stranger's file: values that make no sense are passed over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def meta_of_ranks(meta: Mapping[str, Any], ranks: Collection[int]) -> dict[str, Any]:
    """The same ``meta``, with only these ranks' recordings in its ``ranks``."""
    picked = [recording for recording in recordings(meta) if recording["rank"] in ranks]
    return {**meta, **({"ranks": picked} if "ranks" in meta else {})}


def recordings(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the meta of a merged run says of each recording in it; empty for a single recording."""
    ranks = meta.get("ranks")
    if not isinstance(ranks, list):
        return []
    return [
        recording
        for recording in ranks
        if isinstance(recording, dict) and is_rank(recording.get("rank"))
    ]


def left_out(meta: Mapping[str, Any]) -> tuple[int, int]:
    """How many samples and spans, and how many batches, were past a limit of the recording."""
    return count_or_0(meta.get("left_out")), count_or_0(meta.get("left_out_batches"))


def count_or_0(value: Any) -> int:
    """The value where it can be a count of things, else 0."""
    return value if isinstance(value, int) and value > 0 else 0


def is_rank(value: Any) -> bool:
    """Whether the value can be the rank of a process."""
    return isinstance(value, int) and 0 <= value < 2**31
