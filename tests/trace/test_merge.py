"""A folder with the recordings of many ranks, opened as one trace."""

import copy
import dataclasses
import json
import pickle
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from torch.utils.data import DataLoader

import loaderviz as lv
from damage import rewrite_parquet
from loaderviz import machine, schema
from traces import made

S = 1_000_000_000
LOADER = {"kind": "map", "batch_size": 2, "num_workers": 2}


def of_rank(rank, *, started_s=10.0, wall_s=1000.0, **meta):
    known = {
        "rank": rank,
        "world_size": 2,
        "host": "a",
        "clock_domain": "boot a",
        "started": [round(started_s * S), round(wall_s * S)],
        "loaders": [LOADER],
        "complete": True,
        "problems": [],
        "left_out": 0,
        "cpu_allowance": 2.0,
    }
    return dataclasses.replace(made(rank=rank), meta=known | meta)


def elsewhere(rank, host, measured, **times):
    """Of another machine, whose clock was measured to be so far from that of a: (s, ± ns)."""
    clock = None
    if measured is not None:
        offset_ns, uncertainty_ns = round(measured[0] * S), measured[1]
        clock = {"reference": "a", "offset_ns": offset_ns, "uncertainty_ns": uncertainty_ns}
    return of_rank(rank, host=host, clock_domain=f"boot {host}", clock=clock, **times)


@pytest.fixture
def folder(tmp_path):
    def put(*traces, names=None):
        run = tmp_path / "run"
        run.mkdir()
        for number, trace in enumerate(traces):
            name = names[number] if names else f"rank-{trace.meta['rank']:05d}"
            trace.save(run / f"{name}.parquet")
        return run

    return put


def first_request(trace, rank):
    return trace.batches[trace.batches["rank"] == rank]["requested_s"].iloc[0]


class TestTables:
    def test_every_row_of_every_rank_is_there(self, folder):
        traces = [of_rank(0), of_rank(1)]
        merged = lv.load(folder(*traces))
        for name in ("batches", "samples", "workers", "spans"):
            expected = pd.concat([getattr(each, name) for each in traces], ignore_index=True)
            pd.testing.assert_frame_equal(getattr(merged, name), expected)
        assert merged.samples["key"].dtype == np.int64

    def test_samples_are_read_when_they_are_asked_for(self, folder, monkeypatch):
        merged = lv.load(folder(of_rank(0), of_rank(1)))
        monkeypatch.setattr(machine, "memory_available_bytes", lambda: 1000)
        assert merged.n_sample_rows == 16
        merged.summary()
        with pytest.raises(lv.LoaderVizError, match=r"16 samples of 2 recordings take .* memory"):
            merged.samples  # noqa: B018
        parts = list(merged.sample_parts())
        monkeypatch.undo()
        pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), merged.samples)

    def test_ranks_are_picked_without_reading_the_others(self, folder):
        run = folder(of_rank(0), of_rank(1))
        merged = lv.load(run)
        (run / "rank-00000.parquet").unlink()
        picked = merged.of_ranks([1])
        assert set(picked.batches["rank"]) == set(picked.samples["rank"]) == {1}
        assert picked.summary() == of_rank(1).summary()
        with pytest.raises(lv.LoaderVizError, match="rank-00000"):
            merged.samples  # noqa: B018
        nothing = merged.of_ranks([])
        assert len(nothing.batches) == len(nothing.samples) == nothing.n_sample_rows == 0
        assert list(nothing.samples) == [*schema.SAMPLES]

    def test_what_was_not_read_stays_so_in_copies_and_in_the_only_loader(self, folder):
        run = folder(of_rank(0), of_rank(1))
        merged = lv.load(run)
        others = [copy.copy(merged), pickle.loads(pickle.dumps(merged)), merged.of_loader(0)]
        assert [each.n_sample_rows for each in others] == [16, 16, 16]
        for path in run.iterdir():
            path.unlink()
        for each in others:
            with pytest.raises(lv.LoaderVizError, match="rank-00000"):
                each.samples  # noqa: B018  # reads them

    def test_a_large_timeline_reads_no_samples_but_those_of_ranks_that_failed(
        self, folder, monkeypatch
    ):
        monkeypatch.setattr(
            import_module("loaderviz.figures.timelines.timeline"), "MOST_SAMPLES", 10
        )
        failing = of_rank(1)
        failing.batches.loc[3, ["state", "delivered_s"]] = ["failed", np.nan]
        failing.samples.loc[7, "end_s"] = np.nan
        run = folder(of_rank(0), failing)
        merged = lv.load(run)
        (run / "rank-00000.parquet").unlink()
        crosses = [each for each in lv.timeline(merged).data if each["name"] == "failed"]
        assert len(crosses[0]["x"]) == 1

    def test_where_the_keys_of_one_rank_are_texts_they_stay_what_they_are(self, folder):
        named = of_rank(1)
        named = dataclasses.replace(named, samples=named.samples.assign(key=list("abcdefgh")))
        keys = lv.load(folder(of_rank(0), named)).samples["key"]
        assert keys.tolist() == [*range(8), *"abcdefgh"]

    def test_a_second_recording_of_a_rank_has_loaders_of_its_own(self, folder):
        again = of_rank(1, started_s=90.0, loaders=[{**LOADER, "batch_size": 7}])
        two = of_rank(1, loaders=[LOADER, LOADER])
        run = folder(of_rank(0), two, again, names=["rank-00000", "rank-00001", "rank-00001-1"])
        merged = lv.load(run)
        found = merged.batches.groupby("rank")["loader"].unique().map(list).to_dict()
        assert found == {0: [0], 1: [0, 2]}
        assert set(merged.samples["loader"]) == set(merged.workers["loader"]) == {0, 2}
        assert [each["batch_size"] for each in merged.meta["loaders"]] == [2, 2, 7]
        assert [each["first_loader"] for each in merged.meta["ranks"]] == [0, 0, 2]

    def test_it_is_saved_and_opened_as_one_file(self, folder, tmp_path):
        merged = lv.load(folder(of_rank(0), of_rank(1, started_s=11.5)))
        merged.save(tmp_path / "whole.parquet")
        again = lv.load(tmp_path / "whole.parquet")
        for name in ("batches", "samples", "workers", "spans"):
            pd.testing.assert_frame_equal(getattr(again, name), getattr(merged, name))
        assert again.meta == merged.meta
        assert again.summary() == merged.summary()


