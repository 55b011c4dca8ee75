"""What a recording alone shows of the known pitfalls, on hand-built traces."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from loaderviz import Costs, Trace, simulate
from loaderviz._doctor import findings_of, findings_of_recordings, need_the_loader
from loaderviz._doctor.checks import CHECKS, OF_RECORDINGS
from loaderviz._doctor.examination import Case, RecordedLoop
from loaderviz._doctor.loader_setup import Setup

from traces import made, together  # isort: skip


def with_meta(trace, **meta):
    return dataclasses.replace(trace, meta={**trace.meta, **meta})


def changed(trace, table, **columns):
    return dataclasses.replace(trace, **{table: getattr(trace, table).assign(**columns)})


def simulated(costs, **options):
    """Sixty batches of four samples from two workers, twice, if ``options`` say no else."""
    settings = {"num_workers": 2, "batch_size": 4, "n_batches": 60, "epochs": 2, **options}
    if "shards" in settings:
        del settings["n_batches"], settings["epochs"]
    return simulate(Costs(**{"startup_s": 0.01, "cores": 8, **costs}), **settings)


def evidence_of(trace, code):
    """All of it in one text; empty if it was not found."""
    diagnosis = findings_of(trace)
    assert diagnosis.broken == ()
    return {each.code: " ".join(each.evidence) for each in diagnosis}.get(code, "")


@pytest.fixture
def only(monkeypatch):
    """Has recordings examined for one code alone, which is quicker."""

    def only(code):
        for checks in ("CHECKS", "OF_RECORDINGS"):
            every = getattr(findings_of_recordings, checks)
            one = {each: check for each, check in every.items() if each == code}
            monkeypatch.setattr(findings_of_recordings, checks, one)

    return only


def undecided(trace, code):
    return {each.code: each.evidence[0] for each in findings_of(trace).undecided}.get(code, "")


def behind_slow_batches(seconds, **columns):
    took = np.full(4000, 0.001)
    took[::160] = seconds
    costs = {"sample_s": took, "step_s": 0.0, "cpu_share": 0.0}
    return changed(simulated(costs, num_workers=4), "batches", **columns)


def waited_for_a_cpu():
    trace = behind_slow_batches(0.4)
    queued_s = (trace.batches["ready_s"] - trace.batches["started_s"] - 0.004).clip(lower=0)
    return changed(trace, "batches", queued_s=queued_s)


def started(**options):
    """Eight batches in each of two epochs, after a start of 0.8 s."""
    costs = {"sample_s": 0.001, "step_s": 0.001, "startup_s": 0.8}
    return simulated(costs, **{"batch_size": 2, "n_batches": 8, **options})


def sent(n_bytes, step_s):
    costs = {"sample_s": 0.001, "step_s": step_s, "startup_s": 1.0}
    trace = simulated(costs, batch_size=2, n_batches=40, epochs=1)
    parts = {"pickle_s": 0.3, "pickle_bytes": n_bytes, "boot_s": 0.3, "unpickle_s": 0.4}
    trace = changed(trace, "workers", start_method="spawn", **parts)
    return with_meta(trace, loaders=[{"num_workers": 2, "start_method": "spawn"}])


def crowded(cpu_share):
    costs = {"sample_s": 0.01, "cpu_share": cpu_share, "step_s": 0.0, "cores": 2}
    return simulated(costs, num_workers=6, n_batches=120, epochs=1)


def waiting(costs, **options):
    return simulated({"step_s": 0.01, "cpu_share": 0.0, **costs}, epochs=1, **options)


def streamed(shards):
    return waiting({"sample_s": 0.01}, kind="iterable", shards=shards)


def at_work(cpu_s, process_cpu_s, cpus=2, **columns):
    """Two workers, each at work for 0.1 s a batch: with a helper, they want four CPUs."""
    trace = simulated({"sample_s": 0.025, "step_s": 0.0}, epochs=1)
    columns |= {"cpu_s": cpu_s, "process_cpu_s": process_cpu_s}
    return with_meta(changed(trace, "batches", **columns), cpu_allowance=cpus)


def stopped(throttled_s):
    """As a quota of half a CPU stops workers, or other processes do."""
    trace = simulated({"sample_s": 0.01, "step_s": 0.001}, epochs=1)
    times = {"cpu_s": 0.004, "process_cpu_s": 0.004, "queued_s": 0.03}
    trace = changed(trace, "batches", **times, throttled_s=throttled_s)
    return with_meta(trace, cpu_allowance=0.5)


def growing(curve):
    """The memory of the workers, in MiB."""
    rss = (100 + 800 * curve(np.linspace(0, 1, 200))) * (1 << 20)
    return changed(made(batches=200), "batches", rss_bytes=rss.astype(np.int64))


def lagging(times):
    """Three workers, of which the second takes so many times as long."""
    n, workers = 90, 3
    batch = np.arange(n)
    worker = batch % workers
    took = np.where(worker == 1, times, 1.0)
    ready = np.zeros(n)
    for each in range(workers):
        ready[worker == each] = np.cumsum(took[worker == each])
    delivered = np.maximum.accumulate(ready)
    columns = {"started_s": ready - took, "collate_s": ready, "ready_s": ready}
    columns |= {"requested_s": np.concatenate([[0.0], delivered[:-1]]), "delivered_s": delivered}
    return Trace.from_columns(
        batches={"batch": batch, "worker": worker, "n_samples": 1, "dispatched_s": 0.0, **columns},
        workers={"worker": range(workers), "exit": "done"},
    )


def of_four_workers(workers):
    about = {"kind": "iterable", "num_workers": 4, "batch_size": 2}
    return with_meta(made(workers=workers, batches=30), loaders=[about])


def of_ranks(*batches):
    parts = [made(batches=n, rank=rank) for rank, n in enumerate(batches)]
    return together(*parts, complete=True, world_size=len(batches))


def ended(exit_of_last):
    keys = [None, "cat.jpg"]
    exits = ["done", exit_of_last]
    return changed(
        made(batches=12), "workers", exit=exits, last_key=keys, rss_peak_bytes=[0, 3 << 30]
    )


def failed(state):
    """The last of four batches, at its second sample."""
    trace = changed(made(batches=4), "batches", state=["delivered"] * 3 + [state])
    end_s = trace.samples["end_s"]
    return changed(trace, "samples", end_s=end_s.where(trace.samples["key"] != 7))


def hung(ended_s=None, complete=True):
    """As ``made``, but the last batch hangs at its second sample, whose key is 23."""
    trace = made(batches=12)
    is_last, key = trace.batches["batch"] == 11, trace.samples["key"]
    gone = {
        name: trace.batches[name].mask(is_last)
        for name in ("collate_s", "ready_s", "requested_s", "delivered_s", "released_s")
    }
    state = np.where(is_last, "started", "delivered")
    trace = changed(trace, "batches", **gone, state=state)
    trace = changed(trace, "samples", end_s=trace.samples["end_s"].where(key != 23))
    return with_meta(trace, ended_s=ended_s, complete=complete)


def shaped(*shapes):
    trace = simulated({"sample_s": 0.001, "step_s": 0.02}, n_batches=len(shapes), epochs=1)
    trace = changed(trace, "batches", shapes=pd.Series(shapes, dtype=object))
    return with_meta(trace, loaders=[{"num_workers": 2}])


def shaped_up_to(longest):
    return shaped(*(f"int64 [4, {longest - n}]" for n in range(40)))


def not_collated(why):
    """The last batch could not be put together; ``why`` is what is known of its shapes."""
    trace = shaped(*["int64 [4, 5]"] * 40)
    batches = trace.batches.copy()
    batches.loc[39, ["state", "shapes"]] = "failed", why
    batches.loc[39, ["delivered_s", "released_s"]] = np.nan
    return dataclasses.replace(trace, batches=batches)


DEAR = {"sample_s": 0.01, "step_s": 0.02}
QUICK = {"sample_s": 1e-5, "step_s": 0.0}
# A code, a trace that has it, words of its evidence, and some that are well: made when needed.
CASES = [
    ("LV106", lambda: of_four_workers(2), ["[2, 3]"], lambda: [of_four_workers(4)]),
    (
        "LV301",
        lambda: simulated(DEAR, num_workers=0),
        [],
        lambda: [simulated(QUICK, num_workers=0)],
    ),
    (
        "LV302",
        lambda: simulated({**QUICK, "transport_s": 0.01, "take_s": 0.01}),
        ["without workers the loop would not wait longer"],
        lambda: [simulated({**QUICK, "sampler_s": 0.0025})],
    ),
    (
        "LV303",
        lambda: behind_slow_batches(0.4),
        ["later batches"],
        lambda: [behind_slow_batches(0.001), waited_for_a_cpu()],
    ),
    (
        "LV304",
        lambda: started(),
        ["each epoch starts 2 workers"],
        lambda: [started(persistent_workers=True)],
    ),
    ("LV305", lambda: crowded(1.0), ["6 workers, and only 2 CPUs"], lambda: [crowded(0.0)]),
    ("LV307", lambda: lagging(3.0), ["takes worker 1 3.0 times as long"], lambda: [lagging(1.0)]),
    (
        "LV309",
        lambda: at_work(0.09, 0.19),
        ["190 ms of CPU, and only 90 ms", "2 workers x 2 threads or more"],
        lambda: [
            at_work(0.09, 0.1),
            at_work(0.09, 0.19, cpus=8),
            at_work(0.09, 0.19, children_cpu_s=0.1),  # child processes that compute
            at_work(0.06, 0.1),  # a thread that pickles while the other reads, in turn
        ],
    ),
    (
        "LV310",
        lambda: streamed([300, 20]),
        ["samples by worker: 300, 20"],
        lambda: [streamed([160, 160])],
    ),
    (
        "LV311",
        lambda: waiting({"sample_s": list(np.linspace(0.002, 0.04, 400))}),
        [],
        lambda: [waiting({"sample_s": list(np.linspace(0.02, 0.021, 400))})],
    ),
    (
        "LV312",
        lambda: waiting({"sample_s": 1e-4, "sampler_s": 0.004}),
        [],
        lambda: [waiting({"sample_s": 1e-4, "sampler_s": 1e-5})],
    ),
    (
        "LV313",
        lambda: stopped(0.03),
        ["the CPU quota of 0.5 CPUs stopped the workers"],
        lambda: [stopped(0.0)],
    ),
    (
        "LV315",
        lambda: sent(30 << 20, 0.001),
        ["each of 2 workers is sent 30 MiB"],
        lambda: [sent(1000, 0.001), sent(30 << 20, 4.0)],  # little, and a loop that hides it
    ),
    (
        "LV404",
        lambda: growing(lambda x: x),
        [],
        lambda: [growing(lambda x: np.minimum(3 * x, 1))],  # a cache fills
    ),
    ("LV505", lambda: of_ranks(20, 17), ["rank 1 has 17"], lambda: [of_ranks(20, 20)]),
    (
        "LV506",
        lambda: ended("killed"),
        ["it read the sample 'cat.jpg', with 3 GiB"],
        lambda: [ended("done")],
    ),
    (
        "LV507",
        lambda: failed("failed"),
        ["batch 3 of epoch 0 failed in worker 1, at sample 7"],
        lambda: [failed("delivered")],
    ),
    ("LV507", lambda: failed("lost"), ["batch 3 of epoch 0 never came from worker 1"], list),
    (
        "LV509",
        lambda: hung(ended_s=90.0),
        ["worker 1 began batch 11 of epoch 0, at sample 23"],
        lambda: [hung(ended_s=7.25)],
    ),
    (
        "LV603",
        lambda: shaped_up_to(60),
        ["20 batches of 4 samples have 20 shapes: int64"],
        lambda: [shaped(*(f"int64 [4, {16 * (1 + n % 4)}]" for n in range(40)))],
    ),
]
AS_IN_THE_SUMMARY = {"LV310", "LV311", "LV312", "LV313"}


@pytest.mark.parametrize(("code", "sick", "says", "healthy"), CASES)
def test_a_pitfall_is_found_where_it_is_and_clear_where_it_is_not(code, sick, says, healthy, only):
    only(code)
    trace = sick()
    evidence = evidence_of(trace, code)
    assert evidence
    for words in says:
        assert words in evidence
    if code in AS_IN_THE_SUMMARY:
        assert trace.summary().causes.iloc[0]["evidence"] in evidence
    for each in healthy():
        diagnosis = findings_of(each)
        assert diagnosis.broken == ()
        assert code in diagnosis.clear


@pytest.mark.parametrize(
    ("code", "trace", "why"),
    [
        ("LV304", lambda: started(epochs=1), "one epoch"),
        ("LV309", lambda: at_work(0.09, math.nan), "CPU time of all threads"),
        ("LV505", lambda: with_meta(made(batches=30), world_size=4), "the folder of all ranks"),
        ("LV509", lambda: hung(complete=False), "worker 1 made batch 11"),
        ("LV603", lambda: shaped(*[None] * 40), "does not say what batches are made of"),
    ],
)
def test_what_a_recording_does_not_show_is_undecided(code, trace, why, only):
    only(code)
    assert why in undecided(trace(), code)


def test_a_loop_that_never_waits_has_nothing():
    diagnosis = findings_of(simulated({"sample_s": 0.001, "step_s": 0.02}))
    assert (diagnosis.codes, diagnosis.broken) == ((), ())


def test_an_empty_trace_has_nothing_and_nothing_is_clear():
    diagnosis = findings_of(Trace.from_columns())
    assert (diagnosis.codes, diagnosis.clear, diagnosis.broken) == ((), (), ())


@pytest.mark.parametrize(
    ("share", "saves", "found"),
    [(0.3, 0.2, True), (0.3, math.nan, True), (0.3, 0.001, False), (0.01, 0.01, False)],
)
def test_a_cause_that_is_small_or_saves_nothing_is_no_finding(share, saves, found):
    row = {"cause": "throttled", "seconds": 10 * share, "share": share, "saves_s": 10 * saves}
    row |= {"loader": 0, "evidence": "stopped 30 times", "cure": "More"}
    trace = made(workers=4, batches=8)
    summary = trace.summary()
    summary.__dict__["causes"] = pd.DataFrame([row])
    summary.__dict__["seconds_by_cause"] = {"throttled": row["seconds"]}
    recording = RecordedLoop(trace, 0, summary, True, 2, [], lambda: trace.samples)
    setup = Setup(None)
    setup.__dict__["settings"] = {"num_workers": 4}
    finding = OF_RECORDINGS["LV313"].judge(Case(setup, True, trace=trace, recording=recording))
    assert (finding is not None) == found
    if found:
        assert "stopped 30 times" in finding.evidence
        assert "# More" in finding.fix
        assert "num_workers=2" in finding.fix


@pytest.mark.parametrize(
    ("code", "trace", "fix"),
    [
        ("LV506", lambda: ended("killed"), "dataset['cat.jpg']"),
        ("LV509", lambda: hung(ended_s=90.0), "dataset[23]"),
        ("LV315", lambda: sent(30 << 20, 0.001), "doctor(loader) names the largest attribute"),
        # a quarter of the longest at most, but 8
        ("LV603", lambda: shaped_up_to(60), "multiple of 8,"),
        ("LV603", lambda: shaped_up_to(64), "multiple of 16,"),
        ("LV603", lambda: shaped_up_to(255), "multiple of 32,"),
        ("LV603", lambda: shaped_up_to(256), "multiple of 64,"),
        (
            "LV603",
            lambda: shaped(*(f"float32 [4, 3, {n}, 224]" for n in range(200, 230))),
            "of 64,",
        ),
    ],
)
def test_the_fix_names_what_the_recording_names(code, trace, fix, only):
    only(code)
    (found,) = findings_of(trace())
    assert fix in found.fix


def test_several_loaders_are_looked_at_one_by_one():
    parts = [made(batches=12), changed(made(batches=12, loader=1), "workers", exit="killed")]
    assert evidence_of(together(*parts), "LV506")
    (finding,) = [each for each in findings_of(together(*parts)) if each.code == "LV506"]
    assert finding.evidence[0] == "seen in loader 1"


def test_what_needs_the_loader_is_named_and_never_decided():
    named = {code for code, _ in need_the_loader()}
    diagnosis = findings_of(made(batches=40))
    said = {*diagnosis.clear, *diagnosis.codes, *(each.code for each in diagnosis.undecided)}
    assert named | said == {*CHECKS, *OF_RECORDINGS}
    assert not named & said


def test_no_check_breaks_on_a_trace_that_lacks_almost_everything():
    trace = Trace.from_columns(
        batches={"batch": [0, 1, 2], "delivered_s": [1.0, math.nan, 3.0], "worker": [0, 1, 7]},
        workers={"worker": [0], "exit": [None]},
        meta={"loaders": [{"num_workers": 2}], "cpu_allowance": None},
    )
    assert findings_of(trace).broken == ()


@pytest.mark.parametrize(
    ("why", "fix"),
    [
        ("batch['ids']: (5,) in sample 3, (7,) in sample 4", "sample['ids']"),
        ("batch: (3, 8, 8) in sample 'a', (1, 8, 8) in sample 'b'", 'convert("RGB")'),
        ("batch['image']: (3, 8, 8) in sample 3, (3, 8, 9) in sample 4", "interpolate"),
        ("batch[0]: 3 items in sample 3, 4 items in sample 4", "sample[0]"),
        ("anything that a stranger's file may hold", "pad_sequence"),
    ],
)
def test_a_batch_that_could_not_be_put_together_is_found_once(why, fix):
    (found,) = (each for each in findings_of(not_collated(why)) if each.code in ("LV602", "LV507"))
    assert found.code == "LV602"
    assert why in found.evidence
    assert fix in found.fix
    compile(found.fix, "fix", "exec")


def test_a_batch_that_failed_otherwise_says_nothing_of_shapes():
    assert {"LV602", "LV507"} & {*findings_of(not_collated(None)).codes} == {"LV507"}
