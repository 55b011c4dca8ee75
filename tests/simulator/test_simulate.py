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

PREFETCH = 2


def in_order_of_delivery(trace: Trace) -> Any:
    """As ``delivered``, where several are delivered at the same time."""
    rows = trace.batches.dropna(subset="delivered_s")
    return rows.sort_values(["epoch", "delivered_s", "requested_s"], kind="stable")


SLOW_FIRST = [5.0, 1.0, 1.0, 1.0, 1.0, 1.0]
STARTS = {"startup_s": 0.5, "shutdown_s": 0.25}
ONE = {"batch_size": 1}
OF_TASKS = {"dispatched_s", "started_s", "pinned_s"}  # in the order of dispatch
# By what they show: costs, settings, and what comes of them, in the order of delivery.
BY_HAND: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, list[float]]]] = {
    "two workers take turns, and the loop waits for the one in turn": (
        {"sample_s": 1.0, "step_s": 0.5},
        {"num_workers": 2, "batch_size": 2, "n_batches": 4},
        {
            "worker": [0, 1, 0, 1],
            "started_s": [0, 0, 2, 2],
            "ready_s": [2, 2, 4, 4],
            "requested_s": [0, 2.5, 3, 4.5],
            "delivered_s": [2, 2.5, 4, 4.5],
            "released_s": [2.5, 3, 4.5, 5],
        },
    ),
    "the main process alone loads and steps in turn": (
        {"sample_s": 1.0, "collate_s": 0.25, "step_s": 0.5, "transport_s": 9, "startup_s": 9},
        {"num_workers": 0, "batch_size": 2, "n_batches": 2},
        {"worker": [-1, -1], "delivered_s": [2.25, 5], "released_s": [2.75, 5.5]},
    ),
    "the main process pins": (
        {"sample_s": 1.0, "pin_s": 0.5},
        {"num_workers": 0, **ONE, "n_batches": 2, "pin_memory": True},
        {"delivered_s": [1.5, 3]},
    ),
    "a thread pins": (
        {"sample_s": 1.0, "pin_s": 0.5},
        {"num_workers": 1, **ONE, "n_batches": 2, "pin_memory": True},
        {"pinned_s": [1.5, 2.5], "delivered_s": [1.5, 2.5]},
    ),
    # Batches 1 and 2 arrive at 1, batch 0 at 3, batch 3 of worker 0 at 4.
    "one thread pins in order of arrival": (
        {"sample_s": [3.0, 1.0, 1.0, 1.0], "pin_s": 2.0},
        {"num_workers": 3, **ONE, "n_batches": 4, "pin_memory": True},
        {"pinned_s": [7, 3, 5, 9], "delivered_s": [7, 7, 7, 9]},
    ),
    "a worker hands a batch on before it begins the next": (
        {"sample_s": 1.0, "send_s": 0.25, "cores": 8},
        {"num_workers": 1, **ONE, "n_batches": 3},
        {"started_s": [0, 1.25, 2.5], "delivered_s": [1, 2.25, 3.5]},
    ),
    "behind a slow batch others fill their queues, and idle": (
        {"sample_s": SLOW_FIRST},
        {"num_workers": 2, **ONE, "n_batches": 6},
        {"started_s": [0, 0, 5, 1, 6, 5], "delivered_s": [5, 5, 6, 6, 7, 7]},
    ),
    # Task 2 is stuck in the queue of the slow worker.
    "out of order, a worker with room goes on": (
        {"sample_s": SLOW_FIRST},
        {"num_workers": 2, **ONE, "n_batches": 6, "in_order": False},
        {
            "batch": [1, 3, 4, 5, 0, 2],
            "worker": [1, 1, 1, 1, 0, 0],
            "delivered_s": [1, 2, 3, 4, 5, 6],
        },
    ),
    "no task goes out before the last worker is started": (
        {"sample_s": 1.0, "startup_s": 0.5, "boot_s": 0.75, "dispatch_s": 0.125, "cores": 8},
        {"num_workers": 2, **ONE, "n_batches": 2},
        {"dispatched_s": [1, 1.125], "started_s": [1.125, 1.25]},
    ),
    "persistent workers start once": (
        {"sample_s": 1.0, **STARTS},
        {"num_workers": 2, **ONE, "n_batches": 2, "epochs": 2, "persistent_workers": True},
        {"delivered_s": [2, 2, 3, 3]},
    ),
    "others start anew": (
        {"sample_s": 1.0, **STARTS},
        {"num_workers": 2, **ONE, "n_batches": 2, "epochs": 2},
        {"delivered_s": [2, 2, 4.5, 4.5]},
    ),
    "sleeping workers share no CPUs": (
        {"sample_s": 1.0, "cores": 2},
        {"num_workers": 4, **ONE, "n_batches": 4},
        {"ready_s": [1] * 4},
    ),
    "workers that compute share them": (
        {"sample_s": 1.0, "cpu_share": 1.0, "cores": 2},
        {"num_workers": 4, **ONE, "n_batches": 4},
        {"ready_s": [2] * 4, "cpu_s": [1] * 4},
    ),
    "a CPU that becomes free is shared out again": (
        {"sample_s": [1.0, 2.0], "cpu_share": 1.0, "cores": 1},
        {"num_workers": 2, **ONE, "n_batches": 2},
        {"ready_s": [2, 3]},
    ),
    # Worker 1 has the CPU for 1 s, then half of it for 2 s.
    "half waiting overlaps with half computing": (
        {"sample_s": [2.0, 2.0], "cpu_share": [0.5, 1.0], "cores": 1},
        {"num_workers": 2, **ONE, "n_batches": 2},
        {"ready_s": [3, 3]},
    ),
    "a step that computes takes a part": (
        {"sample_s": 1.0, "cpu_share": 1.0, "step_s": 1.0, "step_cpu_share": 1.0, "cores": 1},
        {"num_workers": 1, **ONE, "n_batches": 2, "prefetch_factor": 1},
        {"released_s": [3, 4]},
    ),
    "a step that waits does not": (
        {"sample_s": 1.0, "cpu_share": 1.0, "step_s": 1.0, "cores": 1},
        {"num_workers": 1, **ONE, "n_batches": 2, "prefetch_factor": 1},
        {"released_s": [2, 3]},
    ),
}


