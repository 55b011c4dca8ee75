"""An exported trace is what the trace says, and Perfetto's own trace processor reads all of it."""

import errno
import gzip
import json
import os
import time
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader

import loaderviz as lv
from loaderviz import Costs, LoaderVizError, Trace, simulate
from loaderviz.export.chrome_events import microseconds
from own_code import in_recorder
from simulation_strategies import COSTS, configurations
from trace_processor import query
from traces import LINES, made, recorded, with_lines

NASTY = ['"]}', "\\", "</script>", "a\nb", "nul \0 x", "half \ud800 pair", "☃ 🏔", "", "x" * 3000]
LOST = "select name, value from stats where value > 0 and severity in ('error', 'data_loss')"


def exported(trace, path, **options):
    trace.to_perfetto(path, **options)
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(data)


def slices(document, name):
    """Of the slices whose name begins so; in ns."""
    return [
        (each, round(each["ts"] * 1000), round((each["ts"] + each["dur"]) * 1000))
        for each in document["traceEvents"]
        if each["ph"] == "X" and each["name"].split(" ")[0] == name
    ]


def assert_sound(trace, document):
    """What holds for every trace: flows, nesting, counters, and times that are the trace's."""
    flows = Counter()
    lanes = defaultdict(list)
    counters = []
    for each in document["traceEvents"]:
        if each["ph"] == "X":
            start, took = round(each["ts"] * 1000), round(each["dur"] * 1000)
            lanes[each["pid"], each["tid"]].append((start, -took))
            assert took >= 0
            flows.update((each["bind_id"], way) for way in ("flow_in", "flow_out") if way in each)
        elif each["ph"] == "C":
            counters += each["args"].values()
    assert min(counters, default=0) >= 0
    for lane in lanes.values():
        opened = []
        for start, minus_took in sorted(lane):
            while opened and opened[-1] <= start:
                opened.pop()
            assert not opened or start - minus_took <= opened[-1], "Perfetto would leave it out"
            opened.append(start - minus_took)
    table = trace.batches
    seen = table.dropna(subset=["started_s", "requested_s", "delivered_s"])
    pinned = int(seen["pinned_s"].notna().sum())
    assert len(flows) == 2 * len(seen)
    assert flows.total() == 2 * (len(seen) + pinned)
    for name, start, end in (
        ("wait", "requested_s", "delivered_s"),
        ("collate", "collate_s", "ready_s"),
    ):
        whole = table.dropna(subset=[start, end])
        expected = np.rint(whole[[start, end]].to_numpy() * 1e9).astype(int).tolist()
        assert sorted(map(list, expected)) == sorted([s, e] for _, s, e in slices(document, name))
    steps = sorted(start for _, start, _ in slices(document, "step"))
    assert steps == sorted(np.rint(table["delivered_s"].dropna() * 1e9).astype(int))
    n_samples = len(slices(document, "sample"))
    n_samples += sum(each["args"]["n_samples"] for each, *_ in slices(document, "samples"))
    assert n_samples == int(trace.samples["start_s"].notna().sum())


