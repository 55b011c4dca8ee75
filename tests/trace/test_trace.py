"""What a recording says is what happened: its tables hold against what the samples tell."""

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Subset

import loaderviz as lv
from frames import let_go
from loaderviz.spool import ENDED
from loaderviz.trace import Trace
from probes import Bulk, Columns, Keys, Refusing, Stream, as_it_is, clocked
from trace_laws import assert_lawful, delivered, keys_of

ROUNDING_S = 1e-6  # of float64 seconds against nanoseconds


def record_all(loader: DataLoader, epochs: int = 1) -> tuple[Trace, list[Any]]:
    """The trace and all batches received."""
    with lv.record(loader) as rec:
        received = [batch for _ in range(epochs) for batch in loader]
    return rec.trace, received


def assert_true(trace: Trace, received: Sequence[list[dict[str, Any]]]) -> None:
    """Each batch received, from a loader with collate_fn=as_it_is, is in the trace as it was."""
    assert_lawful(trace)
    rows = delivered(trace)
    assert len(rows) == len(received)
    for row, batch in zip(rows.itertuples(), received, strict=True):
        assert {row.worker} == {each["worker"] for each in batch}
        assert keys_of(trace, row) == [each["key"] for each in batch]
        assert row.n_samples == len(batch)


class TestBatchesAndSamples:
    @pytest.mark.parametrize(
        "keys", [["a", "bc", "ä\ud800"], ["a", 3, 2**70], [2**64, 2**63, -(2**63)]], ids=ascii
    )
    def test_each_is_there_once_under_its_true_key_and_worker(self, keys):
        kind = {"batch_size": 2, "num_workers": 1, "collate_fn": as_it_is}
        trace, received = record_all(DataLoader(Keys(0), sampler=keys, **kind))
        assert_true(trace, received)
        assert len(trace.batches) == len(received)

    def test_a_key_is_what_the_sampler_asked_for_or_where_that_is_not_plain_its_repr(self):
        trace, received = record_all(DataLoader(Subset(Keys(10), [7, 3, 5]), batch_size=2))
        assert_lawful(trace)
        assert list(trace.samples["key"]) == [0, 1, 2]
        assert received[0]["key"].tolist() == [7, 3]
        keys = [(0, ("a", None)), 1.5, [1, "b"], slice(2), 2**70]
        loader = DataLoader(Keys(0), batch_size=5, sampler=keys, collate_fn=as_it_is)
        trace, _ = record_all(loader)
        assert list(trace.samples["key"]) == [*keys[:3], "slice(None, 2, None)", keys[4]]

    def test_a_dataset_that_returns_columns_has_as_many_samples_as_were_asked_for(self):
        loader = DataLoader(Columns(10), batch_size=4, collate_fn=as_it_is, num_workers=1)
        trace, _ = record_all(loader)
        assert_lawful(trace)
        assert list(trace.batches["n_samples"]) == [4, 4, 2]
        assert list(trace.samples["key"]) == list(range(10))

    @pytest.mark.parametrize(
        ("kind", "num_workers"),
        [("map", 0), ("map", 1), ("iterable", 0), ("iterable", 1), ("bulk", 0), ("subset", 0)],
    )
    def test_a_sample_is_timed_around_the_read_itself(self, kind, num_workers):
        dataset = {
            "map": Keys(6, clocked),
            "iterable": Stream(6, make=clocked),
            "bulk": Bulk(6, clocked),
            "subset": Subset(Keys(6, clocked), range(6)),
        }[kind]
        loader = DataLoader(dataset, batch_size=3, num_workers=num_workers, collate_fn=as_it_is)
        with lv.record(loader) as outer, lv.record(loader) as inner:
            received = list(itertools.chain.from_iterable(loader))
        for trace in (outer.trace, inner.trace):
            begun, read = (
                np.array([each[moment] - trace.meta["started"][0] for each in received]) / 1e9
                for moment in ("begun", "read")
            )
            assert (trace.samples["start_s"] <= begun + ROUNDING_S).all()
            assert (trace.samples["end_s"] >= read - ROUNDING_S).all()
            if kind != "bulk":
                assert (trace.samples["end_s"][:2] <= begun[1:3] + ROUNDING_S).all()

    def test_what_was_prefetched_and_never_delivered_is_nan(self):
        loader = DataLoader(Keys(20), batch_size=1, num_workers=2, collate_fn=as_it_is)
        with lv.record(loader) as rec:
            for i, _ in enumerate(loader):
                if i == 2:
                    break
        assert_lawful(rec.trace)
        batches = rec.trace.batches
        rows = delivered(rec.trace)  # each is released when the next is asked for
        assert (rows["released_s"].iloc[:-1].to_numpy() == rows["requested_s"].iloc[1:]).all()
        n_sent = 2 * 2 + 3  # prefetched by each worker, and one more for each that was taken
        assert list(batches["batch"]) == list(range(n_sent))
        assert list(batches["delivered_s"].notna()) == [True] * 3 + [False] * 4
        assert list(rec.trace.workers["exit"]) == ["done", "done"]

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_a_batch_that_is_kept_is_released_when_the_recording_ends(self, num_workers):
        loader = DataLoader(Keys(10), batch_size=2, num_workers=num_workers)
        with lv.record(loader) as rec:
            iterator = iter(loader)
            next(iterator)
        assert rec.trace.batches["released_s"].count() == 1
        assert len(list(iterator)) == 4


