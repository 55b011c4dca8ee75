"""What the summary of many ranks says: which is slow and why, and whose batches differ."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderviz import Trace
from loaderviz.why.rank_summary import by_rank
from loaderviz.why.unequal_epochs import unequal
from traces import made, together


def paced(rank, waits_s, steps_s, *, at=0.0, loader=0, epoch=0, n=20, num_workers=2):
    """``n`` batches of 4 samples in turn; the first is waited for as long again."""
    wait = np.full(n, waits_s)
    wait[0] *= 2
    requested = at + np.cumsum(wait + steps_s) - wait - steps_s
    delivered = requested + wait
    return {
        "rank": np.full(n, rank),
        "loader": np.full(n, loader),
        "epoch": np.full(n, epoch),
        "batch": np.arange(n),
        "worker": np.arange(n) % num_workers if num_workers else np.full(n, -1),
        "n_samples": np.full(n, 4),
        "dispatched_s": np.full(n, at),
        "started_s": requested,
        "collate_s": delivered - 1e-6,
        "ready_s": delivered,
        "requested_s": requested,
        "delivered_s": delivered,
        "released_s": delivered + steps_s,
        "state": np.full(n, "delivered", object),
    }


def trace_of(*parts, **meta):
    frames = pd.concat([pd.DataFrame(each) for each in parts], ignore_index=True)
    return Trace.from_columns(batches=dict(frames), meta=meta)


def cut(rows, taken, dispatched):
    """What is left of a rank that was killed: batches taken, and batches on their way."""
    rows = {column: values[:dispatched].copy() for column, values in rows.items()}
    for column in ("requested_s", "delivered_s", "released_s", "ready_s"):
        rows[column][taken:] = np.nan
    rows["state"][taken:] = "dispatched"
    return rows


QUICK = [paced(rank, 0.002, 0.098) for rank in range(5)]
TWO_ARE_SLOW = [paced(rank, 0.04 + rank / 1000, 0.06 - rank / 1000) for rank in (5, 6)]


SLOWEST = {
    # All take 100 ms a batch: rank 3 waits for its loader, the others for rank 3.
    "Rank 3 waits 41 % of the time, the others 2 %: its loader holds the others up": [
        *QUICK[:3],
        paced(3, 0.041, 0.059),
    ],
    "Rank 0 waits 41 % of the time, the other 2 %: its loader holds the others up": [
        paced(0, 0.041, 0.059),
        QUICK[1],
    ],
    "Rank 3 waits 50 % of the time, the others 2 %: its loader is slower": [
        *QUICK[:3],
        paced(3, 0.098, 0.098),
    ],
    "Rank 6 (and 1 more like it) waits 46 % of the time, the others 2 %: "
    "its loader holds the others up": [*QUICK, *TWO_ARE_SLOW],
    "Rank 2 takes 201 ms a batch, the others 101 ms: its steps take longer": [
        *(paced(rank, 0.001, 0.1) for rank in (0, 1)),
        paced(2, 0.001, 0.2),
    ],
    "Rank 0 takes 20 ms a batch, the other 10 ms: its loader is slower": [
        paced(0, 0.02, 0.0),
        paced(1, 0.01, 0.0),
    ],
}


class TestSlowest:
    @pytest.mark.parametrize(("verdict", "ranks"), SLOWEST.items())
    def test_the_rank_that_holds_others_up_is_named_with_what_is_slow(self, verdict, ranks):
        found = trace_of(*ranks).summary()
        assert found.verdict == verdict
        assert found.slowest.rank == int(verdict.split()[1])

    def test_a_late_start_makes_no_rank_slow_nor_is_one_alone(self):
        late = paced(1, 0.002, 0.098)
        late["requested_s"][0] -= 60.0
        waiting = paced(0, 0.002, 0.03, n=8)  # in its first step, for rank 1 to begin
        for column in ("requested_s", "delivered_s"):
            waiting[column][1:] += 0.2
        waiting["released_s"] += 0.2
        for ranks in ([QUICK[0], late], [waiting, paced(1, 0.002, 0.03, n=8)], QUICK[:1]):
            assert trace_of(*ranks).summary().slowest is None

    @settings(max_examples=4)
    @given(wait_s=st.floats(0.001, 0.1), n_ranks=st.integers(2, 6))
    def test_ranks_that_are_alike_have_no_slowest(self, wait_s, n_ranks):
        found = trace_of(*(paced(rank, wait_s, 0.05) for rank in range(n_ranks))).summary()
        assert found.slowest is None
        assert found.verdict.startswith(("The ranks wait", "After the first batch the ranks"))


class TestByRank:
    def test_a_row_for_each_rank_adds_up_to_the_summary(self):
        trace = trace_of(paced(0, 0.01, 0.02), paced(7, 0.02, 0.02, n=10))
        ranks, whole = by_rank(trace), trace.summary()
        assert ranks["rank"].tolist() == [0, 7]
        assert ranks["n_batches"].tolist() == [20, 10]
        for column in ("n_batches", "n_samples", "n_workers", "wait_s", "step_s", "samples_per_s"):
            assert ranks[column].sum() == pytest.approx(getattr(whole, column))
        assert (whole.n_ranks, whole.epochs) == (2, 1)
        assert "2 ranks · 30 batches" in whole.numbers

    @pytest.mark.parametrize("workers", [0, 2])
    def test_a_rank_has_the_row_that_it_has_alone(self, workers):
        both = [made(rank=rank, workers=workers, batches=5 + rank) for rank in (0, 1)]
        rows = [by_rank(each) for each in both]
        pd.testing.assert_frame_equal(by_rank(together(*both)), pd.concat(rows, ignore_index=True))

    def test_a_rank_without_a_batch_counts(self):
        about = [{"rank": rank, "host": "a", "complete": True} for rank in (0, 1)]
        trace = trace_of(paced(0, 0.01, 0.01), ranks=about)
        assert by_rank(trace)["n_batches"].tolist() == [20, 0]
        assert trace.summary().n_ranks == 2

    def test_the_rank_of_a_failed_batch_is_named(self):
        failing = cut(paced(2, 0.01, 0.01), 3, 4)
        failing["state"][3] = "failed"
        found = trace_of(paced(0, 0.01, 0.01), failing).summary()
        assert found.verdict == "Batch 3 of rank 2 failed: making it raised an exception"

    def test_a_failed_batch_that_the_loop_went_past_is_a_note(self):
        rows = paced(0, 0.01, 0.01)
        rows["state"][3] = "failed"
        found = trace_of(rows).summary()
        assert found.failed_batch == 3
        assert found.went_on
        assert "failed" not in found.verdict
        assert "Making 1 batch raised an exception, and the loop went on without it." in str(found)
        rows["state"][-1] = "failed"
        assert trace_of(rows).summary().verdict.startswith("Batch 19 failed")


class TestUnequal:
    def about(self, *complete):
        return [{"rank": rank, "host": "a", "complete": each} for rank, each in enumerate(complete)]

    def test_ranks_that_are_equal_or_may_become_so_are_not_mentioned(self):
        both = [paced(rank, 0.01, 0.01) for rank in (0, 1)]
        one_alone = paced(0, 0.01, 0.01, loader=1, at=9.0, n=3)
        on_their_way = cut(both[0], 9, 12), cut(both[1], 8, 11)
        left_early = [cut(rows, 8, 12 - rank) for rank, rows in enumerate(both)]
        for parts, meta in [
            (both, {}),
            ([*both, one_alone], {}),  # a loader of one rank
            (on_their_way, {"ranks": self.about(False, False), "complete": False}),
            (left_early, {"ranks": self.about(True, True)}),  # at the same batch
        ]:
            assert unequal(trace_of(*parts, **meta)) == []

    def test_a_rank_with_fewer_batches_is_named(self):
        trace = trace_of(*(paced(rank, 0.01, 0.01, n=20 - (rank == 2)) for rank in range(4)))
        (found,) = unequal(trace)
        assert (found.fewest, found.fewest_ranks) == (19, (2,))
        assert (found.most, found.most_ranks) == (20, (0, 1, 3))
        said = str(trace.summary()).splitlines()[-1]
        assert said == (
            "Batches differ in epoch 0: rank 2 has 19, ranks 0, 1 and 3 have 20. "
            "Where each step waits for all ranks, the last one hangs."
        )

    @pytest.mark.parametrize(
        ("slower", "most"),
        [
            # Rank 0 has nothing more to make; rank 1 steps, and waits there for ever.
            (paced(1, 0.01, 0.01, n=9), 9),
            # It is seen before it happens: both have taken 8; rank 1 has two more on their way.
            (cut(paced(1, 0.01, 0.01), 8, 10), 10),
        ],
    )
    def test_a_run_that_hangs_or_will_is_told_in_the_verdict(self, slower, most):
        rows = paced(0, 0.01, 0.01, n=8), slower
        trace = trace_of(*rows, ranks=self.about(False, False), complete=False)
        (found,) = unequal(trace)
        assert (found.fewest, found.most) == (8, most)
        assert trace.summary().verdict.startswith("Batches differ in epoch 0: rank 0 has 8, rank 1")

    def test_an_epoch_ends_where_the_next_one_begins(self):
        first = [paced(rank, 0.01, 0.01, n=5 + rank, num_workers=0) for rank in (0, 1)]
        later = [paced(rank, 0.01, 0.01, n=3, at=9.0, epoch=1, num_workers=0) for rank in (0, 1)]
        meta = {"ranks": self.about(False, False), "complete": False}
        assert unequal(trace_of(*first, **meta)) == []
        (found,) = unequal(trace_of(*first, *later, **meta))
        assert (found.epoch, found.fewest, found.most) == (0, 5, 6)

    def test_batches_that_were_left_out_are_not_missed(self):
        parts = paced(0, 0.01, 0.01), paced(1, 0.01, 0.01, n=5)
        about = self.about(True, True)
        assert len(unequal(trace_of(*parts, ranks=about))) == 1
        about[1]["left_out_batches"] = 15
        assert unequal(trace_of(*parts, ranks=about)) == []

    def test_a_loader_of_many_epochs_is_told_in_few_lines(self):
        parts = [
            paced(rank, 0.01, 0.01, n=3 + rank, epoch=epoch, at=10.0 * epoch)
            for rank in (0, 1)
            for epoch in range(9)
        ]
        found = trace_of(*parts).summary()
        assert len(found.unequal) == 9
        assert found.notes[-1] == "Likewise in 6 more."


def test_what_a_summary_says_fits_json():
    found = trace_of(paced(0, 0.041, 0.059), paced(1, 0.002, 0.098, n=9)).summary()
    numbers = dataclasses.asdict(found)
    assert numbers["slowest"]["rank"] == 0
    assert numbers["unequal"][0]["fewest_ranks"] == (1,)


def test_what_a_recording_lacks_is_told_with_its_summary():
    trace = made()
    problems = ["the disk is full", "worker 1: what it wrote is damaged", "3", "4", "5"]
    whole = Trace(trace.batches, trace.samples, trace.workers, trace.spans, {"problems": problems})
    told = str(whole.summary()).splitlines()[2:]
    assert told == [*(f"Incomplete: {each}." for each in problems[:3]), "And 2 more problems."]
    assert len(str(trace.summary()).splitlines()) == 2