class TestContent:
    @settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(COSTS, configurations(), st.booleans())
    def test_every_simulated_trace_is_sound(self, tmp_path, costs, configuration, pin_memory):
        trace = simulate(costs, **{**configuration, "pin_memory": pin_memory})
        if len(trace.batches):
            assert_sound(trace, exported(trace, tmp_path / "t.json"))

    def test_a_worker_is_a_process_under_its_own_number_and_time(self, tmp_path):
        trace = made(workers=2, batches=4)
        document = exported(trace, tmp_path / "t.json")
        assert_sound(trace, document)
        names = {e["pid"]: e["args"]["name"] for e in document["traceEvents"] if e["ph"] == "M"
                 and e["name"] == "process_name"}  # fmt: skip
        assert (names[100], names[101]) == ("worker 0", "worker 1")
        batch, start, end = slices(document, "batch")[3]
        assert (batch["name"], batch["pid"]) == ("batch 3", 101)
        assert (start, end) == (1_250_000_000, 2_250_000_000)
        assert [each["args"]["key"] for each, *_ in slices(document, "sample")] == list(range(8))

    def test_a_process_that_is_new_or_whose_number_comes_twice_is_one_of_its_own(self, tmp_path):
        batches = pd.concat([made(workers=1, batches=2).batches] * 2, ignore_index=True)
        later = batches.index >= 2
        batches.loc[later, [name for name in batches if name.endswith("_s")]] += 100
        batches.loc[later, "epoch"] = 1
        workers = {"worker": [0, 0], "pid": [7, 8], "started_s": [0.0, 100.0]}
        trace = Trace.from_columns(batches=batches, workers=workers)
        document = exported(trace, tmp_path / "t.json")
        assert [each["pid"] for each, *_ in slices(document, "batch")] == [7, 7, 8, 8]
        trace = made(workers=2)
        trace.workers["pid"] = 100  # of two machines
        document = exported(trace, tmp_path / "t.json")
        assert len({each["pid"] for each, *_ in slices(document, "batch")}) == 2

    def test_batches_of_an_epoch_that_was_left_early_do_not_stay_ready(self, tmp_path):
        times = {
            "dispatched_s": [0.0, 0.0, 5.0],
            "started_s": [0.0, 1.0, 5.0],
            "ready_s": [1.0, 2.0, 6.0],
            "requested_s": [0.0, np.nan, 5.0],
            "delivered_s": [1.5, np.nan, 6.5],
        }
        trace = Trace.from_columns(batches={"epoch": [0, 0, 1], "batch": [0, 1, 0], **times})
        document = exported(trace, tmp_path / "t.json")
        counts = [
            (each["ts"] / 1e6, each["args"]["ready"])
            for each in document["traceEvents"]
            if each["ph"] == "C"
        ]
        assert counts == [(1, 1), (1.5, 0), (2, 1), (5, 0), (6, 1), (6.5, 0)]

    def test_a_sample_whose_read_raised_is_drawn_as_far_as_its_batch_came(self, tmp_path):
        trace = made(workers=1, batches=3)
        unknown = ["collate_s", "ready_s", "requested_s", "delivered_s", "released_s"]
        trace.batches.loc[1, unknown] = np.nan
        trace.batches.loc[1, "state"] = "failed"
        trace.samples.loc[3, "end_s"] = np.nan
        document = exported(trace, tmp_path / "t.json")
        assert_sound(trace, document)
        assert slices(document, "batch")[1][0]["args"]["state"] == "failed"
        assert slices(document, "sample")[3][1:] == (1_700_000_000, 1_700_000_000)

    def test_samples_of_one_call_are_one_slice(self, tmp_path):
        trace = made(workers=1, batches=2, batch_size=3)
        for column in ("start_s", "end_s"):
            trace.samples[column] = trace.batches["started_s"].repeat(3).to_numpy()
        trace.samples["end_s"] += 0.5
        document = exported(trace, tmp_path / "t.json")
        assert_sound(trace, document)
        assert [e["args"] for e, *_ in slices(document, "samples")] == [
            {"n_samples": 3, "keys": "0, 1, 2"},
            {"n_samples": 3, "keys": "3, 4, 5"},
        ]

    def test_spans_nest_in_a_lane_beside_the_consumers_or_have_one_of_their_own(self, tmp_path):
        trace = made(workers=2, batches=4)  # steps from 1.25 on, half a second each
        spans = {
            "name": ["all", "in step 0", "across its end", "in it"],
            "start_s": [0.1, 1.3, 1.35, 1.36],
            "end_s": [9.0, 1.4, 2.4, 1.37],
        }
        trace = Trace.from_columns(batches=dict(trace.batches), spans=spans)
        document = exported(trace, tmp_path / "t.json")
        assert_sound(trace, document)
        lane = {e["name"]: e["tid"] for e in document["traceEvents"] if e["ph"] == "X"}
        assert lane["all"] == lane["in step 0"] == lane["in it"] != lane["step 0"]
        assert lane["across its end"] not in (lane["all"], lane["step 0"])

    def test_what_is_simulated_says_so(self, tmp_path):
        trace = simulate(Costs(sample_s=0.01), num_workers=2, batch_size=2, n_batches=4)
        document = exported(trace, tmp_path / "t.json")
        assert document["otherData"]["simulated"] is True
        names = [
            e["args"]["name"] for e in document["traceEvents"] if e.get("name") == "process_name"
        ]
        assert len(names) == 3
        assert all(name.endswith("(simulated)") for name in names)

    @given(st.lists(st.integers(-(2**62), 2**62), min_size=1))
    def test_times_are_written_to_the_nanosecond(self, times):
        for ns, text in zip(times, microseconds(np.array(times)).to_pylist(), strict=True):
            whole, part = text.lstrip("-").split(".")
            assert len(part) == 3
            assert (-1 if text.startswith("-") else 1) * int(whole + part) == ns


