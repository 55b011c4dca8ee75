"""What is said of a cause, and the cure, suit the way in which the recording shows it."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

from loaderviz import Costs, Trace, record, simulate
from loaderviz.course.datasets import SleepingDataset
from traces import made


def row_of(trace: Trace, cause: str) -> dict[str, str]:
    causes = trace.summary().causes.set_index("cause")
    return {name: causes.loc[cause, name] for name in ("evidence", "cure")}


@pytest.mark.parametrize(
    ("first_key_s", "evidence", "cure"),
    [
        (
            2.0,
            "drawing keys takes 2.01 s before the first batch of an epoch, 8 ms for",
            "fewer keys",
        ),
        (0.0, "drawing the keys of a batch takes 8 ms, at most 8 ms", "all keys at once"),
    ],
)
def test_keys_that_are_all_drawn_at_first_are_told_from_slow_ones(first_key_s, evidence, cure):
    costs = Costs(sample_s=1e-4, sampler_s=1e-3, first_key_s=first_key_s, cores=8.0)
    trace = simulate(costs, num_workers=2, batch_size=8, n_batches=20, epochs=2)
    causes = trace.summary().causes
    assert causes["cause"].iloc[0] == "sampler"
    row = row_of(trace, "sampler")
    assert row["evidence"].startswith(evidence)
    assert cure in row["cure"]


def handed_over(*, cpu_s: float, n_bytes: float, shapes: str | None) -> Trace:
    """Batches that lie ready for a second, and take 0.2 s to hand over."""
    trace = made(workers=2, batches=8)
    later = {name: trace.batches[name] + 1.2 for name in ("delivered_s", "released_s")}
    later["requested_s"] = trace.batches["delivered_s"] + 1.0
    contents = {"n_bytes": n_bytes, "shapes": shapes}
    return replace(trace, batches=trace.batches.assign(cpu_s=cpu_s, **later, **contents))


def test_how_much_is_handed_over_is_said():
    row = row_of(handed_over(cpu_s=0.9, n_bytes=4096, shapes="float32 [2, 512]"), "handover")
    assert row["evidence"] == "handing over a batch that lay ready takes 200 ms; one has 4 KiB"
    assert row["cure"].startswith("Where little is sent")
    row = row_of(handed_over(cpu_s=0.9, n_bytes=1e6, shapes="float32 [2, 125000]"), "handover")
    assert row["cure"].startswith("Send few tensors")


def boots_for_s(**columns: float) -> float:
    """Of workers that start at 0 s and take their first task at 2.5 s, which is drawn until 2 s."""
    trace = made(workers=2)
    late = {name: trace.batches[name] + 2.25 for name in ("started_s", "collate_s", "ready_s")}
    late |= {name: trace.batches[name] + 2.25 for name in ("delivered_s", "released_s")}
    batches = trace.batches.assign(drawing_s=0.5, dispatched_s=2.0, **late)
    workers = trace.workers.assign(first_task_s=2.5, **columns)
    return Costs.from_trace(replace(trace, batches=batches, workers=workers)).boot_s


def test_a_worker_that_waits_for_the_first_keys_is_up():
    assert boots_for_s(boot_s=0.25, init_s=0.5) == pytest.approx(0.75)
    assert boots_for_s() == Costs.from_trace(made(workers=2)).boot_s  # not known: the typical


def test_of_samples_in_memory_reading_comes_first_and_workers_are_not_the_cure():
    costs = Costs(sample_s=5e-6, sampler_s=5e-7, step_s=2e-5)
    trace = simulate(costs, num_workers=0, batch_size=16, n_batches=200)
    first = trace.summary().causes.iloc[0]
    assert first["cause"] == "main_process"
    assert np.isnan(first["saves_s"])
    assert "__getitems__" in first["cure"]
    assert "num_workers=" not in first["cure"]


def test_each_batch_of_a_new_iterator_is_told_to_keep_it():
    loader = DataLoader(SleepingDataset(40, 0.001), batch_size=4, num_workers=2, sampler=range(40))
    with record(loader) as recording:
        for _ in range(3):
            next(iter(loader))
    row = row_of(recording.trace, "restart")
    assert "batches = iter(loader)" in row["cure"]


def stream(workers: int, first_s: float, **settings: Any) -> Trace:
    """Of 40 samples a worker, the first of which takes longer."""
    sample_s = [first_s if i < workers else 0.004 for i in range(40 * workers)]
    costs = Costs(sample_s=sample_s, step_s=0.01, take_s=3e-4, cores=8.0)
    shards = [40] * workers
    options = {"num_workers": workers, "batch_size": 4, "shards": shards, **settings}
    return simulate(costs, kind="iterable", **options)


def test_what_a_stream_does_before_its_first_sample_is_told_as_that():
    row = row_of(stream(1, first_s=0.5), "slow_samples")
    assert "the first of a worker's stream" in row["evidence"]
    assert "shuffle buffer" in row["cure"]


def test_what_was_slow_in_the_beginning_is_not_what_the_training_waits_for():
    """As with a cache: read slowly in the first epoch alone."""
    sample_s = [*[0.01] * 80, *[1e-5] * 240]
    trace = simulate(
        Costs(sample_s=sample_s, step_s=0.002, take_s=3e-4, cores=8.0),
        num_workers=2,
        batch_size=8,
        n_batches=40,
    )
    row = trace.summary().causes.set_index("cause").loc["workers"]
    assert row["evidence"].startswith("reading a batch takes 80 ms")
    assert row["saves_s"] > 0.05
    assert row["epoch_saves_s"] == pytest.approx(0, abs=1e-3)
    as_recorded = replace(trace, meta={**trace.meta, "simulated": None})
    verdict = as_recorded.summary().verdict
    assert "cannot keep up" not in verdict


class Sampling(DataLoader[Any]):
    """As loaders of graphs: keys are all that is read, and ``collate_fn`` makes the batch."""

    def __init__(self, n: int, **options: Any) -> None:
        super().__init__(range(n), collate_fn=self.sample, **options)  # type: ignore[arg-type]

    def sample(self, keys: list[int]) -> list[int]:
        time.sleep(0.02)
        return keys


def test_a_collate_fn_that_makes_the_batch_is_helped_by_workers():
    loader = Sampling(160, batch_size=4, num_workers=2)
    with record(loader) as recording:
        for _ in loader:
            time.sleep(0.002)
    summary = recording.trace.summary()
    causes = summary.causes.set_index("cause")  # beside other work the CPUs may come first
    assert "collate_fn makes the batch" in causes.loc["collate", "cure"]
    assert summary.loaders[0].name == "Sampling (160 samples)"
