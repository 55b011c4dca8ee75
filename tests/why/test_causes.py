"""Each waited second has a cause: causes add up to the waits, and a known cause is named."""

import math
import re
import time
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from torch.utils.data import DataLoader

from loaderviz import Costs, LoaderVizError, Trace, record, simulate
from loaderviz.course.datasets import SleepingDataset
from loaderviz.why.attribution import CAUSES, attribute
from patients import SlowSampler
from simulation_strategies import COSTS, configurations
from trace_strategies import TIMES, traces_of_any_times
from traces import behind_a_lock, made

COLUMNS = ["loader", "cause", "seconds", "share", "saves_s", "evidence", "cure"]
COLUMNS += ["epoch_s", "epoch_saves_s"]


def waited_s(trace: Trace) -> float:
    summary = trace.summary()
    return summary.wait_s + summary.startup_s


def assert_adds_up(trace: Trace) -> None:
    """Each wait, and all of them, to the nanosecond; nothing is negative."""
    attribution = attribute(trace)
    assert (attribution.seconds >= -1e-12).all()
    lengths = attribution.end_s - attribution.start_s
    assert np.allclose(attribution.seconds.sum(axis=1), lengths, rtol=0, atol=1e-9)
    assert attribution.seconds.sum() == pytest.approx(waited_s(trace), abs=1e-9)


def simulated(num_workers: int, n_batches: int = 40, **costs: Any) -> Trace:
    settings = {name: costs.pop(name) for name in list(costs) if name in SETTINGS}
    usual = {"sample_s": 0.004, "step_s": 0.02, "dispatch_s": 6e-5, "transport_s": 3e-4}
    how = Costs(**{**usual, "take_s": 3e-4, "send_s": 2e-4, "cores": 8.0, **costs})
    if "shards" not in settings:
        settings["n_batches"] = n_batches
    return simulate(how, num_workers=num_workers, batch_size=8, **settings)


SETTINGS = ("epochs", "persistent_workers", "prefetch_factor", "shards", "kind", "in_order")


# As where the machine stood still a few times.
ONE_FAR_SLOWER_THAN_SOME = [0.02 if i % 12 == 0 else 0.6 if i == 100 else 0.004 for i in range(320)]


NOW_AND_THEN = [0.02 if i % 40 == 0 else 0.002 for i in range(640)]

# The first sample of each of two workers in each epoch, in which 8 x 6 samples are read.
EACH_WORKER_SETS_UP = [0.5 if i in (0, 8) else 0.004 for i in range(48)]


class OrdersAllKeys(SlowSampler):
    def __iter__(self):
        time.sleep(self.seconds)
        yield from range(self.n)


class TestConservation:
    @settings(max_examples=10)
    @given(costs=COSTS, options=configurations())
    def test_causes_add_up_to_the_waits_of_any_simulation(self, costs, options):
        assert_adds_up(simulate(costs, **options))

    @pytest.mark.parametrize("workers", [0, 2])
    def test_they_do_for_a_recording(self, workers):
        loader = DataLoader(SleepingDataset(40, 0.002), batch_size=4, num_workers=workers)
        with record(loader) as recording:
            for _ in range(2):
                for _batch in loader:
                    time.sleep(0.001)
        assert_adds_up(recording.trace)
        causes = recording.trace.summary().causes
        assert list(causes) == COLUMNS
        assert causes["seconds"].sum() == pytest.approx(waited_s(recording.trace), abs=1e-9)

    def test_two_loaders_are_told_apart(self):
        slow = DataLoader(SleepingDataset(16, 0.01), batch_size=4, num_workers=1)
        quick = DataLoader(SleepingDataset(16, 0), batch_size=4)
        with record(slow, quick) as recording:
            for _batches in zip(slow, quick, strict=True):
                time.sleep(0.001)
        assert_adds_up(recording.trace)
        causes = recording.trace.summary().causes
        assert causes["loader"].iloc[0] == 0
        assert set(causes["loader"]) == {0, 1}
        # Of all others a busy machine may make more than a simulation shows: unknown then.
        always_told = causes["cause"].isin(["workers", "main_process"])
        assert set(causes["loader"][always_told]) == {0, 1}
        assert not causes["saves_s"][causes["cause"] == "workers"].isna().any()
        assert set(causes["cause"][causes["loader"] == 1]) <= {"main_process", "sampler"}


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_what_begins_within_a_step_of_another_loader_counts_once(persistent_workers):
    """As a validation now and then: iter() of its loader is no step of the one around it."""
    outer = DataLoader(SleepingDataset(12, 0.001), 4)
    options: dict[str, Any] = {"num_workers": 1, "persistent_workers": persistent_workers}
    inner = DataLoader(SleepingDataset(8, 0.001), 4, sampler=OrdersAllKeys(8, 0.2), **options)
    with record(outer, inner) as recording:
        begun_s = time.perf_counter()
        for _batch in outer:
            for _validated in inner:
                pass
        took_s = time.perf_counter() - begun_s
    summary = recording.trace.summary()
    assert summary.startup_s >= 3 * 0.2
    assert summary.elapsed_s <= took_s
    assert summary.step_s >= 0
    assert_adds_up(recording.trace)


