"""A promise that a notebook's text makes of its figures is kept, or named."""

import pytest
from nbformat.v4 import new_code_cell

from browser.promised_figures import Shown, broken_promises

AXIS = {"0": 80.0, "1": 480.0, "2": 880.0}


def cell(name, **promised):
    made = new_code_cell("figure", metadata={"loaderviz": promised} if promised else {})
    made.id = name
    return made


def shown(title="The model waits", numbers="measured · 2 batches", axis=AXIS):
    return Shown(title, numbers, axis)


def test_axes_that_are_alike_keep_it_whatever_their_own_numbers():
    cells = [cell("above"), cell("below", compared_with=["above"])]
    moved = {label: px + 1 for label, px in AXIS.items()}
    assert broken_promises(cells, {(0, 0): shown(), (1, 0): shown(axis=moved)}) == []


@pytest.mark.parametrize(
    ("axis", "named"),
    [
        ({label: px + 28 for label, px in AXIS.items()}, "0 is at 108 and at 80 px"),
        ({"0": 80.0, "1": 480.0}, "the axes have"),
        ({"0": 80.0, "1": 280.0, "2": 480.0}, "1 is at 280 and at 480 px"),
    ],
    ids=["another zero", "a shorter axis", "another scale"],
)
def test_an_axis_that_is_not_shared_is_named(axis, named):
    cells = [cell("above"), cell("below", compared_with=["above"])]
    broken = broken_promises(cells, {(0, 0): shown(), (1, 0): shown(axis=axis)})
    assert named in broken[0]
    within = [cell("both", compared_with=["both"])]
    assert broken_promises(within, {(0, 0): shown(), (0, 1): shown(axis=axis)})


def test_a_title_that_contradicts_the_text_is_named():
    cells = [cell("one", title_never_says=["cannot keep up", "loads and steps"])]
    assert broken_promises(cells, {(0, 0): shown()}) == []
    (broken,) = broken_promises(cells, {(0, 0): shown("It waits: two workers cannot keep up")})
    assert "'cannot keep up'" in broken


def test_a_title_that_does_not_say_what_the_text_says_is_named():
    cells = [cell("one", title_says=["keep up", "keeps up"])]
    assert broken_promises(cells, {(0, 0): shown("One worker keeps up")}) == []
    (broken,) = broken_promises(cells, {(0, 0): shown()})
    assert "says none of" in broken


def test_cpus_that_others_use_are_told_of_where_it_was_measured_and_nowhere_else():
    cells = [cell("one", title_says=["keep up"])]
    full = "The model waits 30 % of the time: the CPUs are full"
    assert broken_promises(cells, {(0, 0): shown(full)}) == []
    assert broken_promises(cells, {(0, 0): shown(full, "simulated · 2 batches")})


def test_a_figure_that_is_not_there_is_named():
    assert broken_promises([cell("one", title_says=["waits"])], {}) == ["one: it has 0 figures"]
    both = [cell("both", compared_with=["both"])]
    assert broken_promises(both, {(0, 0): shown()}) == ["both: it has 1 figures"]
