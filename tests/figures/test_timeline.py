"""The timeline, on hand-built traces: what is drawn, where, in which words."""

from dataclasses import replace

import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import named
from loaderviz import LoaderVizError, Trace, timeline
from loaderviz.figures import style
from loaderviz.figures.timelines.timeline import MOST_SAMPLES, drawn
from made_loops import made_loop
from traces import made, together


@settings(max_examples=8)
@given(workers=st.integers(0, 16), batches=st.integers(1, 20), batch_size=st.integers(1, 4))
def test_below_the_consumer_each_worker_has_a_lane_and_in_it_a_box_for_each_sample(
    workers, batches, batch_size
):
    trace = made(workers=workers, batches=batches, batch_size=batch_size)
    figure = timeline(trace)
    lanes = [f"worker {n}" for n in range(workers)] or ["main process"]
    assert list(figure.layout.yaxis.ticktext) == ["consumer", *lanes]
    boxes, samples = named(figure, "sample"), trace.samples
    assert list(boxes.base) == pytest.approx(list(samples["start_s"]))
    assert list(boxes.x) == pytest.approx(list(samples["end_s"] - samples["start_s"]))
    assert list(boxes.y) == list(samples["worker"] + (1 if workers else 2))


def test_timelines_of_one_time_span_have_one_axis_with_and_without_workers():
    figures = [timeline(made(workers=workers), seconds=9.0) for workers in (0, 2, 8)]
    assert len({figure.layout.margin.l for figure in figures}) == 1
    ranges = [figure.layout.xaxis.range for figure in figures]
    spans = [right - left for left, right in ranges]
    assert spans == pytest.approx(spans[:1] * 3)
    assert spans[0] >= 9.0


def test_the_axis_begins_where_the_loop_began_to_start_its_workers():
    trace = made(workers=2)
    workers = trace.workers.assign(asked_s=-5.0, pickle_s=4.0, first_task_s=0.5)
    figure = timeline(replace(trace, workers=workers))
    assert min(named(figure, "start-up").base) == -5.0
    assert figure.layout.xaxis.range[0] < -5.0


def test_a_batch_has_one_colour_and_one_number_from_worker_to_consumer():
    figure = timeline(made(workers=3, batches=9))
    samples, steps = named(figure, "sample"), named(figure, "step")
    for batch in range(9):
        (step,) = [i for i, own in enumerate(steps.customdata) if own == batch]
        first = list(samples.customdata).index(batch)
        assert steps.marker.color[step] == samples.marker.color[first] == style.colour(batch)
        assert steps.text[step] == str(batch)
        assert str(batch) in named(figure, "number").text
    shades = [samples.marker.color[i] for i, own in enumerate(samples.customdata) if own == 0]
    assert len(set(shades)) == 2


def test_waits_are_hatched_and_end_where_the_step_begins():
    trace = made(workers=1, batches=3)
    figure = timeline(trace)
    waits, steps = named(figure, "wait"), named(figure, "step")
    assert waits.marker.pattern.shape == "/"
    ends = [base + x for base, x in zip(waits.base, waits.x, strict=True)]
    assert ends == pytest.approx(list(steps.base))


def test_boxes_bear_the_keys_of_samples_where_that_is_asked_for():
    trace = made(workers=2, batches=3, batch_size=2)
    trace.samples["key"] = [f"<{n}>" for n in range(6)]
    figure = timeline(trace, label="key")
    samples, numbers = named(figure, "sample"), named(figure, "number")
    assert list(samples.text) == [f"&lt;{n}&gt;" for n in range(6)]
    assert set(numbers.text) == {""}
    assert named(timeline(trace), "sample").text is None
    go.Figure(figure.to_dict())
    with pytest.raises(LoaderVizError, match="label='name' is not one of batch, key"):
        timeline(trace, label="name")


def test_hover_tells_batch_worker_key_and_milliseconds():
    text = named(timeline(made(workers=2)), "sample").hovertext[3]
    for part in ("batch 1", "worker 1", "key 3", "450 ms"):
        assert part in text
    trace = made(batches=1)  # names from the user cannot inject markup
    samples = trace.samples.assign(key=["<script>alert(1)</script>", "<b>"])
    figure = timeline(Trace(trace.batches, samples, trace.workers, trace.spans))
    assert "<script>" not in "".join(named(figure, "sample").hovertext)


def test_the_way_of_each_batch_leads_from_dispatch_to_the_consumer():
    figure = timeline(made(workers=2, batches=4))
    paths = figure.layout.meta["loaderviz"]["paths"]
    assert len(paths) == 4
    for path in paths:
        times = [at for at, _ in path]
        assert times == sorted(times)
        assert path[0][1] == path[-1][1] == 0
    assert paths[1][1][1] == 2  # made by worker 1, in the lane below worker 0's


def test_the_ready_strip_counts_what_is_finished_and_not_taken():
    figure = timeline(made(workers=4, batches=4))
    strip = named(figure, "ready")
    # All four are ready at 1.25 s, the first is taken then, and one more each half second.
    assert max(strip.y) == 4
    assert strip.y[-1] == 0
    assert not timeline(made(workers=0)).layout.yaxis2.visible


def test_the_title_is_the_verdict_and_the_numbers_say_measured():
    figure = timeline(made(workers=1, batches=6))
    assert "one worker cannot keep up" in figure.layout.title.text
    assert repr(figure) == made(workers=1, batches=6).summary().verdict
    assert figure.layout.title.subtitle.text.startswith("measured · 6 batches · 12 samples")
    simulated = made(workers=1)
    simulated.meta["simulated"] = True
    assert timeline(simulated).layout.title.subtitle.text.startswith("simulated · ")


