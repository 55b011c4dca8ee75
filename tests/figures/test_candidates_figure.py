"""The figure of a recommendation: what is drawn, where, in which words."""

import math
from dataclasses import replace

import pandas as pd
import pytest

from drawn import named
from loaderviz import recommend
from loaderviz._recommend import Recommendation
from loaderviz.loader_settings import LoaderSettings
from made_loops import made_loop

RATES = {0: 100.0, 1: 100.0, 2: 200.0, 4: 395.0}  # samples/s, by workers


def row(n, per_s, **given):
    return {
        **LoaderSettings(n).options(),
        "samples_per_s": per_s,
        "low_per_s": per_s * 0.95,
        "high_per_s": per_s * 1.1,
        "wait_share": 0.25,
        "runs": 2,
        "batches": 60,
        "fits": True,
        "present": n == 2,
        "recommended": n == 4,
        **given,
    }


@pytest.fixture
def found():
    rows = [row(n, per_s) for n, per_s in RATES.items()]
    rows += [row(4, 390.0, prefetch_factor=8, recommended=False)]
    rows += [row(8, math.nan, fits=False)]
    return Recommendation(
        settings={},
        code="",
        verdict="4 workers keep the model busy",
        limits="",
        notes=(),
        numbers="6 settings measured",
        memory_bytes=None,
        shm_bytes=None,
        measured=True,
        demand_per_s=400.0,
        candidates=pd.DataFrame(rows),
        cpu_allowance=2.0,
        trace=None,
    )


def points(figure, name):
    return list(zip(named(figure, name).x, named(figure, name).y, strict=True))


def texts(figure):
    return [each.text for each in figure.layout.annotations]


def test_the_title_is_the_verdict_and_below_it_is_what_it_rests_on(found):
    title = found.figure().layout.title
    assert title.text == f"<b>{found.verdict}</b>"
    assert "6 settings measured" in title.subtitle.text


def test_every_setting_that_was_run_is_a_point_with_its_interval(found):
    figure = found.figure()
    assert points(figure, "measured") == [*RATES.items()]
    assert points(figure, "other settings") == [(4, 390.0)]
    error = named(figure, "measured").error_y
    assert list(error.array) == pytest.approx([0.1 * per_s for per_s in RATES.values()])
    assert list(error.arrayminus) == pytest.approx([0.05 * per_s for per_s in RATES.values()])
    assert "2 runs of 60 batches" in named(figure, "measured").hovertext[0]


def test_the_recommended_setting_and_that_of_now_are_marked(found):
    figure = found.figure()
    assert points(figure, "recommended") == [(4, 395.0)]
    assert points(figure, "now") == [(2, 200.0)]
    assert {"recommended", "now"} <= set(texts(figure))
    same = found.candidates.assign(present=found.candidates["recommended"])
    labels = texts(replace(found, candidates=same).figure())
    assert "recommended, as it is now" in labels
    assert "now" not in labels


def test_what_the_loop_could_take_is_a_line_where_there_are_steps(found):
    lines = [each for each in found.figure().layout.shapes if each.type == "line"]
    assert [(each.y0, each.label.text) for each in lines] == [(400.0, "the loop could take 400")]
    for other in (math.inf, math.nan, 10_000.0):  # ... in view
        shapes = replace(found, demand_per_s=other).figure().layout.shapes
        assert all(each.type != "line" for each in shapes)


def test_the_end_of_the_cpus_is_marked_where_it_is_in_view(found):
    (shade,) = [each for each in found.figure().layout.shapes if each.type == "rect"]
    assert (shade.x0, shade.label.text) == (2, "more than the 2 CPUs allowed")
    shapes = replace(found, cpu_allowance=64.0).figure().layout.shapes
    assert all(each.type != "rect" for each in shapes)


@pytest.mark.parametrize("n_batches", [60, 4])
def test_bounds_are_a_band_that_says_that_it_was_not_measured(n_batches):
    figure = recommend(made_loop([[0.02] * n_batches], 0.16)).figure()
    band = named(figure, "bounds")
    assert band.fill == "toself"
    assert len(band.x) == len(band.y)
    assert bool(len(band.x)) == (n_batches == 60)  # of too few there are none
    assert "not measured" in figure.layout.xaxis.title.text
