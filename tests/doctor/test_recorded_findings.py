"""What a recording alone shows of the known pitfalls, on hand-built traces."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from loaderviz import Costs, Trace, simulate
from loaderviz._doctor import findings_of, need_the_loader
from loaderviz._doctor.checks import CHECKS, OF_RECORDINGS
from loaderviz._doctor.examination import Case, RecordedLoop
from loaderviz._doctor.loader_setup import Setup

from traces import made  # isort: skip


def with_meta(trace, **meta):
    return dataclasses.replace(trace, meta={**trace.meta, **meta})


def simulated(costs, **options):
    settings = {"num_workers": 2, "batch_size": 4, "n_batches": 100, "epochs": 2, **options}
    return simulate(Costs(startup_s=0.01, cores=8, **costs), **settings)


def test_a_loop_that_never_waits_has_nothing():
    diagnosis = findings_of(simulated({"sample_s": 0.001, "step_s": 0.02}))
    assert diagnosis.codes == ()
    assert diagnosis.broken == ()
    assert "LV303" in diagnosis.clear


def test_an_empty_trace_has_nothing_and_nothing_is_clear():
    diagnosis = findings_of(Trace.from_columns())
    assert (diagnosis.codes, diagnosis.clear, diagnosis.broken) == ((), (), ())


def test_dear_batches_without_workers_are_found():
    trace = simulated({"sample_s": 0.01, "step_s": 0.02}, num_workers=0)
    assert "LV301" in findings_of(trace).codes
    cheap = simulated({"sample_s": 0.0001, "step_s": 0.02}, num_workers=0)
    assert findings_of(cheap).codes == ()


def test_a_wait_that_is_longer_than_the_making_is_workers_slower_than_none():
    quick = {"sample_s": 1e-5, "step_s": 0.0}
    sent_slowly = {**quick, "transport_s": 0.01, "take_s": 0.01}
    assert "LV302" in findings_of(simulated(sent_slowly)).codes
    drawn_slowly = {**quick, "sampler_s": 0.0025}
    assert "LV302" in findings_of(simulated(drawn_slowly)).clear


@pytest.mark.parametrize(("n_slow", "codes"), [(1, ("LV303",)), (0, ())])
def test_a_slow_batch_that_others_lie_ready_behind(n_slow, codes):
    took = np.full(4000, 0.001)
    took[::160] = 0.4 if n_slow else 0.001
    trace = simulated({"sample_s": took, "step_s": 0.0, "cpu_share": 0.0}, num_workers=4)
    found = findings_of(trace)
    assert tuple(code for code in found.codes if code == "LV303") == codes


def test_a_batch_that_waited_for_a_cpu_is_none_that_its_samples_made_slow():
    took = np.full(4000, 0.001)
    took[::160] = 0.4
    trace = simulated({"sample_s": took, "step_s": 0.0, "cpu_share": 0.0}, num_workers=4)
    queued_s = (trace.batches["ready_s"] - trace.batches["started_s"] - 0.004).clip(lower=0)
    queued = dataclasses.replace(trace, batches=trace.batches.assign(queued_s=queued_s))
    assert "LV303" in findings_of(trace).codes
    assert "LV303" in findings_of(queued).clear


def test_the_start_of_workers_in_each_epoch_is_found_only_with_two_epochs():
    slow = Costs(sample_s=0.001, step_s=0.001, startup_s=0.8, cores=8)
    trace = simulate(slow, num_workers=2, batch_size=2, n_batches=8, epochs=2)
    assert "LV304" in findings_of(trace).codes
    once = simulate(slow, num_workers=2, batch_size=2, n_batches=8)
    diagnosis = findings_of(once)
    assert "LV304" not in diagnosis.codes
    assert "one epoch" in {each.code: each.evidence[0] for each in diagnosis.undecided}["LV304"]
    kept = simulate(
        slow, num_workers=2, batch_size=2, n_batches=8, epochs=2, persistent_workers=True
    )
    assert "LV304" not in findings_of(kept).codes


@pytest.mark.parametrize(
    ("n_bytes", "step_s", "found"),
    [(30 << 20, 0.001, True), (1000, 0.001, False), (30 << 20, 4.0, False)],
)
def test_what_each_worker_is_sent_matters_where_it_is_large_and_costs(n_bytes, step_s, found):
    slow = Costs(sample_s=0.001, step_s=step_s, startup_s=1.0, cores=8)
    trace = simulate(slow, num_workers=2, batch_size=2, n_batches=40)
    parts = {"pickle_s": 0.3, "pickle_bytes": n_bytes, "boot_s": 0.3, "unpickle_s": 0.4}
    workers = trace.workers.assign(start_method="spawn", **parts)
    about = {"num_workers": 2, "start_method": "spawn"}
    diagnosis = findings_of(with_meta(dataclasses.replace(trace, workers=workers), loaders=[about]))
    assert diagnosis.broken == ()
    assert ("LV315" in diagnosis.codes) == found
    if found:
        (finding,) = (each for each in diagnosis if each.code == "LV315")
        assert "each of 2 workers is sent 30 MiB" in finding.evidence[-1]
        assert "doctor(loader) names the largest attribute" in finding.fix


@pytest.mark.parametrize(("share", "found"), [(1.0, True), (0.0, False)])
def test_more_workers_than_cpus_matter_where_they_compute(share, found):
    costs = Costs(sample_s=0.01, cpu_share=share, step_s=0.0, startup_s=0.01, cores=2)
    trace = simulate(costs, num_workers=6, batch_size=4, n_batches=120)
    assert ("LV305" in findings_of(trace).codes) == found


def evidence_of(trace, code):
    """All of it in one text; empty if it was not found."""
    assert findings_of(trace).broken == ()
    evidence = {each.code: each.evidence for each in findings_of(trace)}
    return " ".join(evidence.get(code, ()))


class TestACauseOfWaiting:
    """Findings that rest on ``Summary.causes``, and say what it says."""

    @pytest.mark.parametrize(
        ("code", "sick", "cured"),
        [
            (
                "LV310",
                {"sample_s": 0.01, "kind": "iterable", "shards": [300, 20]},
                {"sample_s": 0.01, "kind": "iterable", "shards": [160, 160]},
            ),
            (
                "LV311",
                {"sample_s": list(np.linspace(0.002, 0.04, 400))},
                {"sample_s": list(np.linspace(0.02, 0.021, 400))},
            ),
            (
                "LV312",
                {"sample_s": 1e-4, "sampler_s": 0.004},
                {"sample_s": 1e-4, "sampler_s": 1e-5},
            ),
        ],
    )
    def test_is_found_where_it_is_and_not_once_it_is_cured(self, code, sick, cured):
        costs = {"step_s": 0.01, "cpu_share": 0.0}
        options = {} if "shards" in sick else {"n_batches": 100, "epochs": 1}
        make = {"num_workers": 2, "batch_size": 4, **options}
        sick_trace, cured_trace = (simulate_with(costs | each, make) for each in (sick, cured))
        row = sick_trace.summary().causes.iloc[0]
        assert row["evidence"] in evidence_of(sick_trace, code)
        assert evidence_of(cured_trace, code) == ""
        assert code in findings_of(cured_trace).clear

    def test_that_is_a_quota_is_told_by_what_it_stopped(self):
        trace = simulated({"sample_s": 0.01, "step_s": 0.001}, epochs=1)
        stopped = {"cpu_s": 0.004, "process_cpu_s": 0.004, "queued_s": 0.03}
        meta = {"cpu_allowance": 0.5}
        of_quota = with_meta(changed(trace, "batches", **stopped, throttled_s=0.03), **meta)
        assert "the CPU quota of 0.5 CPUs stopped the workers" in evidence_of(of_quota, "LV313")
        of_others = with_meta(changed(trace, "batches", **stopped, throttled_s=0.0), **meta)
        assert evidence_of(of_others, "LV313") == ""

    @pytest.mark.parametrize(
        ("share", "saves", "found"),
        [(0.3, 0.2, True), (0.3, math.nan, True), (0.3, 0.001, False), (0.01, 0.01, False)],
    )
    def test_is_no_finding_where_it_is_small_or_saves_nothing(self, share, saves, found):
        row = {"cause": "throttled", "seconds": 10 * share, "share": share, "saves_s": 10 * saves}
        row |= {"loader": 0, "evidence": "stopped 30 times", "cure": "More"}
        case = case_with_causes(row)
        finding = OF_RECORDINGS["LV313"].judge(case)
        assert (finding is not None) == found
        if found:
            assert "stopped 30 times" in finding.evidence
            assert "# More" in finding.fix
            assert "num_workers=2" in finding.fix

    @pytest.mark.parametrize(
        ("cpu_s", "process_cpu_s", "cpus", "found"),
        [
            (0.09, 0.19, 2, True),
            (0.09, 0.1, 2, False),
            (0.09, 0.19, 8, False),
            (0.09, math.nan, 2, False),
            (0.06, 0.1, 2, False),  # one pickles while the other reads, in turn
        ],
    )
    def test_of_full_cpus_is_helper_threads_only_where_they_compute(
        self, cpu_s, process_cpu_s, cpus, found
    ):
        """Two workers, each at work for 0.1 s a batch: with a helper, they want four CPUs."""
        trace = simulated({"sample_s": 0.025, "step_s": 0.0}, epochs=1)
        trace = changed(trace, "batches", cpu_s=cpu_s, process_cpu_s=process_cpu_s)
        said = evidence_of(with_meta(trace, cpu_allowance=cpus), "LV309")
        assert bool(said) == found
        if found:
            assert "190 ms of CPU, and only 90 ms" in said
            assert "2 workers x 2 threads or more on 2 CPUs" in said

    def test_child_processes_that_compute_are_no_helper_threads(self):
        trace = simulated({"sample_s": 0.025, "step_s": 0.0}, epochs=1)
        times = {"cpu_s": 0.09, "process_cpu_s": 0.19}
        trace = with_meta(trace, cpu_allowance=2)
        assert evidence_of(changed(trace, "batches", **times), "LV309")
        assert not evidence_of(changed(trace, "batches", children_cpu_s=0.1, **times), "LV309")


def simulate_with(given, options):
    settings = {name: given[name] for name in ("kind", "shards") if name in given}
    costs = {name: value for name, value in given.items() if name not in settings}
    return simulate(Costs(startup_s=0.01, cores=8, **costs), **options, **settings)


def case_with_causes(row):
    """Of a loader with four workers on two CPUs."""
    trace = made(workers=4, batches=8)
    summary = trace.summary()
    summary.__dict__["causes"] = pd.DataFrame([row])
    recording = RecordedLoop(
        trace,
        loader=0,
        summary=summary,
        complete=True,
        cpu_allowance=2,
        unequal_epochs=[],
        read_samples=lambda: trace.samples,
    )
    setup = Setup(None)
    setup.__dict__["settings"] = {"num_workers": 4}
    return Case(setup, ran=True, trace=trace, recording=recording)


def of_ranks(*batches):
    parts = [made(batches=n, rank=rank) for rank, n in enumerate(batches)]
    names = ("batches", "samples", "workers", "spans")
    tables = [pd.concat([getattr(each, name) for each in parts]) for name in names]
    return Trace(*tables, {"complete": True, "world_size": len(batches)})


def test_ranks_with_unequal_numbers_of_batches_are_found():
    (finding,) = [each for each in findings_of(of_ranks(20, 17)).findings if each.code == "LV505"]
    assert "rank 1 has 17" in finding.evidence[0]
    assert "LV505" in findings_of(of_ranks(20, 20)).clear


def test_one_rank_of_several_cannot_tell_of_the_others():
    diagnosis = findings_of(with_meta(made(batches=30), world_size=4))
    assert "LV505" in [each.code for each in diagnosis.undecided]


def changed(trace, table, **columns):
    return dataclasses.replace(trace, **{table: getattr(trace, table).assign(**columns)})


def test_a_worker_that_was_killed_is_named_with_the_sample_that_it_read():
    trace = changed(
        made(batches=12),
        "workers",
        exit=["done", "killed"],
        last_key=[None, "cat.jpg"],
        rss_peak_bytes=[0, 3 << 30],
    )
    (finding,) = findings_of(trace).findings
    assert (finding.code, finding.severity) == ("LV506", "error")
    assert "worker 1" in finding.evidence[0]
    assert "'cat.jpg'" in finding.evidence[0]
    assert "3 GiB" in finding.evidence[0]
    assert "dataset['cat.jpg']" in finding.fix


def test_a_batch_that_failed_is_named_with_its_sample():
    trace = made(batches=4)
    states = ["delivered"] * 3 + ["failed"]
    end_s = trace.samples["end_s"].where(trace.samples["key"] != 7)
    trace = changed(changed(trace, "batches", state=states), "samples", end_s=end_s)
    (finding,) = findings_of(trace).findings
    assert finding.code == "LV507"
    assert "batch 3" in finding.evidence[0]
    assert "sample 7" in finding.evidence[0]


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


def test_a_batch_that_never_came_is_named_with_the_sample_that_hung():
    (finding,) = findings_of(hung(ended_s=90.0)).findings
    assert (finding.code, finding.severity) == ("LV509", "error")
    assert "worker 1 began batch 11 of epoch 0, at sample 23" in finding.evidence[0]
    assert "dataset[23]" in finding.fix


def test_a_loop_that_was_left_while_a_batch_was_made_is_no_hang():
    left_at_once = hung(ended_s=float(made(batches=12).batches["released_s"].max()))
    assert "LV509" in findings_of(left_at_once).clear
    assert "LV509" in findings_of(made(batches=12)).clear


def test_a_recording_that_breaks_off_does_not_say_for_how_long_a_batch_hung():
    diagnosis = findings_of(hung(complete=False))
    (reason,) = [each.evidence[0] for each in diagnosis.undecided if each.code == "LV509"]
    assert "worker 1 made batch 11" in reason


@pytest.mark.parametrize(
    ("curve", "found"),
    [
        (lambda x: x, True),
        (lambda x: np.minimum(3 * x, 1), False),  # a cache that has been filled
        (lambda x: 0 * x, False),
    ],
)
def test_memory_that_goes_on_growing_is_told_from_a_cache_that_fills(curve, found):
    rss = (100 + 800 * curve(np.linspace(0, 1, 200))) * (1 << 20)
    trace = changed(made(batches=200), "batches", rss_bytes=rss.astype(np.int64))
    assert ("LV404" in findings_of(trace).codes) == found


@pytest.mark.parametrize(("lag", "found"), [(3.0, True), (1.0, False)])
def test_a_worker_that_is_slower_than_the_others_is_found(lag, found):
    n, workers = 90, 3
    batch = np.arange(n)
    worker = batch % workers
    took = np.where(worker == 1, lag, 1.0)
    ready = np.zeros(n)
    for each in range(workers):
        ready[worker == each] = np.cumsum(took[worker == each])
    delivered = np.maximum.accumulate(ready)
    requested = np.concatenate([[0.0], delivered[:-1]])
    trace = Trace.from_columns(
        batches={
            "batch": batch, "worker": worker, "n_samples": 1, "dispatched_s": 0.0,
            "started_s": ready - took, "collate_s": ready, "ready_s": ready,
            "requested_s": requested,
            "delivered_s": delivered, "released_s": delivered,
        },
        workers={"worker": range(workers), "exit": "done"},
    )  # fmt: skip
    finding = [each for each in findings_of(trace).findings if each.code == "LV307"]
    assert bool(finding) == found
    if found:
        assert "worker 1" in finding[0].evidence[0]


def test_workers_without_a_share_of_the_stream_are_found():
    about = {"kind": "iterable", "num_workers": 4, "batch_size": 2}
    trace = with_meta(made(workers=2, batches=30), loaders=[about])
    (finding,) = [each for each in findings_of(trace).findings if each.code == "LV106"]
    assert "[2, 3]" in finding.evidence[0]


def test_several_loaders_are_looked_at_one_by_one():
    parts = [made(batches=12), changed(made(batches=12, loader=1), "workers", exit="killed")]
    names = ("batches", "samples", "workers", "spans")
    both = Trace(*(pd.concat([getattr(each, name) for each in parts]) for name in names), {})
    (finding,) = [each for each in findings_of(both).findings if each.code == "LV506"]
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


class TestShapes:
    """LV602, LV603 and LV604 of what the recorder wrote down of batches."""

    @staticmethod
    def shaped(*shapes, **meta):
        trace = simulated({"sample_s": 0.001, "step_s": 0.02}, n_batches=len(shapes), epochs=1)
        column = pd.Series(shapes, dtype=object)
        trace = dataclasses.replace(trace, batches=trace.batches.assign(shapes=column))
        return with_meta(trace, loaders=[{"num_workers": 2, **meta}])

    def failed(self, why):
        """The last batch could not be put together; ``why`` is what is known of its shapes."""
        trace = self.shaped(*["int64 [4, 5]"] * 40)
        batches = trace.batches.copy()
        batches.loc[39, ["state", "shapes"]] = "failed", why
        batches.loc[39, ["delivered_s", "released_s"]] = np.nan
        return dataclasses.replace(trace, batches=batches)

    def test_many_are_found_and_few_are_not(self):
        many = self.shaped(*(f"int64 [4, {n}]" for n in range(10, 50)))
        assert "20 batches of 4 samples have 20 shapes: int64" in evidence_of(many, "LV603")
        few = self.shaped(*(f"int64 [4, {16 * (1 + n % 4)}]" for n in range(40)))
        assert "LV603" in findings_of(few).clear

    def test_what_was_not_measured_is_undecided(self):
        diagnosis = findings_of(self.shaped(*[None] * 40))
        assert {"LV603", "LV604"} <= {each.code for each in diagnosis.undecided}
        assert "LV602" in diagnosis.clear

    def test_padding_is_predicted_and_never_found(self):
        texts = [f"int64 [4, {n}]" for n in np.random.default_rng(0).integers(20, 100, 60)]
        for trace, is_predicted in [
            (self.shaped(*texts, shuffled=True), True),
            (self.shaped(*texts), False),
        ]:
            diagnosis = findings_of(trace)
            assert "LV604" not in diagnosis.codes
            (answer,) = (each for each in diagnosis.undecided if each.code == "LV604")
            assert ("Predicted, if each batch" in answer.evidence[0]) == is_predicted

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
    def test_a_batch_that_could_not_be_put_together_is_found_once(self, why, fix):
        diagnosis = findings_of(self.failed(why))
        (found,) = (each for each in diagnosis if each.code in ("LV602", "LV507"))
        assert found.code == "LV602"
        assert why in found.evidence
        assert fix in found.fix
        compile(found.fix, "fix", "exec")

    def test_a_batch_that_failed_otherwise_says_nothing_of_shapes(self):
        assert {"LV602", "LV507"} & {*findings_of(self.failed(None)).codes} == {"LV507"}
