"""Names and paths of strangers do not command the terminal that they are printed on."""

from dataclasses import replace

import pytest

from loaderviz import LoaderVizError
from loaderviz._compare import compare
from traces import made

CLEAR = "\x1b[2J\x07"


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / f"run{CLEAR}.parquet"
    made(batches=12).save(path)
    return path


@pytest.mark.parametrize("to", ["csv", "perfetto"])
def test_of_exported_files(to, saved, loaderviz):
    done = loaderviz("export", saved, "--to", to)
    assert done.code == 0
    assert "\\x1b[2J" in done.out
    assert not set(done.out) & set("\x1b\x07")


def test_of_a_report(saved, tmp_path, loaderviz):
    done = loaderviz("report", saved, "--out", tmp_path / f"{CLEAR}.html")
    assert done.code == 0
    assert "\\x1b[2J" in done.out
    assert "\x1b" not in done.out


def test_in_a_summary_and_a_comparison():
    meta = {"loaders": [{"dataset": CLEAR}, {}], "problems": [CLEAR], "host": CLEAR}
    trace = replace(made(batches=12), meta=meta)
    for text in (str(trace.summary()), str(compare(trace, made(batches=12)))):
        assert "\\x1b[2J" in text
        assert "\x1b" not in text


def test_in_an_error():
    assert str(LoaderVizError(f"a\n{CLEAR}")) == "a\n\\x1b[2J\\x07"