class TestPerfettoReadsIt:
    """Asked of Perfetto's own trace processor."""

    def test_a_recording_with_names_of_every_kind(self, tmp_path):
        class Named(torch.utils.data.Dataset):
            def __getitem__(self, key):
                return 0

        keys = [*NASTY, 2**70, -1, 1.5, float("nan"), None, ("a", 1), ["b"], True, 7]
        loader = DataLoader(Named(), sampler=keys, batch_size=3, num_workers=2)
        with lv.record(loader, label='la"bel\ud800') as rec:
            for i, _ in enumerate(loader):
                with lv.span(NASTY[i % len(NASTY)]):
                    pass
        trace = rec.trace
        path = tmp_path / "t.json.gz"
        assert_sound(trace, exported(trace, path))
        lost, found, flows, processes, memory = query(
            path,
            LOST,
            "select ts, dur, name from slice",
            "select o.name, o.ts + o.dur, i.name, i.ts from flow join slice o on o.id = slice_out "
            "join slice i on i.id = slice_in order by i.ts",
            "select distinct p.pid, p.name from process p join thread t using (upid) "
            "join thread_track k using (utid)",
            "select distinct t.name from process_counter_track t join counter c "
            "on c.track_id = t.id order by 1",
        )
        assert lost == []
        names = Counter(name.split(" ")[0] for _, _, name in found)
        assert names["sample"] == len(keys)
        assert names["batch"] == names["step"] == names["wait"] == 6
        told = trace.batches.sort_values("delivered_s")
        assert flows == [
            (f"batch {batch}", ready, f"step {batch}", delivered)
            for batch, ready, delivered in zip(
                told["batch"],
                np.rint(told["ready_s"] * 1e9).astype(int),
                np.rint(told["delivered_s"] * 1e9).astype(int),
                strict=True,
            )
        ]
        assert dict(processes) == {
            os.getpid(): "training process",
            **{pid: f"worker {i}" for i, pid in enumerate(trace.workers["pid"])},
        }
        assert memory == [("batches ready",), ("memory rss_bytes",)]

    @pytest.mark.slow
    def test_lines_of_code_are_slices_of_the_worker_that_ran_them(self, tmp_path):
        unknown = LINES[0]._replace(worker=7)  # a worker of which nothing is known
        here = LINES[1]._replace(worker=-1, stack=LINES[0].stack)
        trace = with_lines(made(workers=2), *LINES, unknown, here)
        assert_sound(trace, exported(trace, tmp_path / "t.json"))
        lost, found, [(source,)] = query(
            tmp_path / "t.json",
            LOST,
            "select p.name, t.name, s.name, s.ts + s.dur, s.dur from slice s "
            "join thread_track k on s.track_id = k.id join thread t using (utid) "
            "join process p using (upid) where t.name = 'lines' order by p.name, s.ts",
            "select distinct string_value from args where key = 'args.source' and "
            "string_value like 'row%'",
        )
        assert lost == []
        assert source == "row = self.table.iloc[i]"
        begin = min(end for *_, end, _ in found) - 500_000_000
        assert [(who, what, end - begin, took) for who, _, what, end, took in found] == [
            ("training process", "dataset.py:41", 700_000_000, 700_000_000),
            ("worker 0", "dataset.py:41", 500_000_000, 500_000_000),
            ("worker 0", "dataset.py:41", 900_000_000, 400_000_000),
            ("worker 1", "dataset.py:60", 700_000_000, 700_000_000),
        ]

    def test_nothing_of_a_large_trace_is_lost(self, tmp_path, monkeypatch):
        monkeypatch.setattr("loaderviz.export.chrome_events.ROWS_PER_PIECE", 1000)
        trace = recorded(3_000)
        trace.batches["pinned_s"] = (trace.batches["ready_s"] + trace.batches["delivered_s"]) / 2
        path = tmp_path / "t.json"
        assert_sound(trace, exported(trace, path))
        lost, [(n_samples,)], [(n_flows,)], depths = query(
            path,
            LOST,
            "select count(*) from slice where name = 'sample'",
            "select count(*) from flow",
            "select distinct name, depth from slice where name in ('sample', 'collate')",
        )
        assert lost == []
        assert n_samples == 3_000
        assert n_flows == 2 * len(trace.batches)  # by way of the thread that pins
        assert sorted(depths) == [("collate", 1), ("sample", 1)]


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """A loop that was recorded and profiled, with the same moments marked in both."""
    folder = tmp_path_factory.mktemp("profiled")
    loader = DataLoader(range(12), batch_size=4)
    with pytest.MonkeyPatch.context() as patch:
        # The profiler makes torch create that folder, by default one that stays.
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder / "inductor"))
        with profile(activities=[ProfilerActivity.CPU]) as profiler, lv.record(loader) as rec:
            for _ in loader:
                with lv.span("marked"), record_function("marker"):
                    torch.ones(10).sum()
                time.sleep(0.1)
        profiler.export_chrome_trace(str(folder / "profile.json"))
    return rec.trace, folder / "profile.json"


