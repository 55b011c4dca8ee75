"""Workers that are unlike: one is slow, or reads most of a stream."""

import pytest

from loaderviz import Costs, Trace, recommend, simulate
from loaderviz.why.unlike_workers import largest_share, slow_worker

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


class TestASlowWorker:
    def test_is_told_with_how_much_slower_it_is(self):
        worker, times = slow_worker(of(ONE_IS_SLOW).batches)
        assert (worker, times) == (1, pytest.approx(5.0, rel=0.05))

    @pytest.mark.parametrize("sample_s", [0.002, NOW_AND_THEN])
    def test_is_none_where_workers_are_alike(self, sample_s):
        assert slow_worker(of(sample_s).batches) is None

    def test_is_not_known_from_a_few_batches(self):
        assert slow_worker(of(ONE_IS_SLOW, n_batches=12).batches) is None

    def test_is_named_and_one_more_worker_promises_nothing(self):
        causes = of(ONE_IS_SLOW).summary().causes.set_index("cause")
        row = causes.loc["workers"]
        assert "worker 1 takes 5.0 times as long" in row["evidence"]
        assert "worker 1" in row["cure"]
        assert row["saves_s"] != row["saves_s"]  # unknown

    def test_is_named_first_by_recommend_which_allows_for_it(self):
        trace = of(ONE_IS_SLOW)
        assert_allowed_for(trace, "Worker 1 takes 5.0 times as long")


class TestALargeShare:
    def test_is_told_with_its_part(self):
        assert largest_share(stream(480, 80, 80).batches) == (0, 0.75)

    def test_is_none_where_shares_are_equal(self):
        assert largest_share(stream(160, 160, 152).batches) is None

    def test_more_workers_save_what_equal_shares_leave(self):
        uneven = stream(480, 80, 80).summary().causes.set_index("cause")
        equal = stream(214, 213, 213).summary().causes.set_index("cause")
        assert uneven["saves_s"]["workers"] == pytest.approx(equal["saves_s"]["workers"], rel=0.2)
        assert uneven.index[0] == "uneven"

    def test_is_named_first_by_recommend_which_allows_for_it(self):
        assert_allowed_for(stream(480, 80, 80), "Worker 0 reads 75 % of the stream")


def assert_allowed_for(trace: Trace, said: str) -> None:
    found = recommend(trace)
    assert found.notes[0].startswith(said)
    assert "workers that are alike" in found.notes[0]
