"""A thread that reads ahead makes batches; what the loop waits for is where the loop asks."""

import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import loaderviz as lv
from foreign_loaders import Ahead, InBackground, Piped
from loaderviz._compare import compare
from loaderviz._doctor import findings_of

N_BATCHES, READ_S, STEP_S = 40, 0.006, 0.012


class Slow(Dataset[Any]):
    """A batch takes half as long to read as a step takes."""

    def __init__(self, failing: int = -1) -> None:
        self.failing = failing

    def __len__(self) -> int:
        return 4 * N_BATCHES

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.failing:
            raise KeyError(index)
        time.sleep(READ_S / 4)
        return torch.tensor(index)


def around(**options: Any) -> InBackground:
    """What the loop asks: an object around a DataLoader."""
    return InBackground(DataLoader(Slow(), batch_size=4, **options))


def derived(**options: Any) -> Ahead:
    """What the loop asks: a DataLoader with a thread of its own."""
    return Ahead(Slow(), batch_size=4, **options)


def loop(batches: Any, step_s: float = STEP_S) -> tuple[list[int], float]:
    """The samples, and what was waited for, as the loop itself measures it."""
    samples: list[int] = []
    waited_s, iterator = 0.0, iter(batches)
    while True:
        since = time.perf_counter()
        try:
            batch = next(iterator)
        except StopIteration:
            return samples, waited_s
        waited_s += time.perf_counter() - since
        samples += batch.tolist()
        time.sleep(step_s)


def recorded(given: Any, asked: Any = None) -> tuple[lv.Trace, list[int], float]:
    with lv.record(given) as rec:
        samples, waited_s = loop(asked if asked is not None else given)
    return rec.trace, samples, waited_s


@pytest.mark.parametrize(
    ("make", "num_workers"),
    [(around, 0), (derived, 0), pytest.param(around, 2, marks=pytest.mark.slow)],
)
def test_where_an_object_is_seen_to_hand_over_the_wait_is_the_loops(
    make: Callable[..., Any], num_workers: int
) -> None:
    trace, samples, waited_s = recorded(make(num_workers=num_workers))
    summary = trace.summary()
    assert samples == [*range(4 * N_BATCHES)]
    assert summary.wait_s == pytest.approx(waited_s, rel=0.2, abs=0.05)
    assert (summary.n_batches, summary.n_samples) == (N_BATCHES, 4 * N_BATCHES)
    assert "one process loads and steps in turn" not in str(summary)
    assert f"read ahead by a thread of {type(make()).__name__}" in str(summary)
    assert set(summary.causes["cause"]) <= {"unknown"}
    # What was made keeps its lane, and the times of the thread that asked.
    (made,) = (n for n, about in enumerate(trace.meta["loaders"]) if "asked_by" in about)
    batches = trace.batches[trace.batches["loader"] == made]
    assert len(batches) == N_BATCHES
    assert batches["requested_s"].notna().all()
    waits = batches["delivered_s"] - batches["requested_s"]
    assert waits.sum() >= N_BATCHES * READ_S / 4 / max(1, num_workers)
    labels = " ".join(lv.timeline(trace).layout.yaxis.ticktext)
    assert ("worker 1" if num_workers else "thread that reads ahead") in labels
    assert "main process" not in labels


def test_beside_a_loader_that_the_loop_asks_each_is_told_by_itself() -> None:
    prefetcher, validation = around(), DataLoader(range(20), batch_size=4)
    with lv.record(prefetcher.loader, validation) as rec:
        loop(prefetcher, step_s=0.001)
        loop(validation, step_s=0.001)
    trace = rec.trace
    assert "takes the batches of Slow" in trace.summary().verdict
    assert [trace.of_loader(n).summary().waits_are_seen for n in range(2)] == [False, True]
    assert trace.of_loader(0).summary().n_batches == N_BATCHES


