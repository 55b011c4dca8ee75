"""Several ranks: real ones under torchrun, in turn in one process, and worked out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, DistributedSampler

from loaderviz import Costs, LoaderVizError, audit, load, recommend, simulate, timeline
from loaderviz._audit.audit_of_numbers import DeliveredBatch, audit_batches
from loaderviz.course import launch_ranks, rank_script
from loaderviz.course.ranks_in_step import simulate_in_step, unequal_ends


@pytest.mark.slow
def test_real_ranks(tmp_path):
    """All that is looked at in one start of torchrun, whose two processes import torch."""
    runs = launch_ranks.torchrun(
        "whole", "dealt", "told", "by_worker", "by_rank_and_worker", "uneven"
    )
    assert_two_ranks_leave_one_trace(runs)
    assert_what_a_single_trace_is_for_a_run_is_too(runs, tmp_path)
    assert_the_results_are_what_the_loops_returned(runs)
    assert_a_real_run_of_streams_is_what_is_worked_out(runs)
    assert_a_rank_with_more_batches_waits_in_vain(runs)


def assert_two_ranks_leave_one_trace(runs):
    trace = runs["whole"].trace
    assert sorted(trace.batches["rank"].unique()) == [0, 1]
    assert audit(trace).verdict == "Every sample in the trace came twice"


def assert_what_a_single_trace_is_for_a_run_is_too(runs, tmp_path):
    """Every door takes the merged trace."""
    trace = runs["dealt"].trace
    assert [each["rank"] for each in trace.meta["ranks"]] == [0, 1]
    assert all(each["uncertainty_s"] == 0 for each in trace.meta["ranks"])
    assert trace.meta["problems"] == []
    assert audit(trace).duplicates["ranks"].tolist() == [(0, 1)]
    assert "rank 1 · main process" in timeline(trace).layout["yaxis"]["ticktext"]
    costs = Costs.from_trace(trace)
    assert simulate(costs, num_workers=1, batch_size=3, n_batches=4).summary().n_batches == 4
    assert recommend(trace, max_workers=2).settings
    trace.save(tmp_path / "run.parquet")
    assert load(tmp_path / "run.parquet").summary() == trace.summary()


def assert_the_results_are_what_the_loops_returned(runs):
    first, second = ([set().union(*each) for each in epochs] for epochs in runs["told"].results)
    assert len(first) == 3
    assert first[0] != first[1]
    assert all(a | b == set(range(rank_script.N)) for a, b in zip(first, second, strict=True))


def assert_a_real_run_of_streams_is_what_is_worked_out(runs):
    def by_both(data, rank, ranks, worker, workers):
        return data[rank + worker * ranks :: ranks * workers]

    shares = {"by_worker": lambda data, rank, ranks, worker, n: data[worker::n]}
    for name, share in (shares | {"by_rank_and_worker": by_both}).items():
        real = launch_ranks.audit_run(runs[name], rank_script.N)
        sizes = {"ranks": 2, "workers": 2, "batch_size": 3}
        simulated = launch_ranks.simulate_ranks(share, rank_script.N, **sizes)
        assert real.verdict == simulated.verdict
        assert real.deliveries.equals(simulated.deliveries)
        assert (real.simulated, simulated.simulated) == (False, True)


def assert_a_rank_with_more_batches_waits_in_vain(runs):
    ahead, done = runs["uneven"].results
    assert ahead == ["step 0", "step 1", "step 2: nobody answers"]
    assert done == ["step 0", "step 1", "done"]
    (told,) = runs["uneven"].trace.summary().notes
    assert told.startswith("Batches differ in epoch 0: rank 1 has 2, rank 0 has 3.")
    assert runs["dealt"].trace.summary().notes == []


def test_a_rank_that_fails_is_quoted(monkeypatch):
    output = "begins\n" + "of torchrun\n" * 999 + "KeyError: 'no such case'"
    monkeypatch.setattr(launch_ranks, "run_python", lambda command: (1, output))
    with pytest.raises(LoaderVizError, match="exit code 1; the end") as told:
        launch_ranks.torchrun("no such case")
    assert "KeyError: 'no such case'" in str(told.value)
    assert "begins" not in str(told.value)


@settings(max_examples=12)
@given(
    n=st.integers(0, 40),
    n_ranks=st.integers(1, 4),
    workers=st.integers(1, 4),
    size=st.integers(1, 5),
)
def test_what_nobody_shares_comes_from_every_worker(n, n_ranks, workers, size):
    found = launch_ranks.simulate_ranks(
        lambda data, *place: data, n, ranks=n_ranks, workers=workers, batch_size=size
    )
    assert len(found.deliveries) == n * n_ranks * workers
    assert found.exactly_once is (n_ranks * workers == 1 or n == 0)
    assert len(found.per_worker) == n_ranks * workers


@settings(max_examples=12)
@given(n=st.integers(1, 40), n_ranks=st.integers(1, 6), drop_last=st.booleans())
def test_a_distributed_sampler_pads_or_loses(n, n_ranks, drop_last):
    numbers = range(n)
    loaders = [
        DataLoader(
            numbers,
            sampler=DistributedSampler(
                numbers, num_replicas=n_ranks, rank=rank, shuffle=False, drop_last=drop_last
            ),
        )
        for rank in range(n_ranks)
    ]
    found = launch_ranks.audit_in_turn(loaders, n)
    left_over = n % n_ranks
    lost = left_over if drop_last else 0
    padded = 0 if drop_last else -n % n_ranks
    assert int(found.epochs["missing"].item()) == lost
    assert int(found.epochs["duplicates"].item()) == padded


def test_an_audit_of_what_was_written_down_counts_every_epoch():
    batches = [DeliveredBatch(0, -1, 0, [0, 1]), DeliveredBatch(0, -1, 0, [1, 1], epoch=1)]
    found = audit_batches(batches, 2)
    assert list(found.epochs["duplicates"]) == [0, 1]
    assert list(found.missing["epoch"]) == [1]


FAST, SLOW = Costs(sample_s=0.005, step_s=0.03), Costs(sample_s=0.03, step_s=0.03)


@settings(max_examples=6)
@given(
    samples_s=st.lists(st.floats(0.001, 0.05), min_size=1, max_size=4),
    workers=st.integers(0, 3),
    n_batches=st.integers(1, 8),
)
def test_ranks_in_step_leave_each_step_together(samples_s, workers, n_batches):
    costs = [Costs(sample_s=each, step_s=0.03) for each in samples_s]
    trace = simulate_in_step(costs, num_workers=workers, batch_size=3, n_batches=n_batches)
    ends = trace.batches.pivot(index="batch", columns="rank", values="released_s")
    assert list(ends.columns) == list(range(len(costs)))
    assert (ends.max(axis=1) - ends.min(axis=1)).max() < 1e-8
    steps = trace.batches.groupby("batch")[["released_s", "delivered_s"]]
    own_s = [rows["released_s"].max() - rows["delivered_s"].max() for _, rows in steps]
    assert own_s == pytest.approx([0.03] * n_batches)  # of the last: it waits for nobody
    assert trace.meta["simulated"]


def test_ranks_in_step_that_are_alike_are_as_one_alone():
    settings = {"num_workers": 2, "batch_size": 3, "n_batches": 6}
    alone = simulate(FAST, **settings)
    trace = simulate_in_step([FAST] * 3, **settings)
    for _, own in trace.batches.groupby("rank"):
        assert list(own["released_s"]) == pytest.approx(list(alone.batches["released_s"]))
    assert trace.summary().slowest is None


def test_of_ranks_in_step_the_slow_one_is_named_until_its_workers_keep_up():
    found = [
        simulate_in_step([FAST, SLOW], num_workers=n, batch_size=3, n_batches=8).summary().slowest
        for n in (0, 4)
    ]
    assert (found[0].rank, found[0].cause, found[0].holds_up) == (1, "loader", True)
    assert found[1] is None


@settings(max_examples=20)
@given(samples=st.integers(1, 40), ranks=st.integers(2, 8), batch_size=st.integers(1, 8))
def test_a_rank_waits_in_vain_if_and_only_if_another_has_fewer_batches(samples, ranks, batch_size):
    n_batches = [-(-len(range(rank, samples, ranks)) // batch_size) for rank in range(ranks)]
    figure = unequal_ends(samples, ranks, batch_size)
    (steps,) = [trace for trace in figure.data if len(trace.y)]
    ends = [start + length for start, length in zip(steps.base, steps.x, strict=True)]
    edge = figure.layout.xaxis.range[1]
    endless = [rank for rank, end in zip(steps.y, ends, strict=True) if end > edge]
    assert endless == [rank for rank in range(ranks) if n_batches[rank] > min(n_batches)]
    assert len(steps.y) == ranks * min(n_batches) + len(endless)
    assert len(figure.layout.yaxis.ticktext) == ranks
    title = figure.layout.title.text
    assert ("in vain" in title) == (len(set(n_batches)) > 1)


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ((17, 2, 4), "Rank 0 waits in vain: rank 1 has no batch 2"),
        ((17, 5, 3), "Ranks 0 and 1 wait in vain: ranks 2 to 4 have no batch 1"),
        ((17, 2, 3), "All ranks end after 3 steps"),
    ],
)
def test_who_hangs_is_the_title(sizes, says):
    assert says in unequal_ends(*sizes).layout.title.text
