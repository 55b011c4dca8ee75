"""The figure of the starts: what is drawn of which worker, where, in which words."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from loaderviz import Costs, LoaderVizError, Trace, figures, simulate
from loaderviz.figures.results.starts_figure import MOST_ROWS
from traces import made

SENT = {"pickle_s": 0.5, "pickle_bytes": 30 << 20, "boot_s": 1.0, "unpickle_s": 0.4}


def with_starts(workers: int = 2, method: str = "spawn", **parts) -> Trace:
    """Worker k was sent its arguments at second k."""
    trace = made(workers=workers)
    values = {"started_s": np.arange(float(workers)), "init_s": math.nan, **SENT, **parts}
    return replace(trace, workers=trace.workers.assign(start_method=method, **values))


def boxes(figure):
    """Where each part begins and how long it is, by its name, a pair for each worker."""
    return {
        bar.name: [tuple(np.round(pair, 6)) for pair in zip(bar.base, bar.x, strict=True)]
        for bar in figure.data
    }


def test_a_row_holds_the_parts_of_a_start_one_after_another():
    trace = with_starts(init_s=0.2, first_read_s=0.1, first_task_s=4.0)
    assert boxes(figures.starts(trace)) == {
        "pickle": [(0.0, 0.5), (1.0, 0.5)],
        "boot": [(0.5, 1.0), (1.5, 1.0)],
        "unpickle": [(1.5, 0.4), (2.5, 0.4)],
        "init": [(1.9, 0.2), (2.9, 0.2)],
        "read": [(4.5, 0.1), (4.5, 0.1)],
    }


def test_parts_that_are_not_known_are_not_drawn():
    trace = with_starts(
        method="fork", pickle_s=math.nan, pickle_bytes=math.nan, unpickle_s=math.nan
    )
    figure = figures.starts(trace)
    assert set(boxes(figure)) == {"boot"}
    assert "sent to each" not in figure.layout.title.subtitle.text
    assert "pickle" not in figure.layout.annotations[0].text


@pytest.mark.parametrize(
    ("parts", "title"),
    [
        ({}, "2 workers took 2.9 s to start: booting takes longest"),
        ({"pickle_s": 1.5}, "2 workers took 3.9 s to start: what they are sent takes longest"),
        ({"init_s": 2.0}, "2 workers took 4.9 s to start: worker_init_fn takes longest"),
        (
            {"started_s": [0.0, 1.6], "boot_s": 1.0},
            "2 workers took 3.5 s to start, one after another: booting takes longest",
        ),
    ],
)
def test_the_title_says_how_long_it_took_and_what_takes_longest(parts, title):
    assert figures.starts(with_starts(**parts)).layout.title.text == f"<b>{title}</b>"


def test_the_numbers_say_what_is_sent():
    assert figures.starts(with_starts()).layout.title.subtitle.text == (
        "measured · spawn · 30 MiB sent to each · pickled in 1 s in all, "
        "unpickled in 400 ms (median)"
    )


def test_of_several_starts_the_longest_is_drawn():
    first, second = with_starts(), with_starts(boot_s=3.0)
    workers = pd.concat([first.workers, second.workers], ignore_index=True)
    assert boxes(figures.starts(replace(first, workers=workers)))["boot"][0][1] == 3


def test_of_many_workers_the_first_are_drawn():
    figure = figures.starts(with_starts(workers=MOST_ROWS + 3))
    assert len(boxes(figure)["boot"]) == MOST_ROWS
    assert figure.layout.title.subtitle.text.endswith("3 more not shown")


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (None, "draws a Trace, but got NoneType"),
        (made(workers=0), "does not tell how workers started"),
        (made(workers=2), "does not tell how workers started"),
        (simulate(Costs(), num_workers=2, batch_size=1, n_batches=2), "does not tell how"),
    ],
)
def test_a_trace_without_starts_is_refused(trace, said):
    with pytest.raises(LoaderVizError, match=said):
        figures.starts(trace)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *(({"seconds": seconds}, "give a time span above 0") for seconds in (0, -1, math.nan)),
        ({"theme": "blue"}, "theme='blue'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, said):
    with pytest.raises(LoaderVizError, match=said):
        figures.starts(with_starts(), **options)


def test_two_can_be_drawn_on_one_axis():
    figure = figures.starts(with_starts(), seconds=9)
    assert figure.layout.xaxis.range[0] == 0
    assert 9 <= figure.layout.xaxis.range[1] < 10
    assert 2.9 <= figures.starts(with_starts(), seconds=1).layout.xaxis.range[1] < 3
