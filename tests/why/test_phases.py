"""The phases of loops whose phases are known."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import loaderviz
from loaderviz import Trace
from loaderviz.course.datasets import SleepingDataset
from loaderviz.why.loop_series import loop_series
from loaderviz.why.phases import phase_of_batches
from made_loops import made_loop, noisy
from traces import made

OF_BATCHES = ("warm-up", "earlier", "pace", "pause", "no steady state")


def stretches(trace, epoch=0):
    """Phase, first and last batch of each stretch of an epoch, without its start and end."""
    table = trace.phases()
    table = table[(table["epoch"] == epoch) & table["phase"].isin(OF_BATCHES)]
    return list(zip(table["phase"], table["from_batch"], table["to_batch"], strict=True))


def changes(trace):
    (series,) = loop_series(trace)
    return phase_of_batches(series).changes


def with_slow(n, slow, step_s=0.02):
    """Steps of one length, but for these: their positions and lengths."""
    steps = [step_s] * n
    for at, slow_s in slow.items():
        steps[at] = slow_s
    return steps


@pytest.mark.parametrize("spread", [0.0, 0.2])
@pytest.mark.parametrize("read_s", [0.01, 0.08], ids=["fed", "starved"])
@pytest.mark.parametrize(
    ("slow", "warm"),
    [
        ({}, 0),
        ({0: 3.0}, 1),
        (dict.fromkeys(range(5), 0.4), 5),
        (dict.fromkeys(range(20), 0.2), 20),
        (dict.fromkeys(range(20), 0.05), 20),
        ({0: 3.0, 3: 2.0}, 4),
        ({3: 2.0}, 4),
    ],
    ids=["flat", "one", "five", "twenty", "twenty hardly slow", "compiles twice", "compiles late"],
)
def test_a_warm_up_ends_where_the_last_slow_step_does(slow, warm, read_s, spread):
    steps, reads = noisy(with_slow(60, slow), spread), noisy([read_s] * 60, spread, seed=1)
    expected = [("warm-up", 0, warm - 1)] * (warm > 0) + [("pace", warm, 59)]
    assert stretches(made_loop([steps], [reads])) == expected


@pytest.mark.parametrize("spread", [0.0, 0.2])
@pytest.mark.parametrize(("every", "n"), [(20, 100), (100, 450)])
@pytest.mark.parametrize("first_s", [0.02, 3.0], ids=["cold", "warm"])
def test_long_steps_that_come_again_are_pauses(every, n, first_s, spread):
    pauses = range(every - 1, n, every)
    steps = noisy(with_slow(n, {**dict.fromkeys(pauses, 1.0), 0: first_s}), spread)
    found = stretches(made_loop([steps], [noisy([0.01] * n, spread, seed=1)]))
    assert [(first, last) for phase, first, last in found if phase == "pause"] == [
        (at, at) for at in pauses
    ]
    assert sum(phase == "warm-up" for phase, *_ in found) == (first_s > 1)


def test_what_every_fourth_step_takes_is_the_pace():
    steps = [0.02, 0.02, 0.02, 0.2] * 20
    assert stretches(made_loop([steps], 0.01)) == [("pace", 0, 79)]


def test_steps_that_hold_up_no_batch_are_no_pauses():
    """The workers make as much meanwhile as the loop waits for anyway."""
    steps = with_slow(60, dict.fromkeys(range(19, 60, 20), 0.05))
    assert stretches(made_loop([steps], 0.2, workers=2)) == [("pace", 0, 59)]


@pytest.mark.parametrize("spread", [0.0, 0.2])
@pytest.mark.parametrize(("n", "at"), [(60, 10), (100, 50), (400, 203)])
def test_a_level_that_shifts_is_named_with_its_batch(n, at, spread):
    reads = noisy([0.008] * at + [0.16] * (n - at), spread)
    trace = made_loop([noisy([0.004] * n, spread, seed=1)], [reads])
    assert stretches(trace) == [("earlier", 0, at - 1), ("pace", at, n - 1)]
    (change,) = changes(trace)
    assert (change.of, change.kind, change.epoch, change.batch) == ("reading", "shift", 0, at)
    assert change.before_s == pytest.approx(0.008, rel=0.2)
    assert change.after_s == pytest.approx(0.16, rel=0.2)


def test_a_level_that_has_just_shifted_is_no_steady_state():
    trace = made_loop([[0.004] * 100], [[0.008] * 85 + [0.16] * 15])
    assert stretches(trace) == [("no steady state", 0, 99)]
    assert changes(trace)[0].batch == 85


@pytest.mark.parametrize("spread", [0.0, 0.2])
def test_a_drift_is_no_steady_state(spread):
    reads = noisy(np.linspace(0.01, 0.08, 200), spread)
    trace = made_loop([[0.004] * 200], [reads])
    assert stretches(trace) == [("no steady state", 0, 199)]
    (change,) = changes(trace)
    assert (change.of, change.kind) == ("reading", "drift")
    assert change.after_s > 3 * change.before_s


@pytest.mark.parametrize("persistent", [False, True])
def test_a_first_epoch_that_fills_a_cache_is_warm_up(persistent):
    reads = [noisy([read_s] * 60, 0.1) for read_s in (0.08, 0.0002, 0.0002, 0.0002)]
    trace = made_loop([[0.02] * 60] * 4, reads, persistent=persistent)
    assert [stretches(trace, epoch)[0] for epoch in range(4)] == [
        ("warm-up", 0, 59),
        *[("pace", 0, 59)] * 3,
    ]
    starts = list(trace.phases()["phase"])
    assert (starts.count("start"), starts.count("restart")) == (1, 0 if persistent else 3)


def test_too_few_batches_have_no_steady_state():
    assert stretches(made_loop([[0.02] * 7], 0.01)) == [("no steady state", 0, 6)]
    assert Trace.from_columns().phases().empty


@pytest.mark.parametrize("kind", ["lognormal", "slow worker", "two kinds", "rare"])
def test_noise_is_taken_for_no_change(kind):
    """In sixteen runs of noise, few seem to change."""
    rng = np.random.default_rng(0)
    alarms = 0
    for n in [40, 60, 150, 400] * 4:
        reads = rng.lognormal(np.log(0.06), 0.1, n)
        reads *= {
            "lognormal": 1,
            "slow worker": np.where(np.arange(n) % 4 == 3, 3, 1),
            "two kinds": np.where(rng.random(n) < 0.2, 4, 1),
            "rare": np.where(rng.random(n) < 0.03, 20, 1),
        }[kind]
        alarms += bool(changes(made_loop([[0.02] * n], [list(reads)], workers=4)))
    assert alarms <= 1


durations = st.floats(0.0, 2.0).map(lambda seconds: round(seconds, 3))
epochs = st.lists(st.lists(st.tuples(durations, durations), min_size=1, max_size=30), max_size=3)


@settings(max_examples=15)
@given(epochs, st.integers(0, 3), st.integers(1, 4), st.booleans())
def test_phases_of_an_epoch_follow_one_another_and_cover_its_batches(
    epochs, workers, prefetch, persistent
):
    trace = made_loop(
        [[step for step, _ in epoch] for epoch in epochs],
        [[read for _, read in epoch] for epoch in epochs],
        workers=workers,
        prefetch=prefetch,
        persistent=persistent,
    )
    table = trace.phases()
    assert list(table) == [
        *("rank", "loader", "epoch", "phase", "from_batch", "to_batch", "from_s", "to_s"),
        "seconds",
    ]
    assert (table["from_batch"] <= table["to_batch"]).all()
    assert (table["from_s"] <= table["to_s"]).all()
    assert np.allclose(table["seconds"], table["to_s"] - table["from_s"])
    for number, epoch in enumerate(epochs):
        own = table[table["epoch"] == number]
        assert list(own["from_s"])[1:] == list(own["to_s"])[:-1]
        covering = own[own["phase"].isin(OF_BATCHES)]
        batches = [
            batch
            for first, last in zip(covering["from_batch"], covering["to_batch"], strict=True)
            for batch in range(first, last + 1)
        ]
        assert batches == list(range(len(epoch)))


@settings(max_examples=8)
@given(st.integers(0, 2**31), st.sampled_from([0.0, 64.0, 4096.0]))
def test_phases_do_not_depend_on_when_the_clock_began(seed, clock_s):
    rng = np.random.default_rng(seed)
    steps = [list(rng.lognormal(-4, rng.uniform(0, 1), 40)) for _ in range(2)]
    here, there = (made_loop(steps, 0.03, clock_s=clock).phases() for clock in (0.0, clock_s))
    same = ["epoch", "phase", "from_batch", "to_batch"]
    pd.testing.assert_frame_equal(here[same], there[same])
    assert np.allclose(here["from_s"] + clock_s, there["from_s"])


def test_loaders_and_ranks_have_phases_of_their_own():
    traces = [made(batches=9, loader=1), made(batches=12, rank=1)]
    tables = ("batches", "samples", "workers", "spans")
    joined = Trace(
        *(pd.concat([getattr(each, name) for each in traces]) for name in tables)
    ).phases()
    by_loader = joined.groupby(["rank", "loader"])["to_batch"].max()
    assert by_loader.to_dict() == {(0, 1): 8, (1, 0): 11}


def test_a_recorded_loop_has_a_start_and_an_end():
    loader = DataLoader(SleepingDataset(48, 0.001), batch_size=4, num_workers=2)
    with loaderviz.record(loader) as rec:
        for _ in range(2):
            for _batch in loader:
                pass
    table = rec.trace.phases()
    for epoch, start in enumerate(["start", "restart"]):
        own = table[table["epoch"] == epoch]
        assert list(own["phase"])[:: len(own) - 1] == [start, "end"]
        assert (own["seconds"] >= 0).all()
        assert list(own["from_s"])[1:] == list(own["to_s"])[:-1]
