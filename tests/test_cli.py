"""The command line as a user runs it: what it prints, how it ends."""

import json
import subprocess
import sys

import pytest
from torch.utils.data import DataLoader

import loaderviz as lv


def loaderviz(*args):
    return subprocess.run(
        [sys.executable, "-m", "loaderviz", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def saved(tmp_path):
    loader = DataLoader(range(12), batch_size=4)
    with lv.record(loader) as rec:
        list(loader)
    path = tmp_path / "run.parquet"
    rec.trace.save(path)
    return path


def test_without_a_command_it_names_them():
    done = loaderviz("--help")
    assert done.returncode == 0
    assert "summary" in done.stdout


def test_a_summary_is_that_of_the_trace(saved):
    done = loaderviz("summary", saved)
    assert done.returncode == 0
    assert done.stdout.strip() == str(lv.load(saved).summary())


def test_a_summary_as_json(saved):
    found = json.loads(loaderviz("summary", saved, "--json").stdout)
    assert found["n_batches"] == 3
    assert found["verdict"] == lv.load(saved).summary().verdict


def test_what_is_no_trace_is_one_line_and_bad_input(tmp_path):
    done = loaderviz("summary", tmp_path / "nothing")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("loaderviz: ")
    assert len(done.stderr.splitlines()) == 1