@pytest.mark.parametrize(("costs", "given", "expected"), BY_HAND.values(), ids=[*BY_HAND])
def test_by_hand(costs, given, expected):
    """Small cases, worked out on paper from torch/utils/data/dataloader.py."""
    trace = simulate(Costs(**costs), **given)
    for name, values in expected.items():
        in_order = trace.batches if name in OF_TASKS else in_order_of_delivery(trace)
        assert in_order[name].tolist() == pytest.approx(values), name


class TestMoreByHand:
    def test_samples_of_a_batch_are_read_one_after_the_other(self):
        samples = simulate(Costs(sample_s=1.0), num_workers=2, batch_size=2, n_batches=4).samples
        assert samples["key"].tolist() == list(range(8))
        assert samples["start_s"].tolist() == [0, 1, 0, 1, 2, 3, 2, 3]

    def test_workers_have_starts_first_tasks_and_ends(self):
        settings = {"num_workers": 2, "batch_size": 1, "n_batches": 2}
        costs = Costs(sample_s=1.0, startup_s=0.5, boot_s=0.75, dispatch_s=0.125, cores=8)
        late = simulate(costs, **settings).workers
        assert late["started_s"].tolist() == [0, 0.5]
        assert late["first_task_s"].tolist() == [1.125, 1.25]
        settings["epochs"] = 2
        kept, new = (
            simulate(Costs(sample_s=1.0, **STARTS), **settings, persistent_workers=keep).workers
            for keep in (True, False)
        )
        assert kept["ended_s"].tolist() == [3.25, 3.5]
        assert new["worker"].tolist() == [0, 1, 0, 1]
        assert simulate(costs, num_workers=0, batch_size=1, n_batches=2).workers.empty

    def test_bytes_are_shared_by_workers_and_given_back_by_the_consumer(self):
        costs = Costs(sample_bytes=1e6, bytes_per_s=4e6, share_s=0.5)
        settings = {"batch_size": 2, "n_batches": 3}
        for num_workers, collate_s, step_s in ((0, 0, 0), (1, 1.0, 2e6 / 6e9)):
            batches = simulate(costs, num_workers=num_workers, **settings).batches
            assert batches["n_bytes"].tolist() == [2e6] * 3
            assert (batches["ready_s"] - batches["collate_s"]).tolist() == [collate_s] * 3
            stepped_s = (batches["released_s"] - batches["delivered_s"]).tolist()
            assert stepped_s == pytest.approx([step_s] * 3)

    def test_streams_that_end_shrink_the_window(self):
        settings = {"num_workers": 4, "batch_size": 1, "prefetch_factor": 4, "kind": "iterable"}
        trace = simulate(Costs(sample_s=1.0), **settings, shards=[20, 0, 0, 0])
        rows = in_order_of_delivery(trace)
        for at in rows["delivered_s"].iloc[:10]:
            live = (rows["dispatched_s"] <= at) & (rows["delivered_s"] > at)
            assert live.sum() == 6  # of 16

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
    @settings(max_examples=6, suppress_health_check=list(HealthCheck))
    @given(configurations())
    @example(
        {"num_workers": 3, "batch_size": 1, "epochs": 1, "kind": "iterable", "shards": [3, 1, 2]}
    )
    @example(
        {
            **{"num_workers": 2, "batch_size": 4, "kind": "iterable", "shards": [6, 9]},
            **{"epochs": 1, "drop_last": True},
        }
    )
    def test_who_makes_what_and_what_comes_when_is_what_torch_does(self, given):
        real, simulated = really(given), simulate(Costs(sample_s=0.01), **given)
        assert story(simulated) == story(real)
        columns = ["epoch", "batch", "worker", "n_samples"]
        if given["kind"] == "iterable":  # when a worker is known to have ended depends on time
            columns = ["epoch", "worker", "n_samples", "state"]
        tables = []
        for trace in (real, simulated):
            table = trace.batches[trace.batches["n_samples"] > 0][columns]
            assert trace.batches["ready_s"].notna().eq(trace.batches["collate_s"].notna()).all()
            tables.append(table.sort_values(columns, ignore_index=True))
        assert tables[0].equals(tables[1])
        assert len(simulated.samples) == len(real.samples)


