"""What the ``meta`` of a trace says of its loaders, and of the recordings in a merged run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def meta_of_ranks(meta: Mapping[str, Any], ranks: Collection[int]) -> dict[str, Any]:
    """The same ``meta``, with only these ranks' recordings in its ``ranks``."""
    picked = [recording for recording in recordings(meta) if recording["rank"] in ranks]
    return {**meta, **({"ranks": picked} if "ranks" in meta else {})}


def recordings(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the meta of a merged run says of each recording in it; empty for a single recording."""
    return list(meta.get("ranks") or ())


def loader_description(meta: Mapping[str, Any], loader: int) -> dict[str, Any]:
    """How the loader of this number was configured; empty where that is not known."""
    loaders = meta.get("loaders") or ()
    return dict(loaders[loader]) if loader < len(loaders) else {}


def left_out(meta: Mapping[str, Any]) -> tuple[int, int]:
    """How many samples and spans, and how many batches, were past a limit of the recording."""
    return meta.get("left_out") or 0, meta.get("left_out_batches") or 0
