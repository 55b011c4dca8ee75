"""``%load_ext loaderviz`` in a kernel: what a cell shows, keeps and raises."""

from types import SimpleNamespace

import nbformat
import pytest
from nbclient import NotebookClient

FIGURE = "application/vnd.plotly.v1+json"
# Run one after the other in one kernel, as a reader does. Each with what it shows: the beginning
# or the end of its text, a part of it, a kind of output, or the name of its error.
CELLS = {
    "the extension is loaded": ("%load_ext loaderviz", {}),
    "a cell is recorded and drawn, and shows the value of its last line": (
        """%%loaderviz run
from torch.utils.data import DataLoader
loader = DataLoader(range(8), batch_size=4)
batches = list(loader)
len(batches)""",
        {"begins": "2\n", "kind": FIGURE},
    ),
    "its names are there": (
        "print(len(batches), len(run.batches), sorted(run.batches['n_samples']))",
        {"begins": "2 2 [4, 4]\n"},
    ),
    "a loader of an earlier cell is recorded too, and none needs a name": (
        "%%loaderviz\nfor batch in loader: pass",
        {"kind": FIGURE},
    ),
    "an error of the cell is its own": (
        "%%loaderviz broken\nfor batch in loader:\n    1 / 0",
        {"error": "ZeroDivisionError", "kind": FIGURE},
    ),
    "what came before it is kept": ("len(broken.batches) >= 1", {"begins": "True"}),
    "an error of our own family is not taken for a wrong use": (
        "%%loaderviz\nimport loaderviz\nloaderviz.load('nowhere')",
        {"error": "LoaderVizError"},
    ),
    "a cell without a loader says so": (
        "%%loaderviz\nx = 1",
        {"part": "no DataLoader was iterated"},
    ),
    "a cell that is no Python is a syntax error": ("%%loaderviz\nfor", {"error": "SyntaxError"}),
    "what is no name for the trace is refused": (
        "%%loaderviz two names\nran = True",
        {"part": "UsageError: %%loaderviz two names: give a name"},
    ),
    "before anything runs": ("'ran' in globals()", {"begins": "False"}),
    "inside a recording of the same loader both record it": (
        """import loaderviz
with loaderviz.record(loader) as outer:
    get_ipython().run_cell_magic("loaderviz", "inner", "list(loader)")
print(len(outer.trace.batches), len(inner.batches))""",
        {"ends": "2 2\n"},
    ),
    "the doctor of a loader is shown": ("%loaderviz_doctor loader", {"kind": "text/html"}),
    "the doctor of nothing says what to give": (
        "%loaderviz_doctor",
        {"begins": "UsageError: ", "part": "give a DataLoader"},
    ),
    "so does the doctor of a number": (
        "%loaderviz_doctor 3",
        {"begins": "UsageError: ", "part": "DataLoader"},
    ),
    "the doctor of a wrong expression raises what that raises": (
        "%loaderviz_doctor nobody",
        {"error": "NameError"},
    ),
}


def _said(outputs):
    """Which outputs a cell has: its texts, its kinds of output, and its error."""
    texts = [each.get("text") or each.get("data", {}).get("text/plain", "") for each in outputs]
    return SimpleNamespace(
        text="\n".join(texts),
        kinds={kind for each in outputs for kind in each.get("data", {})},
        error=next((each for each in outputs if each["output_type"] == "error"), None),
    )


def run_cells():
    """What each cell showed, by its name in ``CELLS``."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source, _ in CELLS.values()]
    )
    NotebookClient(notebook, allow_errors=True, timeout=120).execute()
    return {name: _said(cell.outputs) for name, cell in zip(CELLS, notebook.cells, strict=True)}


@pytest.mark.slow
def test_each_cell_shows_what_it_should():
    cells = run_cells()
    for name, (_, shown) in CELLS.items():
        said = cells[name]
        assert said.text.startswith(shown.get("begins", "")), name
        assert said.text.endswith(shown.get("ends", "")), name
        assert shown.get("part", "") in said.text, name
        assert {shown["kind"]} <= said.kinds if "kind" in shown else True, name
        assert (said.error and said.error.ename) == shown.get("error"), name
    assert "1 / 0" in "".join(cells["an error of the cell is its own"].error.traceback)
