"""Every notebook opens, ends and reads as its reader has learnt from the others."""

import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
SCREEN = 30  # lines of code that a laptop shows at once, with some of the text above


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def cells(request) -> list:
    return nbformat.read(request.param, as_version=4).cells


def test_it_opens_with_a_question_what_it_needs_and_gives_how_long_it_takes_and_a_picture(cells):
    opening = cells[0].source
    assert re.match(r"# \d\d [^:]+: [^\n]+\?\n", opening)
    for part in ("**You need:**", "**You will be able to:**", "**Time:**", "](images/"):
        assert part in opening


def test_it_ends_with_three_sentences_to_remember_and_where_to_go_next(cells):
    text, _, end = cells[-1].source.rpartition("**Next:**")
    remember = text.rpartition("## Remember\n")[2]
    assert len(re.findall("^- ", remember, re.MULTILINE)) == 3
    assert re.search(r"\]\([^)]+\)", end)  # a link


def test_no_cell_of_code_is_longer_than_a_screen(cells):
    lengths = [len(cell.source.splitlines()) for cell in cells if cell.cell_type == "code"]
    assert max(lengths) <= SCREEN
