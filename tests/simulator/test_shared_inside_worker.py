"""What threads of one worker share with its helpers: the CPUs; and what a sampler costs."""

from typing import Any

import pytest

from loaderviz import Costs, Trace, simulate

GIVEN: dict[str, Any] = {"batch_size": 8, "n_samples": 320}
COMPUTES: dict[str, Any] = {"sample_s": 0.01, "cpu_share": 1.0}


def took_s(costs: Costs | Trace, **settings: Any) -> float:
    trace = costs if isinstance(costs, Trace) else simulate(costs, **{**GIVEN, **settings})
    return float(trace.batches["released_s"].max())


class TestHelperThreads:
    @pytest.mark.parametrize(
        ("threads", "cores", "num_workers", "seconds"),
        [
            (1, 2, 2, 1.6),
            (2, 2, 1, 3.2),
            (2, 2, 4, 3.2),  # two CPUs are full with one worker
            (1, 1, 1, 3.2),
            (2, 1, 1, 6.4),  # on one CPU they take turns
            (2, 1, 0, 6.4),
            (3, 16, 2, 1.6),  # enough CPUs for all
            (1e6, 2, 4, 1.6e6),  # are simulated in no time
        ],
    )
    def test_share_the_cpus_with_all_others(self, threads, cores, num_workers, seconds):
        costs = Costs(**COMPUTES, threads=threads, cores=cores)
        assert took_s(costs, num_workers=num_workers) == pytest.approx(seconds, rel=0.05)

    @pytest.mark.parametrize("threads", [1, 3])
    def test_a_trace_shows_how_many_there_are(self, threads):
        costs = Costs(**COMPUTES, threads=threads, cores=4)
        fitted = Costs.from_trace(simulate(costs, num_workers=1, **GIVEN))
        assert fitted.threads == pytest.approx(threads, rel=0.1)
        for num_workers in (1, 2, 4):
            expected = took_s(costs, num_workers=num_workers)
            assert took_s(fitted, num_workers=num_workers) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_sampler_costs_by_the_key_and_once_more_before_an_epochs_first_batch(num_workers):
    given: dict[str, Any] = {"num_workers": num_workers, "n_samples": 320, "epochs": 3}
    given["persistent_workers"] = num_workers > 0
    quick = {"sample_s": 1e-4, "sampler_s": 0.002}
    recorded = simulate(Costs(**quick, first_key_s=0.5), batch_size=8, **given)
    plain = simulate(Costs(**quick), batch_size=8, **given)
    assert took_s(recorded) - took_s(plain) == pytest.approx(3 * 0.5, rel=0.02)
    fitted = Costs.from_trace(recorded)
    assert fitted.first_key_s == pytest.approx(0.5, rel=0.05)
    assert fitted.sampler_s == pytest.approx(0.002, rel=0.05)
    for batch_size in (4, 32):
        assert took_s(fitted, **{**given, "batch_size": batch_size}) >= 3 * (0.5 + 320 * 0.002)