FAR_OFF = {"started_s": 18.0, "wall_s": 5e3}


class TestTime:
    def test_on_one_clock_it_is_exact_and_begins_with_the_earliest(self, folder):
        later = of_rank(0, started_s=12.5)
        later.batches["cpu_s"] = 0.25  # what took as long takes as long
        merged = lv.load(folder(later, of_rank(1, started_s=10.0)))
        assert set(merged.batches["cpu_s"].dropna()) == {0.25}
        about = {each["rank"]: each for each in merged.meta["ranks"]}
        assert (about[0]["offset_s"], about[1]["offset_s"]) == (2.5, 0.0)
        assert about[0]["uncertainty_s"] == about[1]["uncertainty_s"] == 0
        assert first_request(merged, 0) - first_request(merged, 1) == pytest.approx(2.5)
        assert merged.meta["started"] == [10 * S, round(997.5 * S)]

    @pytest.mark.parametrize(
        ("first", "second", "offset_s", "uncertainty_s"),
        [
            # Measured; both measured: they meet at their reference; else by wall clocks.
            (of_rank(0), elsewhere(1, "b", (-5.0, 2_000_000), **FAR_OFF), 3, 0.002),
            (elsewhere(1, "b", (1.0, 1_000)), elsewhere(2, "c", (4.0, 2_000)), 3, 3e-6),
            (of_rank(0), elsewhere(1, "b", None, started_s=7.0, wall_s=1001.25), 1.25, None),
        ],
        ids=["measured", "both", "wall clocks"],
    )
    def test_clocks_of_machines_are_as_sure_as_they_were_measured(
        self, first, second, offset_s, uncertainty_s, folder
    ):
        about = lv.load(folder(first, second)).meta["ranks"][1]
        assert about["offset_s"] == offset_s
        assert about["uncertainty_s"] == pytest.approx(uncertainty_s)


