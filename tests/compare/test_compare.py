"""Two recordings side by side: which settings differ, what is more than noise."""

import numpy as np
import pytest

import loaderviz as lv
from loaderviz._compare import compare

BURSTS = 4  # batches that share their luck


def run(seed, *, n=400, wait=0.002, step=0.01, noise=0.3, meta=None):
    """A run whose waits hang together, four batches at a time."""
    rng = np.random.default_rng(seed)
    luck = np.repeat(rng.gamma(1 / noise**2, noise**2, -(-n // BURSTS)), BURSTS)[:n]
    waits = wait * luck
    delivered = np.cumsum(waits + step)
    return lv.Trace.from_columns(
        batches={
            "batch": np.arange(n),
            "worker": np.arange(n) % 2,
            "n_samples": 8,
            "started_s": delivered - waits - 0.02,
            "collate_s": delivered - waits - 0.001,
            "ready_s": delivered - waits,
            "requested_s": delivered - waits,
            "delivered_s": delivered,
            "released_s": delivered + step,
            "state": ["delivered"] * n,
        },
        meta={"loaders": [{"num_workers": 2}], **(meta or {})},
    )


def change(found, measure="samples a second"):
    (row,) = [each for each in found.rows() if each["measure"] == measure]
    return row["change"]


def test_the_same_run_twice_is_the_same():
    found = compare(run(0), run(0))
    assert found.settings == {}
    assert set(found.measures["change"]) <= {"within noise", ""}
    assert "as fast as A within noise" in str(found)


def test_runs_that_differ_by_chance_are_rarely_told_apart():
    wrong = sum(
        change(compare(run(seed), run(1000 + seed))) != "within noise" for seed in range(10)
    )
    assert wrong <= 3  # 1 of 20 at 95 %; more than 3 have a chance of one in a thousand


def test_a_wait_that_is_half_as_long_is_found_and_is_better():
    found = compare(run(1, wait=0.004), run(2, wait=0.002))
    assert change(found) == change(found, "wait for a batch") == "better"
    assert found.verdict.startswith("B is")
    assert "faster" in found.verdict
    assert "no setting differs" in found.verdict  # it may be the machine's
    causes = found.measures.set_index("measure").filter(like="waiting: ", axis="index")
    waiting = {each["measure"]: each for each in found.rows()}["wait for a batch"]
    assert causes["a"].sum() == pytest.approx(waiting["a"])
    assert change(compare(run(1, wait=0.002), run(2, wait=0.004))) == "worse"


def test_what_waiting_does_not_explain_is_not_explained_by_it():
    found = compare(run(1, step=0.02), run(2, step=0.01, meta={"torch": "2.13.0"}))
    assert found.verdict.startswith("B is")
    assert "faster: its steps take 10 ms instead of 20 ms" in found.verdict
    assert "waits" not in found.verdict


def test_what_was_set_otherwise_is_named():
    about = {"loaders": [{"num_workers": 4}], "torch": "2.13.0"}
    found = compare(run(1, wait=0.004), run(2, wait=0.002, meta=about))
    assert found.settings == {"num_workers": (2, 4), "torch": (None, "2.13.0")}
    assert "num_workers: 2 → 4" in str(found)
    assert "no setting differs" not in found.verdict


def test_what_other_processes_can_explain_is_within_noise():
    free, busy = ({"pressure_s": {"cpu": s}, "recorded_s": 5.0} for s in (0.1, 2.5))
    runs = run(1, wait=0.004, meta=busy), run(2, wait=0.002, meta=free)
    assert change(compare(*runs)) == "within noise"
    runs = run(1, wait=0.004, meta=busy), run(2, wait=0.002, meta=busy)
    assert change(compare(*runs)) == "better"


def test_the_cause_that_changed_most_is_named():
    quick = lv.Costs(sample_s=0.001, step_s=0.02, collate_s=0.001)
    slow = lv.Costs(sample_s=0.001, step_s=0.02, collate_s=0.04)
    a, b = (
        lv.simulate(each, num_workers=1, batch_size=8, n_samples=1600) for each in (quick, slow)
    )
    found = compare(a, b)
    assert "most of it collate: 0 s → " in found.verdict
    assert "(most of it collate: " in compare(b, a).verdict
    named = {name for name in found.measures["measure"] if name.startswith("waiting: ")}
    assert named == {"waiting: collate"}  # what is not waited for has no row


def test_a_cause_that_stays_is_no_worse_where_the_rest_takes_less():
    """Waits as before are a larger share of the time beside shorter steps."""
    runs = [run(seed, wait=0.02, step=step) for seed, step in ((1, 0.02), (2, 0.001))]
    found = compare(*runs).measures.set_index("measure")
    causes = found[found.index.str.startswith("waiting: ")]
    assert len(causes)
    assert set(causes["change"]) <= {"within noise"}


def test_the_interval_holds_the_true_ratio():
    true = (0.002 + 0.01) / (0.004 + 0.01)
    held = 0
    for seed in range(6):
        row = compare(run(seed), run(100 + seed, wait=0.004)).rows()[0]
        held += row["low"] <= true <= row["high"]
    assert held >= 5  # of 6, at 95 %


def test_a_few_batches_are_too_few_to_tell():
    found = compare(run(0, n=12), run(0, n=12, wait=0.004))
    assert change(found) == "too short to tell"
    assert "Too few batches" in found.verdict


def test_what_hardly_takes_time_is_no_change():
    for waits in ((1e-6, 9e-6), (0.0, 1e-6), (0.0, 0.0)):
        found = compare(*(run(seed, wait=wait) for seed, wait in enumerate(waits)))
        assert change(found, "wait for a batch") == ""


def test_the_first_batch_of_an_epoch_counts_in_neither():
    slow = run(0)
    slow.batches.loc[0, "requested_s"] -= 100.0
    assert change(compare(run(0), slow)) == "within noise"


@pytest.mark.parametrize("n", [0, 1])
def test_a_recording_with_nothing_to_compare_is_named(n):
    with pytest.raises(lv.LoaderVizError, match="recording B has nothing to compare"):
        compare(run(0), run(0, n=n))
