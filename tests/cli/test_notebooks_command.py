"""``loaderviz notebooks``: what it copies, what it keeps, what it opens."""

import subprocess
import sys
from importlib import import_module, util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "notebooks"
FIRST = "00_first_look.ipynb"
MODULE = import_module("loaderviz.cli.notebooks")


@pytest.fixture
def opened(monkeypatch):
    """What would be run: nothing is."""
    calls = []

    def call(arguments):
        calls.append(arguments)
        return 3

    monkeypatch.setattr(subprocess, "call", call)
    return calls


def test_all_are_copied_with_their_pictures_and_the_first_is_opened(loaderviz, tmp_path, opened):
    folder = tmp_path / "new" / "here"
    done = loaderviz("notebooks", folder)
    copies = sorted(path.name for path in folder.glob("*.ipynb"))
    assert copies == sorted(path.name for path in ROOT.glob("*.ipynb"))
    assert (folder / "images/marks.svg").read_bytes() == (ROOT / "images/marks.svg").read_bytes()
    assert "Copied" in done.out
    assert opened == [[sys.executable, "-m", "jupyterlab", str(folder / FIRST)]]
    assert done.code == 3  # of JupyterLab


def test_what_the_reader_changed_is_kept_and_named(loaderviz, tmp_path, opened):
    loaderviz("notebooks", tmp_path, "--no-open")
    changed, gone = tmp_path / "03_workers_on_a_timeline.ipynb", tmp_path / FIRST
    changed.write_text("mine")
    gone.unlink()
    done = loaderviz("notebooks", tmp_path, "--no-open")
    assert done.code == 0
    assert changed.read_text() == "mine"
    assert gone.exists()
    assert done.out.startswith("Copied 1 file ")
    assert f"Kept 1 file that differs from this version's: {changed.name}" in done.out
    assert not opened


def test_without_jupyterlab_they_are_copied_and_what_to_install_is_said(
    loaderviz, tmp_path, monkeypatch, opened
):
    def find_spec(name):
        return None if name == "jupyterlab" else util.find_spec(name)

    monkeypatch.setattr(MODULE, "find_spec", find_spec)
    done = loaderviz("notebooks", tmp_path)
    assert done.code == 2
    assert "pip install 'loaderviz[notebook]'" in done.err
    assert (tmp_path / FIRST).exists()
    assert not opened


def test_a_file_in_the_place_of_the_folder_is_named(loaderviz, tmp_path, opened):
    (tmp_path / "taken").write_text("")
    done = loaderviz("notebooks", tmp_path / "taken")
    assert done.code == 2
    assert done.err.startswith("loaderviz: cannot write ")
    assert str(tmp_path / "taken") in done.err.replace("\n", "")


def test_an_installation_without_them_says_so(loaderviz, tmp_path, monkeypatch, opened):
    monkeypatch.setattr(MODULE, "SOURCES", (tmp_path / "nothing",))
    done = loaderviz("notebooks", tmp_path / "new")
    assert done.code == 2
    assert "has no notebooks" in done.err
