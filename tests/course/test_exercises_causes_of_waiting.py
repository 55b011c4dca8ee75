"""The exercise on causes: unsolved, solved, and with answers that only look right."""

import sys

import pytest
from torch.utils.data import DataLoader

from loaderviz import record
from loaderviz._plot_timings import take
from loaderviz.course import causes_of_waiting
from loaderviz.course.causes_of_waiting import ANSWERS, STEP_S, slow_loaders, switch_often
from loaderviz.course.datasets import PythonDataset


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({}, "A=None: give one of start"),
        (dict.fromkeys(ANSWERS, "?"), "A='?': give one of start"),  # unsolved
        ({**ANSWERS, "A": "workers"}, "not 'workers' that loader A"),  # more would collate, too
        ({**ANSWERS, "B": "slow_samples"}, "not 'slow_samples' that loader B"),
        ({**ANSWERS, "C": "prefetch"}, "not 'prefetch' that loader C"),  # workers are idle
    ],
)
def test_a_wrong_answer_is_told_and_shows_the_loader(answers, says):
    check = causes_of_waiting.name_causes(**answers)
    assert not check.passed
    assert says in check.message
    assert "consumer" in check.figure.layout.yaxis.ticktext
    assert "What does the loop wait for?" in check.figure.layout.title.text  # not: for what it does


def test_the_right_answers_show_what_came_of_cutting_each():
    check = causes_of_waiting.name_causes(**ANSWERS)
    assert check.passed
    assert check.message.count("instead of") == 3
    labels = " ".join(check.figure.layout.yaxis.ticktext)
    assert all(cause in labels for cause in ANSWERS.values())
    assert "Shares (96 samples)" in labels


@pytest.mark.parametrize("name", ANSWERS)
def test_each_loader_waits_for_its_cause(name):
    loader = slow_loaders()[name]
    with record(loader) as rec:
        take(loader, STEP_S)
    causes = rec.trace.summary().causes["cause"]
    others = [cause for cause in causes if cause not in ("cpu", "start")]  # of a busy machine
    assert others[0] == ANSWERS[name]


def test_a_worker_whose_threads_switch_often_is_told_so():
    before = sys.getswitchinterval()
    try:
        switch_often(0)
        assert sys.getswitchinterval() < before
    finally:
        sys.setswitchinterval(before)
    (batch,) = DataLoader(PythonDataset(2, 1e-4), 2, num_workers=1, worker_init_fn=switch_often)
    assert batch.shape == (2, 100)