class TestEpochsAndLoaders:
    @pytest.mark.parametrize("kind", [{}, {"num_workers": 2, "persistent_workers": True}])
    def test_epochs_are_numbered_and_batches_count_from_0_in_each(self, kind):
        loader = DataLoader(Keys(6), batch_size=2, collate_fn=as_it_is, **kind)
        trace, received = record_all(loader, epochs=3)
        assert_true(trace, received)
        assert list(trace.batches["epoch"]) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        assert list(trace.batches["batch"]) == [0, 1, 2] * 3
        assert len(trace.workers) == kind.get("num_workers", 0)

    def test_loaders_are_numbered_as_they_were_given(self):
        train = DataLoader(Keys(4), batch_size=2, num_workers=1)
        val = DataLoader(Keys(3), batch_size=3)
        with lv.record(train, val, train) as rec:
            for _ in range(2):
                list(train)
                list(val)
        assert_lawful(rec.trace)
        assert list(rec.trace.batches["loader"]) == [0] * 4 + [1] * 2
        assert [each["num_workers"] for each in rec.trace.meta["loaders"]] == [1, 0]

    def test_two_iterators_of_one_loader_at_once_are_two_epochs(self):
        loader = DataLoader(Keys(6), batch_size=2, shuffle=True, collate_fn=as_it_is)
        with lv.record(loader) as rec:
            received = list(itertools.chain.from_iterable(zip(loader, loader, strict=True)))
        assert_true(rec.trace, received)
        assert list(delivered(rec.trace)["epoch"]) == [0, 1] * 3

    def test_loaders_in_threads_are_seen_like_others(self):
        kind = {"batch_size": 2, "num_workers": 1, "collate_fn": as_it_is}
        loaders = [DataLoader(Keys(8, clocked), **kind) for _ in range(2)]
        with lv.record(*loaders) as rec:
            threads = [threading.Thread(target=list, args=(loader,)) for loader in loaders]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert_lawful(rec.trace)
        assert list(rec.trace.batches.groupby("loader")["delivered_s"].count()) == [4, 4]
        keys = rec.trace.samples.groupby("loader")["key"].apply(list)
        assert list(keys) == [list(range(8))] * 2


class TestErrors:
    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_the_samples_before_one_that_raises_are_there_and_it_is_begun(self, num_workers):
        loader = DataLoader(
            Refusing(9, 2, ValueError("no third")), batch_size=3, num_workers=num_workers
        )
        with pytest.raises(ValueError, match="no third") as caught, lv.record(loader) as rec:
            list(loader)
        let_go(caught.value)
        assert_lawful(rec.trace)
        first = rec.trace.batches.iloc[0]
        assert np.isnan(first["ready_s"])
        assert np.isnan(first["delivered_s"])
        samples = rec.trace.samples[rec.trace.samples["batch"] == 0]
        assert list(samples["key"]) == [0, 1, 2]
        assert list(samples["end_s"].isna()) == [False, False, True]

    def test_the_loop_can_go_on_after_a_workers_error(self):
        loader = DataLoader(
            Refusing(8, 2, ValueError("no third")), batch_size=2, num_workers=2, collate_fn=as_it_is
        )
        received = []
        with lv.record(loader) as rec:
            iterator = iter(loader)
            for _ in range(4):
                try:
                    received.append(next(iterator))
                except ValueError as error:
                    let_go(error)
        assert_true(rec.trace, received)
        assert list(delivered(rec.trace)["batch"]) == [0, 2, 3]
        states = rec.trace.batches.set_index("batch")["state"]
        assert list(states[:4]) == ["delivered", "failed", "delivered", "delivered"]


