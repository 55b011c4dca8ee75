"""The batches of one loader that tell what it costs; or why a recording does not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loaderviz.errors import LoaderVizError
from loaderviz.trace.described_loaders import hands_over, is_read_ahead
from loaderviz.why.notes import RECORD_ITS_OBJECT

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.trace import Trace


def seen_batches(trace: Trace, loader: int) -> pd.DataFrame:
    """The batches that the loop took of a loader, in the first rank that took any.

    Raises:
        LoaderVizError: where it took none, where nobody saw them being made, and where a thread
            that reads ahead took them in its place.
    """
    batches: pd.DataFrame = trace.batches[trace.batches["loader"] == loader]
    batches = batches[batches["delivered_s"].notna()]
    if batches.empty:
        loaders = sorted({int(number) for number in trace.batches["loader"]})
        raise LoaderVizError(
            f"the trace has no delivered batch of loader={loader!r}; those it has are {loaders}. "
            "Record a loop that takes some batches."
        )
    if is_read_ahead(trace.meta, loader) or hands_over(trace.meta, loader):
        raise LoaderVizError(
            f"the batches of loader {loader} are read ahead by a thread of its own: what the loop "
            f"could take of them is not in the trace. {RECORD_ITS_OBJECT} recommend(loader, "
            "step_s=...) measures, with the seconds of a step."
        )
    batches = batches[batches["rank"] == batches["rank"].min()]
    if batches[["started_s", "collate_s", "ready_s"]].isna().any(axis=1).all():
        raise LoaderVizError(
            f"the trace does not show where batches of loader {loader} were made: it is not one of "
            "torch's, makes them in its own way, or had begun before the recording. "
            "trace.summary() says what its loop waits for."
        )
    return batches
