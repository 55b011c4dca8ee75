"""What threads of one worker share: the CPUs with its helpers, Python's lock with its queue."""

from typing import Any

import numpy as np
import pytest

from loaderviz import Costs, LoaderVizError, Trace, simulate

GIVEN: dict[str, Any] = {"batch_size": 8, "n_samples": 320}


def took_s(costs: Costs, **settings: Any) -> float:
    return float(simulate(costs, **GIVEN, **settings).batches["released_s"].max())


class TestHelperThreads:
    def test_two_threads_a_sample_fill_two_cpus_with_one_worker(self):
        costs = Costs(sample_s=0.01, cpu_share=1.0, threads=2, cores=2)
        assert took_s(costs, num_workers=4) == pytest.approx(took_s(costs, num_workers=1), rel=0.05)
        plain = Costs(sample_s=0.01, cpu_share=1.0, cores=2)
        assert took_s(plain, num_workers=2) == pytest.approx(
            took_s(costs, num_workers=1) / 2, rel=0.05
        )

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_on_one_cpu_they_take_turns(self, num_workers):
        costs = {"sample_s": 0.01, "cpu_share": 1.0, "cores": 1}
        alone = took_s(Costs(**costs), num_workers=num_workers)
        both = took_s(Costs(**costs, threads=2), num_workers=num_workers)
        assert both == pytest.approx(2 * alone, rel=0.02)

    def test_enough_cpus_for_all_threads_cost_nothing(self):
        costs = {"sample_s": 0.01, "cpu_share": 0.5, "cores": 16}
        one, three = (took_s(Costs(**costs, threads=n), num_workers=3) for n in (1, 3))
        assert one == pytest.approx(three)

    @pytest.mark.parametrize("threads", [200, 1e6])
    def test_however_many_there_are_they_are_simulated_in_no_time(self, threads):
        costs = Costs(sample_s=0.01, cpu_share=1.0, threads=threads, cores=2)
        assert took_s(costs, num_workers=4) == pytest.approx(320 * 0.01 * threads / 2, rel=0.02)

    def test_a_trace_shows_how_many_there_are(self):
        costs = Costs(sample_s=0.01, cpu_share=1.0, threads=3, cores=4)
        fitted = Costs.from_trace(simulate(costs, num_workers=1, **GIVEN))
        assert fitted.threads == pytest.approx(3, rel=0.1)
        for num_workers in (1, 2, 4):
            expected = took_s(costs, num_workers=num_workers)
            assert took_s(fitted, num_workers=num_workers) == pytest.approx(expected, rel=0.1)

    def test_none_are_made_up(self):
        trace = simulate(Costs(sample_s=0.01, cpu_share=1.0), num_workers=2, **GIVEN)
        assert Costs.from_trace(trace).threads == 1

    def test_less_than_its_own_thread_is_refused(self):
        with pytest.raises(LoaderVizError, match=r"threads=0.5.*at least 1"):
            Costs(threads=0.5)


class TestPythonsLock:
    """A batch is taken while its worker reads the next one, in pure Python."""

    COSTS: dict[str, Any] = {"sample_s": 0.004, "cpu_share": 1.0, "take_s": 0.001}  # noqa: RUF012

    @pytest.mark.parametrize("cores", [2.0, 100.0])
    def test_a_worker_that_reads_is_late_to_hand_over(self, cores):
        settings = {"num_workers": 1, "prefetch_factor": 4}
        costs = {**self.COSTS, "step_s": 0.025, "cores": cores}
        free = took_s(Costs(**costs), **settings)
        held = took_s(Costs(**costs, take_gil_s=0.02), **settings)
        assert held > 1.05 * free

    @pytest.mark.parametrize("cores", [2.0, 100.0])
    def test_so_it_is_to_the_pin_thread(self, cores):
        costs = Costs(**self.COSTS, step_s=0.025, take_gil_s=0.02, cores=cores)
        trace = simulate(costs, num_workers=1, pin_memory=True, **GIVEN)
        assert (trace.batches["pinned_s"] - trace.batches["ready_s"]).median() > 0.02

    @pytest.mark.parametrize("cores", [2.0, 100.0])
    def test_a_worker_that_has_nothing_to_read_is_not(self, cores):
        costs = {**self.COSTS, "step_s": 0.2, "cores": cores}
        trace = simulate(Costs(**costs, take_gil_s=0.02), num_workers=1, prefetch_factor=1, **GIVEN)
        later = trace.batches[2:]
        handed_s = later["delivered_s"] - later["requested_s"]
        assert handed_s.max() == pytest.approx(0.001, abs=2e-4)

    def test_no_longer_than_the_worker_reads(self):
        costs = Costs(**self.COSTS, step_s=0.001, take_gil_s=100.0, cores=100.0)
        assert took_s(costs, num_workers=1) < 2 * took_s(
            Costs(**self.COSTS, step_s=0.001, cores=100.0), num_workers=1
        )

    def test_a_trace_shows_it_where_workers_read_now_and_then(self):
        steps = np.tile([0.005, 0.005, 0.005, 0.3], 20)
        costs = Costs(**self.COSTS, step_s=steps, take_gil_s=0.01, cores=100.0)
        trace = simulate(costs, num_workers=2, prefetch_factor=2, **GIVEN)
        fitted = Costs.from_trace(trace)
        assert fitted.take_s < 0.003
        for num_workers in (1, 2, 3):
            expected = took_s(costs, num_workers=num_workers)
            assert took_s(fitted, num_workers=num_workers) == pytest.approx(expected, rel=0.1)

    def test_none_is_made_up_of_batches_that_are_costly_to_take(self):
        costs = Costs(sample_s=0.004, take_s=0.02, step_s=0.025)
        fitted = Costs.from_trace(simulate(costs, num_workers=1, **GIVEN))
        assert fitted.take_gil_s == 0


@pytest.mark.parametrize("batch_size", [4, 8, 32])
def test_a_sampler_costs_by_the_key_whatever_the_size_of_a_batch(batch_size):
    costs = Costs(sample_s=1e-4, sampler_s=0.002)
    recorded = simulate(costs, num_workers=1, **GIVEN)
    fitted = Costs.from_trace(recorded)
    assert fitted.sampler_s == pytest.approx(0.002, rel=0.05)
    trace = simulate(fitted, num_workers=1, batch_size=batch_size, n_samples=320)
    assert trace.batches["released_s"].max() >= 320 * 0.002


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_sampler_that_orders_all_keys_first_costs_that_once_an_epoch(num_workers):
    given = {"num_workers": num_workers, "batch_size": 4, "n_samples": 320, "epochs": 3}
    if num_workers:
        given["persistent_workers"] = True
    quick = {"sample_s": 1e-3, "sampler_s": 1e-5}
    costs = Costs(**quick, first_key_s=0.5)
    recorded = simulate(costs, **given)
    longer_s = span_s(recorded) - span_s(simulate(Costs(**quick), **given))
    assert longer_s == pytest.approx(3 * 0.5, rel=0.02)
    fitted = Costs.from_trace(recorded)
    assert fitted.first_key_s == pytest.approx(0.5, rel=0.02)
    assert fitted.sampler_s == pytest.approx(1e-5, rel=0.1)


def span_s(trace: Trace) -> float:
    return float(trace.batches["released_s"].max())