def test_the_numbers_say_what_the_recording_lacks():
    trace = made(workers=1)
    trace.meta["complete"] = False
    assert "measured, incomplete ·" in timeline(trace).layout.title.subtitle.text
    trace = made(workers=1, batches=4)
    trace.batches.loc[:1, ["started_s", "collate_s", "ready_s"]] = float("nan")
    text = timeline(trace).layout.title.subtitle.text
    assert text.startswith("measured, 2 batches not seen in their worker · 4 batches")


def test_past_some_thousand_samples_batches_are_drawn_whole_and_it_says_so():
    batch_size = MOST_SAMPLES // 10 + 1
    figure = timeline(made(batches=10, batch_size=batch_size))
    assert len(named(figure, "sample").x) == 10
    assert "merged" in figure.layout.title.subtitle.text


def test_batches_without_an_end_are_drawn_as_far_as_they_got():
    trace = made(workers=2, batches=4)
    trace.batches.loc[3, ["delivered_s", "released_s", "requested_s"]] = float("nan")
    trace.batches.loc[2, ["released_s"]] = float("nan")
    figure = timeline(trace)
    assert len(named(figure, "step").x) == 3
    assert len(named(figure, "number").text) == 4


def test_a_sample_that_raised_is_crossed_out_and_the_title_says_so():
    trace = made(workers=2, batches=4)
    trace.batches["state"] = ["delivered", "delivered", "delivered", "failed"]
    trace.batches.loc[3, ["collate_s", "ready_s", "delivered_s", "released_s"]] = float("nan")
    trace.samples.loc[7, "end_s"] = float("nan")
    figure = timeline(trace)
    crosses = named(figure, "failed")
    assert list(crosses.x) == [trace.samples["start_s"][7]]
    assert list(crosses.y) == [2]
    assert "key 7 raised an exception" in crosses.hovertext[0]
    assert "Batch 3 failed" in figure.layout.title.text
    assert len(named(timeline(made()), "failed").x) == 0


def test_named_spans_lie_under_the_consumer_one_colour_a_name():
    trace = made(workers=1)
    columns = {"name": ["forward", "<b>", "forward"], "start_s": [1.3, 1.5, 2.3]}
    spans = Trace.from_columns(spans={**columns, "end_s": [1.5, 1.7, 2.6]}).spans
    drawn = named(timeline(Trace(trace.batches, trace.samples, trace.workers, spans)), "span")
    assert list(drawn.x) == pytest.approx([0.2, 0.2, 0.3])
    assert 0 < min(drawn.y) == max(drawn.y) < 1
    assert drawn.marker.color[0] == drawn.marker.color[2] != drawn.marker.color[1]
    assert list(drawn.hovertext) == ["forward: 200 ms", "&lt;b&gt;: 200 ms", "forward: 300 ms"]


def test_batches_of_several_epochs_and_loaders_are_named_in_full():
    again = made(workers=1)
    again.batches["epoch"] = again.samples["epoch"] = 1
    hover = "".join(named(timeline(together(made(workers=1), again)), "step").hovertext)
    assert "batch 3</b> of epoch 0," in hover
    assert "batch 3</b> of epoch 1," in hover
    hover = named(timeline(together(made(loader=0), made(loader=1))), "sample").hovertext[-1]
    assert "batch 3</b>, loader 1, worker 1" in hover


def test_each_phase_is_a_segment_above_the_lanes_and_those_with_room_are_named():
    steps = [0.5] + [0.02] * 99
    steps[24:100:25] = [0.4] * 4
    trace = made_loop([steps], 0.01)
    figure, table = timeline(trace), trace.phases()
    band = named(figure, "phase")
    assert list(band.base) == list(table["from_s"])
    names = [note.text for note in figure.layout.annotations]
    assert {"warm-up", "pace", "pause"} <= set(names)
    assert "phases" in figure.layout.yaxis.ticktext
    top = min(figure.layout.yaxis.range)
    assert all(top < y < -0.5 for y in band.y), "above the consumer"
    plain = drawn(trace, trace.summary(), with_phases=False).figure()
    assert len(named(plain, "phase").base) == 0
    assert figure.layout.height > plain.layout.height


def test_where_all_is_start_and_pace_no_phase_is_drawn():
    for trace in (made_loop([[0.02] * 40] * 2, 0.01), made(batches=4)):
        figure = timeline(trace)
        assert len(named(figure, "phase").base) == 0
        assert not figure.layout.annotations
        assert "phases" not in figure.layout.yaxis.ticktext


def test_a_narrow_box_keeps_its_colour_to_the_rim():
    few, many = timeline(made(batches=4)), timeline(made(batches=800, batch_size=1))
    for name in ("sample", "step"):
        assert set(named(few, name).marker.line.color) == {style.EDGE}
        assert named(many, name).marker.line.color == named(many, name).marker.color


def test_a_page_made_of_it_needs_no_kernel_and_no_network():
    page = timeline(made()).to_html(include_plotlyjs=False)
    assert "plotly_hover" in page
    assert "https://cdn" not in page


def test_what_is_no_trace_is_refused():
    with pytest.raises(LoaderVizError, match=r"got list"):
        timeline([1, 2])
    with pytest.raises(LoaderVizError, match=r"theme='neon'"):
        timeline(made(), theme="neon")
    with pytest.raises(LoaderVizError, match=r"seconds=-1"):
        timeline(made(), seconds=-1)
    with pytest.raises(LoaderVizError, match=r"no batch"):
        timeline(Trace.from_columns())
