"""Notebook 02: its exercises unsolved, solved and nearly solved; what reaches a fresh process."""

import json
import operator
import sys

import pytest
import torch

from loaderviz.course.inside_the_dataloader import reorder_buffer, works_when_spawned
from loaderviz.course.sending import arrives, stderr_of_workers


def as_they_come(results):
    for _, batch in results:
        yield batch


def with_a_buffer(results):
    early = {}
    expected = 0
    for number, batch in results:
        early[number] = batch
        while expected in early:
            yield early.pop(expected)
            expected += 1


def sorted_at_the_end(results):
    for _, batch in sorted(results):
        yield batch


def one_for_one(results):
    """Frees at most one batch for each arrival, so that the last ones stay."""
    early = {}
    expected = 0
    for number, batch in results:
        early[number] = batch
        if expected in early:
            yield early.pop(expected)
            expected += 1


def drops_the_early(results):
    expected = 0
    for number, batch in results:
        if number == expected:
            yield batch
            expected += 1


def numbers_too(results):
    yield from with_a_buffer((number, (number, batch)) for number, batch in results)


def one_too_many(results):
    yield from with_a_buffer(results)
    yield "batch 12"


@pytest.mark.parametrize(
    ("reorder", "passed", "says"),
    [
        (as_they_come, False, "in place of 'batch"),
        (with_a_buffer, True, "Every batch in order"),
        (sorted_at_the_end, False, "though it was free after"),
        (one_for_one, False, "free after"),
        (drops_the_early, False, "not all of them"),
        (numbers_too, False, "in place of 'batch 0'"),
        (one_too_many, False, "more is handed over than arrived"),
        (lambda results: [], False, "not all of them"),
        (lambda results: None, False, "it returned None"),
        (lambda results: [next(results)[2]], False, "raises IndexError"),
        (lambda results: [[]], False, "[] is handed over in place of 'batch 0'"),
    ],
)
def test_reorder_buffer(reorder, passed, says):
    check = reorder_buffer(reorder)
    assert check.passed is passed
    assert says in check.message
    assert check.figure is not None


def test_the_picture_shows_the_readers_order():
    """And beside it what arrives, and what should be handed over then."""
    figure = reorder_buffer(as_they_come).figure
    assert "in place of" in figure.layout.title.text
    (bars,) = figure.data
    lanes = [[], [], []]
    for lane, number in zip(bars.y, bars.text, strict=True):
        lanes[int(lane)].append(int(number))
    arrives, handed, wanted = lanes
    assert handed == arrives
    assert sorted(arrives) == wanted
    assert wanted != arrives


def in_main(samples):
    return torch.tensor(samples) * 2


# Pickled by a name that the worker does not find, as a function of a notebook is.
in_main.__module__ = "__main__"
sys.modules["__main__"].in_main = in_main


def doubled(samples):
    return torch.tensor(samples) * 2


def not_doubled(samples):
    return torch.tensor(samples)


def broken(samples):
    raise ValueError("no")


@pytest.mark.parametrize(
    ("collate_fn", "passed", "says"),
    [
        (in_main, False, "The worker said: AttributeError: "),  # the unsolved start
        (lambda samples: torch.tensor(samples) * 2, False, "Not yet."),
        (doubled, True, "It arrived"),
        pytest.param(not_doubled, False, "not twice each sample", marks=pytest.mark.slow),
        pytest.param(broken, False, "ValueError", marks=pytest.mark.slow),
    ],
    ids=["of a notebook", "lambda", "of a module", "not doubled", "broken"],
)
def test_works_when_spawned(collate_fn, passed, says, capfd):
    check = works_when_spawned(collate_fn)
    assert says in check.message
    assert check.passed is passed
    assert "\n" not in check.message
    assert capfd.readouterr().err == ""  # no traceback of a worker on the reader's page


def test_what_arrives_in_a_fresh_process_is_found_by_trying():
    table = arrives(
        module_level=json.loads,
        bound=operator.itemgetter(3),
        nameless=lambda: None,
        of_a_notebook=in_main,
    )
    assert list(table.columns) == ["pickled", "arrives"]
    assert list(table["arrives"]) == ["yes", "yes", "", "no: AttributeError"]
    assert table["pickled"]["nameless"].startswith("no: ")
    assert table["pickled"]["module_level"].endswith(" bytes")
    assert list(arrives(nameless=lambda: None)["arrives"]) == [""]


def test_what_goes_to_stderr_is_kept_and_then_flows_again(capfd):
    with stderr_of_workers() as written:
        print("inside", file=sys.__stderr__, flush=True)
        assert written.read_text() == "inside\n"
    print("after", file=sys.__stderr__, flush=True)
    assert capfd.readouterr().err == "after\n"
    assert not written.exists()
