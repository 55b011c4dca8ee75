"""What the ``meta`` of a trace says of its loaders and recordings, and who asks each loader.

What a thread that reads ahead waits for and does with a batch is no wait and no step of the loop.
Those are known where the loop was seen to ask another object, which hands over what was read; else
not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from loaderviz.trace.lines_of_code import of_these
from loaderviz.trace.unread_samples import SamplesField

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.trace import Trace

# In the description of a loader in ``meta``.
ASKED_BY: Final = "asked_by"  # "thread": another one than the loop's
HANDED_OVER_BY: Final = "handed_over_by"  # the class of what the loop asks in place of that loader
HANDS_OVER: Final = "hands_over"  # true: of that, in turn
UNDERLYING: Final = "underlying"  # the name of what its keys stand for (underlying_keys.py)

_OF_THE_LOOP: Final = {
    "batches": ("requested_s", "released_s", "drawing_s", "device_start_s", "device_end_s"),
    "workers": ("dismissed_s", "gone_s"),
}


def meta_of_ranks(meta: Mapping[str, Any], ranks: Collection[int]) -> dict[str, Any]:
    """The same ``meta``, with only these ranks' recordings in its ``ranks``."""
    picked = [recording for recording in recordings(meta) if recording["rank"] in ranks]
    return of_these({**meta, **({"ranks": picked} if "ranks" in meta else {})}, ranks=ranks)


def recordings(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the meta of a merged run says of each recording in it; empty for a single recording."""
    return list(meta.get("ranks") or ())


def loader_description(meta: Mapping[str, Any], loader: int) -> dict[str, Any]:
    """How the loader of this number was configured; empty where that is not known."""
    loaders = meta.get("loaders") or ()
    return dict(loaders[loader]) if loader < len(loaders) else {}


def are_alike(meta: Mapping[str, Any], one: int, other: int) -> bool:
    """Whether two loaders have the same settings, and were iterated at one line, which is known.

    They may read other samples, as of a dataset that is split anew for each epoch.
    """
    first, second = (kind_of_life(loader_description(meta, each)) for each in (one, other))
    return first is not None and first == second


def kind_of_life(about: Mapping[str, Any]) -> str | None:
    """The same text for loaders that are described alike, as ``are_alike`` has it.

    None where it is not known where they were iterated.
    """
    if not about.get("iterated_at"):
        return None
    settings = {name: about[name] for name in about if name != UNDERLYING}
    return json.dumps(settings, sort_keys=True, default=repr)


def left_out(meta: Mapping[str, Any]) -> tuple[int, int]:
    """How many samples and spans, and how many batches, were past a limit of the recording."""
    return meta.get("left_out") or 0, meta.get("left_out_batches") or 0


def is_read_ahead(meta: Mapping[str, Any], loader: int) -> bool:
    """Whether another thread than the loop's asks this loader."""
    return ASKED_BY in loader_description(meta, loader)


def hands_over(meta: Mapping[str, Any], loader: int) -> bool:
    """Whether the loop asks this loader for what is read ahead from others of the trace."""
    return HANDS_OVER in loader_description(meta, loader)


def handed_over(trace: Trace) -> list[int]:
    """The loaders that are read ahead for another one of the trace, which the loop asks."""
    meta, there = trace.meta, _there(trace)
    if not any(hands_over(meta, number) for number in there):
        return []
    return [each for each in there if HANDED_OVER_BY in loader_description(meta, each)]


def delivered_once(trace: Trace) -> Any:
    """Which batches count, an array: those delivered, and what is handed over only there."""
    came = trace.batches["delivered_s"].notna()
    return (came & ~trace.batches["loader"].isin(handed_over(trace))).to_numpy()


def unseen(trace: Trace) -> list[int]:
    """The loaders of the trace that are read ahead for a loop that was not seen to ask."""
    ahead = {number for number in _there(trace) if is_read_ahead(trace.meta, number)}
    return sorted(ahead - set(handed_over(trace)))


def as_the_loop_sees_it(trace: Trace) -> Trace:
    """The trace without what other threads asked for: those times are NaN, as never happened.

    Returns ``trace`` itself where the loop has asked for everything.
    """
    numbers = _read_ahead(trace.meta)
    if not numbers:
        return trace
    return trace._part(
        batches=_without(trace.batches, numbers, _OF_THE_LOOP["batches"]),
        samples=SamplesField.without_reading(trace),
        workers=_without(trace.workers, numbers, _OF_THE_LOOP["workers"]),
        spans=trace.spans,
        meta=trace.meta,
    )


def _there(trace: Trace) -> list[int]:
    """The loaders that have rows in the trace, where any is read ahead."""
    if not _read_ahead(trace.meta):
        return []
    return sorted({*trace.batches["loader"].unique().tolist(), *trace.workers["loader"].unique()})


def _read_ahead(meta: Mapping[str, Any]) -> list[int]:
    return [number for number, about in enumerate(meta.get("loaders") or ()) if ASKED_BY in about]


def _without(table: pd.DataFrame, loaders: list[int], columns: tuple[str, ...]) -> pd.DataFrame:
    own = table["loader"].isin(loaders)
    return table.assign(**{column: table[column].mask(own, math.nan) for column in columns})
