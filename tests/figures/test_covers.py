"""Boxes that are too narrow to be told apart are covered, and the figure says so."""

import numpy as np
import pytest

from drawn import named
from loaderviz import Costs, simulate, timeline
from loaderviz.figures import style
from loaderviz.figures.timelines import covers
from loaderviz.web import script
from traces import together


def simulated(n_batches, *, batch_size=2, sample_s=0.02, **settings):
    costs = Costs(sample_s=sample_s, step_s=0.03)
    return simulate(costs, num_workers=2, batch_size=batch_size, n_batches=n_batches, **settings)


@pytest.mark.parametrize("n_batches", [12, covers.MOST_TOLD_APART])
def test_few_batches_have_their_colours(n_batches):
    figure = timeline(simulated(n_batches))
    assert len(named(figure, covers.BATCHES).x) == 0
    assert named(figure, "step").opacity is None
    assert "zoom in for batches" not in figure.layout.title.subtitle.text


def test_past_that_all_work_has_one_colour_and_the_wait_is_still_seen():
    trace = simulated(covers.MOST_TOLD_APART + 1, pin_memory=True)
    figure = timeline(trace)
    cover = named(figure, covers.BATCHES)
    assert set(cover.marker.color) == {style.BUSY}
    for name in covers.UNDER:
        assert named(figure, name).opacity == 0
    assert named(figure, "wait").opacity is None
    assert "zoom in for batches" in figure.layout.title.subtitle.text
    # Each batch in the lanes of its worker, of the pin thread and of the consumer.
    batches = trace.batches
    assert sorted(cover.customdata) == sorted([*range(len(batches))] * 3)
    ends = np.array(cover.base) + np.array(cover.x)
    for column in ("ready_s", "pinned_s", "released_s"):
        assert np.isclose(batches[column].to_numpy()[:, None], ends, atol=1e-6).any(axis=1).all()


def test_narrow_samples_are_one_box_that_says_so_and_wide_ones_are_not():
    narrow = timeline(simulated(20, batch_size=24, sample_s=0.001))
    cover = named(narrow, covers.SAMPLES)
    assert list(cover.marker.color) == [style.colour(batch) for batch in range(20)]
    assert narrow.layout.title.subtitle.text.endswith("zoom in for samples")
    assert len(named(narrow, "sample").x) == 20 * 24  # are there to be zoomed in on
    wide = timeline(simulated(8))
    assert len(named(wide, covers.SAMPLES).x) == 0
    assert "covers" not in wide.layout.meta["loaderviz"]


def test_a_batch_with_a_sample_that_stands_out_is_not_covered():
    times = [0.0005] * 24 * 12
    times[5 * 24] = 0.03
    costs = Costs(sample_s=times, step_s=0.03)
    figure = timeline(simulate(costs, num_workers=2, batch_size=24, n_batches=12))
    assert sorted(named(figure, covers.SAMPLES).customdata) == [*range(5), *range(6, 12)]


def test_each_of_several_ranks_counts_its_own_batches():
    one = simulated(covers.MOST_TOLD_APART)
    other = simulated(covers.MOST_TOLD_APART)
    other.batches["rank"] = other.samples["rank"] = other.workers["rank"] = 1
    assert len(named(timeline(together(one, other)), covers.BATCHES).x) == 0


def test_a_number_is_legible_on_both_shades_of_its_batch():
    n = len(style.PALETTE)
    for batch in range(n):
        fill, other = style.COLOURS[batch], style.COLOURS[n + batch]
        bright = [sum(int(each[i : i + 2], 16) for i in (1, 3, 5)) for each in (fill, other)]
        assert (bright[1] < bright[0]) == (style.text_on(batch) == "#ffffff")


def test_the_script_knows_the_covers_by_their_names():
    text = script("covers")
    assert f'"{covers.SAMPLES}"' in text
    assert f'"{covers.BATCHES}"' in text
    for name in covers.UNDER - {covers.SAMPLES}:
        assert f'"{name}"' in text
