"""Workers that are unlike: one is slow, or one reads most of a stream."""

import pytest

from loaderviz import Costs, Trace, recommend, simulate
from loaderviz.why.unlike_workers import slow_worker

# Of each round of 4 batches of 8 samples the second: worker 1 reads it.
ONE_IS_SLOW = [0.010 if 8 <= i < 16 else 0.002 for i in range(32)]
NOW_AND_THEN = [0.010 if i % 50 == 0 else 0.002 for i in range(1000)]


def of(sample_s: object, n_batches: int = 80) -> Trace:
    costs = Costs(sample_s=sample_s, step_s=1e-3, transport_s=1e-4)
    return simulate(costs, num_workers=4, batch_size=8, n_batches=n_batches)


def stream(*shards: int) -> Trace:
    costs = Costs(sample_s=0.003, step_s=1e-3, transport_s=1e-4)
    settings = {"num_workers": len(shards), "batch_size": 8, "kind": "iterable"}
    return simulate(costs, shards=list(shards), **settings)


def test_one_that_is_slow_is_told_with_how_much_slower_it_is_and_nothing_is_promised():
    trace = of(ONE_IS_SLOW)
    worker, times = slow_worker(trace.batches)
    assert (worker, times) == (1, pytest.approx(5.0, rel=0.05))
    row = trace.summary().causes.set_index("cause").loc["workers"]
    assert "worker 1 takes 5.0 times as long" in row["evidence"]
    assert "worker 1" in row["cure"]
    assert row["saves_s"] != row["saves_s"]  # unknown
    found = recommend(trace)  # names it first
    assert found.notes[0].startswith("Worker 1 takes 5.0 times as long")
    assert "workers that are alike" in found.notes[0]


@pytest.mark.parametrize(
    ("sample_s", "n_batches"), [(0.002, 80), (NOW_AND_THEN, 80), (ONE_IS_SLOW, 12)]
)
def test_none_is_slow_where_they_are_alike_or_too_few_batches_tell(sample_s, n_batches):
    assert slow_worker(of(sample_s, n_batches).batches) is None


def test_one_that_reads_most_of_a_stream_is_the_first_cause():
    uneven, equal = (
        stream(*shards).summary().causes.set_index("cause")
        for shards in ((480, 80, 80), (214, 213, 213))
    )
    # More workers save what equal shares leave.
    assert uneven["saves_s"]["workers"] == pytest.approx(equal["saves_s"]["workers"], rel=0.2)
    assert uneven.index[0] == "uneven"