class TestLaws:
    @settings(max_examples=12)
    @given(COSTS, configurations(), st.booleans(), st.booleans())
    def test_times_are_in_order_and_no_more_is_under_way_than_may_be(
        self, costs, given, in_order, pin_memory
    ):
        given |= {"in_order": in_order, "pin_memory": pin_memory}
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

    @settings(max_examples=8)
    @given(COSTS, configurations())
    def test_more_cores_are_never_slower_where_order_is_kept(self, costs, given):
        few, many = (dataclasses.replace(costs, cores=cores) for cores in (1.0, 64.0))
        ends = [simulate(each, **given).batches["released_s"].max() for each in (few, many)]
        assert not ends[1] > ends[0] + 1e-6

    def test_it_is_a_trace_like_any_other(self, tmp_path):
        costs = Costs(sample_s=0.01, step_s=0.02, startup_s=0.005)
        trace, again = (simulate(costs, num_workers=2, batch_size=4, n_batches=10) for _ in "12")
        assert again.batches.equals(trace.batches)
        assert again.samples.equals(trace.samples)
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
    @pytest.mark.parametrize("num_workers", [0, 2, 8])  # 8: more than there are CPUs
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
        for other in (0, 1, 8):
            settings = {"num_workers": other, "batch_size": 8, "n_samples": 640}
            end, expected = (
                simulate(each, **settings).batches["released_s"].max() for each in (fitted, costs)
            )
            assert end == pytest.approx(expected, rel=slack)

    def test_what_was_pinned_and_left_behind_fits_too(self):
        costs = Costs(sample_s=0.01, pin_s=0.02, **self.TRUE)
        settings = {"num_workers": 2, "batch_size": 4, "n_samples": 200, "pin_memory": True}
        fitted = Costs.from_trace(simulate(costs, **settings, n_batches=20))
        ends = [simulate(each, **settings).batches["released_s"].max() for each in (costs, fitted)]
        assert ends[1] == pytest.approx(ends[0], rel=0.1)

    @pytest.mark.parametrize("num_workers", [0, 3])
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
            ({"sample_s": "fast"}, r"sample_s='fast'"),
            ({"sample_s": True}, r"sample_s=True"),
            ({"sample_s": []}, r"sample_s has the shape \(0,\)"),
            ({"sample_s": [[1.0]]}, r"sample_s has the shape \(1, 1\)"),
            ({"sample_s": [1.0, -2.0]}, r"sample_s\[1\]=-2.0"),
            ({"sample_s": [1.0, "two"]}, r"sample_s must hold numbers"),
            ({"cpu_share": [0.5, 2.0]}, r"cpu_share=2.0.*0 to 1"),
            ({"sample_s": [1.0, 2.0], "cpu_share": [0.5]}, r"2 values and cpu_share 1"),
            ({"step_cpu_share": 2}, r"step_cpu_share=2"),
            ({"startup_s": [1.0]}, r"startup_s=\[1.0\]"),
            ({"cores": 0}, r"cores=0.*above 0"),
            ({"bytes_per_s": 0}, r"bytes_per_s=0"),
            ({"threads": 0.5}, r"threads=0.5.*at least 1"),
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
            ({"num_workers": True}, r"num_workers=True"),
            ({"batch_size": 0}, r"batch_size=0"),
            ({"n_batches": 0}, r"n_batches=0.*1 or more"),
            ({"n_batches": None}, r"Give n_batches"),
            ({"n_samples": 0}, r"n_samples=0"),
            ({"epochs": 0}, r"epochs=0"),
            ({"num_workers": 0, "prefetch_factor": 2}, r"prefetch_factor=2 with num_workers=0"),
            ({"num_workers": 0, "start_method": "fork"}, r"start_method='fork' with"),
            ({"start_method": "clone"}, r"start_method='clone'"),
            ({"kind": "stream"}, r"kind='stream'"),
            ({"shards": [1, 2]}, r"kind='iterable'"),
            ({"kind": "iterable", "shards": [1]}, r"1 shards for 2 workers: give 2"),
            ({"kind": "iterable", "shards": [1, -1]}, r"shards\[1\]=-1"),
            ({"kind": "iterable", "shards": 3}, r"shards=3"),
            ({"kind": "iterable", "shards": [1, 2], "n_samples": 3}, r"give one"),
            ({"in_order": "yes"}, r"in_order='yes'.*True or False"),
            ({"n_samples": 10**12}, "1,000,000,000,000 samples are too many"),
            ({"n_batches": 10**6, "epochs": 10**6}, "samples are too many to simulate"),
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
        hidden = simulate(Costs(), **GOOD)
        hidden.batches["started_s"] = float("nan")
        with pytest.raises(
            LoaderVizError, match="does not show where batches of loader 0 were made"
        ):
            Costs.from_trace(hidden)
