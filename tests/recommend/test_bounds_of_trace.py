"""``recommend`` of a recording: bounds that hold, or how much more to record; never a point."""

import math
from dataclasses import replace
from typing import Any

import pytest

from loaderviz import LoaderVizError, Trace, recommend
from made_loops import made_loop, noisy
from traces import made, together


def run(n: int, step_s: float, read_s: float, *, warm: Any = (), **loop: Any) -> Trace:
    steps = noisy([step_s] * n, 0.05, seed=n)
    steps[: len(warm)] = warm
    return made_loop([steps], [noisy([read_s] * n, 0.05, seed=n + 1)], length=3000, **loop)


def computing(trace: Trace, cpu_s: float, cpus: float) -> Trace:
    batches = trace.batches.assign(cpu_s=cpu_s, process_cpu_s=cpu_s)
    return replace(trace, batches=batches, meta={**trace.meta, "cpu_allowance": cpus})


@pytest.mark.parametrize(
    ("trace", "given", "truth", "says"),
    [
        (run(60, 0.02, 0.16, warm=[3.0]), {}, 8, "2 workers make 100 samples/s, the loop could"),
        (run(18, 0.063, 0.6, warm=[3.7]), {}, 10, "try 9 workers, up to 13 if"),
        (
            run(19, 0.027, 0.497, warm=[2.0], workers=4),
            {"max_workers": 32},
            19,
            "try 18 workers, up to",
        ),
        (run(60, 0.02, 0.01), {}, 1, "enough, and 1 to 2 workers may do"),
        (run(60, 0.02, 0.05, workers=0), {}, 3, "the main process makes 160 samples/s"),
        (run(60, 0.02, 0.0005, workers=0), {}, 0, ": enough"),
        (
            run(60, 0.0, 0.05),
            {"step_s": 0.01},
            5,
            "the loop could take 800: try 5 workers, up to 7",
        ),
        (run(60, 0.0, 0.05), {}, 16, "as fast as they come: try 2 workers, up to 16"),
        (run(60, 0.02, 1.0), {}, 16, "try 16 workers, the most to be tried; 4"),
        (computing(run(60, 0.01, 0.1), 0.1, 4.0), {}, 4, "try 4 workers, up to 6"),
        (computing(run(60, 0.01, 0.1, workers=4), 0.1, 4.0), {}, 4, "try 4 workers, up to 6"),
    ],
    ids=[
        *("starved", "timm", "imagenet", "fed", "alone", "alone, fed", "step", "no step", "beyond"),
        *("CPUs", "CPUs full"),
    ],
)
def test_the_bounds_hold_the_number_that_does(trace, given, truth, says):
    found = recommend(trace, **given)
    assert says in found.verdict
    table = found.candidates.set_index("num_workers")
    assert found.settings["num_workers"] <= truth
    assert not found.measured
    assert "not measured" in found.numbers
    assert table["present"].sum() == table["recommended"].sum() == 1
    assert (table["low_per_s"] <= table["high_per_s"] * (1 + 1e-9)).all()
    assert table["high_per_s"].max() == pytest.approx(table["high_per_s"][truth], rel=0.1)
    assert any("recommend(loader" in note and "measures" in note for note in found.notes)
    assert found.trace is trace


def test_a_rate_that_was_recorded_is_told_for_todays_settings_and_the_call_has_the_step():
    found = recommend(run(60, 0.02, 0.16))
    table = found.candidates.set_index("num_workers")
    assert table["samples_per_s"][2] == pytest.approx(100, rel=0.05)
    assert table["samples_per_s"].drop(2).isna().all()
    assert table["wait_share"][2] == pytest.approx(0.75, rel=0.05)
    assert found.notes[0].startswith("recommend(loader, step_s=0.02")


@pytest.mark.parametrize("n", [1, 6])
def test_where_too_little_was_recorded_it_says_how_much_more(n):
    found = recommend(run(n, 0.02, 0.16))
    assert found.verdict.startswith("Too little was recorded")
    assert found.verdict.endswith("more")
    assert found.settings["num_workers"] == 2  # as it is
    assert math.isnan(found.demand_per_s)
    assert found.limits == "not known yet"


def test_of_several_loaders_it_is_the_one_most_waited_for_unless_another_is_named():
    quick, slow = run(60, 0.02, 0.01), run(60, 0.02, 0.16, loader=1, clock_s=100.0)
    loaders = [*quick.meta["loaders"], *slow.meta["loaders"][-1:]]
    both = together(quick, slow, **{**quick.meta, "loaders": loaders})
    found = recommend(both)
    assert found.settings["num_workers"] == 8
    assert "of 2 loaders that is waited for most" in found.notes[0]
    assert "loader=0 is" in found.notes[0]
    assert recommend(both, loader=0).settings["num_workers"] == 1
    with pytest.raises(LoaderVizError, match=r"(?s)loader=2: .* no such loader.*\n  1 .*\n  0 "):
        recommend(both, loader=2)


def test_ranks_of_one_machine_share_its_cpus(monkeypatch):
    trace = computing(run(60, 0.01, 0.1), 0.1, 8.0)
    alone = recommend(trace)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    shared = recommend(trace)
    assert (alone.cpu_allowance, shared.cpu_allowance) == (8, 2)
    assert shared.settings["num_workers"] < alone.settings["num_workers"]


def test_what_holds_no_batch_or_none_that_was_seen_is_refused():
    with pytest.raises(LoaderVizError, match="holds no batch"):
        recommend(Trace.from_columns())
    blank = dict.fromkeys(("started_s", "collate_s", "ready_s"), math.nan)
    foreign = made(workers=0, batches=12)
    with pytest.raises(LoaderVizError, match="not one of torch's"):
        recommend(replace(foreign, batches=foreign.batches.assign(**blank)))