def test_a_thread_that_is_too_slow_is_told() -> None:
    prefetcher = around()
    with lv.record(prefetcher) as rec:
        loop(prefetcher, step_s=READ_S / 4)
    summary = rec.trace.summary()
    assert "the thread that reads ahead has no batch ready" in summary.verdict
    workers = re.search(r"num_workers=(\d+)", summary.causes["cure"][0])
    assert workers is not None
    batches = rec.trace.batches
    reading_s = (batches["ready_s"] - batches["started_s"]).mean()  # four steps, or more of them
    assert 3 <= int(workers[1]) <= 2 + 1.5 * reading_s / (READ_S / 4)
    assert "persistent_workers" not in summary.causes["cure"][0]  # it has none


@pytest.fixture(scope="module")
def trace() -> lv.Trace:
    """The DataLoader is recorded, and the loop asks the object around it."""
    prefetcher = around()
    return recorded(prefetcher.loader, prefetcher)[0]


class TestALoopThatIsNotSeen:
    def test_its_wait_is_unknown_and_the_way_out_is_told(self, trace: lv.Trace) -> None:
        summary = trace.summary()
        assert "cannot be seen" in summary.verdict
        assert "record(prefetcher)" in str(summary)
        assert "A thread that trains by itself: put record(loader) in it" in " ".join(
            str(summary).split()
        )
        assert " AU " not in str(summary)
        assert "waits" not in summary.verdict.replace("waits for cannot", "")
        assert math.isnan(summary.wait_share)
        assert summary.causes.empty
        assert summary.n_batches == N_BATCHES

    def test_nobody_else_claims_one(self, trace: lv.Trace) -> None:
        with pytest.raises(lv.LoaderVizError, match="read ahead by a thread"):
            lv.recommend(trace)
        diagnosis = findings_of(trace)
        codes = [*diagnosis.clear, *(finding.code for finding in diagnosis.findings)]
        assert not [code for code in codes if code.startswith("LV3")]
        assert "read ahead by a thread" in " ".join(diagnosis.troubles)
        for claims in (lv.Costs.from_trace, lambda trace: compare(trace, trace)):
            with pytest.raises(lv.LoaderVizError, match=r"record\(prefetcher\)"):
                claims(trace)
        assert lv.audit(trace).duplicates.empty

    def test_it_is_the_same_after_saving(self, trace: lv.Trace, tmp_path: Any) -> None:
        trace.save(tmp_path / "run.parquet")
        assert str(lv.load(tmp_path / "run.parquet").summary()) == str(trace.summary())

    def test_an_old_recording_which_does_not_say_who_asked_is_read_as_ever(
        self, trace: lv.Trace
    ) -> None:
        (about,) = trace.meta["loaders"]
        before = {name: value for name, value in about.items() if name != "asked_by"}
        older = replace(trace, meta={**trace.meta, "loaders": [before]})
        assert older.summary().waits_are_seen


def test_a_loop_in_the_thread_that_records_is_the_loop() -> None:
    traces = []
    loader = DataLoader(range(12), batch_size=4)

    def train() -> None:
        with lv.record(loader) as rec:
            loop(loader, 0)
        traces.append(rec.trace)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert traces[0].summary().waits_are_seen


def test_a_generator_in_the_loops_own_thread_is_none_that_reads_ahead() -> None:
    trace, *_ = recorded(Piped(Slow(), batch_size=4))
    assert [about.get("asked_by") for about in trace.meta["loaders"]] == [None]


@pytest.mark.parametrize("cls", [InBackground, Ahead])
def test_errors_are_the_loaders_own(cls: type) -> None:
    dataset = Slow(failing=10)
    made: Any = Ahead(dataset) if cls is Ahead else InBackground(DataLoader(dataset))
    with lv.record(made) as rec, pytest.raises(KeyError, match="10"):
        loop(made, 0)
    assert "failed" in rec.trace.summary().verdict


def test_a_subclass_that_calls_the_iter_of_another_is_recorded_once() -> None:
    class Further(Ahead):
        def __iter__(self) -> Iterator[Any]:
            return super().__iter__()

    loader = Further(range(12), batch_size=4)
    with lv.watch(loader) as watched:  # which records all loaders, of all classes
        assert len([*watched]) == 3
    assert watched.trace.summary().n_batches == 3