class TestKeptRecordings:
    def test_a_kept_recording_loads_as_it_was(self, tmp_path):
        loader = DataLoader(Stream(3, 2), batch_size=2, num_workers=2)
        with lv.record(loader, path=tmp_path / "a" / "run", label="first") as rec:
            list(loader)
        for path in (tmp_path / "a" / "run", str(tmp_path / "a" / "run")):
            loaded = lv.load(path)
            for name in ("batches", "samples", "workers", "spans"):
                pd.testing.assert_frame_equal(getattr(loaded, name), getattr(rec.trace, name))
            assert loaded.meta == {**rec.trace.meta, "started": list(rec.trace.meta["started"])}
        assert loaded.meta["label"] == "first"
        assert loaded.meta["complete"]

    def test_a_snapshot_shows_what_there_is_so_far(self, tmp_path):
        loader = DataLoader(Keys(6), batch_size=2, num_workers=1)
        with lv.record(loader, path=tmp_path / "run") as rec:
            assert rec.snapshot().batches.empty
            for i, _ in enumerate(loader):
                for trace in (rec.snapshot(), lv.load(tmp_path / "run")):
                    assert_lawful(trace)
                    assert trace.batches["delivered_s"].count() == i + 1
                    assert trace.batches["released_s"].count() == i
                    assert not trace.meta["complete"]
        assert rec.trace.meta["complete"]


class TestSpans:
    def test_are_rows_in_the_order_of_their_start(self):
        loader = DataLoader(Keys(4), batch_size=2)
        with lv.record(loader) as rec:
            for _ in loader:
                with lv.span("step"), lv.span("vorwärts \n"):
                    pass
        spans = rec.trace.spans
        assert_lawful(rec.trace)
        assert list(spans["name"]) == ["step", "vorwärts \n"] * 2
        assert (spans["start_s"] <= spans["end_s"]).all()
        batches = rec.trace.batches
        assert (batches["delivered_s"].to_numpy() <= spans["start_s"][::2].to_numpy()).all()
        assert (spans["end_s"][::2].to_numpy() <= batches["released_s"].to_numpy()).all()

    def test_every_recording_around_it_has_it_and_without_one_nothing_happens(self):
        with lv.span("nowhere"):
            pass
        loader = DataLoader(Keys(1))
        with (
            lv.record(loader) as outer,
            lv.record(loader) as inner,
            pytest.raises(KeyError),
            lv.span("both"),
        ):
            raise KeyError  # passes, and ends the span
        assert list(outer.trace.spans["name"]) == list(inner.trace.spans["name"]) == ["both"]


class TestTracesFromColumns:
    def test_have_every_column_of_the_schema(self):
        assert_lawful(Trace.from_columns())
        batches = {"batch": range(3), "worker": 1}
        trace = Trace.from_columns(batches=batches)
        assert_lawful(trace)
        assert list(trace.batches["worker"]) == [1, 1, 1]
        assert trace.batches["ready_s"].isna().all()
        trace = Trace.from_columns(batches=batches, samples={"worker": 1, "key": ["a"]})
        assert trace.samples["key"].dtype == object
        some = Trace.from_columns(batches=trace.batches[1:])  # as of another table
        assert list(some.batches["batch"]) == [1, 2]

    def test_refuse_columns_that_are_none_or_of_different_lengths(self):
        for table in ("batches", "samples", "workers", "spans"):
            with pytest.raises(lv.LoaderVizError, match=f"{table} has no column 'flavour'"):
                Trace.from_columns(**{table: {"flavour": [1]}})
        with pytest.raises(lv.LoaderVizError, match=r"3 rows, but 2 values of 'worker'"):
            Trace.from_columns(batches={"batch": [0, 1, 2], "worker": [0, 1]})

    def test_of_one_loader_hold_its_rows_alone(self):
        of_three = {"loader": [0, 1, 0]}
        trace = Trace.from_columns(
            batches={"batch": range(3), **of_three},
            samples={"key": range(3), "batch": range(3), **of_three},
            workers={"worker": [0, 0], "loader": [0, 1]},
            spans={"name": ["step"]},
            meta={"rank": 0},
        )
        alone = trace.of_loader(0)
        assert_lawful(alone)
        assert list(alone.batches["batch"]) == list(alone.samples["key"]) == [0, 2]
        assert (len(alone.workers), len(alone.spans), alone.meta) == (1, 1, trace.meta)
        assert alone.of_loader(0) is alone
        assert trace.of_loader(2).batches.empty

    @settings(max_examples=25)
    @given(keys=st.lists(st.integers() | st.text(max_size=3) | st.none(), max_size=5))
    def test_keep_their_keys(self, keys):
        assert list(Trace.from_columns(samples={"key": keys}).samples["key"]) == keys


