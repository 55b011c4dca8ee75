"""A trace for other programs: the CSV tables, and `loaderviz export`."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import loaderviz as lv
from loaderviz import LoaderVizError, Trace
from loaderviz.export import export_csv
from loaderviz.trace.unread_samples import UnreadSamples
from traces import made, recorded


def test_csv_tables_hold_what_the_trace_does(tmp_path, monkeypatch):
    monkeypatch.setattr(export_csv, "ROWS_AT_ONCE", 2000)
    trace = recorded(5000)
    trace.batches.loc[3, "delivered_s"] = np.nan
    export_csv.write(trace, tmp_path / "out")
    for name in export_csv.TABLES:
        expected = getattr(trace, name)
        if len(expected):
            found = pd.read_csv(tmp_path / "out" / f"{name}.csv")
            known = [c for c in expected if not expected[c].isna().all()]
            pd.testing.assert_frame_equal(found[known], expected[known], check_dtype=False)


def test_the_samples_of_many_ranks_are_written_rank_by_rank(tmp_path):
    for rank in range(2):
        replace(made(rank=rank), meta={"rank": rank, "started": [rank, rank]}).save(
            tmp_path / f"rank-{rank:05d}.parquet"
        )
    trace = lv.load(tmp_path)
    paths = export_csv.write(trace, tmp_path / "csv")
    assert isinstance(vars(trace)["samples"], UnreadSamples)  # never all in memory
    assert len(pd.read_csv(paths[1])) == len(trace.samples) == 16


def test_an_empty_table_has_its_header(tmp_path):
    export_csv.write(Trace.from_columns(), tmp_path)
    assert list(pd.read_csv(tmp_path / "spans.csv")) == list(Trace.from_columns().spans)


def test_keys_and_names_of_every_kind_are_text(tmp_path):
    keys = ['a,"b"', "two\nlines", "half \ud800", ("a", 1), 2**70, None, ""]
    trace = Trace.from_columns(samples={"key": keys}, spans={"name": ["a=1", ";'"]})
    export_csv.write(trace, tmp_path)
    found = pd.read_csv(tmp_path / "samples.csv", keep_default_na=False)["key"].tolist()
    assert found == ['a,"b"', "two\nlines", "half ?", "('a', 1)", str(2**70), "", ""]
    assert pd.read_csv(tmp_path / "spans.csv")["name"].tolist() == ["a=1", ";'"]


def test_no_text_is_a_formula_and_numbers_stay_numbers(tmp_path):
    names = ["=1+1", "+1", "-1", "@a", "\t=1", "\r=1", "'=1", "a"]
    trace = Trace.from_columns(samples={"key": [-1, -0.5, "-1"]}, spans={"name": names})
    export_csv.write(trace, tmp_path)
    cells = pd.read_csv(tmp_path / "spans.csv", lineterminator="\n")["name"].tolist()
    assert cells == [*(f"'{name}" for name in names[:-1]), "a"]
    keys = pd.read_csv(tmp_path / "samples.csv", dtype=str)["key"].tolist()
    assert keys == ["-1", "-0.5", "'-1"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(LoaderVizError, match="cannot make the folder"):
        export_csv.write(made(), tmp_path / "file")


class TestCommand:
    @pytest.fixture
    def saved(self, tmp_path):
        path = tmp_path / "run.parquet"
        replace(made(batches=6), meta={"started": [0, 10**18]}).save(path)
        return path

    def test_to_perfetto_beside_the_trace(self, loaderviz, saved):
        done = loaderviz("export", saved, "--to", "perfetto")
        assert (done.code, done.err) == (0, "")
        assert done.out.strip() == str(saved.with_name("run.json.gz"))

    def test_to_perfetto_with_a_profile(self, loaderviz, saved, tmp_path):
        event = {"ph": "X", "name": "op", "pid": 1, "tid": 1, "ts": 0.0, "dur": 10**7}
        profile = {"baseTimeNanoseconds": 10**18, "traceEvents": [event]}
        (tmp_path / "profile.json").write_text(json.dumps(profile))
        out = tmp_path / "both.json"
        done = loaderviz(
            "export", saved, "--to", "perfetto", "--with", tmp_path / "profile.json", "--out", out
        )
        assert done.code == 0, done.err
        assert json.loads(out.read_text())["traceEvents"][0] == event

    def test_to_csv(self, loaderviz, saved, tmp_path):
        done = loaderviz("export", saved, "--to", "csv", "--out", tmp_path / "tables")
        assert done.code == 0, done.err
        names = [f"{name}.csv" for name in export_csv.TABLES]
        assert done.out.split() == [str(tmp_path / "tables" / name) for name in names]
        assert len(pd.read_csv(tmp_path / "tables" / "samples.csv")) == 12

    def test_what_cannot_be_is_one_line_and_bad_input(self, loaderviz, saved, tmp_path):
        for options in (
            ["--to", "csv", "--with", tmp_path / "profile.json"],
            ["--to", "perfetto", "--with", tmp_path / "nothing.json"],
            ["--to", "perfetto", "--out", tmp_path / "nowhere" / "t.json"],
        ):
            done = loaderviz("export", saved, *options)
            assert done.code == 2
            assert len(done.err.splitlines()) == 1
        assert loaderviz("export", saved, "--to", "nonsense").code == 2