class TestBesideAProfile:
    def test_both_clocks_agree_to_a_millisecond(self, profiled, tmp_path):
        trace, path = profiled
        both = exported(trace, tmp_path / "both.json.gz", profile=path)
        assert_agree(both)
        theirs = json.loads(path.read_text())
        assert both["traceEvents"][: len(theirs["traceEvents"])] == theirs.pop("traceEvents")
        assert {key: both[key] for key in theirs} == theirs
        # One process: the profiler's threads, and our lanes.
        pids = {e["pid"] for e in both["traceEvents"] if e.get("name") in ("marker", "marked")}
        assert pids == {os.getpid()}

    def test_another_run_and_a_simulated_one_have_no_place_beside_it(self, profiled, tmp_path):
        trace, path = profiled
        begun_ns, clock_ns = trace.meta["started"]
        later = {**trace.meta, "started": [begun_ns, clock_ns + 3_600_000_000_000]}
        another = replace(trace, meta=later)
        simulated = simulate(Costs(sample_s=0.01), num_workers=2, batch_size=2, n_batches=4)
        for other, why in ((another, r"is 3,.* s apart from the trace"), (simulated, "simulated")):
            with pytest.raises(LoaderVizError, match=why):
                other.to_perfetto(tmp_path / "both.json", profile=path)

    @pytest.mark.parametrize(
        "text",
        [
            *("", "[]", "{", '{"a": 1}', '{"traceEvents": {}}', '{"traceEvents": [1]}'),
            *(
                f'{{{base}"traceEvents": [{{"ph": "X"{times}}}]}}'
                for base, times in (
                    *(("", f', "ts": {ts}') for ts in ("9" * 400, "1e999", "NaN")),
                    *(("", f', "ts": 1, "dur": {dur}') for dur in ("[]", "9" * 400)),
                    (f'"baseTimeNanoseconds": {"9" * 400}, ', ', "ts": 1'),
                    ("", ""),
                )
            ),
        ],
        ids=lambda text: text[:60],
    )
    def test_what_is_no_profile_and_times_that_are_none_are_refused(self, tmp_path, text):
        path = tmp_path / "profile.json"
        path.write_text(text)
        trace = replace(made(), meta={"started": [0, 10**18]})
        with pytest.raises(LoaderVizError, match="profile"):
            trace.to_perfetto(tmp_path / "both.json", profile=path)
        assert not (tmp_path / "both.json").exists()


def test_a_packed_profile_that_is_damaged_or_too_large_is_refused(tmp_path):
    path = tmp_path / "profile.json.gz"
    packed = gzip.compress(b'{"traceEvents": [{"ph": "X", "ts": 1}]}')
    for content, why in [
        (packed[:10] + b"\xff" * 20, "cannot be read as a profile"),
        (packed[:-9], "cannot be read as a profile"),
        (gzip.compress(bytes(80 << 20), 1), "it unpacks to more than 64 MiB"),
    ]:
        path.write_bytes(content)
        with pytest.raises(LoaderVizError, match=why):
            made().to_perfetto(tmp_path / "both.json", profile=path)


def assert_agree(both):
    at = {name: [e["ts"] for e in both["traceEvents"] if e.get("name") == name and e["ph"] == "X"]
          for name in ("marked", "marker")}  # fmt: skip
    assert len(at["marked"]) == len(at["marker"]) == 3
    apart_us = np.subtract(at["marker"], at["marked"])
    assert np.median(np.abs(apart_us)) < 1000, apart_us


class TestFiles:
    def test_an_empty_trace_and_what_is_no_path_are_refused(self, tmp_path):
        nowhere = tmp_path / "no such folder" / "t.json"
        for trace, path, why in [
            (Trace.from_columns(), tmp_path / "t.json", "empty"),
            (made(), nowhere, r"no such folder.*to_perfetto\(\) takes the path"),
            (made(), tmp_path, "not a file"),
            (made(), 3, "takes the path of a file, not 3"),
        ]:
            with pytest.raises(LoaderVizError, match=why):
                trace.to_perfetto(path)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
    def test_a_full_disk_leaves_what_was_there(self, tmp_path, monkeypatch, name):
        path = tmp_path / name
        path.write_text("old")

        @in_recorder
        def full(_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(LoaderVizError, match="No space left"):
            made().to_perfetto(path)
        assert path.read_text() == "old"
        assert [each.name for each in tmp_path.iterdir()] == [name]
