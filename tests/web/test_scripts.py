"""The scripts of figures and widgets, read: what none of them may do, as a page may die of it."""

import re
from pathlib import Path

import pytest

import loaderviz

ROOT = Path(loaderviz.__file__).parent
SCRIPTS = sorted(ROOT.rglob("*.js"))
SIZES = ROOT / "web" / "sizes.js"

# Makes the browser lay out the element at once, also where it shows nothing of it.
LAYS_OUT = re.compile(
    r"\b(?:client|offset|scroll)(?:Width|Height|Left|Top)\b|getBoundingClientRect|getClientRects"
    r"|new ResizeObserver|innerText|getComputedStyle\((?!document\.body\))"
)
# Kills Chromium's renderer, asked of a text in a cell that JupyterLab does not render.
OF_TEXT = re.compile(
    r"getComputedTextLength|getSubStringLength|getNumberOfChars|getBBox|\w+OfChar\b|getCharNum"
)


def without_comments(path: Path) -> str:
    return re.sub(r"//.*", "", path.read_text("utf-8"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_none_asks_the_page_how_long_a_text_is(path):
    assert OF_TEXT.findall(without_comments(path)) == []


@pytest.mark.parametrize("path", [each for each in SCRIPTS if each != SIZES], ids=lambda p: p.name)
def test_sizes_are_asked_for_in_one_place(path):
    assert LAYS_OUT.findall(without_comments(path)) == []


def test_that_place_is_where_they_are_asked_for():
    assert len(LAYS_OUT.findall(without_comments(SIZES))) >= 5
