"""Loaders that are made anew at one line of code are one to a person, wherever a run is told of."""

import dataclasses

import numpy as np
import pytest

from loaderviz import Trace, load, recommend, timeline
from loaderviz.report import content_of, write
from loaderviz.trace.loaders_as_one import as_one
from made_loops import made_loop
from traces import together

ABOUT = {"dataset": "Images", "num_workers": 1, "batch_size": 8, "iterated_at": "train.py:9"}
TRAIN = {**ABOUT, "dataset": "Train", "iterated_at": "train.py:7"}


def made_anew(n, abouts=(), *, every_s=1.0, rank=0, epochs=1, **options):
    """A loader that is made every so many seconds, for batches that take 0.3 s or so."""
    steps = [[0.01] * 10] * epochs
    options = {"workers": 1, "start_s": 0.1, **options}
    lives = [made_loop(steps, 0.02, loader=i, clock_s=i * every_s, **options) for i in range(n)]
    for life in lives:
        for table in (life.batches, life.workers):
            table["rank"] = rank
    loaders = [dict(abouts[i] if i < len(abouts) else ABOUT) for i in range(n)]
    return together(*lives, loaders=loaders)


@pytest.mark.parametrize(
    ("abouts", "options", "expected"),
    [
        ((), {}, [0, 0, 0]),
        ((), {"every_s": 0.01}, [0, 1, 2]),  # in turns, as with zip()
        (({**ABOUT, "iterated_at": "train.py:1"},), {}, [0, 1, 1]),
        (({}, {}), {}, [0, 1, 2]),  # not known where they are iterated
        (({**ABOUT, "batch_size": 4},), {}, [0, 1, 1]),
        (({**ABOUT, "dataset": "Masks"},), {}, [0, 1, 1]),
        ((TRAIN, ABOUT, TRAIN), {}, [0, 1, 0]),
    ],
)
def test_lives_of_one_loader_have_one_number(abouts, options, expected):
    trace = made_anew(3, abouts, **options)
    one = as_one(trace)
    assert list(trace.batches["loader"].unique()) == [0, 1, 2]  # as recorded
    starts = one.batches.groupby(["loader", "epoch"])["delivered_s"].min()
    numbers = [loader for (loader, _), _ in sorted(starts.items(), key=lambda item: item[1])]
    assert numbers == expected
    assert (one is trace) == (expected == [0, 1, 2])
    assert as_one(one) is one


@pytest.mark.parametrize(("epochs", "persistent"), [(1, False), (2, False), (2, True)])
def test_its_epochs_go_on_and_its_workers_start_anew(epochs, persistent):
    trace = made_anew(4, epochs=epochs, persistent=persistent, every_s=2.0)
    one = as_one(together(trace, made_anew(4, epochs=epochs, rank=1, every_s=2.0), **trace.meta))
    for table in (one.batches, one.samples, one.workers):
        assert set(table["loader"]) <= {0}
    for _, of_rank in one.batches.groupby("rank"):
        assert sorted(of_rank["epoch"].unique()) == [*range(4 * epochs)]
        assert of_rank.sort_values("epoch", kind="stable")["delivered_s"].is_monotonic_increasing
    assert one.meta["loaders"][0]["made"] == 4
    (share,) = trace.summary().loaders
    assert "made 4 times" in share.name
    starts = trace.phases()["phase"].isin(["start", "restart"])
    assert starts.sum() == (4 if persistent else 4 * epochs)
    causes = trace.summary().causes.set_index("cause")
    assert causes["seconds"]["restart"] == pytest.approx(
        (3 if persistent else 4 * epochs - 1) * causes["seconds"]["start"], rel=0.01
    )
    assert "Make the loader once" in causes["cure"]["restart"]


def test_samples_that_were_not_read_are_renumbered_once_they_are(tmp_path):
    for rank in range(2):
        trace = made_anew(2, rank=rank)
        keys = trace.batches[["rank", "loader", "epoch", "batch", "worker"]]
        samples = keys.assign(position=0, key=np.arange(len(keys)), start_s=1.0, end_s=2.0)
        meta = {**trace.meta, "rank": rank}
        run = Trace(trace.batches, samples, trace.workers, trace.spans, meta)
        run.save(tmp_path / f"rank-{rank:05}.parquet")
    one = as_one(load(tmp_path))
    parts = list(one.sample_parts())
    assert [len(part) for part in parts] == [20, 20]
    for samples in (*parts, one.of_ranks([1]).samples, one.samples):
        assert set(samples["loader"]) == {0}
        assert set(samples["epoch"]) == {0, 1}


def test_a_picture_a_page_and_advice_are_of_one_loader(tmp_path):
    trace = made_anew(5, (TRAIN,))
    lanes = timeline(trace).layout.meta["loaderviz"]["lanes"]
    assert lanes == ["consumer", "Train · worker 0", "Images · worker 0"]
    content = content_of(trace)
    assert [row["loader"] for row in content.loaders] == [0, 1]
    assert "Images (80 samples, made 4 times)" in content.actions[0].what
    write(trace, tmp_path / "page.html")
    assert "more causes</summary>" in (tmp_path / "page.html").read_text()
    whole, life = (recommend(trace, loader=loader, max_workers=2) for loader in (None, 3))
    assert "made 4 times" in whole.notes[0]
    assert (whole.trace.batches["loader"] == 1).sum() == 40
    assert (life.trace.batches["loader"] == 3).sum() == 10


def test_lives_that_read_other_samples_each_lack_none():
    trace = made_anew(3)
    keys = trace.batches[["rank", "loader", "epoch", "batch", "worker"]]
    samples = keys.assign(position=0, key=np.arange(len(keys)), start_s=1.0, end_s=2.0)
    (audited,) = content_of(dataclasses.replace(trace, samples=samples)).audits
    assert not audited.is_wrong
    assert "other samples" in audited.why_not
