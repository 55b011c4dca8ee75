"""What readers read is English as it is spoken, with one word for one thing (docs/words.md)."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MODULES = sorted((ROOT / "loaderviz").rglob("*.py"))
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(
        path for suffix in ("html", "md") for path in (ROOT / "loaderviz").rglob(f"*.{suffix}")
    ),
]
SCRIPTS = sorted((ROOT / "loaderviz").rglob("*.js"))

# A turn that nobody says, or a word for which there is another; and a sentence that has it.
TURNS = {
    r"\btogether to (a|one) batch\b": "Collate puts samples together to a batch.",
    r"\btakes so many\b": "`islice` takes so many batches.",
    r"\ball is (twice|once)\b": "All is twice, both times.",
    r"\bin many an? ": "This function stands in many a project.",
    r"\bfillings?\b": "Half of the batch is filling.",
    r"\b(\d+|one|two|three) advices?\b|\badvices\b": "Found: 1 error, 1 advice.",
    r"\bfetch requests?\b": "The fetch request goes to worker 1.",
    r"\breorder(ing)? buffer\b": "It waits in the reorder buffer.",
    r"\bjobs?\b": "Each worker takes a job from its queue.",
    r"\bthe device steps\b": "The device steps 53 % of the time.",
    r"\bhalf of it, and all\b": "Half of it, and all would take 46 % less time.",
    r"\bstands? in line\b": "Workers stand in line for a CPU.",
    r"\bby means of (its|their) own\b": "It loads by means of its own.",
    r"\bset otherwise\b": "What was set otherwise:",
}


def turns_in(text: str) -> list[str]:
    """The turns in a text, each with what is around it."""
    plain = re.sub(r"\s+", " ", text)
    return [
        plain[max(0, found.start() - 30) : found.end() + 30]
        for turn in TURNS
        for found in re.finditer(turn, plain, re.IGNORECASE)
    ]


@pytest.mark.parametrize("turn", TURNS)
def test_each_turn_is_refused(turn):
    assert turns_in(TURNS[turn]), turn


def test_what_is_said_in_english_is_not():
    said = "Collate puts samples together into a batch. What happens to a batch? Good advice."
    assert turns_in(said) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_have_none(path):
    for cell in nbformat.read(path, as_version=4).cells:
        texts = [cell.source] if cell.cell_type == "markdown" else printed(cell)
        assert [turn for text in texts for turn in turns_in(text)] == []


def printed(cell) -> list[str]:
    """The texts among a cell's outputs."""
    return [
        output.get("text", "") + output.get("data", {}).get("text/html", "")
        for output in cell.get("outputs", ())
    ]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_have_none(path):
    assert turns_in(path.read_text("utf-8")) == []


def test_messages_of_the_package_have_none():
    found = {path.name: turns_in("\n".join(messages(path))) for path in MODULES}
    assert {name: turns for name, turns in found.items() if turns} == {}


def messages(path: Path) -> list[str]:
    """The strings of a module that may be shown: all that have a space, docstrings aside."""
    tree = ast.parse(path.read_text("utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented)
        and ast.get_docstring(node, clean=False)
        and not is_command(path)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and " " in node.value
        and id(node) not in docstrings
    ]


def is_command(path: Path) -> bool:
    """Whether its docstrings are what --help prints."""
    return path.parent.name == "cli"


def test_scripts_of_pages_have_none():
    found = {path.name: turns_in(" ".join(texts_of(path))) for path in SCRIPTS}
    assert {name: turns for name, turns in found.items() if turns} == {}


def texts_of(path: Path) -> list[str]:
    without_comments = re.sub(r"(^|\s)//.*", "", path.read_text("utf-8"))
    return re.findall(r"[\"'`]([^\"'`\n]+)[\"'`]", without_comments)


def test_the_glossary_explains_the_words_that_the_notebooks_use():
    words = (ROOT / "docs" / "words.md").read_text("utf-8")
    rows = re.findall(r"^\| ([a-z][^|]+) \|", words, re.MULTILINE)
    explained = {word for row in rows for word in row.strip().split(", ")} - {"word"}
    needed = {"sample", "batch", "task", "index queue", "result queue", "buffer", "worker"}
    assert needed | {"consumer", "padding", "shard", "stream", "rank", "epoch"} <= explained
