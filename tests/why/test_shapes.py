"""What a trace says of the shapes of its batches, and what it predicts of padding."""

import dataclasses

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import loaderviz as lv
from loaderviz.why.predicted_padding import predict_padding, sent_if_sorted
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
    one = shaped("a", "a").shapes()  # needs no advice
    assert str(one) == "The model sees one shape, in 2 batches.\n100 %  a  (2 batches)"


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


def lengths_of(name):
    draws = np.random.default_rng(0)
    return {
        "long tail": np.clip(draws.lognormal(4, 0.6, 4000), 1, 2000).astype(int),
        "even": draws.integers(10, 200, 4000),
        "of two kinds": np.where(draws.random(4000) < 0.1, 100, 20),
    }[name]


@pytest.mark.parametrize(("name", "size"), [("long tail", 4), ("even", 32), ("of two kinds", 4)])
def test_what_is_predicted_of_padding_is_at_most_what_there_is(name, size):
    lengths = lengths_of(name)
    samples = [torch.ones(int(length), dtype=torch.int8) for length in lengths]
    loader = DataLoader(
        samples,
        batch_size=size,
        shuffle=True,
        drop_last=True,
        generator=torch.Generator().manual_seed(0),
        collate_fn=lambda batch: torch.nn.utils.rnn.pad_sequence(batch, batch_first=True),
    )
    sent = data = 0
    with lv.record(loader) as rec:
        for batch in loader:
            sent, data = sent + batch.numel(), data + int(batch.sum())
    predicted = predict_padding(rec.trace, 0)
    saved = 1 - sent_if_sorted(lengths.tolist(), size) / len(lengths) * len(loader) * size / sent
    padding = 1 - data / sent
    assert 0.2 * padding < predicted.share < 1.05 * padding  # which batches come is chance
    assert 0.2 * saved < predicted.saved < 1.05 * saved
    assert "at least" in str(rec.trace.shapes())
    assert "Predicted" in str(rec.trace.shapes())


def test_padding_is_predicted_only_where_the_assumption_may_hold():
    lengths = [f"{{'ids': int64 [4, {n}], 'mask': bool [4, {n}]}}" for n in range(5, 55)]
    assert predict_padding(shaped(*lengths, shuffled=True), 0) is not None
    two = [f"(int64 [4, {n}], int64 [4, {90 - n}])" for n in range(5, 55)]
    unlike = [f"int64 [4, {n}]" if n % 2 else f"float32 [4, {n}]" for n in range(5, 55)]
    for trace in (
        shaped(*lengths),  # maybe sorted by length
        shaped(*lengths, shuffled=False),
        *(shaped(*each, shuffled=True) for each in (lengths[:10], lengths[:1] * 50, two, unlike)),
    ):
        assert predict_padding(trace, 0) is None
