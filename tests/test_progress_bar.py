"""The bar of what takes long: in a terminal or a notebook, gone at the end; in a file none."""

import sys
from types import SimpleNamespace

import IPython
import pytest

from loaderviz import progress_bar
from loaderviz.progress_bar import WHAT_IS_DONE, Progress


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(progress_bar, "SHOW_AFTER_NS", 0)


@pytest.mark.parametrize(
    ("switched_off", "terminal", "is_there"),
    [("", True, True), ("1", True, False), ("", False, False)],
)
def test_it_is_shown_in_a_terminal_unless_tqdm_is_switched_off(
    monkeypatch, capsys, switched_off, terminal, is_there
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setenv("TQDM_DISABLE", switched_off)
    with Progress("audit", "batch") as shown:
        shown.advance()
    with Progress("recommend", "s", 30, shape=WHAT_IS_DONE) as shown:
        shown.reach(12, "4 workers")
    said = capsys.readouterr().err
    assert ("audit" in said) == is_there
    assert ("recommend: 12 of 30 s, 4 workers" in said) == is_there


def test_in_a_notebook_it_is_a_text_that_is_gone_at_the_end(monkeypatch):
    """And no widget: of one that is closed, a notebook that is opened again reports an error."""
    shown = []
    handle = SimpleNamespace(update=lambda data, raw: shown.append(data))
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(kernel="one"))
    monkeypatch.setattr(
        IPython.display, "display", lambda data, **how: (shown.append(data), handle)[1]
    )
    with Progress("audit", "batch", 2) as bar:
        bar.advance()
        bar.advance()
    assert "audit" in shown[0]["text/plain"]
    assert shown[-1] == {"text/html": ""}
    assert all(set(each) <= {"text/plain", "text/html"} for each in shown)
