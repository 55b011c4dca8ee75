"""Strips of classes, rows of crops, epochs below one another: what is drawn and what refused."""

import pandas as pd
import plotly.graph_objects as go
import pytest
import torch
from torch.utils.data import DataLoader

from loaderviz import LoaderVizError, audit
from loaderviz.course.datasets import CuttingStream, Stream
from loaderviz.course.figures import classes, crops, epochs


def test_classes_has_a_strip_for_each_order_on_one_axis():
    figure = classes({"sorted": [0, 0, 1, 1], "mixed": [1, 0, 1, 0]}, title="Mixed")
    assert [each.z.tolist() for each in figure.data] == [[[0, 0, 1, 1]], [[1, 0, 1, 0]]]
    assert list(figure.layout.yaxis.ticktext) == ["sorted", "mixed"]
    assert "4 samples of 2 classes" in figure.layout.title.subtitle.text
    go.Figure(figure.to_dict())  # checks each name and colour


@pytest.mark.parametrize("orders", [{}, {"one": []}, {"one": [0], "two": [0, 1]}])
def test_classes_refuses_orders_that_do_not_fit_together(orders):
    with pytest.raises(LoaderVizError, match="equally many samples"):
        classes(orders, title="")


def cut(places):
    """A table of two crops of each worker: grey squares, each as dark as its place says."""
    rows = [(worker, torch.full((3, 8, 8), place)) for worker, place in places]
    return pd.DataFrame(
        [(worker, crop.to(torch.uint8)) for worker, crop in rows], columns=["worker", "crop"]
    )


def test_crops_that_are_the_same_have_frames_of_one_colour():
    figure = crops(cut([(0, 10), (0, 20), (1, 10), (1, 20)]))
    assert "The same crops in every worker" in figure.layout.title.text
    assert len({each.fillcolor for each in figure.layout.shapes}) == 1
    assert len(figure.layout.images) == 4
    go.Figure(figure.to_dict())


def test_crops_that_differ_have_frames_of_several_colours():
    figure = crops(cut([(0, 10), (0, 20), (1, 30), (1, 20)]), theme="dark")
    assert "Different crops in every worker" in figure.layout.title.text
    assert len({each.fillcolor for each in figure.layout.shapes}) == 2


def test_crops_refuses_a_table_without_crops():
    with pytest.raises(LoaderVizError, match="rows with crop"):
        crops(pd.DataFrame({"worker": [0], "number": [1]}))


def test_epochs_draws_who_delivered_each_sample_and_what_never_came():
    loader = DataLoader(CuttingStream(range(8)), num_workers=2, persistent_workers=True)
    figure = epochs(audit(loader, epochs=2), title="Half of it")
    came, never = figure.data
    assert sorted(zip(came.y.tolist(), came.base.tolist(), came.text.tolist(), strict=True)) == [
        *((0, i - 0.5, "0" if i < 4 else "1") for i in range(8)),
        *((1, i - 0.5, "0" if i < 4 else "1") for i in (0, 1, 6, 7)),
    ]
    assert set(never.y) == {1}
    assert sorted(never.base + 0.42) == pytest.approx([2, 3, 4, 5])
    assert "8, then 4 of 8 samples" in figure.layout.title.subtitle.text
    go.Figure(figure.to_dict())


def test_epochs_refuses_an_audit_in_which_nothing_came():
    nothing = audit(DataLoader(Stream(range(3)), batch_size=4, drop_last=True, num_workers=1))
    with pytest.raises(LoaderVizError, match="no sample came"):
        epochs(nothing, title="")