def built(
    *waits_s: float,
    step_s: float = 1.0,
    workers: int = 0,
    n_samples: int = 10,
    epoch: int | Sequence[int] = 0,
    **more: Any,
) -> Trace:
    """One batch after the other: ask, wait while it is read, step."""
    times = np.cumsum([part for wait_s in waits_s for part in (wait_s, step_s)])
    starts, delivered_s = np.r_[0.0, times[1:-1:2]], times[0::2]
    n = len(waits_s)
    return Trace.from_columns(
        batches={
            "batch": range(n),
            "epoch": epoch,
            "worker": [i % workers for i in range(n)] if workers else [-1] * n,
            "n_samples": n_samples,
            "requested_s": starts,
            "delivered_s": delivered_s,
            "released_s": times[1::2],
            **({"started_s": starts, "collate_s": delivered_s} if "ready_s" not in more else {}),
            "ready_s": delivered_s,
            **more,
        }
    )


LATE = {"ready_s": [0.2, 0.3, 0.4, 0.5]}
VERDICTS = {
    "Loading alone sets the pace: 4,000 samples/s": built(
        1.0, 1.0, step_s=0.0, workers=2, n_samples=4000
    ),
    "Loading alone sets the pace: 2.5 samples/s": built(4.0, 4.0, step_s=0.0),
    "Loading alone sets the pace": built(1.0, 1.0, step_s=0.0, workers=2, n_samples=0),
    "The model waits 75 % of the time: one process loads and steps in turn": built(3.0, 3.0),
    "Too short to tell what the training waits for: record 18 more batches": built(
        2.0, 0.01, 0.01, workers=1
    ),
    "Too short to tell what the training waits for: record 24 more batches": built(
        2.0, 0.0, 0.0, 0.0, workers=4
    ),
    "Too short to tell what the training waits for: record 20 more batches": built(
        2.0, 0.1, 2.0, 0.1, workers=2, epoch=[0, 0, 1, 1]
    ),
    # A long run would wait as much.
    "The model waits 53 % of the time: two workers cannot keep up": built(3.0, 0.2, 0.2, workers=2),
    "The model waits 50 % of the time: 13 workers cannot keep up": built(*[1.0] * 13, workers=13),
    "The model waits 50 % of the time: one batch, no overlap": built(1.0, workers=2),
    "One batch an epoch: it shows what the start costs, not the pace": built(
        1.0, 1.0, workers=2, step_s=0.0, epoch=[0, 1]
    ),
    "The model waits 46 % of the time: batches are being handed over": built(
        0.2, 0.5, 0.5, 0.5, workers=2, step_s=0.5, **LATE
    ),
    "Batch 1 failed: making it raised an exception": built(
        1.0, 1.0, workers=2, state=["delivered", "failed"]
    ),
}


