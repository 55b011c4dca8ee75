"""What a notebook names as its source is there: the file, and in it every name."""

import re
from pathlib import Path

import nbformat
import pytest
import torch

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
FOLDERS = {"torch": Path(torch.__file__).parents[1], "loaderviz": ROOT}


def citations(text: str) -> list[str]:
    """The notes on sources: each from its first word on, without the file names' escapes."""
    return [
        note.replace("\\", "") for note in re.findall(r"<small>Source: (.*?)</small>", text, re.S)
    ]


def unknown_names(note: str) -> list[str]:
    """The names in backticks that are in none of the Python files that the note cites."""
    files = set(re.findall(r"\b(?:torch|loaderviz)/[\w/]+\.py\b", note))
    if not files:
        return []
    cited = "\n".join((FOLDERS[file.split("/")[0]] / file).read_text() for file in files)
    words = set(re.findall(r"\w+", cited))
    names = re.findall(r"`([^`]+)`", note)
    return [name for name in names if not set(re.findall(r"\w+", name)) <= words]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_name_is_in_a_cited_file(path):
    cells = nbformat.read(path, as_version=4).cells
    notes = [note for cell in cells for note in citations(cell.source)]
    assert notes
    assert {note: unknown for note in notes if (unknown := unknown_names(note))} == {}


def test_a_wrong_name_is_caught_and_so_is_a_file_that_is_not_there():
    right = "`DataLoader.check_worker_number_rationality` in torch/utils/data/dataloader.py"
    (note,) = citations(f"Text.\n\n<small>Source: {right}.</small>")
    assert unknown_names(note) == []
    wrong = note.replace(".check", "._check")
    assert unknown_names(wrong) == ["DataLoader._check_worker_number_rationality"]
    with pytest.raises(FileNotFoundError):
        unknown_names("`DataLoader` in torch/utils/data/loader.py")
