"""One question a notebook, in 20 minutes: cells, words, pictures, and nothing that only proves."""

import re
from pathlib import Path

import nbformat
import pytest
from notebooks.proven import proofs_of, proven

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
CELLS, WORDS, PICTURES = 45, 1200, 6
# What draws, in a cell of code; a hero and the legend of marks are not counted.
DRAWS = re.compile(
    r"\b(timeline|plot_timings|chart|vary|explore|play|causes|starts|mixing|contact_sheet|"
    r"figure|beside|slots|stacked|padding|epochs|device_streams|shuffled_orders|with_landmarks|"
    r"memory|waits|candidates|tenths_in_a_batch)\("
)
NOT_READ = re.compile(r"```.*?```|!\[[^\]]*\]\([^)]*\)|\]\([^)]*\)|<[^>]*>", re.DOTALL)


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request) -> nbformat.NotebookNode:
    return nbformat.read(request.param, as_version=4)


def words_of(cell) -> list[str]:
    """What is read of a text: no code, no description of a picture, no address."""
    return [word for word in NOT_READ.sub(" ", cell.source).split() if re.search(r"\w", word)]


def test_few_cells_and_few_words(notebook):
    texts = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    assert len(notebook.cells) <= CELLS
    assert sum(len(words_of(cell)) for cell in texts) <= WORDS


def test_few_pictures(notebook):
    """A cell that defines what draws is none that draws."""
    drawing = [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code" and DRAWS.search(re.sub(r"(?m)^( +|def ).*$", "", cell.source))
    ]
    assert len(drawing) <= PICTURES, [cell.source for cell in drawing]


def test_a_reader_sees_no_proof(notebook):
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert not [source for source in code if re.search(r"^# Proof|^assert\b", source, re.MULTILINE)]


def test_the_code_of_a_question_is_folded_as_it_has_the_answer(notebook):
    asking = [
        cell for cell in notebook.cells if re.search(r"^predict\(", cell.source, re.MULTILINE)
    ]
    assert [cell.source for cell in asking if not cell.metadata.get("jupyter")] == []


def test_no_answer_stands_open_below_a_question(notebook):
    """A question is asked by ``predict``, or its printed answer is folded (``guess_first``)."""
    for cell, below in zip(notebook.cells, notebook.cells[1:], strict=False):
        if cell.cell_type == "markdown" and "**Predict" in cell.source:
            assert "guess_first" in below.source or below.cell_type == "markdown", cell.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_proofs_stand_after_cells_that_it_has(path):
    n_proofs = len(proofs_of(path.stem))
    assert n_proofs, "no claim of this notebook is proven"
    assert len(proven(path).cells) == len(nbformat.read(path, as_version=4).cells) + n_proofs
    assert len({cell.id for cell in proven(path, 2).cells}) == 2 * len(proven(path).cells)