class TestALoopThatLeavesItsEpochs:
    """With break, when workers have been asked for more: they make that before they go on."""

    SETTINGS: Final = {"batch_size": 8, "n_batches": 6, "epochs": 6}
    COSTS: Final = Costs(sample_s=0.02, step_s=0.01, transport_s=3e-4, startup_s=3e-3, boot_s=5e-3)

    @pytest.mark.parametrize(
        "dataset", [{"n_samples": 2000}, {"kind": "iterable", "shards": [1000, 1000]}]
    )
    def test_is_promised_nothing_by_workers_that_persist(self, dataset):
        recorded = simulate(self.COSTS, num_workers=2, **self.SETTINGS, **dataset)
        kept = simulate(
            self.COSTS, num_workers=2, persistent_workers=True, **self.SETTINGS, **dataset
        )
        assert span_s(kept) > span_s(recorded)
        saves_s = recorded.summary().causes.set_index("cause")["saves_s"]
        assert saves_s["restart"] == 0

    def test_is_promised_what_the_advised_workers_give(self):
        given = {"n_samples": 2000, **self.SETTINGS}
        recorded = simulate(self.COSTS, num_workers=2, **given)
        causes = recorded.summary().causes.set_index("cause")
        advised = int(re.search(r"some (\d+) gain", causes["cure"]["workers"])[1])
        more = simulate(self.COSTS, num_workers=advised, **given)
        saves_s = causes["saves_s"]
        assert saves_s["workers"] == pytest.approx(span_s(recorded) - span_s(more), rel=0.1)


def span_s(trace: Trace) -> float:
    return float(trace.workers["ended_s"].max())


def test_a_wait_for_pinning_is_due_to_it_and_not_to_the_handover():
    costs = Costs(sample_s=0.001, step_s=0.001, pin_s=0.05, startup_s=0.01)
    trace = simulate(costs, n_samples=40, batch_size=4, num_workers=2, pin_memory=True)
    found = attribute(trace)
    seconds = dict(zip(CAUSES, found.seconds.sum(axis=0), strict=True))
    assert seconds["pin"] > 0.9 * waited_s(trace)
    assert seconds["handover"] == pytest.approx(0, abs=1e-9)


