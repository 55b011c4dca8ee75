"""The loop waits for its workers to end: after the last batch, or when it leaves an epoch."""

import time
from multiprocessing.util import Finalize

import pytest
from torch.utils.data import DataLoader

from loaderviz import Costs, Trace, load, record, simulate
from loaderviz.course.datasets import SleepingDataset
from loaderviz.trace.around_epochs import endings

ENDS_S = 0.3
LOADER = {"batch_size": 4, "num_workers": 2}


def ends_slowly(worker: int) -> None:
    """As where a library closes something when its process exits."""
    Finalize(None, time.sleep, (ENDS_S,), exitpriority=1)


def recorded(*, epochs: int = 2, most: int = 100, **settings) -> Trace:
    loader = DataLoader(SleepingDataset(16, 0.001), worker_init_fn=ends_slowly, **LOADER | settings)
    with record(loader) as recording:
        for _ in range(epochs):
            for n, _ in enumerate(loader, 1):
                if n == most:
                    break
    return recording.trace


def assert_told(trace: Trace, n_ends: int) -> None:
    summary = trace.summary()
    spans = endings(trace)
    assert len(spans) == n_ends
    assert summary.ending_s == pytest.approx(sum(end - start for *_, start, end in spans))
    assert summary.ending_s >= n_ends * ENDS_S
    assert summary.startup_s >= summary.ending_s
    assert summary.causes["seconds"].sum() == pytest.approx(summary.wait_s + summary.startup_s)
    assert "in iter() and until workers had ended)" in summary.numbers
    (share,) = summary.loaders
    assert share.waited_s == pytest.approx(summary.wait_s + summary.startup_s)


def test_after_the_last_batch(tmp_path):
    trace = recorded(epochs=3)
    assert_told(trace, 3)
    workers = trace.workers
    assert (workers["dismissed_s"] >= trace.batches["released_s"].min()).all()
    assert (workers["gone_s"] - workers["dismissed_s"] >= ENDS_S).all()
    assert workers["gone_s"].nunique() == 3  # those of an epoch together
    causes = trace.summary().causes.set_index("cause")
    assert causes["seconds"]["start"] >= ENDS_S
    assert causes["seconds"]["restart"] >= 2 * ENDS_S
    assert causes["saves_s"]["restart"] >= ENDS_S  # by workers that are kept
    # Half of it is each worker's; less of it counts where CPUs were full.
    assert Costs.from_trace(trace).shutdown_s >= ENDS_S / 4
    assert "; ending them takes " in trace.summary().causes["evidence"].iloc[0]
    trace.save(tmp_path / "saved")
    assert load(tmp_path / "saved").summary().numbers == trace.summary().numbers


def test_workers_that_end_slowly_are_told_as_that_with_a_cure_of_their_own():
    costs = Costs(sample_s=0.001, shutdown_s=ENDS_S)  # on a busy machine they start slowly, too
    summary = simulate(costs, num_workers=2, batch_size=4, n_batches=4).summary()
    assert "its workers end slowly" in summary.verdict
    first = summary.causes.iloc[0]
    assert first["cause"] == "start"
    assert first["cure"].startswith("Do less when a worker's process exits")


def test_where_it_leaves_an_epoch_early():
    trace = recorded(most=2)
    assert_told(trace, 2)
    assert trace.batches["delivered_s"].isna().any()


def test_not_where_they_stay_or_there_are_none():
    for settings in ({"persistent_workers": True}, {"num_workers": 0}):
        trace = recorded(**settings)
        assert trace.workers["gone_s"].isna().all()
        assert trace.summary().ending_s == 0


def test_not_of_an_iterator_that_the_recording_outlives():
    loader = DataLoader(SleepingDataset(16, 0.001), **LOADER)
    iterator = iter(loader)
    with record(loader) as recording:
        beside = iter(loader)
        next(beside)
    del iterator, beside
    assert recording.trace.workers["gone_s"].isna().all()
    assert recording.trace.summary().ending_s == 0


def test_a_simulation_has_it_too():
    costs = Costs(sample_s=0.001, shutdown_s=0.05)
    given = {"num_workers": 2, "batch_size": 4, "n_batches": 6, "epochs": 3}
    trace = simulate(costs, **given)
    assert trace.summary().ending_s == pytest.approx(0.3)
    elapsed_s = trace.summary().elapsed_s
    assert elapsed_s == pytest.approx(trace.workers["ended_s"].max(), rel=0.01)
    assert simulate(costs, persistent_workers=True, **given).summary().ending_s == 0


def test_all_that_a_loop_takes_is_told():
    """From iter() on, which makes queues before it starts a worker, until the last one is gone."""
    loader = DataLoader(SleepingDataset(16, 0.001), **LOADER)
    share = 0.0
    for _ in range(3):  # another process may have the CPU between our clock and the recording's
        with record(loader) as recording:
            begun_s = time.perf_counter()
            for _ in range(6):
                for _ in loader:
                    pass
            took_s = time.perf_counter() - begun_s
        workers = recording.trace.workers
        assert (workers["asked_s"] < workers["started_s"]).all()
        share = recording.trace.summary().elapsed_s / took_s
        assert share <= 1
        if share > 0.95:
            break
    assert share > 0.95


def a_new_iterator_for_an_old_one(loader):
    for _ in range(3):
        iterator = iter(loader)  # only then is the one before let go of
        for _ in range(2):
            next(iterator)


def one_that_goes_within_a_step(loader):
    old = iter(loader)
    next(old)
    for n, _ in enumerate(loader):
        if n == 1:
            del old


@pytest.mark.parametrize("loop", [a_new_iterator_for_an_old_one, one_that_goes_within_a_step])
def test_no_second_counts_twice(loop):
    loader = DataLoader(SleepingDataset(16, 0.001), worker_init_fn=ends_slowly, **LOADER)
    with record(loader) as recording:
        begun_s = time.perf_counter()
        loop(loader)
        took_s = time.perf_counter() - begun_s
    summary = recording.trace.summary()
    assert summary.ending_s >= 2 * ENDS_S
    assert summary.elapsed_s <= took_s
    assert summary.causes["seconds"].sum() == pytest.approx(summary.wait_s + summary.startup_s)
