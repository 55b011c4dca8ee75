"""Exercises that run something: loops that wait, a file, a command, a spawned worker."""

import json
import re
import sys
from pathlib import Path

import psutil
import pytest
import torch
from torch.utils.data import DataLoader

from loaderviz import LoaderVizError, audit, record
from loaderviz.course import (
    causes_of_waiting,
    inside_the_dataloader,
    on_a_server,
    train_script,
    your_own_loader,
)
from loaderviz.course.in_a_worker import arrives, own_mib, stderr_of_workers
from loaderviz.course.run_in_shell import run_python, shell

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "10_your_own_loader.ipynb"
CAUSES = {"A": "workers", "B": "uneven", "C": "sampler"}

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


def three(text):
    return text.replace("num_workers=2", "num_workers=3")


def by_number(text):
    """Numbers of its own for each worker; no epoch shows that the next one has the same."""
    own = "self.rng = np.random.default_rng(worker)"
    return text.replace("        each = ", f"        {own}\n        each = ")


@pytest.mark.parametrize(
    ("changes", "passed", "says"),
    [
        pytest.param(  # fast, and loses more
            (own_draws, five), False, "3 of 43 samples never arrived", marks=pytest.mark.slow
        ),
        pytest.param((shared,), False, "LV201", marks=pytest.mark.slow),
        pytest.param((shared, by_number), False, "previous epoch's", marks=pytest.mark.slow),
        pytest.param((shared, own_draws), False, "Right, but slow", marks=pytest.mark.slow),
        pytest.param(
            (shared, own_draws, three), True, "waits for at most 25%", marks=pytest.mark.slow
        ),
        ((lambda text: "numbers = 3\n",), False, "make_loader"),
        ((lambda text: "def make_loader(\n",), False, "SyntaxError"),
        ((lambda text: "def make_loader():\n    return 3\n",), False, "takes a torch DataLoader"),
    ],
    ids=["lossy", "alike", "by number", "slow", "solved", "no function", "no Python", "no loader"],
)
def test_cured(tmp_path, monkeypatch, changes, passed, says):
    if passed:  # other work on the machine slows it down
        monkeypatch.setattr(your_own_loader, "MOST_WAITING", 0.9)
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
    with record(loader) as recording:
        list(loader)
    found = audit(recording.trace)  # of the loader itself it would read each picture many times
    assert found.verdict.startswith("Each of the keys 0 to 119 came once")
    assert len(found.deliveries) == len(loader.dataset) == 120
    changed = your_own_loader.with_settings(loader, {"num_workers": 3, "prefetch_factor": 4})
    assert (changed.num_workers, changed.prefetch_factor, changed.batch_size) == (3, 4, 4)
    assert changed.dataset is loader.dataset
    assert loader.num_workers == 2


RECORDINGS = NOTEBOOK.parent / "recordings"


@pytest.mark.parametrize(
    ("options", "passed", "says"),
    [
        ("--max-wait 0.6", False, "the bad night passes"),
        ("--max-wait 0.25", True, "the bad night is stopped"),
        ("--max-wait 0.01", False, "the good night fails"),
        ("", False, "nothing to check"),
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
    ],
    ids=["of a notebook", "lambda", "of a module"],
)
@pytest.mark.slow
def test_works_when_spawned(collate_fn, passed, says, capfd):
    check = inside_the_dataloader.works_when_spawned(collate_fn)
    assert says in check.message
    assert check.passed is passed
    assert "\n" not in check.message
    assert capfd.readouterr().err == ""  # no traceback of a worker on the reader's page


def wrong_type(samples):
    return torch.mul(None, 2)


@pytest.mark.parametrize(
    ("collate_fn", "says"),
    [
        (not_doubled, "not twice each sample"),
        (wrong_type, "worker process 0. The worker said: TypeError: "),
    ],
    ids=["not doubled", "wrong type"],
)
def test_what_a_function_that_arrives_does_wrong_is_told(collate_fn, says, monkeypatch):
    class Started(DataLoader):
        """In a way that takes no time."""

        def __init__(self, dataset, **options):
            super().__init__(dataset, **options | {"multiprocessing_context": "fork"})

    monkeypatch.setattr(inside_the_dataloader, "DataLoader", Started)
    check = inside_the_dataloader.works_when_spawned(collate_fn)
    assert not check.passed
    assert says in check.message


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


@pytest.mark.slow
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
