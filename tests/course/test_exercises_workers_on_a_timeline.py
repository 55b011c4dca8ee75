"""The exercises of notebook 03: unsolved, solved, and with answers that only look right."""

import pytest
from torch.utils.data import DataLoader

import loaderviz
from loaderviz._plot_timings import take
from loaderviz.course import workers_on_a_timeline
from loaderviz.course.datasets import SleepingDataset


@pytest.mark.parametrize(
    ("answer", "passed", "says"),
    [
        (1, False, "the model waits for batch 14"),
        (3, False, "the model waits for batch 14"),  # nearly bridges it
        (4, True, "8 batches under way"),
        (8, False, "fewer batches in memory"),  # never waits, and yet
    ],
)
def test_enough_prefetch(answer, passed, says):
    check = workers_on_a_timeline.enough_prefetch(answer)
    assert check.passed is passed
    assert says in check.message
    assert check.figure is not None


@pytest.mark.parametrize("prefetch_factor", [1, 3, 4])
def test_the_slow_batch_is_sent_out_when_one_is_handed_over_as_the_hint_says(prefetch_factor):
    slow, ahead = workers_on_a_timeline.SLOW_BATCH, workers_on_a_timeline.WORKERS * prefetch_factor
    loader = DataLoader(
        SleepingDataset(80, 0.001), batch_size=4, num_workers=2, prefetch_factor=prefetch_factor
    )
    with loaderviz.record(loader) as rec:
        take(loader, 0.01)
    batches = rec.trace.batches.set_index("batch")
    before, sent_s = batches.loc[slow - ahead], batches["dispatched_s"][slow]
    assert before["ready_s"] < sent_s <= before["delivered_s"]
    assert (batches["delivered_s"][:slow] >= sent_s).sum() == ahead  # steps until it is needed


@pytest.mark.parametrize("answer", [0, 17, 2.5, "many", None, True])
def test_an_answer_that_is_no_factor_is_told(answer):
    check = workers_on_a_timeline.enough_prefetch(answer)
    assert not check.passed
    assert "1 to 16" in check.message


def unsolved(dataset):
    for _ in range(3):
        yield from DataLoader(dataset, batch_size=4, num_workers=2)


def persistent_for_one_epoch_only(dataset):
    for _ in range(3):
        yield from DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


def one_loader_that_starts_anew(dataset):
    loader = DataLoader(dataset, batch_size=4, num_workers=2)
    for _ in range(3):
        yield from loader


def solved(dataset):
    loader = DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)
    for _ in range(3):
        yield from loader


def without_workers(dataset):
    loader = DataLoader(dataset, batch_size=4)
    for _ in range(3):
        yield from loader


def one_epoch_only(dataset):
    yield from DataLoader(dataset, batch_size=4, num_workers=2)


def nothing(dataset):
    return []


@pytest.mark.parametrize(
    ("answer", "passed", "says"),
    [
        (unsolved, False, "6 worker processes"),
        (persistent_for_one_epoch_only, False, "6 worker processes"),
        (one_loader_that_starts_anew, False, "6 worker processes"),
        (without_workers, False, "0 workers"),
        (one_epoch_only, False, "each 3 times"),
        (nothing, False, "No batch came"),
        (solved, True, "2 workers, started once"),
    ],
)
def test_start_once(answer, passed, says):
    check = workers_on_a_timeline.start_once(answer)
    assert check.passed is passed
    assert says in check.message
