"""The exercises of notebook 10: unsolved, solved, and with answers that only look right."""

import json
import re
from pathlib import Path

import pytest

from loaderviz import LoaderVizError, audit
from loaderviz.course import train_script, your_own_loader
from loaderviz.course.run_in_shell import shell

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "10_your_own_loader.ipynb"
SOLUTION = {
    "A": "the start of each epoch",
    "B": "one slow sample",
    "C": "too few workers",
    "D": "the model",
}


@pytest.mark.parametrize(
    ("answers", "passed", "says"),
    [
        (dict.fromkeys("ABCD", "?"), False, "'?' is none of the model, too few workers"),
        ({}, False, "None is none of"),
        (
            SOLUTION | {"A": "too few workers"},
            False,
            "A: it is not too few workers",
        ),  # it waits too
        (SOLUTION | {"B": "too few workers"}, False, "B: it is not too few workers"),
        (SOLUTION, True, "All four named"),
    ],
)
def test_limits(answers, passed, says):
    check = your_own_loader.limits(answers)
    assert check.passed is passed
    assert says in check.message
    assert (check.figure is not None) == ("it is not" in says)


def test_the_recordings_are_what_the_solution_says():
    found = {name: your_own_loader.recording(name).summary() for name in "ABCD"}
    longest = {}
    for name in "ABCD":
        batches = your_own_loader.recording(name).batches
        longest[name] = (batches["delivered_s"] - batches["requested_s"]).max()
    started = found["A"].startup_s + found["A"].first_wait_s
    assert found["A"].epochs > 1
    assert started > 0.6 * (found["A"].startup_s + found["A"].wait_s)
    assert longest["B"] > 0.5 * found["B"].wait_s
    assert longest["C"] < 0.5 * found["C"].wait_s
    assert found["C"].later_wait_share > max(0.5, found["D"].later_wait_share)


def test_another_recording_is_refused():
    with pytest.raises(LoaderVizError, match="'A', 'B', 'C' or 'D'"):
        your_own_loader.recording("E")


def cell(begins: str) -> str:
    for each in json.loads(NOTEBOOK.read_text())["cells"]:
        source = "".join(each["source"])
        if source.startswith(begins):
            return source
    raise AssertionError(f"no cell begins with {begins!r}")


def unsolved() -> str:
    """The file that the notebook writes."""
    return cell("%%writefile").partition("\n")[2]


def shared(text: str) -> str:
    return re.sub(r"range\(worker.*\)", "range(worker, self.n, workers)", text)


def own_draws(text: str) -> str:
    return text.replace("self.rng = np.random.default_rng(0)", "pass").replace(
        "self.rng.normal()", "float(torch.randn(()))"
    )


def five(text: str) -> str:
    return text.replace("num_workers=2", "num_workers=5")


def by_number(text: str) -> str:
    """Numbers of its own for each worker; no epoch shows that the next one has the same."""
    return text.replace(
        "        each = ", "        self.rng = np.random.default_rng(worker)\n        each = "
    )


@pytest.mark.parametrize(
    ("changes", "passed", "says"),
    [
        ((own_draws, five), False, "3 of 43 samples never arrived"),  # fast, and loses more
        ((shared, five), False, "LV201"),
        pytest.param(
            (shared, five, by_number),
            False,
            "with the previous epoch's numbers",
            marks=pytest.mark.slow,
        ),
        pytest.param((shared, own_draws), False, "Right, but slow", marks=pytest.mark.slow),
        ((shared, own_draws, five), True, "the model is busy"),
    ],
    ids=["lossy", "alike", "by number", "slow", "solved"],
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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def make_loader():\n    return 3\n", "takes a torch DataLoader"),
        ("numbers = 3\n", "make_loader"),
        ("def make_loader(\n", "SyntaxError"),
    ],
    ids=["no loader", "no function", "no Python"],
)
def test_a_file_that_makes_no_loader_is_told(tmp_path, text, says):
    path = tmp_path / "my_loader.py"
    path.write_text(text)
    check = your_own_loader.cured(path)
    assert not check.passed
    assert says in check.message


@pytest.mark.parametrize(
    ("keeps", "passed", "says"),
    [
        (lambda found, summary: True, False, "a model that waits: it passes"),
        (lambda found, summary: False, False, "hardly a wait: it fails"),
        (
            lambda found, summary: found.epochs["delivered"].sum() == found.n_samples,
            False,
            "a model that waits: it passes",
        ),
        *(
            (
                lambda found, summary, most=most: (
                    bool(found.exactly_once) and summary.wait_share <= most
                ),
                False,
                says,
            )
            for most, says in [
                (0.05, "a little less than a tenth: it fails"),
                (0.12, "a little more than a tenth: it passes"),
                (0.2, "a little more than a tenth: it passes"),
            ]
        ),
        (  # the count is right, the samples are not
            lambda found, summary: (
                found.epochs["delivered"].sum() == found.n_samples and summary.wait_share <= 0.1
            ),
            False,
            "one half of them twice: it passes",
        ),
        (  # what is not proven passes
            lambda found, summary: found.exactly_once is not False and summary.wait_share <= 0.1,
            False,
            "nobody knows what came: it passes",
        ),
        (lambda found, summary: summary.waits, False, "keeps raised AttributeError"),
        (lambda found, summary: bool(found.exactly_once) and summary.wait_share <= 0.1, True, "ok"),
    ],
)
def test_keeps(keeps, passed, says):
    check = your_own_loader.keeps(keeps)
    assert check.passed is passed
    assert passed or says in check.message


def test_the_cured_stand_in_delivers_every_sample_once():
    """What the doctor says of either the notebook asserts."""
    assert audit(train_script.make_cured(), key=train_script.number_of).exactly_once


def test_with_settings_leaves_the_loader_as_it_is():
    loader = train_script.make_loader()
    settings = {"num_workers": 3, "prefetch_factor": 4, "persistent_workers": True}
    changed = your_own_loader.with_settings(loader, settings)
    assert (changed.num_workers, changed.prefetch_factor, changed.batch_size) == (3, 4, 4)
    assert changed.dataset is loader.dataset
    assert (loader.num_workers, loader.prefetch_factor) == (2, 2)


def test_shell_prints_the_command_and_its_output_and_returns_its_code(tmp_path, capsys):
    assert shell("loaderviz summary no.parquet", tmp_path) == 2
    said = capsys.readouterr().out
    assert said.startswith("$ loaderviz summary no.parquet\n")
    assert "does not exist" in said


def test_shell_takes_no_other_program():
    with pytest.raises(LoaderVizError, match="begins with loaderviz or python"):
        shell("rm -r notes")
