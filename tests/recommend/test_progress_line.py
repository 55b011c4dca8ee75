"""The line that says what runs: in a terminal, wiped out at the end; in a file there is none."""

import io
import time

import pytest

from loaderviz._recommend.progress_line import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "disabled", "shown"),
    [(Terminal(), "", True), (Terminal(), "1", False), (io.StringIO(), "", False)],
)
def test_it_is_shown_where_it_can_be_wiped_out(stream, disabled, shown, monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", disabled)
    monkeypatch.setattr("sys.stdout", stream)
    with ProgressLine(time.monotonic(), 30.0) as progress:
        progress.show("4 workers")
    lines = stream.getvalue().split("\r")
    assert any(line.strip() == "recommend: 0 of 30 s, 4 workers" for line in lines) == shown
    assert not lines[-1].strip()
    assert (stream.getvalue() == "") != shown
