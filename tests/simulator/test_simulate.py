"""A simulated loader does what torch does: same batches, same workers, same order, lawful times."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import loaderviz as lv
from loaderviz import Costs, LoaderVizError, Trace, simulate
from probes import Keys, Stream, as_it_is
from simulation_strategies import COSTS, configurations
from trace_laws import assert_lawful, delivered, keys_of
from traces import recorded

PREFETCH = 2


def in_order_of_delivery(trace: Trace) -> Any:
    """As ``delivered``, where several are delivered at the same time."""
    rows = trace.batches.dropna(subset="delivered_s")
    return rows.sort_values(["epoch", "delivered_s", "requested_s"], kind="stable")


def workers_of(trace: Trace) -> list[int]:
    return in_order_of_delivery(trace)["worker"].tolist()


def column(trace: Trace, name: str) -> list[float]:
    return in_order_of_delivery(trace)[name].tolist()


class TestByHand:
    """Small cases, worked out on paper from torch/utils/data/dataloader.py."""

    def test_two_workers_take_turns_and_the_consumer_waits_for_the_one_in_turn(self):
        costs = Costs(sample_s=1.0, step_s=0.5)
        trace = simulate(costs, num_workers=2, batch_size=2, n_batches=4)
        assert workers_of(trace) == [0, 1, 0, 1]
        assert column(trace, "started_s") == [0, 0, 2, 2]
        assert column(trace, "ready_s") == [2, 2, 4, 4]
        assert column(trace, "requested_s") == [0, 2.5, 3, 4.5]
        assert column(trace, "delivered_s") == [2, 2.5, 4, 4.5]
        assert column(trace, "released_s") == [2.5, 3, 4.5, 5]
        assert trace.samples["key"].tolist() == list(range(8))
        assert trace.samples["start_s"].tolist() == [0, 1, 0, 1, 2, 3, 2, 3]

    def test_the_main_process_alone_loads_and_steps_in_turn(self):
        costs = Costs(sample_s=1.0, collate_s=0.25, step_s=0.5, transport_s=9, startup_s=9)
        trace = simulate(costs, num_workers=0, batch_size=2, n_batches=2)
        assert workers_of(trace) == [-1, -1]
        assert column(trace, "delivered_s") == [2.25, 5]
        assert column(trace, "released_s") == [2.75, 5.5]
        assert trace.workers.empty

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_what_is_pinned_takes_longer(self, num_workers):
        costs = Costs(sample_s=1.0, pin_s=0.5)
        settings = {"num_workers": num_workers, "batch_size": 1, "n_batches": 2}
        trace = simulate(costs, **settings, pin_memory=True)
        assert column(trace, "delivered_s") == [1.5, 3 if num_workers == 0 else 2.5]
        assert trace.batches["pinned_s"].notna().all() == (num_workers > 0)

    def test_one_thread_pins_in_order_of_arrival(self):
        costs = Costs(sample_s=[3.0, 1.0, 1.0, 1.0], pin_s=2.0)
        trace = simulate(costs, num_workers=3, batch_size=1, n_batches=4, pin_memory=True)
        # Batches 1 and 2 arrive at 1, batch 0 at 3, batch 3 of worker 0 at 4.
        assert trace.batches["pinned_s"].tolist() == [7, 3, 5, 9]
        assert column(trace, "delivered_s") == [7, 7, 7, 9]

    def test_a_worker_hands_a_batch_on_before_it_begins_the_next(self):
        costs = Costs(sample_s=1.0, send_s=0.25, cores=8)
        trace = simulate(costs, num_workers=1, batch_size=1, n_batches=3)
        assert column(trace, "started_s") == [0, 1.25, 2.5]
        assert column(trace, "delivered_s") == [1, 2.25, 3.5]

    def test_bytes_are_shared_by_workers_and_given_back_by_the_consumer(self):
        costs = Costs(sample_bytes=1e6, bytes_per_s=4e6, release_bytes_per_s=8e6, share_s=0.5)
        settings = {"batch_size": 2, "n_batches": 3}
        for num_workers, collate_s, step_s in ((0, 0, 0), (1, 1.0, 0.25)):
            batches = simulate(costs, num_workers=num_workers, **settings).batches
            assert batches["n_bytes"].tolist() == [2e6] * 3
            assert (batches["ready_s"] - batches["collate_s"]).tolist() == [collate_s] * 3
            assert (batches["released_s"] - batches["delivered_s"]).tolist() == [step_s] * 3

    def test_behind_a_slow_batch_others_fill_their_queues_and_idle(self):
        slow_first = Costs(sample_s=[5.0, 1.0, 1.0, 1.0, 1.0, 1.0])
        trace = simulate(slow_first, num_workers=2, batch_size=1, n_batches=6)
        assert trace.batches["started_s"].tolist() == [0, 0, 5, 1, 6, 5]
        assert column(trace, "delivered_s") == [5, 5, 6, 6, 7, 7]

    def test_out_of_order_a_worker_with_room_goes_on(self):
        slow_first = Costs(sample_s=[5.0, 1.0, 1.0, 1.0, 1.0, 1.0])
        settings = {"num_workers": 2, "batch_size": 1, "n_batches": 6}
        trace = simulate(slow_first, **settings, in_order=False)
        assert trace.batches["worker"].tolist() == [0, 1, 0, 1, 1, 1]
        # Task 2 is stuck in the queue of the slow worker.
        assert in_order_of_delivery(trace)["batch"].tolist() == [1, 3, 4, 5, 0, 2]
        assert column(trace, "delivered_s") == [1, 2, 3, 4, 5, 6]

    def test_no_task_goes_out_before_the_last_worker_is_started(self):
        costs = Costs(sample_s=1.0, startup_s=0.5, boot_s=0.75, dispatch_s=0.125, cores=8)
        trace = simulate(costs, num_workers=2, batch_size=1, n_batches=2)
        assert trace.workers["started_s"].tolist() == [0, 0.5]
        assert trace.batches["dispatched_s"].tolist() == [1, 1.125]
        assert trace.batches["started_s"].tolist() == [1.125, 1.25]
        assert trace.workers["first_task_s"].tolist() == [1.125, 1.25]

    def test_persistent_workers_start_once(self):
        costs = Costs(sample_s=1.0, startup_s=0.5, shutdown_s=0.25)
        settings = {"num_workers": 2, "batch_size": 1, "n_batches": 2, "epochs": 2}
        kept = simulate(costs, **settings, persistent_workers=True)
        assert column(kept, "delivered_s") == [2, 2, 3, 3]
        assert kept.workers["ended_s"].tolist() == [3.25, 3.5]
        new = simulate(costs, **settings)
        assert column(new, "delivered_s") == [2, 2, 4.5, 4.5]
        assert new.workers["worker"].tolist() == [0, 1, 0, 1]

    def test_uneven_shards_are_delivered_in_turn_until_each_ends(self):
        settings = {"num_workers": 3, "batch_size": 1, "kind": "iterable"}
        trace = simulate(Costs(), **settings, shards=[3, 1, 2])
        assert workers_of(trace) == [0, 1, 2, 0, 2, 0]

    def test_streams_that_end_shrink_the_window(self):
        settings = {"num_workers": 4, "batch_size": 1, "prefetch_factor": 4, "kind": "iterable"}
        trace = simulate(Costs(sample_s=1.0), **settings, shards=[20, 0, 0, 0])
        rows = in_order_of_delivery(trace)
        for at in rows["delivered_s"].iloc[:10]:
            live = (rows["dispatched_s"] <= at) & (rows["delivered_s"] > at)
            assert live.sum() == 6  # of 16

    def test_a_naive_stream_comes_once_from_every_worker(self):
        settings = {"num_workers": 3, "batch_size": 2, "n_samples": 5, "kind": "iterable"}
        trace = simulate(Costs(), **settings)
        assert sorted(trace.samples["key"]) == sorted(3 * list(range(5)))
        assert workers_of(trace) == [0, 1, 2] * 3
        short = simulate(Costs(), **settings, drop_last=True)
        assert len(delivered(short)) == 6
        assert short.batches["state"].tolist().count("started") == 3  # read in vain

    @pytest.mark.parametrize("cores", [0.5, 2.0, 64.0])
    @pytest.mark.parametrize("pin_memory", [False, True])
    def test_kept_workers_first_make_what_a_loop_has_left_behind(self, cores, pin_memory):
        # Three epochs that are unlike: what is left of one is not taken for the next one's.
        sample_s = np.repeat([0.2, 0.01, 0.05], 30)
        cpu_share = np.repeat([0.5, 1.0, 1.0], 30)
        costs = Costs(sample_s=sample_s, cpu_share=cpu_share, dispatch_s=0.3, cores=cores)
        trace = simulate(
            costs, num_workers=2, batch_size=4, n_samples=30, n_batches=2, epochs=3,
            persistent_workers=True, pin_memory=pin_memory,
        )  # fmt: skip
        batches = trace.batches
        assert (batches[batches["batch"] < 2]["state"] == "delivered").all()
        for epoch in (1, 2):
            before = batches[batches["epoch"] == epoch - 1]
            assert before["ready_s"].notna().all()
            begun_s = batches["dispatched_s"][batches["epoch"] == epoch].min()
            assert begun_s >= before["ready_s"].max()

    @pytest.mark.parametrize(
        ("n_recorded", "second"),
        [(4, [1, 2, 3, 4]), (6, [1, 2, 3, 4]), (8, [5, 6, 7, 8])],  # 8: of two epochs
    )
    def test_each_epoch_reads_the_same_samples(self, n_recorded, second):
        costs = Costs(sample_s=np.arange(1.0, n_recorded + 1))
        samples = simulate(costs, num_workers=0, batch_size=2, n_samples=4, epochs=2).samples
        took_s = (samples["end_s"] - samples["start_s"]).round(6).tolist()
        assert took_s == [1, 2, 3, 4, *second]

    @pytest.mark.parametrize("persistent_workers", [False, True])
    def test_a_loop_that_leaves_early_leaves_tasks_behind(self, persistent_workers):
        trace = simulate(
            Costs(sample_s=1.0),
            num_workers=2,
            batch_size=1,
            n_samples=20,
            n_batches=3,
            epochs=2,
            persistent_workers=persistent_workers,
        )
        assert_lawful(trace)
        states = [list(epoch["state"]) for _, epoch in trace.batches.groupby("epoch")]
        assert [each[:3] for each in states] == 2 * [["delivered"] * 3]
        assert [len(each) for each in states] == [7, 7]
        # Between epochs, persistent workers do all that they were sent.
        assert ("dispatched" in states[0]) == (not persistent_workers)
        assert "dispatched" in states[1]


class TestCores:
    def test_workers_that_compute_share_the_cores_and_sleeping_ones_do_not(self):
        settings = {"num_workers": 4, "batch_size": 1, "n_batches": 4}
        asleep = simulate(Costs(sample_s=1.0, cores=2), **settings)
        assert asleep.batches["ready_s"].tolist() == [1] * 4
        busy = simulate(Costs(sample_s=1.0, cpu_share=1.0, cores=2), **settings)
        assert busy.batches["ready_s"].tolist() == [2] * 4
        assert busy.batches["cpu_s"].tolist() == [1] * 4

    def test_a_core_that_becomes_free_is_shared_out_again(self):
        costs = Costs(sample_s=[1.0, 2.0], cpu_share=1.0, cores=1)
        trace = simulate(costs, num_workers=2, batch_size=1, n_batches=2)
        assert trace.batches["ready_s"].tolist() == [2, 3]

    def test_half_waiting_overlaps_with_half_computing(self):
        costs = Costs(sample_s=[2.0, 2.0], cpu_share=[0.5, 1.0], cores=1)
        trace = simulate(costs, num_workers=2, batch_size=1, n_batches=2)
        # Worker 1 has the core for 1 s, then half of it for 2 s.
        assert trace.batches["ready_s"].tolist() == [3, 3]

    def test_a_step_that_computes_takes_a_part_too(self):
        settings = {"num_workers": 1, "batch_size": 1, "n_batches": 2, "prefetch_factor": 1}
        costs = {"sample_s": 1.0, "cpu_share": 1.0, "step_s": 1.0, "cores": 1}
        trace = simulate(Costs(**costs, step_cpu_share=1.0), **settings)
        assert trace.batches["released_s"].tolist() == pytest.approx([3, 4])
        trace = simulate(Costs(**costs), **settings)
        assert trace.batches["released_s"].tolist() == [2, 3]


def really(given: dict[str, Any]) -> Trace:
    """The same settings, by torch itself."""
    settings = {
        name: value
        for name, value in given.items()
        if name not in ("kind", "epochs", "n_samples", "shards")
    }
    if given["kind"] == "map":
        dataset: Any = Keys(given["n_samples"], as_it_is)
    else:
        naive = [given.get("n_samples")] * max(1, given["num_workers"])
        dataset = Stream(*(given.get("shards") or naive), make=as_it_is)
    loader = DataLoader(dataset, collate_fn=as_it_is, **settings)
    with lv.record(loader) as rec:
        for _ in range(given["epochs"]):
            for _ in loader:
                pass
    return rec.trace


def story(trace: Trace) -> list[tuple[int, int, list[Any]]]:
    """Epoch, worker and keys of each batch, in the order of delivery."""
    rows = in_order_of_delivery(trace)
    return [(row.epoch, row.worker, keys_of(trace, row)) for row in rows.itertuples()]


class TestAgainstTorch:
    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(configurations())
    @example(
        {"num_workers": 3, "batch_size": 1, "epochs": 1, "kind": "iterable", "shards": [3, 1, 2]}
    )
    def test_who_makes_what_and_what_comes_when_is_what_torch_does(self, given):
        real, simulated = really(given), simulate(Costs(sample_s=0.01), **given)
        assert story(simulated) == story(real)
        if given["kind"] == "map":
            columns = ["epoch", "batch", "worker", "n_samples"]
            assert simulated.batches[columns].equals(real.batches[columns])

    def test_a_stream_that_is_dropped_in_part_is_shown_as_a_recording_shows_it(self):
        given = {"num_workers": 2, "batch_size": 4, "kind": "iterable", "shards": [6, 9]}
        given |= {"drop_last": True, "epochs": 1}
        real, simulated = really(given), simulate(Costs(), **given)
        for trace in (real, simulated):
            in_vain = trace.batches[trace.batches["state"] != "delivered"]
            assert in_vain["state"].tolist() == ["started"] * 2
            assert sorted(in_vain["n_samples"]) == [1, 2]
            assert in_vain[["collate_s", "ready_s", "delivered_s"]].isna().all(axis=None)
        assert len(simulated.samples) == len(real.samples) == 15


class TestLaws:
    @settings(max_examples=40)
    @given(COSTS, configurations(), st.booleans(), st.booleans(), st.integers(0, 2))
    def test_times_are_in_order_and_no_more_is_under_way_than_may_be(
        self, costs, given, in_order, pin_memory, seed
    ):
        given |= {"in_order": in_order, "pin_memory": pin_memory, "seed": seed}
        trace = simulate(costs, **given)
        assert_lawful(trace)
        n_workers = given["num_workers"]
        for _, epoch in trace.batches.groupby("epoch"):
            sent = np.sort(epoch["dispatched_s"])
            asked = np.sort(epoch["requested_s"].dropna())
            most = n_workers * given.get("prefetch_factor", PREFETCH) or 1
            later = sent[most:]
            if given["kind"] == "map":  # a stream that ends is replaced without being asked for
                assert (later >= asked[: len(later)]).all()
        for _, own in trace.batches.groupby("worker"):
            own = own.dropna(subset=["started_s", "ready_s"]).sort_values("started_s")
            assert (own["started_s"].to_numpy()[1:] >= own["ready_s"].to_numpy()[:-1]).all()
        expected = 0
        if given["kind"] == "map" and not given["drop_last"]:
            expected = given["n_samples"] * given["epochs"]
            assert sorted(trace.samples["key"]) == sorted(
                [*range(given["n_samples"])] * given["epochs"]
            )
        assert delivered(trace)["n_samples"].sum() >= expected

    @settings(max_examples=25)
    @given(COSTS, configurations(), st.integers(0, 3))
    def test_the_same_seed_is_the_same_run(self, costs, given, seed):
        one, other = (simulate(costs, **given, seed=seed) for _ in range(2))
        assert one.batches.equals(other.batches)
        assert one.samples.equals(other.samples)

    @settings(max_examples=25)
    @given(COSTS, configurations())
    def test_more_cores_are_never_slower_where_order_is_kept(self, costs, given):
        from dataclasses import replace

        few, many = replace(costs, cores=1.0), replace(costs, cores=64.0)
        ends = [simulate(each, **given).batches["released_s"].max() for each in (few, many)]
        assert not ends[1] > ends[0] + 1e-6

    def test_it_is_a_trace_like_any_other(self, tmp_path):
        costs = Costs(sample_s=0.01, step_s=0.02, startup_s=0.005)
        trace = simulate(costs, num_workers=2, batch_size=4, n_batches=10)
        assert trace.summary().n_batches == 10
        assert "simulated" in lv.timeline(trace).layout.title.subtitle.text
        trace.save(tmp_path / "what-if.parquet")
        assert lv.load(tmp_path / "what-if.parquet").meta["simulated"] is True


class TestCostsFromATrace:
    """Fitted to a trace whose costs are known, because it was simulated."""

    TRUE: dict[str, Any] = {  # noqa: RUF012
        "collate_s": 2e-5,
        "collate_sample_s": 1e-5,
        "share_s": 1.8e-4,
        "transport_s": 6e-4,
        "take_s": 5.5e-4,
        "send_s": 3.5e-4,
        "dispatch_s": 6e-5,
        "startup_s": 0.0075,
        "boot_s": 0.005,
        "shutdown_s": 0.0005,
        "step_s": 0.01,
        "cores": 2.0,
    }

    @pytest.mark.parametrize("cpu_share", [0.0, 0.5, 1.0])
    @pytest.mark.parametrize("num_workers", [0, 1, 2, 4, 8])
    def test_any_number_of_workers_tells_what_any_other_takes(self, num_workers, cpu_share):
        random = np.random.default_rng(0)
        sample_s = random.gamma(8, 0.0005, 640)
        costs = Costs(sample_s=sample_s, cpu_share=cpu_share, **self.TRUE)
        trace = simulate(costs, num_workers=num_workers, batch_size=8, n_samples=640)
        fitted = Costs.from_trace(trace)
        # What a sample waits for hardly shows where the cores are always busy.
        slack = 0.1 if cpu_share and num_workers > 2 else 0.05
        assert np.mean(fitted.sample_s) == pytest.approx(np.mean(sample_s), rel=slack)
        cpu_s = np.mean(fitted.sample_s * fitted.cpu_share)
        assert cpu_s == pytest.approx(cpu_share * np.mean(sample_s), rel=0.05, abs=2e-4)
        for other in (0, 1, 3, 8):
            settings = {"num_workers": other, "batch_size": 8, "n_samples": 640}
            end, expected = (
                simulate(each, **settings).batches["released_s"].max() for each in (fitted, costs)
            )
            assert end == pytest.approx(expected, rel=slack)

    def test_a_short_wait_of_each_sample_is_not_taken_for_standing_in_line(self):
        costs = Costs(sample_s=0.004, cpu_share=0.9, **self.TRUE)
        trace = simulate(costs, num_workers=2, batch_size=8, n_samples=640)
        assert np.mean(Costs.from_trace(trace).sample_s) == pytest.approx(0.004, rel=0.06)

    def test_a_worker_that_seems_to_begin_a_batch_before_it_ended_the_last_fits_too(self):
        assert Costs.from_trace(recorded(20_000)).send_s >= 0

    def test_what_was_pinned_and_left_behind_fits_too(self):
        costs = Costs(sample_s=0.01, pin_s=0.02, **self.TRUE)
        settings = {"num_workers": 2, "batch_size": 4, "n_samples": 200, "pin_memory": True}
        fitted = Costs.from_trace(simulate(costs, **settings, n_batches=20))
        ends = [simulate(each, **settings).batches["released_s"].max() for each in (costs, fitted)]
        assert ends[1] == pytest.approx(ends[0], rel=0.1)

    @pytest.mark.parametrize("num_workers", [0, 1, 3])
    def test_the_bytes_of_a_batch_tell_what_sharing_it_takes_elsewhere(self, num_workers):
        costs = Costs(sample_s=0.001, sample_bytes=2e5, **self.TRUE)
        settings = {"batch_size": 32, "n_samples": 640}
        fitted = Costs.from_trace(simulate(costs, num_workers=num_workers, **settings))
        assert fitted.sample_bytes == 2e5
        for other in (0, 1, 3):
            found, true = (
                simulate(each, num_workers=other, **settings).batches for each in (fitted, costs)
            )
            for end, start in (("ready_s", "collate_s"), ("released_s", "delivered_s")):
                # The least: some wait for a CPU.
                took_s, expected_s = ((each[end] - each[start]).min() for each in (found, true))
                assert took_s == pytest.approx(expected_s, rel=0.05, abs=1.5e-4)
            collate_s = (true["ready_s"] - true["collate_s"]).median()
            assert (collate_s > 0.004) == (other > 0)

    def test_workers_that_short_epochs_give_no_task_are_started_no_later(self):
        costs = Costs(sample_s=0.01, **self.TRUE)
        trace = simulate(costs, num_workers=3, batch_size=8, n_batches=1, epochs=4)
        assert trace.workers["first_task_s"].notna().sum() == 4
        fitted = Costs.from_trace(trace)
        assert fitted.startup_s == pytest.approx(costs.startup_s, rel=0.1)

    def test_what_one_worker_alone_does_at_first_is_its_own_start(self):
        given = {"num_workers": 4, "batch_size": 8, "n_batches": 60}
        costs = Costs(sample_s=0.002, **self.TRUE)
        trace = simulate(costs, **given)
        workers = trace.workers.assign(init_s=[0.0, 0.0, 1.5, 0.0])
        fitted = Costs.from_trace(dataclasses.replace(trace, workers=workers))
        assert fitted.init_s == pytest.approx([0, 0, 1.5, 0])
        again = simulate(dataclasses.replace(costs, init_s=fitted.init_s), **given)
        later_s = again.workers["first_task_s"] - trace.workers["first_task_s"]
        assert later_s.tolist() == pytest.approx([0, 0, 1.5, 0], abs=0.01)
        longer_s = again.batches["released_s"].max() - trace.batches["released_s"].max()
        assert 1 < longer_s < 1.6  # batches come in order

    def test_workers_whose_worker_init_fn_takes_about_as_long_start_alike(self):
        trace = simulate(Costs(sample_s=0.002), num_workers=2, batch_size=8, n_batches=20)
        workers = trace.workers.assign(init_s=[0.3, 0.9])  # as where CPUs are shared
        assert Costs.from_trace(dataclasses.replace(trace, workers=workers)).init_s == 0

    def test_a_batch_takes_no_less_than_nothing_to_collate_where_sharing_is_quick(self):
        costs = Costs(sample_s=0.001, sample_bytes=2e5, bytes_per_s=1e12, collate_s=1e-3)
        trace = simulate(costs, num_workers=1, batch_size=32, n_batches=20)
        fitted = Costs.from_trace(trace)
        again = simulate(fitted, num_workers=1, batch_size=32, n_batches=20).batches
        assert (again["ready_s"] - again["collate_s"]).median() == pytest.approx(1e-3, rel=0.05)
        there = simulate(fitted, num_workers=0, batch_size=32, n_batches=20).batches
        assert 0 < (there["ready_s"] - there["collate_s"]).median() < 1e-3

    @pytest.mark.parametrize("num_workers", [2, 4])
    @pytest.mark.parametrize("cpu_share", [0.5, 1.0])
    @pytest.mark.parametrize("busy", [0.0, 1.0])
    def test_steps_are_freed_of_what_they_waited_for_a_cpu(self, num_workers, cpu_share, busy):
        random = np.random.default_rng(0)
        given = {**self.TRUE, "step_s": random.normal(0.01, 5e-4, 150)}
        sample_s = random.gamma(16, 0.004 / 16, 1200)
        costs = Costs(sample_s=sample_s, cpu_share=cpu_share, step_cpu_share=busy, **given)
        settings = {"num_workers": num_workers, "batch_size": 8, "n_samples": 1200}

        def step_s(costs: Costs) -> Any:
            return (
                (simulate(costs, **settings).batches[["delivered_s", "released_s"]])
                .diff(axis=1)["released_s"]
                .mean()
            )

        fitted = Costs.from_trace(simulate(costs, **settings), step_cpu_share=busy)
        late_s = step_s(costs) - 0.01
        assert (late_s > 1e-3) == (busy > 0)  # one that waits gets a CPU soon, as it seldom has one
        assert abs(np.mean(fitted.step_s) - 0.01) < max(late_s / 2, 1e-3)
        assert step_s(fitted) == pytest.approx(step_s(costs), rel=0.15)

    @pytest.mark.parametrize("in_order", [True, False])
    def test_what_it_takes_to_take_a_batch_shows_whatever_came_before_it(self, in_order):
        slow = np.where(np.arange(600) % 37 == 0, 0.2, 0.01)
        costs = Costs(sample_s=slow, **self.TRUE)
        trace = simulate(costs, num_workers=4, batch_size=2, n_samples=600, in_order=in_order)
        fitted = Costs.from_trace(trace)
        assert np.mean(fitted.take_s) == pytest.approx(costs.take_s, rel=0.1)
        assert fitted.send_s == pytest.approx(costs.send_s, rel=0.05)

    def test_slow_regions_stay_where_they_are(self):
        slow = np.where(np.arange(200) // 50 == 2, 0.05, 0.01)
        trace = simulate(Costs(sample_s=slow), num_workers=3, batch_size=4, n_samples=200)
        fitted = Costs.from_trace(trace)
        assert fitted.sample_s == pytest.approx(slow)
        again = simulate(fitted, num_workers=1, batch_size=8, n_samples=200)
        took = again.batches["collate_s"] - again.batches["started_s"]
        assert (took > 0.2).tolist() == [12 <= batch <= 18 for batch in range(25)]

    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_a_real_recording_fits_whatever_it_holds(self, num_workers):
        loader = DataLoader(Keys(30), batch_size=4, num_workers=num_workers, collate_fn=as_it_is)
        with lv.record(loader, max_spans=10) as rec:
            for i, _ in enumerate(loader):
                if i == 5:
                    break
        costs = Costs.from_trace(rec.trace)
        assert np.size(costs.sample_s) >= 4 * 6
        assert_lawful(simulate(costs, num_workers=3, batch_size=2, n_batches=20))

    def test_a_start_method_that_was_not_used_costs_what_it_typically_does(self):
        costs = Costs(startup_s=1.0, boot_s=2.0, start_method="fork")
        assert costs.start_of("fork") == (1.0, 2.0)
        assert costs.start_of(None) == (1.0, 2.0)
        assert costs.start_of("spawn") != (1.0, 2.0)
        assert Costs(startup_s=1.0, boot_s=2.0).start_of("spawn") == (1.0, 2.0)


GOOD: dict[str, Any] = {"num_workers": 2, "batch_size": 2, "n_batches": 3}


class TestBadInput:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"sample_s": -1}, r"sample_s=-1.*0 or more"),
            ({"sample_s": float("nan")}, r"sample_s=nan"),
            ({"sample_s": float("inf")}, r"sample_s=inf"),
            ({"sample_s": "fast"}, r"sample_s='fast'"),
            ({"sample_s": None}, r"sample_s=None"),
            ({"sample_s": True}, r"sample_s=True"),
            ({"sample_s": []}, r"sample_s has the shape \(0,\)"),
            ({"sample_s": [[1.0]]}, r"sample_s has the shape \(1, 1\)"),
            ({"sample_s": [1.0, -2.0]}, r"sample_s\[1\]=-2.0"),
            ({"sample_s": [1.0, "two"]}, r"sample_s must hold numbers"),
            ({"cpu_share": 1.5}, r"cpu_share=1.5.*0 to 1"),
            ({"cpu_share": [0.5, 2.0]}, r"cpu_share=2.0"),
            ({"sample_s": [1.0, 2.0], "cpu_share": [0.5]}, r"2 values and cpu_share 1"),
            ({"step_cpu_share": 2}, r"step_cpu_share=2"),
            ({"step_s": -0.1}, r"step_s=-0.1"),
            ({"startup_s": [1.0]}, r"startup_s=\[1.0\]"),
            ({"cores": 0}, r"cores=0.*above 0"),
            ({"bytes_per_s": 0}, r"bytes_per_s=0"),
            ({"start_method": "clone"}, r"'clone' is not one of fork"),
        ],
    )
    def test_bad_costs_are_named(self, given, said):
        with pytest.raises(LoaderVizError, match=said):
            Costs(**given)

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"num_workers": -1}, r"num_workers=-1.*0 or more"),
            ({"num_workers": 1.5}, r"num_workers=1.5.*whole"),
            ({"num_workers": True}, r"num_workers=True"),
            ({"batch_size": 0}, r"batch_size=0"),
            ({"n_batches": 0}, r"n_batches=0.*1 or more"),
            ({"n_batches": None}, r"Give n_batches"),
            ({"n_samples": 0}, r"n_samples=0"),
            ({"epochs": 0}, r"epochs=0"),
            ({"seed": -1}, r"seed=-1"),
            ({"prefetch_factor": 0}, r"prefetch_factor=0"),
            ({"num_workers": 0, "prefetch_factor": 2}, r"prefetch_factor=2 with num_workers=0"),
            ({"num_workers": 0, "persistent_workers": True}, r"persistent_workers=True with"),
            ({"num_workers": 0, "start_method": "fork"}, r"start_method='fork' with"),
            ({"start_method": "clone"}, r"start_method='clone'"),
            ({"kind": "stream"}, r"kind='stream'"),
            ({"shards": [1, 2]}, r"kind='iterable'"),
            ({"kind": "iterable", "shards": [1]}, r"1 shards for 2 workers: give 2"),
            ({"kind": "iterable", "shards": [1, -1]}, r"shards\[1\]=-1"),
            ({"kind": "iterable", "shards": 3}, r"shards=3"),
            ({"kind": "iterable", "shards": [1, 2], "n_samples": 3}, r"give one"),
            ({"in_order": "yes"}, r"in_order='yes'.*True or False"),
        ],
    )
    def test_bad_settings_are_named(self, given, said):
        with pytest.raises(LoaderVizError, match=said):
            simulate(Costs(), **{**GOOD, **given})

    def test_costs_are_costs_and_traces_are_traces(self):
        with pytest.raises(LoaderVizError, match=r"got float 0.01.*Give Costs"):
            simulate(0.01, **GOOD)  # type: ignore[arg-type]
        with pytest.raises(LoaderVizError, match="takes a Trace, but got list"):
            Costs.from_trace([])  # type: ignore[arg-type]
        with pytest.raises(LoaderVizError, match="no delivered batch of loader=0"):
            Costs.from_trace(Trace.from_columns())
        with pytest.raises(LoaderVizError, match=r"no delivered batch of loader=3; .* \[0\]"):
            Costs.from_trace(simulate(Costs(), **GOOD), loader=3)


@pytest.mark.parametrize("too_many", [{"n_samples": 10**12}, {"n_batches": 10**6, "epochs": 10**6}])
def test_what_does_not_fit_into_memory_is_refused(too_many):
    with pytest.raises(LoaderVizError, match="of memory, more than is free"):
        simulate(Costs(), num_workers=2, batch_size=8, **too_many)


def test_a_trace_of_which_no_batch_has_all_times_tells_no_costs():
    trace = simulate(Costs(), num_workers=2, batch_size=2, n_batches=8)
    trace.batches.loc[::2, "started_s"] = float("nan")
    trace.batches.loc[1::2, "ready_s"] = float("nan")
    with pytest.raises(LoaderVizError, match="does not show its batches where they were made"):
        Costs.from_trace(trace)
