"""Timelines to be compared have one axis, one zero and titles of their own."""

import pandas as pd
import pytest
from torch.utils.data import DataLoader

from loaderviz import LoaderVizError, record
from loaderviz.course.datasets import MultiStreamDataLoader, SleepingDataset, SlotStreams
from loaderviz.course.figures import stacked


def recorded(loader, n_batches):
    with record(loader) as recording:
        for _, _batch in zip(range(n_batches), loader, strict=False):
            pass
    return recording.trace


def test_two_timelines_of_unlike_length_and_lanes_share_axis_zero_and_left_edge():
    short = recorded(DataLoader(SleepingDataset(2, 0.01)), 2)
    parts = SlotStreams([range(40)], 2, sample_s=0.02).split(2)
    long = recorded(MultiStreamDataLoader(parts), 6)
    above, below = stacked({"Few": short, "Many": long})
    spans = [right - left for left, right in (each.layout.xaxis.range for each in (above, below))]
    assert spans[0] == pytest.approx(spans[1])
    assert above.layout.xaxis.ticktext == below.layout.xaxis.ticktext
    assert above.layout.xaxis.ticktext[0] == "0"
    assert above.layout.margin.l == below.layout.margin.l
    assert [figure.layout.title.text[3:-4] for figure in (above, below)] == ["Few", "Many"]
    assert above.layout.title.subtitle.text.startswith("measured")
    for figure, trace in ((above, short), (below, long)):
        left, right = figure.layout.xaxis.range
        zero_s = figure.layout.xaxis.tickvals[0]
        batches, workers = trace.batches, trace.workers
        begun = pd.concat([batches["dispatched_s"], batches["requested_s"], workers["started_s"]])
        assert left < zero_s == pytest.approx(begun.min())
        assert trace.batches["delivered_s"].max() <= right


def test_nothing_to_compare_is_refused():
    with pytest.raises(LoaderVizError, match="at least one trace"):
        stacked({})
