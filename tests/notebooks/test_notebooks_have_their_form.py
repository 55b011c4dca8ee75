"""Every notebook opens, ends and reads as its reader has learnt from the others."""

import itertools
import re
import runpy
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
SHARED_AXIS = r"same\s+time\s+axis|axis\s+is\s+the\s+same"
# As Markdown has it, or with a width: a screen has no room for it as wide as the page.
PICTURE = re.compile(r"""!\[([^\]]*)\]\(([^)]+)\)|<img width="\d+" src="([^"]+)" alt="([^"]+)">""")
SCREEN = 30  # lines of code that a laptop shows at once, with some of the text above


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def cells(request) -> list:
    return nbformat.read(request.param, as_version=4).cells


def test_it_opens_with_a_question_what_it_needs_and_gives_how_long_it_takes_and_a_picture(cells):
    opening = cells[0].source
    assert re.match(r"# \d\d [^:]+: [^\n]+\?\n", opening)
    for part in ("**You need:**", "**You will be able to:**", "**Time:**", 'src="images/'):
        assert part in opening


def test_it_ends_with_three_sentences_to_remember_and_where_to_go_next(cells):
    text, _, end = cells[-1].source.rpartition("**Next:**")
    remember = text.rpartition("## Remember\n")[2]
    assert len(re.findall("^- ", remember, re.MULTILINE)) == 3
    assert re.search(r"\]\([^)]+\)", end)  # a link


def test_no_cell_of_code_is_longer_than_a_screen(cells):
    lengths = [len(cell.source.splitlines()) for cell in cells if cell.cell_type == "code"]
    assert max(lengths) <= SCREEN


def code_after(cells, at):
    """The cells of code between a text and the next."""
    return itertools.takewhile(lambda cell: cell.cell_type == "code", cells[at + 1 :])


def test_pictures_are_described_and_there(cells):
    pictures = [
        found
        for cell in cells
        if cell.cell_type == "markdown"
        for found in PICTURE.findall(cell.source)
    ]
    assert pictures
    for description, path in ((drawn or told, at or path) for drawn, path, at, told in pictures):
        assert len(description) > 40
        assert (NOTEBOOKS[0].parent / path).is_file()


def promises(cell) -> dict[str, list[str]]:
    """What the text beside a cell says of its figures; see tests/browser/promised_figures.py."""
    return cell.metadata.get("loaderviz", {})


def test_what_is_promised_of_figures_can_be_looked_up(cells):
    names = {cell.id for cell in cells if cell.cell_type == "code"}
    for cell in cells:
        assert promises(cell).keys() <= {"compared_with", "title_says", "title_never_says"}
        assert cell.id in names or not promises(cell)
        assert all(isinstance(each, list) and each for each in promises(cell).values())
        assert set(promises(cell).get("compared_with", ())) <= names


def test_figures_that_the_text_puts_on_one_axis_promise_that(cells):
    for at, cell in enumerate(cells):
        if cell.cell_type == "markdown" and re.search(SHARED_AXIS, cell.source):
            beside = [*code_after(cells, at), *code_after(cells[::-1], len(cells) - 1 - at)]
            assert any("compared_with" in promises(each) for each in beside), cell.source


def test_the_diagram_of_the_queues_is_what_its_script_draws_in_the_words_of_the_notebooks():
    images = NOTEBOOKS[0].parent / "images"
    diagram = (images / "queues.svg").read_text()
    assert diagram == runpy.run_path(str(images / "queue_diagram.py"))["svg"]()
    words = re.findall(">([^<>]+)</text>", diagram)
    for place in ("sampler", "index queues", "workers", "result queue", "buffer", "consumer"):
        assert place in words


def test_the_marks_of_a_timeline_are_explained_once(cells):
    draws = [cell for cell in cells if re.search(r"\btimeline\(|plot_timings\(", cell.source)]
    legends = [cell for cell in cells if "](images/marks.svg)" in cell.source]
    assert len(legends) <= 1
    assert legends or not any(cell.cell_type == "code" for cell in draws)
