"""``%load_ext loaderviz`` in a kernel: what a cell shows, keeps and raises."""

from types import SimpleNamespace

import nbformat
import pytest
from nbclient import NotebookClient

FIGURE = "application/vnd.plotly.v1+json"
# Run one after the other in one kernel, as a reader does.
CELLS = {
    "load": "%load_ext loaderviz",
    "recorded": """%%loaderviz run
from torch.utils.data import DataLoader
loader = DataLoader(range(8), batch_size=4)
batches = list(loader)
len(batches)""",
    "its names": "print(len(batches), len(run.batches), sorted(run.batches['n_samples']))",
    "without a name": "%%loaderviz\nfor batch in loader: pass",
    "an error": "%%loaderviz broken\nfor batch in loader:\n    1 / 0",
    "before the error": "print(len(broken.batches))",
    "our own error": "%%loaderviz\nimport loaderviz\nloaderviz.load('nowhere')",
    "no loader": "%%loaderviz\nx = 1",
    "no Python": "%%loaderviz\nfor",
    "a wrong name": "%%loaderviz two names\nran = True",
    "what did not run": "'ran' in globals()",
    "recorded already": """import loaderviz
with loaderviz.record(loader) as outer:
    get_ipython().run_cell_magic("loaderviz", "inner", "list(loader)")
print(len(outer.trace.batches), len(inner.batches))""",
    "the doctor": "%loaderviz_doctor loader",
    "the doctor of nothing": "%loaderviz_doctor",
    "the doctor of a number": "%loaderviz_doctor 3",
    "the doctor of nobody": "%loaderviz_doctor nobody",
}


def _said(outputs):
    """Which outputs a cell has: its texts, its kinds of output, and its error."""
    texts = [each.get("text") or each.get("data", {}).get("text/plain", "") for each in outputs]
    return SimpleNamespace(
        text="\n".join(texts),
        kinds={kind for each in outputs for kind in each.get("data", {})},
        error=next((each for each in outputs if each["output_type"] == "error"), None),
    )


@pytest.fixture(scope="module")
def cells():
    """What each cell showed, by its name in ``CELLS``."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    )
    NotebookClient(notebook, allow_errors=True, timeout=120).execute()
    return {name: _said(cell.outputs) for name, cell in zip(CELLS, notebook.cells, strict=True)}


def test_the_loaders_of_a_cell_are_recorded_and_drawn(cells):
    assert FIGURE in cells["recorded"].kinds
    assert cells["its names"].text == "2 2 [4, 4]\n"


def test_the_value_of_the_last_line_is_shown_as_ever(cells):
    assert cells["recorded"].text.startswith("2\n")


def test_a_loader_of_an_earlier_cell_is_recorded_too(cells):
    assert FIGURE in cells["without a name"].kinds


def test_an_error_of_the_cell_is_its_own_and_what_came_before_it_is_kept(cells):
    error = cells["an error"].error
    assert error.ename == "ZeroDivisionError"
    assert "1 / 0" in "".join(error.traceback)  # the line of the cell
    assert FIGURE in cells["an error"].kinds
    assert int(cells["before the error"].text) >= 1


def test_an_error_of_our_own_family_is_not_taken_for_a_wrong_use(cells):
    assert cells["our own error"].error.ename == "LoaderVizError"


def test_a_cell_without_a_loader_says_so(cells):
    assert "no DataLoader was iterated" in cells["no loader"].text


def test_a_cell_that_is_no_python_is_a_syntax_error(cells):
    assert cells["no Python"].error.ename == "SyntaxError"


def test_what_is_no_name_for_the_trace_is_refused_before_anything_runs(cells):
    assert "UsageError: %%loaderviz two names: give a name" in cells["a wrong name"].text
    assert cells["what did not run"].text == "False"


def test_inside_a_recording_of_the_same_loader_both_record_it(cells):
    assert cells["recorded already"].text.endswith("2 2\n")


def test_the_doctor_of_a_loader_is_shown(cells):
    assert "text/html" in cells["the doctor"].kinds


@pytest.mark.parametrize(
    ("cell", "said"),
    [("the doctor of nothing", "give a DataLoader"), ("the doctor of a number", "DataLoader")],
)
def test_the_doctor_of_no_loader_says_what_to_give(cells, cell, said):
    assert cells[cell].text.startswith("UsageError: ")
    assert said in cells[cell].text


def test_the_doctor_of_a_wrong_expression_raises_what_that_raises(cells):
    assert cells["the doctor of nobody"].error.ename == "NameError"