class TestTheFirstCause:
    """Of simulations, which are the same in each run; of real loops: benchmarks/causes.py."""

    @pytest.mark.parametrize(
        ("cause", "run"),
        [
            ("main_process", partial(simulated, 0)),
            ("workers", partial(simulated, 1, sample_s=0.008)),
            ("workers", partial(simulated, 3, sample_s=0.02)),
            ("cpu", partial(simulated, 4, cpu_share=1.0, cores=2.0, step_s=0.001)),
            ("slow_samples", partial(simulated, 4, sample_s=[*[0.004] * 150, 0.6])),
            ("slow_samples", partial(simulated, 4, sample_s=ONE_FAR_SLOWER_THAN_SOME)),
            # Which a deeper prefetch hides nearly all, and is blamed for a twentieth.
            ("slow_samples", partial(simulated, 1, 80, sample_s=NOW_AND_THEN, prefetch_factor=1)),
            # Read by fewer workers at once in the end, as they wait; not quicker for that.
            ("workers", partial(simulated, 2, sample_s=list(np.linspace(0.03, 0.001, 320)))),
            ("sampler", partial(simulated, 2, first_key_s=0.5, epochs=4, persistent_workers=True)),
            ("drift", partial(simulated, 2, sample_s=list(np.linspace(0.002, 0.03, 320)))),
            ("start", partial(simulated, 2, boot_s=2.0)),
            ("start", partial(simulated, 2, startup_s=1.0)),
            ("restart", partial(simulated, 2, 6, boot_s=0.5, epochs=8)),
            ("start", partial(simulated, 2, 6, sample_s=EACH_WORKER_SETS_UP)),
            ("restart", partial(simulated, 2, 6, sample_s=EACH_WORKER_SETS_UP, epochs=8)),
            ("uneven", partial(simulated, 3, shards=[300, 10, 10], kind="iterable")),
            ("collate", partial(simulated, 1, sample_s=5e-4, collate_s=0.05)),
            ("handover", partial(simulated, 2, sample_s=1e-4, take_s=0.05)),
            ("sampler", partial(simulated, 2, sample_s=1e-4, sampler_s=0.004)),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_it_is_named(self, cause, run):
        causes = run().summary().causes
        assert causes["cause"].iloc[0] == cause
        assert causes["evidence"].iloc[0]
        assert causes["cure"].iloc[0]

    def test_what_workers_set_up_for_their_first_sample_is_a_part_of_their_start(self):
        trace = simulated(2, 6, sample_s=EACH_WORKER_SETS_UP, epochs=4)
        causes = trace.summary().causes.set_index("cause")
        assert causes.loc["start", "seconds"] == pytest.approx(0.5, rel=0.1)
        assert causes.loc["restart", "seconds"] == pytest.approx(3 * 0.5, rel=0.1)
        assert causes.loc["restart", "saves_s"] == pytest.approx(3 * 0.5, rel=0.1)
        assert "a worker's first sample takes 500 ms" in causes.loc["restart", "evidence"]
        assert "first sample" in causes.loc["start", "cure"]
        assert "persistent_workers=True" in causes.loc["restart", "cure"]

    @pytest.mark.parametrize(
        "run",
        [
            # One sample that is always the first: it, or setting up, may be what takes long.
            partial(simulated, 1, 6, sample_s=[0.5, *[0.004] * 47], epochs=4),
            # Workers stay: only in the first epoch it may be the start.
            partial(
                simulated, 2, 6, sample_s=EACH_WORKER_SETS_UP, epochs=4, persistent_workers=True
            ),
            # One worker's first sample is slow, the other's is not.
            partial(simulated, 2, 6, sample_s=[0.5, *[0.004] * 47], epochs=4),
        ],
        ids=["one and the same", "kept workers", "one of two"],
    )
    def test_slow_samples_that_may_be_slow_by_themselves_are_no_start(self, run):
        assert run().summary().causes["cause"].iloc[0] == "slow_samples"

    @pytest.mark.parametrize(
        ("quick", "cause"),
        [("none", "handover"), ("a third", "cpu"), ("those that lay", "handover")],
    )
    def test_a_handover_waits_for_a_cpu_only_where_others_are_quick(self, quick, cause):
        """Of 50 ms each, while workers stand in line; what lay in the buffer had come before."""
        trace = simulated(2, sample_s=1e-4, take_s=0.05)
        batches = trace.batches.copy()
        if quick == "a third":
            quick_s = batches["delivered_s"][::3] - 3e-4
            batches.loc[quick_s.index, "ready_s"] = quick_s
        if quick == "those that lay":
            asked_s = batches["delivered_s"][1::2] - 1e-5
            batches.loc[asked_s.index, "requested_s"] = asked_s
        batches["queued_s"] = (batches["ready_s"] - batches["started_s"]) / 2
        causes = replace(trace, batches=batches).summary().causes
        assert causes["cause"].iloc[0] == cause

    @pytest.mark.parametrize(
        ("main_cpu_s", "words", "cure"),
        [
            (None, "the CPUs are full", "find what else takes them"),
            (0.1, "other processes take the CPUs", "Look in top for the others"),
            (1.5, "the CPUs are full", "fewer threads in the steps"),
        ],
    )
    def test_who_computes_where_workers_hardly_do_and_stand_in_line(self, main_cpu_s, words, cure):
        trace = simulated(2, sample_s=0.01, cpu_share=0.1, cores=2.0, step_s=0.001)
        batches = trace.batches.copy()
        batches["queued_s"] = (batches["ready_s"] - batches["started_s"]) / 2
        meta = {**trace.meta, "recorded_s": span_s(trace)}
        if main_cpu_s is not None:
            meta["main_cpu_s"] = main_cpu_s * span_s(trace)
        summary = replace(trace, batches=batches, meta=meta).summary()
        assert words in summary.verdict
        assert cure in summary.causes.set_index("cause")["cure"]["cpu"]

    def test_the_verdict_names_it_too(self):
        collating = simulated(1, sample_s=5e-4, collate_s=0.05).summary()
        assert "batches are being collated" in collating.verdict
        full = simulated(4, cpu_share=1.0, cores=2.0, step_s=0.01).summary()
        assert "the CPUs are full" in full.verdict

    def test_a_healthy_loader_has_none(self):
        summary = simulated(4, sample_s=0.001, step_s=0.1, n_batches=100).summary()
        assert (summary.causes["share"] < 0.02).all()

    def test_a_sampler_that_orders_all_keys_is_seen_in_every_epoch_of_kept_workers(self):
        options: dict[str, Any] = {"num_workers": 1, "persistent_workers": True}
        loader = DataLoader(SleepingDataset(40, 0), 4, sampler=OrdersAllKeys(40, 0.1), **options)
        with record(loader) as recording:
            for _epoch in range(4):
                for _batch in loader:
                    pass
        summary = recording.trace.summary()
        (row,) = summary.causes[summary.causes["cause"] == "sampler"].to_dict("records")
        assert row["seconds"] >= 4 * 0.1
        assert row["saves_s"] == pytest.approx(row["seconds"], rel=0.2)
        batches = recording.trace.batches
        whole_s = batches["released_s"].max() - recording.trace.workers["asked_s"].min()
        assert summary.elapsed_s == pytest.approx(whole_s, rel=0.2)  # the rest is between epochs
        assert_adds_up(recording.trace)

    def test_a_sampler_that_stops_now_and_then_is_told_as_that(self):
        trace = simulated(2, 40, sample_s=1e-4, sampler_s=1e-6)
        moments = ["requested_s", "delivered_s", "released_s", "dispatched_s", "started_s"]
        moments += ["collate_s", "ready_s", "drawing_s"]
        batches = trace.batches.copy()
        for batch in (10, 20, 30):  # its keys are drawn before batch - 4 is handed over
            at_s = batches["drawing_s"][batch]
            for name in moments:
                later = batches[name] > at_s
                batches.loc[later, name] += 0.5
        stopped = replace(trace, batches=batches)
        row = stopped.summary().causes.set_index("cause").loc["sampler"]
        assert row["seconds"] == pytest.approx(1.5, rel=0.01)
        assert row["saves_s"] == pytest.approx(1.5, rel=0.1)
        assert row["evidence"].endswith(", at most 500 ms")
        assert "now and then" in row["cure"]
        fitted = simulate(Costs.from_trace(stopped), num_workers=2, batch_size=8, n_batches=40)
        took_s = stopped.batches["released_s"].max()
        assert fitted.batches["released_s"].max() == pytest.approx(took_s, rel=0.1)

    def test_keys_that_are_drawn_before_a_worker_notes_its_start_count_too(self):
        trace = simulated(2, first_key_s=0.5)
        workers = trace.workers.assign(started_s=trace.workers["started_s"] + 0.2)
        late = replace(trace, workers=workers)  # as on a busy machine
        drawn = [attribute(each).totals()["sampler"] for each in (trace, late)]
        assert drawn == pytest.approx([0.5, 0.5])


class TestSavings:
    @pytest.mark.parametrize(
        ("cause", "sick", "cured"),
        [
            ("workers", {"num_workers": 1}, {"num_workers": 2}),
            ("collate", {"num_workers": 2, "collate_s": 0.1}, {"num_workers": 2}),
            ("start", {"num_workers": 2, "boot_s": 1.0}, {"num_workers": 2}),
            (
                "restart",
                {"num_workers": 2, "boot_s": 0.5, "epochs": 5},
                {"num_workers": 2, "boot_s": 0.5, "epochs": 5, "persistent_workers": True},
            ),
            (
                "uneven",
                {"num_workers": 2, "shards": [300, 20], "kind": "iterable"},
                {"num_workers": 2, "shards": [160, 160], "kind": "iterable"},
            ),
        ],
    )
    def test_a_cut_saves_what_was_said(self, cause, sick, cured):
        before, after = simulated(**sick), simulated(**cured)
        causes = before.summary().causes.set_index("cause")
        saved_s = before.batches["released_s"].max() - after.batches["released_s"].max()
        assert causes["saves_s"][cause] == pytest.approx(saved_s, rel=0.15)

    def test_what_another_loader_is_waited_for_instead_is_not_saved(self):
        """With two workers, the loop waits for the other loader, which takes three quarters."""
        slow = DataLoader(SleepingDataset(120, 0.005), batch_size=4, num_workers=1)
        less = DataLoader(SleepingDataset(120, 0.00375), batch_size=4, num_workers=1)
        with record(slow, less) as recording:
            for _batches in zip(slow, less, strict=True):
                pass
        causes = recording.trace.summary().causes.set_index(["loader", "cause"])
        assert 0 <= causes["saves_s"][0, "workers"] < 0.4 * causes["seconds"].sum()

    def test_workers_that_start_once_more_may_start_sooner_than_the_first(self):
        trace = simulated(2, boot_s=0.2, startup_s=0.05, epochs=4)
        again = trace.summary().causes.set_index("cause").loc["restart"]
        first = trace.workers.index[0]
        started_s = trace.workers["started_s"].where(trace.workers.index != first, -1.0)
        slower = replace(trace, workers=trace.workers.assign(started_s=started_s))
        causes = slower.summary().causes.set_index("cause")
        assert causes.loc["start", "seconds"] > 1
        assert causes.loc["restart", "saves_s"] == pytest.approx(again["saves_s"], rel=0.05)

    def test_what_a_simulation_does_not_show_is_not_promised(self):
        """Here batches lie ready for long, and nobody knows why: the simulation hands them over."""
        trace = simulated(2, sample_s=1e-4, step_s=0.001)
        batches = trace.batches
        late = {name: batches[name] + 0.05 * np.arange(1, 41) for name in TIMES}
        late["requested_s"] = late["delivered_s"] - 0.05
        late["ready_s"] = batches["ready_s"]
        trace = replace(trace, batches=batches.assign(**late), meta={**trace.meta})
        causes = trace.summary().causes.set_index("cause")
        assert causes.index[0] in ("handover", "unknown")
        assert causes["saves_s"].isna().iloc[0] or causes["saves_s"].iloc[0] <= waited_s(trace)


class TestWhatCannotBeTold:
    def test_workers_that_were_started_before_the_recording(self):
        trace = made(workers=2)
        blank = dict.fromkeys(("started_s", "collate_s", "ready_s"), math.nan)
        trace = replace(trace, batches=trace.batches.assign(**blank))
        causes = trace.summary().causes.set_index("cause")
        assert set(causes.index) == {"start", "unknown"}  # iter() was seen
        assert "does not tell what its workers did" in causes["evidence"]["unknown"]
        assert_adds_up(trace)

    @pytest.mark.parametrize("enough", [100_000, 50])
    def test_samples_that_wait_for_one_another(self, enough, monkeypatch):
        """One reads at a time, as behind a lock: more workers would only wait longer."""
        monkeypatch.setattr("loaderviz.why.reading_time.ENOUGH_SAMPLES", enough)
        trace = behind_a_lock()
        causes = trace.summary().causes
        assert causes["cause"].iloc[0] == "unknown"
        assert math.isnan(causes["saves_s"].iloc[0])
        assert "samples wait for one another" in causes["evidence"].iloc[0]
        as_if = replace(trace, meta={"simulated": True})  # a model in which none waits for another
        assert "unknown" not in as_if.summary().seconds_by_cause

    @settings(max_examples=12)
    @given(trace=traces_of_any_times())
    def test_any_times_have_causes(self, trace):
        causes = trace.summary().causes
        assert (causes["seconds"] >= 0).all()
        assert set(causes["cause"]) <= set(CAUSES)
        total = attribute(trace)
        waits = (total.end_s - total.start_s).sum()
        assert causes["seconds"].sum() == pytest.approx(waits, abs=1e-6)

    @pytest.mark.parametrize("loaders", [None, [], [{}], [{"num_workers": None}]])
    def test_a_meta_that_says_nothing_of_the_loader(self, loaders):
        trace = replace(made(), meta={"loaders": loaders, "cpu_allowance": None})
        assert trace.summary().causes["seconds"].sum() == pytest.approx(waited_s(trace))
        assert trace.summary().verdict

    def test_of_no_batch_there_are_none_and_of_no_trace_nobody_knows(self):
        assert Trace.from_columns().summary().causes.empty
        with pytest.raises(LoaderVizError, match="no trace"):
            _ = replace(made().summary(), trace=None).causes


def test_the_numbers_of_a_summary_come_without_the_trace():
    numbers = made().summary().as_dict()
    assert numbers["n_batches"] == 4
    assert "trace" not in numbers
    assert not any(isinstance(value, pd.DataFrame) for value in numbers.values())