class TestSummaries:
    def test_nothing_delivered(self):
        prefetched = Trace.from_columns(batches={"batch": [0, 1], "started_s": [0.1, 0.2]})
        for summary in (Trace.from_columns().summary(), prefetched.summary()):
            assert summary.verdict == "No batch was delivered"
            assert summary.samples_per_s == summary.wait_share == 0

    @pytest.mark.parametrize(("verdict", "trace"), VERDICTS.items(), ids=VERDICTS)
    def test_the_verdict_says_what_limits(self, verdict, trace):
        assert trace.summary().verdict == verdict
        assert repr(trace).startswith(verdict)

    def test_the_numbers_are_those_of_the_consumer(self):
        summary = built(1.0, 0.5, 0.5, workers=2, epoch=[0, 1, 1]).summary()
        assert (summary.n_batches, summary.n_samples, summary.epochs) == (3, 30, 2)
        times_s = (summary.elapsed_s, summary.wait_s, summary.first_wait_s, summary.step_s)
        assert times_s == pytest.approx((5.0, 2.0, 1.5, 3.0))
        assert summary.wait_share == pytest.approx(0.4)
        assert summary.numbers == (
            "3 batches · 30 samples · 2 workers · 5 s in all: 3 s in steps + 2 s waiting"
        )
        one = built(1.0, workers=1, n_samples=1).summary().numbers
        assert one.startswith("1 batch · 1 sample · 1 worker · ")

    def test_starting_workers_is_told_apart_from_waiting_for_them(self):
        batches = built(1.0, 1.0, 1.0, 1.0, workers=1, epoch=[0, 0, 1, 1]).batches
        batches[[name for name in batches if name.endswith("_s")]] += 0.5
        later = batches["epoch"] == 1  # the loop makes a new iterator first, from 4.5 s to 6 s
        batches.loc[later, [name for name in batches if name.endswith("_s")]] += 1.5
        columns = {name: batches[name] for name in batches}
        starts = [0.0, 4.5]  # each epoch has a worker of its own; its second batch ends at 4.5 s
        workers = {"worker": [0, 0], "pid": [1, 2], "started_s": starts}
        summary = Trace.from_columns(batches=columns, workers=workers).summary()
        assert summary.startup_s == pytest.approx(0.5 + 1.5)
        assert summary.elapsed_s == pytest.approx(2.0 + 4.0 + 4.0)
        assert "+ 6 s waiting (2 s in iter())" in summary.numbers
        # A worker that comes to life after the loop has asked has cost the loop nothing.
        workers["started_s"] = [0.6, 6.5]
        assert Trace.from_columns(batches=columns, workers=workers).summary().startup_s == 0

    def test_the_pace_is_from_the_first_arrival_of_each_epoch_to_the_last(self):
        trace = built(9.0, 1.0, 9.0, 1.0, step_s=1.0, epoch=[0, 0, 1, 1], n_samples=10)
        assert trace.summary().samples_per_s == pytest.approx(5.0)

    def test_workers_that_delivered_nothing_count(self):
        workers = {"worker": [0, 1, 2, 0, 1, 2], "pid": range(6)}
        trace = Trace.from_columns(batches=built(1.0, 1.0, workers=1).batches, workers=workers)
        assert trace.summary().n_workers == 3

    @settings(max_examples=12)
    @given(
        waits_s=st.lists(st.floats(0, 10), min_size=1, max_size=6),
        step_s=st.floats(0, 10),
        workers=st.integers(0, 3),
    )
    def test_a_share_is_a_share_and_there_is_always_a_verdict(self, waits_s, step_s, workers):
        summary = built(*waits_s, step_s=step_s, workers=workers).summary()
        assert 0 <= summary.wait_share <= 1
        assert summary.first_wait_s <= summary.wait_s + ROUNDING_S
        assert summary.wait_s + summary.step_s == pytest.approx(summary.elapsed_s, abs=ROUNDING_S)
        assert summary.verdict


def test_a_later_process_under_its_number_is_not_a_worker_that_nobody_waited_for(
    tmp_path, monkeypatch
):
    folder, pid = tmp_path / "run", os.fork()
    if pid == 0:  # the main process dies
        loader = DataLoader(Keys(8, make=clocked), num_workers=1, prefetch_factor=1)
        lv.record(loader, path=folder).__enter__()
        next(iter(loader))
        os._exit(1)
    os.waitpid(pid, 0)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(lv.load(folder).workers["pid"].iloc[0])).wait(timeout=20)
    assert lv.load(folder).workers["exit"].iloc[0] in ("done", "killed")
    spool = next(folder.glob("worker-*.spool"))
    data = bytearray(spool.read_bytes())
    data[8 * ENDED : 8 * ENDED + 8] = bytes(8)  # as if it had not said that it ended
    spool.write_bytes(data)
    assert list(lv.load(folder).workers["exit"]) == ["killed"]
    begun = time.time()
    for created, exit_ in ((begun, "running"), (begun + 3600, "killed")):
        process = SimpleNamespace(
            create_time=lambda at=created: at, status=lambda: psutil.STATUS_RUNNING
        )
        monkeypatch.setattr(psutil, "Process", lambda _, found=process: found)
        assert list(lv.load(folder).workers["exit"]) == [exit_]
