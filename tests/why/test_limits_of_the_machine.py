"""A CPU quota that stops workers is a cause; what the machine's tasks waited for is evidence."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loaderviz import Costs, Trace, recommend, simulate
from loaderviz.why.attribution import attribute
from traces import made


def with_columns(meta: dict[str, Any] | None = None, **columns: Any) -> Trace:
    """Batches of 1 s, of which 0.9 s are reading; their worker has computed for 0.2 s."""
    trace = made(workers=1)
    batches = trace.batches.assign(**{"cpu_s": 0.2, "process_cpu_s": 0.2, **columns})
    return replace(trace, batches=batches, meta={"cpu_allowance": 2.0, **(meta or {})})


def seconds_of(trace: Trace) -> dict[str, float]:
    found = attribute(trace)
    lengths_s = found.end_s - found.start_s
    assert np.allclose(found.seconds.sum(axis=1), lengths_s, rtol=0, atol=1e-9)
    assert (found.seconds >= -1e-12).all()
    return found.totals()


def test_what_the_quota_stopped_is_throttled():
    without = seconds_of(with_columns(queued_s=0.5, throttled_s=0.0))
    stopped = seconds_of(with_columns(queued_s=0.5, throttled_s=0.3))
    assert "throttled" not in without
    read_s = without["workers"] + without["cpu"]
    assert stopped["throttled"] == pytest.approx(0.3 * read_s)
    assert stopped["throttled"] + stopped["cpu"] < read_s
    assert stopped["cpu"] < without["cpu"]
    # The kernel counts the container, in which another process may have been stopped.
    found = seconds_of(with_columns(queued_s=0.1, throttled_s=0.9))
    at_most = seconds_of(with_columns(queued_s=0.1, throttled_s=0.1))
    assert found["throttled"] == pytest.approx(at_most["throttled"])
    assert "throttled" not in seconds_of(with_columns(queued_s=np.nan, throttled_s=0.9))
    assert "throttled" not in seconds_of(with_columns(queued_s=0.9, throttled_s=np.nan))


def test_a_stop_is_not_a_slow_sample():
    trace = made(workers=1, batches=20, batch_size=4)
    stopped = np.where(np.arange(20) == 7, 2.0, 0.0)
    before_s = np.cumsum(stopped) - stopped
    batches, samples = trace.batches, trace.samples
    later = {name: batches[name] + before_s for name in ("started_s", "requested_s")}
    ends = ("collate_s", "ready_s", "delivered_s", "released_s")
    later |= {name: batches[name] + before_s + stopped for name in ends}
    until_s = before_s[samples["batch"]] + stopped[samples["batch"]]
    from_s = np.where(samples["position"] > 0, until_s, before_s[samples["batch"]])
    shared = samples.assign(start_s=samples["start_s"] + from_s, end_s=samples["end_s"] + until_s)
    for throttled_s, cause, other in [
        (0.0, "slow_samples", "throttled"),
        (stopped, "throttled", "slow_samples"),
    ]:
        columns = {**later, "queued_s": stopped, "throttled_s": throttled_s, "cpu_s": 0.0}
        found = seconds_of(replace(trace, batches=batches.assign(**columns), samples=shared))
        assert found[cause] > 1.5
        assert found.get(other, 0.0) < 0.05 * found[cause]


def test_where_there_is_no_quota_more_cpus_save_what_was_queued():
    about = {"loaders": [{"num_workers": 1, "prefetch_factor": 2}]}
    causes = with_columns(about, queued_s=0.5, throttled_s=np.nan).summary().causes
    assert causes.set_index("cause")["saves_s"]["cpu"] > 0.3 * causes["seconds"].sum()


def test_its_evidence_and_cure_are_of_the_quota():
    trace = with_columns({"cpu_allowance": 0.5}, queued_s=0.8, throttled_s=0.8)
    row = trace.summary().causes.set_index("cause").loc["throttled"]
    assert row["evidence"] == "the CPU quota of 0.5 CPUs stopped the workers 80 % of the time"
    assert "quota" in row["cure"]


@pytest.mark.parametrize(
    ("pressure_s", "said"),
    [
        ({"io": 4.0, "cpu": 0.5}, "something on the machine waited for I/O 40 % of the time"),
        ({"io": 0.5}, ""),
        (None, ""),
    ],
)
def test_pressure_is_evidence_where_it_is_high(pressure_s, said):
    trace = with_columns({"recorded_s": 10.0, "pressure_s": pressure_s})
    evidence = trace.summary().causes.set_index("cause").loc["workers"]["evidence"]
    assert evidence.partition("; ")[2] == said


def test_what_child_processes_compute_fills_cpus_and_is_named():
    """Each of four workers waits for a child that computes: more of them gain nothing."""
    costs = Costs(sample_s=0.02, step_s=0.0, cores=8.0)
    trace = simulate(costs, num_workers=4, batch_size=8, n_batches=40)
    children = {"cpu_s": 0.001, "process_cpu_s": 0.15, "children_cpu_s": 0.149}
    batches = trace.batches.assign(**children)
    trace = replace(trace, batches=batches, meta={**trace.meta, "cpu_allowance": 2.0})
    first = trace.summary().causes.iloc[0]
    assert first["cause"] == "cpu"
    assert "99 % of it in child processes" in first["evidence"]
    assert recommend(trace, max_workers=5).settings["num_workers"] <= 4
