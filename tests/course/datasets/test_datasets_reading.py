"""The datasets of notebook 01: a table far away, rows of a file, words, a log without end."""

import pickle
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from loaderviz.course.datasets import BulkRemoteTable, EndlessLog, RemoteTable, Tokens, TsvRows
from loaderviz.errors import LoaderVizError


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.tsv"
    frame = pd.DataFrame(
        {"n": range(10), "half": [n / 2 for n in range(10)], "name": list("ab") * 5}
    )
    frame.to_csv(path, sep="\t", index=False)
    return path


def test_a_request_for_many_rows_is_one_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    one, many = RemoteTable(10, trip_s=0.5), BulkRemoteTable(10, trip_s=0.5)
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", slept.append)
        rows = [list(DataLoader(each, batch_size=4)) for each in (one, many)]
    assert [batch.tolist() for batch in rows[0]] == [batch.tolist() for batch in rows[1]]
    assert rows[0][-1].tolist() == [8, 9]
    assert (one.trips, many.trips) == (10, 3)
    assert slept == [0.5] * 13
    assert many[-1] == 9


@pytest.mark.parametrize("make", [RemoteTable, BulkRemoteTable])
def test_a_row_out_of_range_is_an_index_error_and_no_trip(make: Any) -> None:
    table = make(3, 0)
    with pytest.raises(IndexError, match="index 3 is out of range"):
        table[3]
    if make is BulkRemoteTable:
        with pytest.raises(IndexError, match="index -4 is out of range"):
            table.__getitems__([0, -4])
    assert table.trips == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [((-1,), "n=-1"), ((3, -0.1), "trip_s=-0.1"), ((3, float("inf")), "trip_s=inf")],
)
def test_an_impossible_table_is_refused_by_name(arguments: tuple[Any, ...], complaint: str) -> None:
    with pytest.raises(LoaderVizError, match=complaint):
        BulkRemoteTable(*arguments)


@given(chunk_rows=st.integers(1, 12))
def test_all_rows_come_in_order_whatever_the_chunk(
    tmp_path_factory: pytest.TempPathFactory, chunk_rows: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "rows.tsv"
    path.write_text("n\tname\n" + "".join(f"{n}\trow {n}\n" for n in range(10)))
    rows = list(TsvRows(path, chunk_rows))
    assert rows == [{"n": n, "name": f"row {n}"} for n in range(10)]
    assert type(rows[0]["n"]) is int


def test_the_table_is_read_as_far_as_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "large.tsv"
    path.write_text("n\n" + "0123456789\n" * 100_000)
    rows = iter(TsvRows(path, chunk_rows=100))
    assert len(list(islice(rows, 2))) == 2
    path.write_text("")  # gone, but for what was read ahead
    assert len(list(rows)) < 50_000


def test_rows_are_collated_by_column(table: Path) -> None:
    first = next(iter(DataLoader(TsvRows(table), batch_size=3)))
    assert first["n"].tolist() == [0, 1, 2]
    assert first["half"].tolist() == [0.0, 0.5, 1.0]
    assert first["name"] == ["a", "b", "a"]


def test_each_loop_reads_the_table_from_the_start(table: Path) -> None:
    rows = TsvRows(table, 3)
    assert list(rows) == list(rows)
    assert [a["n"] - b["n"] for a, b in zip(rows, rows, strict=True)] == [0] * 10


@pytest.mark.parametrize("chunk_rows", [0, 2.5])
def test_a_chunk_without_rows_is_refused(chunk_rows: Any) -> None:
    with pytest.raises(LoaderVizError, match=f"chunk_rows={chunk_rows}"):
        TsvRows("table.tsv", chunk_rows)


def test_words_come_one_by_one_across_lines(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("Wörter, one\n\n  by one\tand\nnothing else", encoding="utf-8")
    assert list(Tokens(path)) == ["wörter,", "one", "by", "one", "and", "nothing", "else"]
    assert list(Tokens(str(path))) == list(Tokens(path))


def test_the_log_is_the_same_each_time_and_does_not_end() -> None:
    log = EndlessLog()
    lines = list(islice(log, 2000))
    assert lines == list(islice(log, 2000))
    assert [int(line.split()[0]) for line in lines] == list(range(2000))
    assert len({line.split(maxsplit=1)[1] for line in lines}) == 4
    assert not hasattr(log, "__len__")


def test_they_survive_pickling_with_all_their_settings() -> None:
    for dataset in [RemoteTable(3, 0.5), BulkRemoteTable(3), TsvRows("a", 7), Tokens("b")]:
        copy = pickle.loads(pickle.dumps(dataset))
        assert vars(copy) == vars(dataset)
        assert repr(copy) == repr(dataset)
    assert repr(pickle.loads(pickle.dumps(EndlessLog()))) == "EndlessLog()"
