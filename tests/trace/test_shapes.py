"""What a trace says of the shapes of its batches."""

import dataclasses

import numpy as np

import loaderviz as lv
from loaderviz.why.shapes import MOST_SHOWN
from traces import made


def shaped(*shapes, n_samples=4, **meta):
    """A batch was delivered of each of these shapes, in this order; None: not measured."""
    n = len(shapes)
    return lv.Trace.from_columns(
        batches={
            "batch": range(n),
            "n_samples": n_samples,
            "delivered_s": np.arange(n, dtype=float),
            "shapes": list(shapes),
            "state": ["delivered"] * n,
        },
        meta={"loaders": [{"dataset": "Texts", **meta}]},
    )


def test_each_shape_has_a_row_the_most_common_first():
    shapes = shaped("b", "a", "a", None, "b", "a").shapes()
    assert shapes.n_shapes == 2
    assert shapes.n_unknown == 1
    rows = shapes.table.to_dict("records")
    first = {"loader": 0, "shapes": "a", "batches": 3, "samples": 12, "share": 0.6}
    assert rows[0] == {**first, "first_epoch": 0, "first_batch": 1}
    assert [(row["shapes"], row["first_batch"]) for row in rows] == [("a", 1), ("b", 0)]
    assert str(shapes).startswith("The model sees 2 shapes, in 5 batches.\n60 %  a  (3 batches)\n")
    assert "Of 1 more batch it was not measured." in str(shapes)


def test_one_shape_needs_no_advice():
    shapes = shaped("a", "a").shapes()
    assert str(shapes) == "The model sees one shape, in 2 batches.\n100 %  a  (2 batches)"


def test_nothing_is_said_of_what_was_not_measured():
    for trace in (shaped(None, None), made(), lv.Trace.from_columns()):
        shapes = trace.shapes()
        assert shapes.n_shapes == 0
        assert str(shapes) == "What the batches are made of was not measured."


def test_a_batch_that_failed_or_never_came_is_not_counted():
    trace = shaped("a", "a", "batch: (3,) in sample 1, (2,) in sample 2")
    batches = trace.batches.assign(
        delivered_s=[0.0, np.nan, np.nan], state=["delivered", "ready", "failed"]
    )
    trace = dataclasses.replace(trace, batches=batches)
    assert trace.shapes().table["batches"].tolist() == [1]
    summary = trace.summary()
    assert summary.verdict == "Batch 2 failed: its samples have different shapes"
    assert summary.notes[0] == "In batch: (3,) in sample 1, (2,) in sample 2."


def test_a_smaller_last_batch_is_told_apart():
    trace = shaped("a [4]", "a [4]", "a [2]")
    trace = dataclasses.replace(trace, batches=trace.batches.assign(n_samples=[4, 4, 2]))
    assert trace.shapes().n_smaller == 1
    assert "drop_last=True" in str(trace.shapes())
    assert "drop_last" not in str(shaped("a [4]", "b [4]").shapes())


def test_many_shapes_are_counted_and_a_long_one_is_cut():
    text = str(shaped(*(f"{'a' * 500} [{i}]" for i in range(MOST_SHOWN + 2))).shapes())
    assert "and 2 more" in text
    assert max(map(len, text.splitlines()[:3])) < 150


def test_loaders_have_their_own_rows():
    trace = shaped("a", "a", "b")
    loaders = [{"dataset": "Train"}, {"dataset": "Test"}]
    trace = dataclasses.replace(
        trace, batches=trace.batches.assign(loader=[0, 1, 1]), meta={"loaders": loaders}
    )
    shapes = trace.shapes()
    assert shapes.table["loader"].tolist() == [0, 1, 1]
    assert shapes.n_shapes == 2
    assert "100 %  Train: a  (1 batch)" in str(shapes)
