"""What holds of every figure: plotly takes it, themes differ in text alone, a cell shows it."""

import functools
import json
import math
from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go
import pytest

from drawn import named
from loaderviz import LoaderVizError, audit, figures, recommend, timeline
from loaderviz._audit import simulate_audit
from loaderviz.figures import style
from loaderviz.figures.display import Figure
from loaderviz.figures.results.memory_figure import memory
from loaderviz.figures.results.waits_figure import waits
from loaderviz.figures.timelines.timeline import MOST_BATCHES, MOST_LANES
from made_loops import made_loop
from traces import made, together


def with_memory():
    trace = made()
    return replace(trace, batches=trace.batches.assign(rss_bytes=50 << 20))


def with_starts():
    trace = made()
    sent = {"pickle_s": 0.5, "pickle_bytes": 30 << 20, "boot_s": 1.0, "init_s": math.nan}
    return replace(trace, workers=trace.workers.assign(unpickle_s=0.4, **sent))


def shared(data, worker, n):
    return data[worker::n]


@functools.cache
def ranks():
    return together(*(made(rank=rank) for rank in range(MOST_LANES // 2)))


@functools.cache
def audit_of(n):
    return simulate_audit(shared, n, num_workers=2, batch_size=10)


@functools.cache
def recommendation():
    return recommend(made_loop([[0.02] * 60], 0.16))


def unknown_samples():
    trace = made()
    trace.meta["loaders"] = [{"kind": "iterable"}]
    return audit(trace)


FEW, MANY = 200, 10_000
DRAW = {
    "timeline": lambda **how: timeline(made(), **how),
    "timeline without workers": lambda **how: timeline(made(workers=0), seconds=2.0, **how),
    "large timeline": lambda **how: timeline(made(batches=MOST_BATCHES + 1), **how),
    "timeline of ranks": lambda **how: timeline(ranks(), **how),
    "causes": lambda **how: figures.causes(made(), **how),
    "starts": lambda **how: figures.starts(with_starts(), **how),
    "waits": lambda **how: waits(made(), **how),
    "waits of many": lambda **how: waits(made(batches=2000), **how),
    "memory": lambda **how: memory(with_memory(), **how),
    "audit": lambda **how: audit_of(FEW).figure(**how),
    "audit of many": lambda **how: audit_of(MANY).figure(**how),
    "mixing": lambda **how: audit_of(FEW).mixing().figure(**how),
    "mixing of many": lambda **how: audit_of(MANY).mixing().figure(**how),
    "recommendation": lambda **how: recommendation().figure(**how),
}


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_it_has_the_colours_of_a_theme_plotly_takes_it_and_it_is_plain_json(draw):
    for name, theme in style.THEMES.items():
        figure = draw(theme=name)
        assert figure.layout.title.font.color == theme.text
        assert figure.layout.paper_bgcolor == theme.paper  # where no script runs
        assert figure.layout.xaxis.gridcolor == theme.grid
    content = json.loads(figure.to_json())
    assert json.loads(go.Figure(content).to_json()) == content
    with pytest.raises(ValueError, match="Invalid value"):
        figure.update_traces(opacity="no opacity")
    with pytest.raises(LoaderVizError, match="theme='blue' is not one of light, dark"):
        draw(theme="blue")


def test_marks_do_not_differ_by_theme():
    light, dark = (named(timeline(made(), theme=name), "step") for name in style.THEMES)
    assert light.marker.color == dark.marker.color


@pytest.mark.parametrize(
    ("result_of", "n_figures"),
    [
        (lambda: audit_of(FEW), 1),
        (lambda: audit_of(FEW).mixing(), 1),
        (recommendation, 1),
        (unknown_samples, 0),
    ],
    ids=["audit", "mixing", "recommendation", "audit without samples"],
)
def test_a_result_ends_a_cell_with_its_words_and_its_figure(
    result_of, n_figures, capsys, monkeypatch
):
    result = result_of()
    shown = []
    monkeypatch.setattr(Figure, "_ipython_display_", lambda figure: shown.append(figure))
    result._ipython_display_()
    assert capsys.readouterr().out == f"{result}\n"
    assert repr(result) == str(result)
    assert len(shown) == n_figures


def test_each_of_two_memory_lines_has_its_worker_and_its_mebibytes():
    figure = memory(with_memory())
    assert [line.name for line in figure.data] == ["worker 0", "worker 1"]
    assert set(figure.data[0].y) == {50}
    with pytest.raises(LoaderVizError, match="does not tell what memory"):
        memory(made())


def test_waits_are_drawn_by_step_in_milliseconds():
    trace = made(workers=1, batches=3)
    drawn = named(waits(trace), "step")
    waited_s = trace.batches["delivered_s"] - trace.batches["requested_s"]
    assert pd.Series(drawn.y).tolist() == pytest.approx((1000 * waited_s).tolist())
    with pytest.raises(LoaderVizError, match="nobody waited"):
        waits(replace(trace, batches=trace.batches[:0]))
