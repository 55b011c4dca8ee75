"""The line that says how far something is: where it can be wiped out, and gone at the end."""

import io
import sys
from types import SimpleNamespace

import IPython
import pytest

from loaderviz import status_line
from loaderviz.status_line import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(status_line, "SHOW_AFTER_S", 0.0)
    monkeypatch.setattr(status_line, "EVERY_S", 0.0)
    monkeypatch.delenv("TQDM_DISABLE", raising=False)


def counts():
    with Progress("epoch 0", "batches", 2) as progress:
        progress.advance()
        progress.advance()


@pytest.mark.parametrize(
    ("stream", "disabled", "shown"),
    [(Terminal(), "", True), (Terminal(), "1", False), (io.StringIO(), "", False)],
)
def test_it_is_shown_where_it_can_be_wiped_out(stream, disabled, shown, monkeypatch):
    stream.seek(0)
    stream.truncate()
    monkeypatch.setenv("TQDM_DISABLE", disabled)
    monkeypatch.setattr(sys, "stderr", stream)
    counts()
    lines = stream.getvalue().split("\r")
    said = "epoch 0: 2 of 2 batches, 0 s left"
    assert any(line.strip() == said for line in lines) == shown
    assert not lines[-1].strip()
    assert (stream.getvalue() == "") != shown


def test_of_steps_without_a_number_only_those_done_are_told(monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with Progress("reading", "samples") as progress:
        progress.advance()
    assert "reading: 1 samples" in stream.getvalue()


def test_what_is_over_soon_shows_nothing(monkeypatch):
    monkeypatch.setattr(status_line, "SHOW_AFTER_S", 60.0)
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    counts()
    assert not stream.getvalue().strip()


def test_in_a_notebook_it_is_a_text_that_is_gone_at_the_end(monkeypatch):
    """And no widget: of one that is closed, a notebook that is opened again reports an error."""
    shown = []
    handle = SimpleNamespace(update=lambda data, raw: shown.append(data))
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(kernel="one"))
    monkeypatch.setattr(
        "IPython.display.display", lambda data, **how: (shown.append(data), handle)[1]
    )
    counts()
    assert "epoch 0: 1 of 2 batches" in shown[0]["text/plain"]
    assert shown[-1] == {"text/html": ""}
    assert all(set(each) <= {"text/plain", "text/html"} for each in shown)
