"""Several loaders in one recording: each is told by its name, none is added to another."""

import dataclasses
import itertools
import time
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from loaderviz import Costs, Trace, record, simulate
from loaderviz._compare.changed_settings import changed_settings
from loaderviz.recorder import Recording
from loaderviz.trace import META_NAME
from loaderviz.why.loader_share import short_names
from made_loops import made_loop, noisy
from traces import together


class Slow(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        time.sleep(0.004)
        return index


@pytest.fixture(scope="module")
def two_loaders():
    train = DataLoader(Slow(), batch_size=8, shuffle=True, num_workers=1)
    check = DataLoader(TensorDataset(torch.zeros(40)), batch_size=8)
    with record(train, check) as recording:
        for loader in (train, check):
            for _ in loader:
                time.sleep(0.01)
    return recording.trace


def test_each_has_its_name_and_its_own_numbers(two_loaders):
    slow, quick = two_loaders.summary().loaders
    assert (slow.name, quick.name) == ("Slow (48 samples, shuffled)", "TensorDataset (40 samples)")
    assert (slow.n_batches, slow.n_samples, slow.n_workers) == (6, 48, 1)
    assert (quick.n_batches, quick.n_samples, quick.n_workers) == (5, 40, 0)
    summary = two_loaders.summary()
    waited_s = summary.wait_s + summary.startup_s
    assert slow.waited_s + quick.waited_s == pytest.approx(waited_s)
    assert slow.waited_s > quick.waited_s


def test_the_verdict_is_about_the_one_that_is_waited_for(two_loaders):
    summary = two_loaders.summary()
    assert [share.name in str(summary) for share in summary.loaders] == [True, True]
    slow, quick = (
        made_loop([noisy([0.01] * 60, 0.05)], read_s, workers=1, loader=i, clock_s=9.0 * i)
        for i, read_s in enumerate((0.03, 0.001))
    )
    loaders = [{"dataset": "Slow"}, {"dataset": "Quick"}]
    verdict = together(slow, quick, loaders=loaders).summary().verdict
    assert " of an epoch of Slow" in verdict


def test_causes_of_one_loader_are_those_that_it_has_alone(two_loaders):
    both = two_loaders.summary().causes
    for loader in (0, 1):
        own = two_loaders.of_loader(loader).summary().causes
        together = both[both["loader"] == loader]
        assert set(own["cause"]) == set(together["cause"])
        assert own["seconds"].sum() == pytest.approx(together["seconds"].sum(), rel=0.05)


def test_one_loader_needs_no_name():
    trace = simulate(Costs(sample_s=0.01, step_s=0.01), num_workers=1, batch_size=8, n_samples=80)
    (share,) = trace.summary().loaders
    assert share.name not in str(trace.summary())


def recorded_by(record_them):
    """Two loaders that are alike, iterated on two lines; and these lines."""
    first, second = (DataLoader(TensorDataset(torch.zeros(8)), batch_size=4) for _ in range(2))
    with record_them(first, second) as recording:
        for _epoch in range(2):
            list(first)
            list(second)
    line = recorded_by.__code__.co_firstlineno + 5
    file = Path(__file__).name
    return recording.trace, [f"{file}:{line}", f"{file}:{line + 1}"]


@pytest.mark.parametrize(
    "record_them",
    [record, lambda *_: Recording((), every_loader=True)],
    ids=["known at the start", "met on the way"],
)
def test_loaders_that_are_alike_are_told_apart_by_the_lines_that_iterate_them(record_them):
    trace, lines = recorded_by(record_them)
    assert [*short_names(trace).values()] == [f"TensorDataset ({line})" for line in lines]
    names = [share.name for share in trace.summary().loaders]
    assert names == [f"TensorDataset (8 samples), {line}" for line in lines]


def test_a_loader_whose_line_is_not_known_keeps_its_number():
    trace, lines = recorded_by(record)
    del trace.meta["loaders"][1]["iterated_at"]
    assert short_names(trace) == {0: f"TensorDataset ({lines[0]})", 1: "loader 1"}


def test_where_the_line_cannot_be_written_down_the_recording_goes_on(tmp_path):
    first, second = (DataLoader(TensorDataset(torch.zeros(8)), batch_size=4) for _ in range(2))
    with record(first, second, path=tmp_path / "run") as recording:
        (tmp_path / "run" / f"{META_NAME}.new").mkdir()  # in the way of what would be written
        list(first)
        list(second)
    assert len(recording.trace.batches) == 4
    assert short_names(recording.trace) == {0: "loader 0", 1: "loader 1"}


def test_a_moved_line_is_no_changed_setting():
    a, b = (recorded_by(record)[0] for _ in range(2))
    b.meta["loaders"][0]["iterated_at"] = "train.py:1"
    assert not any("iterated_at" in name for name in changed_settings(a, b))


def test_short_names_say_no_more_than_tells_loaders_apart(two_loaders):
    assert short_names(two_loaders) == {0: "Slow", 1: "TensorDataset"}
    for sizes, told in [
        ((8, 12), ["TensorDataset (8)", "TensorDataset (12)"]),
        ((12, 12), ["loader 0", "loader 1"]),
    ]:
        loaders = [DataLoader(TensorDataset(torch.zeros(n)), batch_size=4) for n in sizes]
        with record(*loaders) as recording:
            list(itertools.zip_longest(*loaders))
        assert [*short_names(recording.trace).values()] == told
    names = [share.name for share in recording.trace.summary().loaders]
    assert names == [f"TensorDataset (12 samples), loader {number}" for number in (0, 1)]


def test_workers_of_two_loaders_are_not_added_up(two_loaders):
    assert " · 1 worker of 2 loaders · " in two_loaders.summary().numbers
    costs = Costs(sample_s=0.001, step_s=0.05)
    trace = simulate(costs, num_workers=2, batch_size=8, n_samples=400)
    shares = [*trace.summary().loaders, *trace.summary().loaders]
    summary = dataclasses.replace(trace.summary(), loaders=tuple(shares), n_workers=4)
    assert summary.verdict.endswith("the workers of all loaders keep up")


@pytest.mark.parametrize("meta", [{}, {"loaders": []}, {"loaders": [{}]}])
def test_without_a_description_it_is_told_by_its_number(meta):
    trace = simulate(Costs(step_s=0.01), num_workers=1, batch_size=8, n_samples=80)
    stranger = Trace(trace.batches, trace.samples, trace.workers, trace.spans, meta)
    assert [share.name for share in stranger.summary().loaders] == ["loader 0 (80 samples)"]
