"""What all exercises share: checks, hints, and that the notebooks' own solutions pass."""

import itertools
import json
import random
import re
import sys
from pathlib import Path
from types import ModuleType
from unittest import mock

import numpy as np
import pytest
import torch
from torch.utils import data

from loaderviz import course
from loaderviz.course import datasets
from loaderviz.course.datasets.shuffling import shuffled
from loaderviz.course.exercises import (
    Check,
    Hints,
    explains_errors,
    first_wrong,
    whole_number_between,
)
from loaderviz.course.simulated_device import WAYS

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
# The notebooks' exercises whose answer is code, by the name that the cell defines.
IN_CODE = {
    "MyStream": "01_map_and_iterable",
    "share": "04_duplicates_and_losses",
    "stream": "06_streaming",
    "streams": "06_streaming",
    "order": "11_stop_and_resume",
    "mixed": "14_mixing_a_stream",
    "batches": "15_batches_by_length",
    "WordFile": "12_what_a_worker_costs",
}
# And those whose answer is a value or a line, which the text of the solution has.
IN_A_LINE = [
    ("00_first_look", "num_workers = 0", "num_workers = 4"),
    (
        "05_randomness",
        "return base + worker",
        "return hash((base, rank, worker, epoch)) % 2**64",
    ),
    ("07_how_many_workers", "num_workers = 4", "num_workers = 7"),
    ("08_feeding_the_gpu", 'cheapest("pinned, non_blocking", 2)', 'cheapest("copied ahead", 3)'),
    ("09_many_ranks", "return data[worker::workers]", "return data[rank::ranks][worker::workers]"),
    ("13_same_contents", "row *= 2", "row = row * 2"),
]


def cells(notebook, kind):
    for cell in json.loads((NOTEBOOKS / f"{notebook}.ipynb").read_text("utf-8"))["cells"]:
        if cell["cell_type"] == kind:
            yield "".join(cell["source"])


def last_value(code):
    """What a notebook would show of this cell, with what its first cells import."""
    names = {"torch": torch, "np": np, "random": random, "WAYS": WAYS}
    names |= vars(data) | vars(itertools) | vars(datasets) | {"shuffled": shuffled}
    for path in Path(course.__file__).parent.glob("*.py"):
        if re.search(rf"\b{path.stem}\.", code):
            exec(f"from loaderviz.course import {path.stem}", names)
    definitions, _, call = code.rstrip().rpartition("\n")
    cell = ModuleType("a_cell")  # a module by whose name its classes are pickled
    cell.__dict__.update(names, __name__=cell.__name__)
    with mock.patch.dict(sys.modules, {cell.__name__: cell}):
        exec(definitions, cell.__dict__)
        return eval(call, cell.__dict__)


@pytest.mark.parametrize(("name", "notebook"), IN_CODE.items(), ids=list(IN_CODE))
def test_the_start_of_an_exercise_is_refused_and_the_solution_passes(name, notebook):
    beginning = rf"^(?:def|class) {name}[(:]"
    unsolved = next(cell for cell in cells(notebook, "code") if re.search(beginning, cell, re.M))
    solutions = re.findall(r"```python\n(.*?)```", "\n".join(cells(notebook, "markdown")), re.S)
    solution = next(each for each in solutions if re.search(beginning, each, re.M))
    refused = last_value(unsolved)
    assert not refused.passed
    assert refused.message
    assert last_value(f"{solution}\n{unsolved.rpartition(chr(10))[2]}").passed


@pytest.mark.parametrize(("notebook", "start", "solution"), IN_A_LINE, ids=str)
def test_a_line_makes_the_answer_right(notebook, start, solution):
    cell = next(cell for cell in cells(notebook, "code") if start in cell)
    assert not last_value(cell).passed
    assert last_value(cell.replace(start, solution)).passed
    assert solution.split("(")[0] in "\n".join(cells(notebook, "markdown"))


def test_hints_come_one_at_a_time(capsys):
    hint = Hints("look", "think")
    for _ in range(3):
        hint()
    assert capsys.readouterr().out.splitlines() == [
        "Hint 1 of 2: look",
        "Hint 2 of 2: think",
        "Hint 1 of 2: look",
    ]


def test_no_line_of_a_check_or_a_hint_is_so_long_that_a_notebook_breaks_it_within_a_word(capsys):
    text = " ".join(["a word of an explanation"] * 12)
    Check(False, f"{text}\n{text}")._ipython_display_()
    Hints(text)()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 6
    assert max(map(len, lines)) <= 80


def misspelt():
    return nowhere  # noqa: F821


@pytest.mark.parametrize(
    ("raises", "says"),
    [
        (misspelt, "Not yet: your code raised NameError: name 'nowhere' is not defined\n  in miss"),
        (lambda: [][1], "your code raised IndexError"),
        (lambda: exit(1), "your code raised SystemExit: 1"),
        (lambda: whole_number_between("n", 17, 0, 16), "n=17: give a whole number, 0 to 16"),
        (lambda: whole_number_between("n", True, 0, 16), "n=True: give a whole number, 0 to 16"),
        (lambda: whole_number_between("n", 2.5, 0, 16), "n=2.5: give a whole number, 0 to 16"),
        (lambda: first_wrong({}, {"A": "x"}, ["x", "y"]), "A: None is none of 'x', 'y'"),
    ],
)
def test_what_a_readers_code_raises_is_told_and_so_is_an_answer_that_is_none(raises, says):
    check = explains_errors(raises)()
    assert not check.passed
    assert says in check.message


def test_the_first_wrong_answer_is_found():
    right = {"A": "x", "B": "y"}
    assert first_wrong(right, right, ["x", "y"]) is None
    assert first_wrong({"A": "x", "B": "x"}, right, ["x", "y"]) == "B"
    whole_number_between("n", 16, 0, 16)
