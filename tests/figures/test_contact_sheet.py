"""The contact sheet shows every picture once, in the row of its batch, and its own pixels."""

import base64
import io
import re

import numpy as np
import pytest

from loaderviz import LoaderVizError
from loaderviz.course.figures.contact_sheet import contact_sheet
from loaderviz.figures import style

Image = pytest.importorskip("PIL.Image")


def test_each_batch_is_a_row_in_its_colour():
    batches = [np.zeros((3, 3, 8, 8)), np.ones((2, 3, 8, 8))]
    html = contact_sheet(batches)._repr_html_()
    rows = html.split("<b ")[1:]
    assert [row.count("<img ") for row in rows] == [3, 2]
    for number, row in enumerate(rows):
        assert f">batch {number}</b>" in row
        assert style.colour(number) in row


def test_a_picture_keeps_its_colours():
    red_and_blue = np.zeros((2, 3, 8, 8))
    red_and_blue[0, 0] = red_and_blue[1, 2] = 1.0
    html = contact_sheet([red_and_blue])._repr_html_()
    encoded = re.findall(r"base64,([^']+)'", html)
    shown = [np.array(Image.open(io.BytesIO(base64.b64decode(each)))) for each in encoded]
    assert [int(each.mean(axis=(0, 1)).argmax()) for each in shown] == [0, 2]


@pytest.mark.parametrize("batches", [[], [np.zeros((4, 8, 8))], [np.zeros((4, 1, 8, 8))]])
def test_what_holds_no_pictures_is_refused(batches):
    with pytest.raises(LoaderVizError):
        contact_sheet(batches)
