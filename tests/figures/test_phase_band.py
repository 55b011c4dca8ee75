"""The band of phases above the timeline: there where it says something."""

from loaderviz import timeline
from loaderviz.figures.timelines.timeline import drawn
from made_loops import made_loop
from traces import made


def band(figure):
    (mark,) = [mark for mark in figure.data if mark.name == "phase"]
    return mark


def test_each_phase_is_a_segment_and_those_with_room_are_named():
    steps = [0.5] + [0.02] * 99
    steps[24:100:25] = [0.4] * 4
    trace = made_loop([steps], 0.01)
    figure, table = timeline(trace), trace.phases()
    assert list(band(figure).base) == list(table["from_s"])
    names = [note.text for note in figure.layout.annotations]
    assert {"warm-up", "pace", "pause"} <= set(names)
    assert "phases" in figure.layout.yaxis.ticktext
    top = min(figure.layout.yaxis.range)
    assert all(top < y < -0.5 for y in band(figure).y), "above the consumer"
    plain = drawn(trace, trace.summary(), with_phases=False).figure()
    assert len(band(plain).base) == 0
    assert figure.layout.height > plain.layout.height


def test_where_all_is_start_and_pace_nothing_is_drawn():
    for trace in (made_loop([[0.02] * 40] * 2, 0.01), made(batches=4)):
        figure = timeline(trace)
        assert len(band(figure).base) == 0
        assert not figure.layout.annotations
        assert "phases" not in figure.layout.yaxis.ticktext
