"""The figure of a mixing, on hand-built orders: what is drawn, where, in which words."""

import base64
import random
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from drawn import named
from loaderviz._audit import simulate_audit
from loaderviz.figures import style
from loaderviz.figures.results.mixing_figure import MOST_DOTS


def dealt(n, workers=2):
    """Each worker reads a stretch of the source."""
    each = n // workers
    found = simulate_audit(
        lambda data, worker, _: data[worker * each : (worker + 1) * each],
        n,
        num_workers=workers,
        batch_size=10,
    )
    return found.mixing()


def pixels(figure):
    """RGBA, the lowest row first, as plotly draws them upwards."""
    image = named(figure, "samples")
    data = base64.b64decode(image.source.removeprefix("data:image/png;base64,"))
    return np.asarray(Image.open(BytesIO(data)))


def ink(lane):
    fill = style.colour(lane)
    return [int(fill[i : i + 2], 16) for i in (1, 3, 5)]


def test_a_few_samples_are_dots_in_the_colour_of_their_worker():
    mixing = dealt(200)
    figure = mixing.figure()
    for lane in (0, 1):
        dots = named(figure, f"worker {lane}")
        assert dots.marker.color == style.colour(lane)
        assert list(dots.y) == list(range(100 * lane, 100 * (lane + 1)))
        assert list(dots.x) == list(np.flatnonzero(mixing.lane == lane))


def test_many_samples_are_counted_in_cells_that_lie_where_the_samples_do():
    n = 10 * MOST_DOTS
    picture = pixels(figure := dealt(n).figure())
    image = named(figure, "samples")
    drawn = np.argwhere(picture[..., 3] > 0)
    assert image.dx * picture.shape[1] == pytest.approx(n)
    assert image.dy * picture.shape[0] == pytest.approx(n)
    for row, column in drawn:
        place, at = image.y0 + image.dy * row, image.x0 + image.dx * column
        expected = [at / 2, n / 2 + at / 2]  # worker 0 in the lower half, worker 1 in the upper
        assert min(abs(place - y) for y in expected) <= 1.5 * image.dy
        if abs(place - n / 2) > image.dy:  # on the border both are in one cell
            assert picture[row, column, :3].tolist() == ink(int(place > n / 2))


def test_a_shuffle_fills_the_square_and_its_line_is_level():
    def in_any_order(data, *_):
        return random.Random(0).sample(data, len(data))

    found = simulate_audit(in_any_order, 30_000, num_workers=1, batch_size=100)
    figure = found.mixing().figure()
    assert (pixels(figure)[..., 3] > 0).mean() > 0.95
    assert np.allclose(named(figure, "mean place").y, 15_000, rtol=0.05)


def test_more_workers_than_colours_share_one():
    mixing = dealt(200, workers=10)
    figure = mixing.figure()
    assert {trace.marker.color for trace in figure.data if trace.name.startswith("worker")} == {
        style.READY_LINE
    }
    assert not figure.layout.annotations
    assert len(np.unique(pixels(dealt(20_000, workers=10).figure())[..., :3].reshape(-1, 3)[:, 0]))
