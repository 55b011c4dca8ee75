"""Controls of a page without a kernel: where they stop, and what the page holds for each stop."""

import base64
import itertools
import json
import math
import random
import re
import zlib

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderviz import explore
from loaderviz.widgets import vary
from loaderviz.widgets.html_controls import control, positions, stops
from loaderviz.widgets.page_frames import ASKED_FOR, frames_html, pack

MANY = 10**6


def frames_in(page: str) -> list[list]:
    """What the page would show, read as page_frames.js reads it."""
    (packed,) = re.findall(r"data-frames='([^']*)'", page)
    return unpacked(packed)


def unpacked(packed: str) -> list[list]:
    found = json.loads(zlib.decompress(base64.b64decode(packed)))

    def at(place):
        value = found["pool"][place]
        if not isinstance(value, dict):
            return value
        if "" in value:
            return [at(each) for each in value[""]]
        return {key: at(each) for key, each in value.items()}

    return [[at(part) for part in frame] for frame in found["frames"]]


def stops_in(page: str) -> list[list[str]]:
    found = re.findall(r"data-stops='([^']*)'", page)
    return [json.loads(each.replace("&quot;", '"')) for each in found]


def controls(**specs):
    made = {name: control(name, spec) for name, spec in specs.items()}
    return made, {name: each.value for name, each in made.items()}


sliders = st.tuples(st.integers(0, 50), st.integers(1, 2000), st.floats(0, 1)).map(
    lambda given: (given[0], given[0] + given[1], given[0] + round(given[1] * given[2]))
)


@settings(max_examples=25)
@given(st.dictionaries(st.sampled_from("abcde"), sliders, min_size=1), st.integers(2, 300))
def test_sliders_keep_their_ends_and_their_value_and_lose_no_more_than_they_must(specs, most):
    made, now = controls(**specs)
    found = stops(made, now, most)
    for name, values in found.items():
        least, last, first = specs[name]
        assert {least, last, first} <= set(values)
        assert values == sorted(set(values))
    met = math.prod(map(len, found.values()))
    assert met <= most or all(len(values) <= 3 for values in found.values())
    everything = math.prod(len(positions(each)) for each in made.values())
    if everything <= most:
        assert met == everything


def test_choices_keep_all_they_offer_and_wide_sliders_stop_at_equal_ratios():
    made, now = controls(way=["a", "b"], on=True, size=(1, 1000, 100))
    found = stops(made, now, 16)
    assert found == {"way": ["a", "b"], "on": [False, True], "size": [1, 10, 100, 1000]}


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=15)
@given(st.lists(st.lists(trees, max_size=3), max_size=4))
def test_what_is_packed_comes_out_as_it_was(frames):
    assert unpacked(pack(frames)) == frames


def test_the_page_holds_what_is_drawn_at_each_position():
    def draw(n, loud):
        figure = go.Figure(go.Bar(x=np.arange(n) / 3, y=[1.0] * n))
        return [figure, "loud" if loud else "quiet"]

    shown = vary(draw, n=(1, 4, 2), loud=False)
    page = shown._page_html(MANY)
    frames = frames_in(page)
    assert stops_in(page) == [["1", "2", "3", "4"], ["no", "yes"]]
    assert len(frames) == 8
    for (n, loud), (figure, text) in zip(
        itertools.product(range(1, 5), [False, True]), frames, strict=True
    ):
        assert len(figure["data"][0]["y"]) == n
        assert figure["data"][0]["x"] == pytest.approx([i / 3 for i in range(n)], rel=1e-4)
        assert ("loud" in text) is loud
    assert "fewer values" not in page
    assert shown.result()[1] == "quiet"


def test_what_is_equal_is_there_once():
    same = {"x": list(range(1000))}
    assert len(pack([[same]] * 50)) < 1.3 * len(pack([[same]]))


def test_with_too_many_bytes_the_sliders_stop_at_fewer_values_and_the_page_says_so():
    def draw(n):
        return " ".join(str(random.Random(n * i).random()) for i in range(100))

    shown = vary(draw, n=(0, 99, 50))
    whole, small = shown._page_html(MANY), shown._page_html(20_000)
    assert len(frames_in(small)) < len(frames_in(whole)) == 100
    assert len(small) < 25_000
    assert "stops at fewer values than in JupyterLab" in small
    assert "50" in stops_in(small)[0]


def test_what_draws_at_random_leaves_the_generators_as_they_were():
    def draw(n):
        return f"{random.random()} {np.random.random()} {torch.rand(1)} {n}"

    shown = vary(draw, n=(0, 3, 2))
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    shown._page_html(MANY)
    after = random.random(), np.random.random(), torch.rand(1).item()
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    assert after == (random.random(), np.random.random(), torch.rand(1).item())


def test_a_real_run_is_not_made_for_the_page():
    runs = []

    def draw(n, for_real):
        runs.append(for_real)
        return f"{n}"

    page = vary(draw, n=(0, 3, 2), for_real=False)._page_html(MANY)
    assert set(runs) == {False}
    assert len(frames_in(page)) == 4
    assert "A real run needs JupyterLab" in page


def test_an_error_at_one_position_is_shown_there():
    frames = frames_in(vary(lambda n: f"{6 / n:g}", n=(0, 2, 1))._page_html(MANY))
    assert "ZeroDivisionError" in frames[0][0]
    assert "3" in frames[2][0]


def test_a_control_that_changes_nothing_is_told():
    made, _ = controls(n=(0, 3, 2), m=(0, 3, 2))
    page = frames_html(made, lambda n, m: [f"{n}"], most_bytes=MANY)
    assert "data-idle='m'" in page


@pytest.mark.slow
def test_the_explorers_workers_move_on_one_axis_and_it_stands_where_it_stood(monkeypatch):
    fewer = {"num_workers": [0, 1, 2, 4, 12], "sample_s": [0.02, 0.1], "step_s": [0.05, 0.2]}
    monkeypatch.setattr("loaderviz.widgets.explorer_controls.STOPS", fewer)
    explorer = explore()
    before = explorer.settings
    page = explorer._page_html(MANY)
    assert explorer.settings == before
    workers, samples, steps = stops_in(page)
    assert workers == ["0", "1", "2", "4", "12"]
    frames = frames_in(page)
    assert len(frames) == len(workers) * len(samples) * len(steps)
    of_workers = frames[:: len(samples) * len(steps)]
    figures = [next(part for part in frame if isinstance(part, dict)) for frame in of_workers]
    spans = [np.ptp(each["layout"]["xaxis"]["range"]) for each in figures]
    assert spans == pytest.approx([spans[0]] * len(spans), rel=1e-3)
    assert re.findall("<output>(.*?)</output>", page) == ["2", "0.02", "0.05"]


def test_frames_are_made_for_pages_alone(monkeypatch):
    shown = vary(lambda n: f"{n}", n=(0, 3, 2))
    assert "loaderviz-frames" not in shown._repr_mimebundle_()["text/html"]
    monkeypatch.setenv(ASKED_FOR, "1000")
    assert "loaderviz-frames" in shown._repr_mimebundle_()["text/html"]