class TestWhatIsLacking:
    @pytest.mark.parametrize(
        ("harm", "why"),
        [
            (lambda path: path.write_bytes(path.read_bytes()[:2000]), "end is missing"),
            (lambda path: path.write_bytes(b""), "not a trace"),
            (
                lambda path: rewrite_parquet(path, lambda _, meta: {**meta, "started": "now"}),
                r"meta['started'] is 'now'",
            ),
        ],
        ids=["cut", "empty", "nonsense"],
    )
    def test_one_corrupt_file_is_named_and_the_rest_is_loaded(self, folder, harm, why):
        run = folder(of_rank(0), of_rank(1))
        harm(run / "rank-00001.parquet")
        merged = lv.load(run)
        assert set(merged.batches["rank"]) == set(merged.samples["rank"]) == {0}
        assert "rank-00001.parquet" in merged.meta["problems"][0]
        assert why in merged.meta["problems"][0]
        assert "no recording of rank 1, of 2" in merged.meta["problems"]
        said = str(merged.summary())
        assert "Not in it: " in said
        assert "rank-00001.parquet" in said
        assert not merged.meta["complete"]

    def test_where_all_are_corrupt_the_first_is_named(self, tmp_path):
        for rank in range(3):
            (tmp_path / f"rank-{rank:05d}.parquet").write_bytes(b"PAR1")
        with pytest.raises(lv.LoaderVizError, match=r"rank-00000.*2 others"):
            lv.load(tmp_path)

    def test_a_merged_run_beside_its_recordings_does_not_count_twice(self, folder):
        run = folder(of_rank(0), of_rank(1))
        lv.load(run).save(run / "whole.parquet")
        merged = lv.load(run)
        assert len(merged.batches) == 8
        assert "whole.parquet' is left out" in merged.meta["problems"][0]

    def test_what_was_left_out_is_added_up(self, folder):
        first, second = of_rank(0, left_out=3), of_rank(1, left_out=4, left_out_batches=2)
        merged = lv.load(folder(first, second))
        assert merged.meta["left_out"] == 7
        assert merged.meta["left_out_batches"] == 2
        assert [each["left_out_batches"] for each in merged.meta["ranks"]] == [0, 2]


class TestRecordings:
    @pytest.fixture
    def record(self, monkeypatch, tmp_path):
        def recorded(rank, *, seal=True):
            monkeypatch.setenv("RANK", str(rank))
            monkeypatch.setenv("WORLD_SIZE", "2")
            loader = DataLoader(range(6), batch_size=2)
            with monkeypatch.context() as patch:
                if not seal:  # as where its process was killed
                    patch.setattr(
                        "loaderviz.recorder.session.Recording._replace_folder", lambda *_: None
                    )
                with lv.record(loader, path=tmp_path / "run"):
                    list(loader)
            return tmp_path / "run"

        return recorded

    def test_a_rank_that_died_is_there_with_the_others(self, record):
        record(0)
        run = record(1, seal=False)
        meta = json.loads((run / "rank-00001" / "meta.json").read_text())
        assert meta["rank"] == 1
        merged = lv.load(run)
        assert merged.batches.groupby("rank").size().to_dict() == {0: 3, 1: 3}
        assert merged.samples["key"].tolist() == [*range(6)] * 2
        assert merged.samples["key"].dtype == np.int64

    def test_a_folder_beside_its_file_counts_once(self, record):
        run = record(0, seal=False)
        lv.load(run / "rank-00000").save(run / "rank-00000.parquet")
        assert len(lv.load(run).batches) == 3

    def test_a_folder_that_became_a_file_meanwhile_is_found(self, record):
        run = record(0, seal=False)
        merged = lv.load(run)
        lv.load(run / "rank-00000").save(run / "rank-00000.parquet")
        (run / "rank-00000").rename(run.with_name("gone"))
        assert merged.samples["key"].tolist() == [*range(6)]

    def test_a_recording_that_goes_on_adds_no_samples_of_batches_that_are_not_there(
        self, monkeypatch, tmp_path
    ):
        monkeypatch.setenv("WORLD_SIZE", "2")
        loader = DataLoader(range(6), batch_size=2)
        with lv.record(loader, path=tmp_path / "run"):
            batches = iter(loader)
            next(batches)
            merged = lv.load(tmp_path / "run")
            list(batches)
            assert not merged.meta["complete"]
            assert merged.samples["key"].tolist() == [0, 1]

    def test_a_rank_killed_as_it_made_its_folder_is_named(self, record):
        run = record(0)
        (run / "rank-00001").mkdir()
        assert "rank-00001" in lv.load(run).meta["problems"][0]


def test_work_that_takes_more_memory_than_is_free_is_refused_before(folder, loaderviz, monkeypatch):
    run = folder(of_rank(0), of_rank(1))
    monkeypatch.setattr(machine, "memory_available_bytes", lambda: 4000)
    assert lv.load(run).n_sample_rows == 16
    for command in (("check", run, "--exactly-once"), ("export", run, "--to", "perfetto")):
        done = loaderviz(*command)
        assert done.code == 2
        assert "16 samples takes 4.69 KiB of memory, more than is free" in done.err
    assert loaderviz("summary", run).code == 0
    assert loaderviz("check", run, "--max-wait", "1").code == 0
