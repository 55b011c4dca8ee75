"""Exercises on waiting, memory and devices: answers that are right or only look so."""

import json
import re
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from loaderviz import LoaderVizError, audit
from loaderviz.course import (
    causes_of_waiting,
    feeding_the_gpu,
    first_look,
    how_many_workers,
    inside_the_dataloader,
    on_a_server,
    train_script,
    which_line,
    your_own_loader,
)
from loaderviz.course.in_a_worker import arrives, own_mib, stderr_of_workers
from loaderviz.course.run_in_shell import run_python, shell

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "10_your_own_loader.ipynb"
CAUSES = {"A": "workers", "B": "uneven", "C": "sampler"}

ENOUGH_WORKERS = [
    (3, False, "the model waits"),  # nearly keeps up
    (6, False, "fewer workers would do"),  # the model never waits, and yet
    ("three", False, "0 to 16"),
]


FEWEST = [
    (6, False, "Not yet"),  # rounded down
    (8, False, "fewer workers are as fast"),
    (-1, False, "0 to 16"),
]


def days(read):
    """A class whose samples ``read`` makes, of the whole table and of the number of the day."""
    table = which_line.hourly_table()

    class Days:
        numbers = torch.tensor(table.to_numpy())

        def __getitem__(self, day):
            return read(self.numbers, day)

    return Days


class Kept:
    """Each day is slow once, and an epoch reads it once."""

    def __init__(self):
        self.table, self.days = which_line.hourly_table(), {}

    def __getitem__(self, day):
        if day not in self.days:
            rows = [self.table.iloc[24 * day + i] for i in range(24)]
            self.days[day] = torch.tensor(np.array(rows))
        return self.days[day]


QUICKER = [
    (days(lambda numbers, day: numbers[24 * day : 24 * day + 24]), True, "times as quick"),
    (days(lambda numbers, day: numbers[:24]), False, "Day 1 is another one: give rows 24"),
    (
        days(lambda numbers, day: (time.sleep(0.004), numbers[24 * day : 24 * day + 24])[1]),
        False,
        "at least 3 times as quick",
    ),
    (days(lambda numbers, day: [][day]), False, "your code raised IndexError"),
    (days(lambda numbers, day: numbers[24 * day : 24 * day + 24].float()), False, "give float64"),
    (Kept, False, "at least 3 times as quick"),
]

ANSWERS = {
    first_look.enough_workers: ENOUGH_WORKERS,
    how_many_workers.fewest: FEWEST,
    which_line.quicker: QUICKER,
}


@pytest.mark.parametrize(
    ("check", "answer", "passed", "says"),
    [
        pytest.param(check, *row, id=f"{check.__name__}: {row[2]}")
        for check, rows in ANSWERS.items()
        for row in rows
    ],
)
def test_an_answer_is_judged_and_told_why(check, answer, passed, says):
    found = check(answer)
    assert says in found.message
    assert found.passed is passed


@pytest.mark.parametrize(
    ("way", "workers", "says"),
    [
        ("pinned, non_blocking", 3, "steps take 80 %"),
        ("copied ahead", 2, "steps take 73 %"),
        ("copied ahead", 4, "fewer workers would do"),
        ("by post", 3, "not one of 'pageable'"),
        ("pinned", 0, "1 to 8"),
    ],
)
def test_a_dearer_or_slower_way_to_feed_a_device_is_told(way, workers, says):
    check = feeding_the_gpu.cheapest(way, workers)
    assert not check.passed
    assert says in check.message


# What a loop waits for


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (dict.fromkeys(CAUSES, "?"), "A: '?' is none of 'workers'"),
        (CAUSES | {"A": "collate"}, "not 'collate' that loader A"),
        (CAUSES | {"C": "prefetch"}, "not 'prefetch' that loader C"),  # workers are idle
    ],
)
def test_a_wrong_cause_is_told_and_shows_the_loader(answers, says):
    check = causes_of_waiting.name_causes(**answers)
    assert not check.passed
    assert says in check.message
    assert "none of" in says or "What does the loop wait" in check.figure.layout.title.text


def test_the_right_causes_tell_what_cutting_each_saves():
    check = causes_of_waiting.name_causes(**CAUSES)
    assert check.passed
    assert check.message.count("instead of") == 3


@pytest.mark.parametrize("name", CAUSES)
def test_each_loader_waits_for_its_cause(name):
    figure = causes_of_waiting.slow_loader(name)
    assert figure.trace.summary().causes["cause"].iloc[0] == CAUSES[name]
    assert figure.layout.title.text.endswith(f"Loader {name}</b>")


# A loader in a file


def unsolved():
    """The file that notebook 10 writes."""
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    codes = ("".join(cell["source"]) for cell in cells)
    return next(code for code in codes if code.startswith("%%writefile")).partition("\n")[2]


def shared(text):
    return re.sub(r"range\(worker.*\)", "range(worker, self.n, workers)", text)


def own_draws(text):
    text = text.replace("self.rng = np.random.default_rng(0)", "pass")
    return text.replace("self.rng.normal()", "float(torch.randn(()))")


def five(text):
    return text.replace("num_workers=2", "num_workers=5")


def by_number(text):
    """Numbers of its own for each worker; no epoch shows that the next one has the same."""
    own = "self.rng = np.random.default_rng(worker)"
    return text.replace("        each = ", f"        {own}\n        each = ")


