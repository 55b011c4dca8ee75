"""Supply, demand, waiting and the epoch to come, against long runs of the same loop."""

import math

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import loaderviz
from loaderviz import Costs, Trace, simulate
from loaderviz.course.datasets import SleepingDataset
from loaderviz.why.pace import paces
from made_loops import made_loop, noisy

LONG = 3000  # batches of an epoch


def run(n, step_s, read_s, *, warm=(), pauses=None, spread=0.05, **loader):
    """A loop of ``n`` batches; ``pauses``: how many batches one comes in, and how long it is."""
    steps, reads = noisy([step_s] * n, spread, seed=n), noisy([read_s] * n, spread, seed=n + 1)
    if pauses:
        steps[pauses[0] - 1 :: pauses[0]] = [pauses[1]] * (n // pauses[0])
    steps[: len(warm)] = warm
    return made_loop([steps], [reads], length=LONG, **loader)


def pace(*args, **kwargs):
    (found,) = paces(run(*args, **kwargs))
    return found


def real_epoch(*args, **kwargs):
    """Seconds, and the seconds waited, of a long run that has warmed up."""
    batches = run(LONG, *args, **kwargs).batches
    waited = batches["delivered_s"] - batches["requested_s"]
    return batches["released_s"].iloc[-1], waited.sum()


@pytest.mark.parametrize(
    ("n", "step_s", "read_s", "loader"),
    [
        (60, 0.02, 0.16, {"warm": [3.0]}),
        (60, 0.02, 0.16, {"warm": [1.0] * 5}),
        (100, 0.02, 0.01, {"pauses": (25, 1.0)}),
        (60, 0.0206, 0.081, {"warm": [3.0], "prefetch": 32}),
        (18, 0.063, 0.6, {"warm": [3.7]}),
        (19, 0.027, 0.497, {"warm": [2.0], "workers": 4}),
    ],
    ids=["one", "five", "pauses", "full queues", "timm", "imagenet"],
)
def test_both_rates_are_those_of_the_pace(n, step_s, read_s, loader):
    found = pace(n, step_s, read_s, **loader)
    workers = loader.get("workers", 2)
    assert found.demand == pytest.approx(8 / step_s, rel=0.05)
    assert found.supply == pytest.approx(8 * workers / read_s, rel=0.05)
    assert found.is_enough
    for low, high in (found.step_range_s, found.read_range_s):
        assert 0 < low < high


@pytest.mark.parametrize(
    ("n", "step_s", "read_s", "options"),
    [
        (60, 0.02, 0.01, {}),
        (60, 0.02, 0.04, {}),
        (60, 0.02, 0.16, {"warm": [3.0]}),
        (60, 0.0206, 0.081, {"warm": [3.0], "prefetch": 32}),
        (60, 0.02, 0.05, {"workers": 0}),
        (100, 0.02, 0.16, {"pauses": (25, 1.0)}),
        (100, 0.02, 0.01, {"pauses": (25, 1.0)}),
        (60, 0.02, 0.16, {"pauses": (20, 1.0)}),
    ],
    ids=["fed", "balanced", "starved", "full queues", "no workers", "pauses", "fed, pauses", "few"],
)
def test_the_epoch_to_come_is_that_of_a_long_run(n, step_s, read_s, options):
    epoch = pace(n, step_s, read_s, **options).epoch
    seconds, waited_s = real_epoch(step_s, read_s, **{**options, "warm": ()})
    assert (epoch.n_batches, epoch.length_is_known) == (LONG, True)
    assert epoch.seconds == pytest.approx(seconds, rel=0.03)
    assert epoch.waited_s == pytest.approx(waited_s, rel=0.06, abs=0.01 * seconds)
    if not math.isnan(epoch.range_s[0]):
        assert epoch.range_s[0] <= epoch.seconds <= epoch.range_s[1]


@pytest.mark.parametrize(("epochs", "taken"), [([30, 30, 12], 30), ([30, 12], LONG)])
def test_where_the_loop_leaves_its_epochs_they_are_no_longer_than_it_takes(epochs, taken):
    steps, reads = ([noisy([s] * n, 0.05, seed=n) for n in epochs] for s in (0.02, 0.04))
    trace = made_loop(steps, reads, length=LONG)
    assert paces(trace)[0].epoch.n_batches == taken
    said = f"An epoch as the loop leaves it, {taken} batches"
    assert (said in str(trace.summary())) == (taken < LONG)


def test_a_queue_that_filled_in_a_warm_up_is_no_proof():
    """Nothing was waited for, and yet half of the time will be."""
    trace = run(60, 0.0206, 0.081, warm=[3.0], prefetch=32)
    assert (trace.batches["delivered_s"] - trace.batches["requested_s"])[1:].max() == 0
    (found,) = paces(trace)
    assert not found.waited_is_measured
    assert found.waited_share == pytest.approx(1 - 2 * 0.0206 / 0.081, rel=0.05)
    longer = pace(300, 0.0206, 0.081, warm=[3.0], prefetch=32)  # until it was eaten up
    assert longer.waited_is_measured
    assert longer.waited_share == pytest.approx(found.waited_share, rel=0.05)


def test_what_lies_ready_after_pauses_is_left_out_of_what_is_waited_for_at_pace():
    found = pace(200, 0.02, 0.16, pauses=(20, 1.0))
    assert found.waited_share == pytest.approx(0.75, abs=0.03)
    assert found.accelerator_utilisation == pytest.approx(1 - found.waited_share)
    assert found.batches_per_pause == 20
    assert found.pause_s == pytest.approx(0.98, rel=0.01)


def test_a_pause_that_was_seen_once_widens_the_range_and_moves_nothing():
    once = pace(150, 0.02, 0.05, pauses=(100, 1.0))
    never = pace(150, 0.02, 0.05)
    assert once.batches_per_pause == math.inf
    assert once.epoch.seconds == pytest.approx(never.epoch.seconds, rel=0.05)
    seconds, _ = real_epoch(0.02, 0.05, pauses=(100, 1.0))
    assert once.epoch.range_s[0] < seconds < once.epoch.range_s[1]


def test_an_epoch_ends_when_its_workers_have_ended():
    costs = Costs(sample_s=0.01, step_s=0.01, startup_s=0.1, shutdown_s=0.2, cores=8)
    trace = simulate(costs, num_workers=2, batch_size=2, n_batches=40, epochs=4)
    epoch = paces(trace)[0].epoch
    assert epoch.end_s == pytest.approx(0.4, rel=0.05)
    last_s = max(trace.workers["ended_s"].max(), trace.batches["released_s"].max())
    assert epoch.seconds == pytest.approx(last_s / 4, rel=0.03)
    row = trace.summary().causes.set_index("cause").loc["restart"]
    assert row["epoch_saves_s"] == pytest.approx(epoch.start_s + epoch.end_s, rel=0.1)


def test_too_little_says_how_many_batches_more():
    short = pace(6, 0.02, 0.04)
    assert not short.is_steady
    assert short.epoch is None
    assert short.more_batches > 0
    n, found = 20, pace(20, 0.02, 0.042, spread=0.6)
    assert found.more_batches > 0
    for _ in range(5):
        n += found.more_batches
        found = pace(n, 0.02, 0.042, spread=0.6)
    assert found.is_enough


def test_no_more_is_promised_than_the_cpus_make():
    made = run(60, 0.02, 0.02, workers=8)
    columns = {name: made.batches[name] for name in made.batches}
    columns["cpu_s"] = columns["ready_s"] - columns["started_s"]
    trace = Trace.from_columns(batches=columns, meta={**made.meta, "cpu_allowance": 2.0})
    (found,) = paces(trace)
    assert found.supply == found.cpu_supply == pytest.approx(2 * 8 / 0.02, rel=0.05)


def test_the_length_of_a_shuffled_loader_is_recorded_and_that_of_one_in_order_is_not():
    data = TensorDataset(torch.arange(10))
    lengths = []
    for options in ({"shuffle": True}, {"shuffle": True, "drop_last": True}, {}):
        with loaderviz.record(DataLoader(data, batch_size=4, **options)) as rec:
            pass
        lengths.append(rec.trace.meta["loaders"][0]["n_batches"])
    assert lengths == [3, 2, None]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_recorded_loop_that_waits_is_told_from_one_that_is_fed(workers):
    loader = DataLoader(SleepingDataset(160, 0.005), batch_size=4, num_workers=workers)
    with loaderviz.record(loader) as rec:
        for _ in loader:
            pass  # steps of no time
    (found,) = paces(rec.trace)
    if found.is_steady:  # on a machine that others use, reading may drift
        assert found.waited_share > 0.5
        assert found.supply < found.demand
