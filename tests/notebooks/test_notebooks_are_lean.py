"""Committed notebooks are lean: source, text, and only such outputs as nbval compares."""

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from loaderviz.course.cell_outputs import FoldedText

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))

# Anything more, such as widget state or the Python version, changes with every machine and run.
METADATA = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
}
MAX_BYTES = 150_000
FOLDED = '<details class="loaderviz-guess">'  # what guess_first() makes of printed text
# The same as in `make strip`. Cell ids stay, or every new cell would renumber those below it.
VERIFY = [sys.executable, "-m", "nbstripout", "--verify"]
VERIFY += ["--keep-count", "--keep-id", "--extra-keys", "metadata.language_info"]


def problems(path: Path) -> list[str]:
    """All that keeps this notebook from being lean, worst first."""
    found = []
    if (size := path.stat().st_size) > MAX_BYTES:
        found.append(f"{size} bytes: more than {MAX_BYTES}")
    notebook = nbformat.read(path, as_version=4)
    if notebook.metadata != METADATA:
        found.append(f"metadata {sorted(notebook.metadata)}: should be just {json.dumps(METADATA)}")
    # JupyterLab gives an empty cell no number when it runs the others.
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    for position, cell in enumerate(code, start=1):
        where = f"code cell {position}"
        if cell.execution_count not in (None, position):
            found.append(f"{where}: run as number {cell.execution_count}, not from top to bottom")
        if cell.outputs:
            found += [f"{where}: {problem}" for problem in _output_problems(cell)]
    return found


def _output_problems(cell: nbformat.NotebookNode) -> list[str]:
    tags = cell.metadata.get("tags", [])
    found = []
    if "keep_output" not in tags:
        found.append("has an output but no keep_output tag")
    if "nbval-check-output" not in tags and "# NBVAL_CHECK_OUTPUT" not in cell.source:
        found.append("has an output that nbval does not compare (nbval-check-output)")
    for output in cell.outputs:
        # stderr differs by machine, and so does a traceback.
        if output.output_type == "stream":
            kinds = {output.name}
        else:
            data = output.get("data", {"traceback": None})
            kinds = set(data)
            if data.get("text/html", "").startswith(FOLDED):
                kinds -= {"text/html"}
        found += [f"keeps {kind}" for kind in sorted(kinds - {"stdout", "text/plain"})]
    return found


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_lean(path):
    assert problems(path) == []


def kept(output: nbformat.NotebookNode, *, source="x", tags=("keep_output", "nbval-check-output")):
    return new_code_cell(source, metadata={"tags": list(tags)}, outputs=[output])


def write(folder: Path, *cells: nbformat.NotebookNode, **metadata: object) -> Path:
    path = folder / "built.ipynb"
    nbformat.write(new_notebook(cells=list(cells), metadata=METADATA | metadata), path)
    return path


PRINTED = new_output("stream", text="[0, 1]\n")
ANSWER = FoldedText("[0, 1]")
FOLDED_ANSWER = new_output(
    "display_data", data={"text/plain": repr(ANSWER), "text/html": ANSWER._repr_html_()}
)


def test_a_lean_notebook_passes(tmp_path):
    path = write(
        tmp_path,
        new_markdown_cell("# Title"),
        kept(PRINTED),
        kept(FOLDED_ANSWER),
        new_code_cell(""),
        kept(new_output("execute_result", data={"text/plain": "3"}), source="# NBVAL_CHECK_OUTPUT"),
        new_code_cell("figure"),
    )
    assert problems(path) == []


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        (new_code_cell("x", outputs=[PRINTED]), "no keep_output tag"),
        (kept(PRINTED, tags=["keep_output"]), "nbval does not compare"),
        (kept(new_output("stream", name="stderr", text="warning")), "keeps stderr"),
        (kept(new_output("error", ename="E", evalue="", traceback=[])), "keeps traceback"),
        *[
            (kept(new_output("display_data", data={mime: ""})), f"keeps {mime}")
            for mime in [
                "application/vnd.jupyter.widget-view+json",
                "application/vnd.plotly.v1+json",
                "image/png",
                "text/html",
            ]
        ],
        (new_code_cell("x", execution_count=7), "run as number 7"),
        (new_code_cell("x" * MAX_BYTES), "more than"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_fat_cell_is_caught(tmp_path, cell, problem):
    assert any(problem in found for found in problems(write(tmp_path, cell)))


@pytest.mark.parametrize("key", ["widgets", "language_info"])
def test_fat_metadata_is_caught(tmp_path, key):
    path = write(tmp_path, **{key: {"name": "python"}})
    assert any(key in problem for problem in problems(path))


@pytest.mark.slow
def test_nbstripout_would_change_what_is_not_lean_and_nothing_else(tmp_path):
    fat = write(tmp_path, language_info={"name": "python"})
    command = [*VERIFY, NOTEBOOKS[0], fat]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [f"Dry run: would have stripped {fat}"], "run `make strip`"