@pytest.mark.parametrize(
    ("changes", "passed", "says"),
    [
        ((own_draws, five), False, "3 of 43 samples never arrived"),  # fast, and loses more
        ((shared, five), False, "LV201"),
        pytest.param((shared, five, by_number), False, "previous epoch's", marks=pytest.mark.slow),
        pytest.param((shared, own_draws), False, "Right, but slow", marks=pytest.mark.slow),
        ((shared, own_draws, five), True, "waits for at most 25%"),
        ((lambda text: "numbers = 3\n",), False, "make_loader"),
        ((lambda text: "def make_loader(\n",), False, "SyntaxError"),
        ((lambda text: "def make_loader():\n    return 3\n",), False, "takes a torch DataLoader"),
    ],
    ids=["lossy", "alike", "by number", "slow", "solved", "no function", "no Python", "no loader"],
)
def test_cured(tmp_path, changes, passed, says):
    text = unsolved()
    for change in changes:
        assert change(text) != text
        text = change(text)
    path = tmp_path / "my_loader.py"
    path.write_text(text)
    check = your_own_loader.cured(path)
    assert says in check.message
    assert check.passed is passed


def test_the_cured_stand_in_delivers_every_sample_once_and_settings_leave_a_loader_as_it_is():
    loader = train_script.make_cured()
    found = audit(loader)
    assert found.exactly_once
    assert (len(found.deliveries), found.n_samples) == (120, 120)
    changed = your_own_loader.with_settings(loader, {"num_workers": 3, "prefetch_factor": 4})
    assert (changed.num_workers, changed.prefetch_factor, changed.batch_size) == (3, 4, 4)
    assert changed.dataset is loader.dataset
    assert loader.num_workers == 2


RECORDINGS = NOTEBOOK.parent / "recordings"


@pytest.mark.parametrize(
    ("options", "passed", "says"),
    [
        pytest.param("--max-wait 0.6", False, "the bad night passes", marks=pytest.mark.slow),
        ("--max-wait 0.25", True, "the bad night is stopped"),
        pytest.param("--max-wait 0.01", False, "the good night fails", marks=pytest.mark.slow),
        pytest.param("", False, "nothing to check", marks=pytest.mark.slow),
    ],
)
def test_a_check_for_every_night(options, passed, says):
    good, bad = (RECORDINGS / f"photos_{when}.parquet" for when in ("after", "before"))
    check = on_a_server.nightly(options, good=good, bad=bad)
    assert says in check.message.lower()
    assert check.passed is passed


# In other processes


def in_main(samples):
    return torch.tensor(samples) * 2


# Pickled by a name that the worker does not find, as a function of a notebook is.
in_main.__module__ = "__main__"
sys.modules["__main__"].in_main = in_main


def doubled(samples):
    return torch.tensor(samples) * 2


def not_doubled(samples):
    return torch.tensor(samples)


@pytest.mark.parametrize(
    ("collate_fn", "passed", "says"),
    [
        (in_main, False, "The worker said: AttributeError: "),  # the unsolved start
        (lambda samples: torch.tensor(samples) * 2, False, "Not yet."),
        pytest.param(doubled, True, "It arrived", marks=pytest.mark.slow),
        pytest.param(not_doubled, False, "not twice each sample", marks=pytest.mark.slow),
    ],
    ids=["of a notebook", "lambda", "of a module", "not doubled"],
)
def test_works_when_spawned(collate_fn, passed, says, capfd):
    check = inside_the_dataloader.works_when_spawned(collate_fn)
    assert says in check.message
    assert check.passed is passed
    assert "\n" not in check.message
    assert capfd.readouterr().err == ""  # no traceback of a worker on the reader's page


def test_what_arrives_in_a_fresh_process_is_found_by_trying():
    table = arrives(module_level=json.loads, nameless=lambda: None, of_a_notebook=in_main)
    assert list(table["arrives"]) == ["yes", "", "no: AttributeError"]
    assert table["pickled"]["nameless"].startswith("no: ")
    assert table["pickled"]["module_level"].endswith(" bytes")


def test_what_goes_to_stderr_is_kept_and_then_flows_again(capfd):
    with stderr_of_workers() as written:
        print("inside", file=sys.__stderr__, flush=True)
        assert written.read_text() == "inside\n"
    print("after", file=sys.__stderr__, flush=True)
    assert capfd.readouterr().err == "after\n"
    assert not written.exists()


def test_a_process_tells_its_own_memory():
    assert own_mib([]) > 1


def test_shell_prints_the_command_and_its_output_and_returns_its_code(tmp_path, capsys):
    assert shell("loaderviz summary no.parquet", tmp_path) == 2
    said = capsys.readouterr().out
    assert said.startswith("$ loaderviz summary no.parquet\n")
    assert "does not exist" in said
    with pytest.raises(LoaderVizError, match="begins with loaderviz or python"):
        shell("rm -r notes")


def test_a_command_that_only_reads_prints_here_what_it_prints_in_a_process(monkeypatch):
    recordings, command = NOTEBOOK.parent / "recordings", ["-m", "loaderviz", "summary"]
    here = run_python([*command, "train_and_evaluate.parquet"], recordings)
    monkeypatch.setattr("loaderviz.course.run_in_shell.READING", ())
    assert run_python([*command, "train_and_evaluate.parquet"], recordings) == here


def test_a_command_that_takes_too_long_is_ended_with_what_it_has_started(tmp_path):
    waits = "import subprocess, sys; subprocess.run([sys.executable, *sys.argv[1:]])"
    with pytest.raises(LoaderVizError, match="ended after 3 s"):
        run_python(["-c", waits, "-c", "import time; time.sleep(99)", str(tmp_path)], timeout_s=3)
    commands = [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"])]
    assert not [each for each in commands if str(tmp_path) in each]
