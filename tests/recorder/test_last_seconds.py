"""A recording that keeps its last seconds: what is kept is exact, and the windows tell the rest."""

import functools
import json
import math
import re
import sys
import time

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, get_worker_info

from loaderviz import LoaderVizError, Trace, argument_checks, audit, figures, load, machine, record
from loaderviz.recorder.incidents import FIRST_KEPT, LATEST_KEPT, IncidentLog, Shift
from loaderviz.spool import HEADER_BYTES
from loaderviz.trace import windows
from loaderviz.trace.loaders_as_one import windows_as_one
from loaderviz.trace.recording.live_recording import LiveRecording
from loaderviz.why.whole_run import whole_run

N, BATCH, EPOCHS, LAST_S = 400, 2, 2, 0.2


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        yield from range(first, N, step)


@pytest.fixture
def short(monkeypatch):
    """Rings of a fraction of a second, in small blocks."""
    monkeypatch.setattr(argument_checks, "LEAST_LAST_S", 0)
    monkeypatch.setattr(windows, "LEAST_WINDOW_S", LAST_S / 2)
    monkeypatch.setattr("loaderviz.spool.RING_BLOCK_BYTES", 1 << 13)
    monkeypatch.setattr("loaderviz.spool.WINDOW_BYTES", 1 << 13)


@pytest.fixture
def no_shifts(short, monkeypatch):
    """... in which no slow moment of a busy machine is told."""
    monkeypatch.setattr(IncidentLog, "look_at", lambda *_: None)


def ended(loader, epochs=EPOCHS, **options):
    """What the loop got, and the recording."""
    got = []
    with record(loader, last_s=LAST_S, **options) as rec:
        for epoch in range(epochs):
            for i, batch in enumerate(loader):
                got.append((epoch, i, batch))
            if epoch < epochs - 1:
                time.sleep(LAST_S)  # so that what was before is older
    return got, rec.trace


@pytest.mark.parametrize(("dataset", "workers"), [(TensorDataset, 0), (Stream, 2)])
def test_what_is_kept_is_what_came_last_and_the_windows_count_all(dataset, workers, short):
    data = Stream() if dataset is Stream else TensorDataset(torch.arange(N))
    loader = DataLoader(data, batch_size=BATCH, num_workers=workers, persistent_workers=workers > 0)
    got, trace = ended(loader)
    assert len(got) == EPOCHS * N / BATCH
    batches = trace.batches
    assert 0 < len(batches) < len(got)
    n_asked_in_vain = trace.meta["left_out_batches"] + len(batches) - len(got)
    assert 0 <= n_asked_in_vain <= (EPOCHS * 4 * max(workers, 1) if dataset is Stream else 0)
    assert trace.meta["problems"] == []
    assert batches["batch"].max() == N / BATCH - 1
    assert (batches["state"] == "delivered").all()
    assert batches["shapes"].notna().all()
    for column in ("started_s", "ready_s"):
        assert batches[column].between(batches["dispatched_s"], batches["delivered_s"]).all()
    if dataset is TensorDataset:
        assert (trace.samples["key"] // BATCH == trace.samples["batch"]).all()
    else:  # its number in its worker's stream
        place = trace.samples["batch"] // max(workers, 1) * BATCH + trace.samples["position"]
        assert (trace.samples["key"] == place).all()
    told = trace.windows
    assert told["batches"].sum() == len(got)
    assert told["samples"].sum() == EPOCHS * N
    assert trace.meta["begins_s"] + batches["dispatched_s"].min() > 0
    end_s = trace.meta["begins_s"] + batches["released_s"].max()
    assert math.isclose(told["end_s"].max(), end_s, abs_tol=1e-5)


def test_whoever_watches_it_is_told_of_the_whole_run(short, tmp_path):
    loader = DataLoader(TensorDataset(torch.arange(N)), batch_size=BATCH, num_workers=1)
    with record(loader, last_s=LAST_S, path=tmp_path / "run") as rec:
        watched = LiveRecording(tmp_path / "run")
        assert math.isnan(watched.read_now().run_wait_share)
        for i, _ in enumerate(loader):
            time.sleep(0.001)
            if i == 150:
                rec.save_incident("the loss is odd")
                now = watched.read_now()
    assert 0 < now.run_wait_share < 1
    assert now.incidents[-1][1] == "the loss is odd"  # a busy machine may have shifts of its own
    assert [maker.worker for maker in now.workers] == [0]


@pytest.mark.slow
def test_the_files_of_a_ring_are_as_large_as_what_is_kept(short, tmp_path):
    loader = DataLoader(TensorDataset(torch.arange(N)), batch_size=BATCH, num_workers=1)
    ended(loader, 4, path=tmp_path / "ring")
    with record(loader, path=tmp_path / "whole"):
        for _ in range(4):
            for _ in loader:
                pass
    n_bytes = {
        name: sum(
            path.stat().st_size - HEADER_BYTES
            for path in (tmp_path / name).glob("*.spool")
            if path.name in ("here-batches.spool", "ended-workers.spool")
        )
        for name in ("ring", "whole")
    }
    assert 0 < n_bytes["ring"] < n_bytes["whole"] / 2


def test_max_bytes_shortens_what_is_kept(short, tmp_path, monkeypatch):
    monkeypatch.setattr(windows, "WINDOW_S", 0.2)
    loader = DataLoader(TensorDataset(torch.arange(N)), batch_size=BATCH)
    path, n_epochs, max_bytes = tmp_path / "run", 18, 1 << 20
    with record(loader, last_s=1000, path=path, max_bytes=max_bytes) as rec:
        for _ in range(n_epochs):
            for _ in loader:
                pass
    n_bytes = sum(each.stat().st_size for each in path.iterdir() if each.suffix == ".spool")
    assert max_bytes / 4 < n_bytes < max_bytes
    assert len(rec.trace.batches) < n_epochs * N / BATCH
    assert rec.trace.windows["batches"].sum() == n_epochs * N / BATCH


def test_it_is_opened_again_and_nothing_that_may_have_come_before_is_called_missing(
    short, tmp_path, loaderviz
):
    loader = DataLoader(TensorDataset(torch.arange(N)), batch_size=BATCH)
    _, trace = ended(loader, path=tmp_path / "run")
    trace.save(tmp_path / "run.parquet")
    for path in (tmp_path / "run", tmp_path / "run.parquet"):
        again = load(path)
        assert again.windows.equals(trace.windows)
        assert again.incidents.equals(trace.incidents)
    assert trace.of_loader(0).windows.equals(trace.windows)
    result = audit(trace)
    assert result.exactly_once is None
    assert "No sample in the trace came more than once" in result.verdict
    said = loaderviz("check", tmp_path / "run", "--exactly-once")
    assert said.code == 2
    assert "batches are not in this recording" in said.err
    said = loaderviz("check", tmp_path / "run", "--max-wait", "1", "--after-warmup")
    assert said.code == 0
    assert "after warm-up" in said.out
    told = " ".join(loaderviz("summary", tmp_path / "run").out.split())
    assert "what is said above is of the loops in the last" in told


def test_what_somebody_asks_for_and_what_ends_the_loop_is_saved(no_shifts, tmp_path, capsys):
    loader = DataLoader(TensorDataset(torch.arange(N)), batch_size=BATCH)
    heard = []
    recording = record(loader, last_s=LAST_S, path=tmp_path / "run", on_incident=heard.append)

    def loop():
        with recording as rec:
            for i, _ in enumerate(loader):
                if i == 50:
                    rec.save_incident("the loss is odd")
                if i == 80:
                    raise ValueError("nan")

    with pytest.raises(ValueError, match="nan"):
        loop()
    rows = recording.trace.incidents
    assert rows["kind"].tolist() == ["asked", "exception"]
    assert rows["text"].tolist() == ["the loss is odd", "ValueError: nan"]
    assert [row["text"] for row in heard] == rows["text"].tolist()
    first = load(rows["path"].iloc[0])
    assert first.meta["incident"] == "the loss is odd"
    assert first.meta["problems"] == []
    assert first.batches["batch"].max() == 50
    assert len(capsys.readouterr().err.splitlines()) == 1  # in ten minutes


class Raises(TensorDataset):
    def __getitem__(self, key):
        if key == 30:
            raise KeyError("no such picture")
        return super().__getitem__(key)


def test_what_a_worker_raised_is_told_in_one_line(short):
    loader = DataLoader(Raises(torch.arange(40)), num_workers=1)
    recording = record(loader, last_s=LAST_S)
    with pytest.raises(KeyError), recording:
        list(loader)
    text = recording.trace.incidents["text"].iloc[-1]
    assert text.startswith("KeyError: Caught KeyError in DataLoader worker process 0.")
    assert text.endswith("KeyError: 'no such picture'")
    assert "\n" not in text


def test_the_first_incidents_and_the_latest_are_kept(no_shifts, tmp_path):
    loader = DataLoader(TensorDataset(torch.arange(16)))
    with record(loader, last_s=LAST_S, path=tmp_path / "run") as rec:
        for i, _ in enumerate(loader):
            rec.save_incident(f"number {i + 1}")
    rows = rec.trace.incidents.set_index("incident")
    kept = rows.index[rows["path"].notna()].tolist()
    assert kept == [*range(1, FIRST_KEPT + 1), *range(16 - LATEST_KEPT + 1, 17)]


@pytest.mark.parametrize("kind", ["object", "partial", "lambda"])
def test_whoever_is_told_cannot_break_the_loop(kind, short):
    def fails(row):
        raise RuntimeError(row["batches"])

    class Fails:
        def __call__(self, row):
            return fails(row)

    loader = DataLoader(TensorDataset(torch.arange(N)), batch_size=BATCH)
    ways = {"object": Fails(), "partial": functools.partial(fails)}
    tell = ways.get(kind, lambda row: fails(row))
    with pytest.warns(UserWarning, match="on_window= failed and the recording goes on"):
        got, trace = ended(loader, 1, on_window=tell)
    assert len(got) == N / BATCH
    assert trace.windows["batches"].sum() == len(got)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"last_s": 5}, "last_s=5: give 10 seconds or more"),
        ({"last_s": "1h"}, "give a finite number"),
        ({"on_window": print}, "need last_s="),
    ],
)
def test_what_makes_no_sense_is_refused(options, words):
    with pytest.raises(LoaderVizError, match=words):
        record(DataLoader([1]), **options)


def test_an_incident_is_saved_in_the_block_of_a_ring_alone():
    recording = record(DataLoader([1]))
    with pytest.raises(LoaderVizError, match="last_s"), recording:
        recording.save_incident("now")


def noted(values):
    """After which windows a shift was open."""
    shift, opened = Shift(), []
    for i, value in enumerate(values):
        shift.note(value)
        if shift.is_open:
            opened.append(i)
    return opened, shift


def usual(n, seed=0, noise=0.03):
    return np.exp(np.random.default_rng(seed).normal(0, noise, n))


@pytest.mark.parametrize("times", [1.5, 3, 20])
@pytest.mark.parametrize("seed", range(3))
def test_a_shift_is_seen_in_its_second_window_and_ends_with_it(times, seed):
    values = usual(60, seed)
    values[30:34] *= times
    opened, shift = noted(values)
    assert opened == [31, 32, 33, 34]
    assert shift.now / shift.usual == pytest.approx(times, rel=0.1)


def test_one_odd_window_and_a_healthy_day_are_no_shift():
    values = usual(750)
    values[::150] *= 5
    assert noted(values)[0] == []


@pytest.mark.parametrize("seed", range(2))
def test_a_small_shift_among_noise_is_seen_some_windows_later_and_noise_is_none(seed):
    values = usual(300, seed, noise=0.15)
    assert noted(values)[0] == []
    values[100:] *= 1.6
    opened, shift = noted(values)
    assert 100 < opened[0] < 115
    assert shift.stays
    assert shift.now / shift.usual == pytest.approx(1.6, rel=0.2)


def test_what_creeps_is_seen_where_it_is_far_from_how_it_began():
    opened, shift = noted(usual(2_000) * np.linspace(1, 2, 2_000))
    assert 500 < opened[0] < 800
    starts = [at for at in opened if at - 1 not in opened]
    assert 2 <= len(starts) <= 4  # by a quarter each, and not in each window anew
    assert shift.usual > 1.2


def test_what_stays_is_how_it_is_now():
    values = usual(400)
    values[100:] *= 2
    opened, shift = noted(values)
    assert opened[0] == 101
    assert not shift.is_open


def of_rank(rank, share, begun_s=0.0):
    n = 30
    loop = {"loader": np.zeros(n, int), "epoch": np.arange(n) // 10, "took_s": np.full(n, share)}
    loop |= {"at_s": begun_s + 20.0 * np.arange(n) + 1, "other_s": np.full(n, 1.0)}
    reading = {**loop, "worker": np.arange(n) % 2, "samples": np.full(n, 4)}
    reading |= {"disk_bytes": np.zeros(n), "memory_bytes": np.full(n, 1e6)}
    return windows.packed(windows.rows_of(loop, reading, {"at_s": np.zeros(0)}, rank, 0.0, 60.0))


def test_windows_and_incidents_of_ranks_are_on_one_clock():
    incident = {"incident": 1, "loader": None, "start_s": 0.0, "end_s": None}
    kept = [
        ({"windows": of_rank(0, 0.5), "begins_s": 100.0}, 0, 0, 0.0),
        ({"windows": of_rank(0, 0.5), "begins_s": 90.0, "incidents": [incident]}, 1, 0, 5.0),
    ]
    meta = windows.merged(kept)
    assert meta["begins_s"] == 100.0
    pairs = [*zip(meta["windows"]["rank"], meta["windows"]["start_s"], strict=True)]
    starts = {rank: min(s for r, s in pairs if r == rank) for rank in (0, 1)}
    assert starts == {0: 0.0, 1: 15.0}
    assert meta["incidents"][0]["start_s"] == 15.0  # also one at the very start


@pytest.mark.parametrize(("n_ranks", "theme"), [(1, "light"), (3, "dark")])
def test_the_picture_has_the_rank_that_waits_most_on_top(n_ranks, theme):
    columns = {name: [] for name in windows.COLUMNS}
    for rank in range(n_ranks):
        for name, values in of_rank(rank, 0.2 * (rank + 1)).items():
            columns[name] += values
    incident = {"rank": 0, "incident": 1, "kind": "step", "loader": 0, "start_s": 120.0}
    incident |= {"end_s": None, "before_s": 1.0, "after_s": 3.0, "path": None}
    incident["text"] = "a batch and its step take 3 times as long as before: 3 s, not 1 s"
    trace = Trace.from_columns(meta={"windows": columns, "incidents": [incident]})
    figure = figures.run(trace, theme=theme)
    assert "at 0:02:00 a batch and its step take 3 times as long" in figure.layout.title.text
    first = figure.data[0]
    if n_ranks == 1:
        assert first.y[0] == pytest.approx(0.2 / 1.2, abs=1e-3)
    else:
        assert figure.layout.yaxis2.ticktext[0] == "rank 2"
        assert first.z[0][0] == pytest.approx(0.6 / 1.6, abs=1e-3)
    assert [line.name for line in figure.data[1:]] == ["supply", "demand"]
    assert any(note.text.endswith(" 1") for note in figure.layout.annotations)


def test_loaders_that_are_made_anew_are_one_and_evaluations_stand_apart():
    columns = {name: [] for name in windows.COLUMNS}
    for i in range(6):  # an epoch each, then its evaluation
        own = of_rank(0, 0.1 if i % 2 else 0.5)
        own = {name: values[:1] for name, values in own.items()}
        own |= {"loader": [i], "epoch": [0], "start_s": [60.0 * i], "end_s": [60.0 * (i + 1)]}
        for name, values in own.items():
            columns[name] += values
    abouts = [{"dataset": each, "iterated_at": f"train.py:{each}"} for each in ("T", "V")]
    meta = {"windows": columns, "loaders": abouts * 3}
    trace = Trace.from_columns(meta=meta)
    rows = windows_as_one(trace)
    assert rows["loader"].tolist() == [0, 1, 0, 1, 0, 1]
    assert rows["epoch"].tolist() == [0, 0, 1, 1, 2, 2]
    figure = figures.run(trace)
    others, own, outline, supply, _demand = figure.data
    assert outline.y.tolist() == others.y.tolist()  # on top, where a window is narrow
    assert others.y[:2] == pytest.approx((0.0, own.y[1]))
    assert own.y[0] > 0
    assert len(supply.x) == 3


OF_A_WINDOW = {"loader": 0, "longest_s": 0.1, "batches": 10, "samples": 100, "memory_bytes": 1e9}
GROWING = np.linspace(1e9, 3e9, 41)  # 50 MB a minute, some noise
STOPPED = np.array([*GROWING, *20 * [3e9]])


@pytest.mark.parametrize(
    ("used", "free", "spans"),
    [
        (GROWING, 4e9 - GROWING, [(0, None)]),
        (STOPPED, 4e9 - STOPPED, [(0, 60)]),  # with as much left
        (GROWING, 40e9 - GROWING, []),  # in half a day: a cache of all the data may fill until then
        ([*GROWING[:10], *30 * [GROWING[10]]], np.full(40, 1e9), []),
        (np.tile(GROWING[:8], 5), 2e9 - np.tile(GROWING[:8], 5), []),  # workers made anew
        (np.full(40, 3e9), np.linspace(2e9, 1e9, 40), []),  # another program takes it
        (GROWING, np.full(41, 1e9), []),
    ],
    ids=["leaks", "stops", "has time", "is full", "begins anew", "is steady", "maps a file"],
)
def test_memory_that_runs_out_is_told_while_there_is_time(used, free, spans, tmp_path, monkeypatch):
    log, used = IncidentLog(tmp_path, None, None), used * usual(len(used), noise=0.001)
    for i, (each, left) in enumerate(zip(used, free, strict=True)):
        monkeypatch.setattr(machine, "memory_available_bytes", lambda left=left, **_: left)
        row = {**OF_A_WINDOW, "memory_bytes": each, "wait_s": 10.0, "step_s": 10.0}
        times = {"supply_per_s": 1e6, "start_s": 60.0 * i, "end_s": 60.0 * (i + 1)}
        log.look_at([{**row, **times}], 60.0, 0)
    log.end()
    path = tmp_path / "incidents.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    last = {line["incident"]: line for line in lines}.values()
    assert [one["kind"] for one in last] == ["memory"] * len(spans)
    for one, (begin, end) in zip(last, spans, strict=True):
        assert one["start_s"] == pytest.approx(60 * begin, abs=70)
        assert (one["end_s"] is None) is (end is None)
        assert re.search(r"hold \d+(\.\d)? MiB more memory a minute, .* left in 0:", one["text"])


@pytest.mark.parametrize(("step_s", "kinds"), [(1.0, ["reading"]), (40.0, [])])
def test_reading_that_is_quick_enough_for_the_loop_is_no_incident(step_s, kinds, tmp_path):
    log = IncidentLog(tmp_path, None, None)
    usually = {**OF_A_WINDOW, "wait_s": 10.0}
    for i, times in enumerate([*usual(20), *(2 * usual(4))]):
        supply = 10 / times
        row = {**usually, "step_s": step_s, "supply_per_s": supply, "start_s": 60.0 * i}
        log.look_at([{**row, "end_s": 60.0 * (i + 1)}], 60.0, 0)
    path = tmp_path / "incidents.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    assert [json.loads(line)["kind"] for line in lines] == kinds


@pytest.mark.parametrize(
    ("minutes", "noise", "spans"),
    [
        ([20, 10, 20], 0.15, [(20, 30)]),
        ([20, 70, 2], 0.03, [(20, None)]),
        ([20, 70, 40], 0.15, [(20, 90)]),  # after more than an hour
        ([20, 70, 70, 40], 0.03, [(20, 160), (90, 160)]),  # twice, and twice again
    ],
)
def test_an_incident_begins_and_ends_where_the_pace_does(minutes, noise, spans, tmp_path):
    log = IncidentLog(tmp_path, None, None)
    usually = {**OF_A_WINDOW, "supply_per_s": 1e6}
    times = [*range(len(minutes) - 1), 0]
    slow = np.repeat(2.0 ** np.array(times), minutes) * usual(sum(minutes), noise=noise)
    for i, each in enumerate(slow):
        row = {**usually, "wait_s": 10.0 * each, "step_s": 10.0 * each, "start_s": 60.0 * i}
        log.look_at([{**row, "end_s": 60.0 * (i + 1)}], 60.0, 0)
    log.end()
    text = (tmp_path / "incidents.jsonl").read_text()
    last = {line["incident"]: line for line in map(json.loads, text.splitlines())}
    found = [(one["start_s"], one["end_s"]) for one in last.values()]
    about = pytest.approx
    assert found == [
        (about(60 * a, abs=120), None if b is None else about(60 * b, abs=120)) for a, b in spans
    ]


def test_what_the_beginning_promised_stands_beside_what_came():
    rows = {name: [] for name in windows.COLUMNS}
    for epoch, times in enumerate([1, 1, 2, 1]):
        for minute in range(10):
            own = dict.fromkeys(windows.COLUMNS, 0) | {"epoch": epoch, "samples": 400}
            own |= {"start_s": 60.0 * (10 * epoch + minute), "wait_s": 20.0, "batches": 100}
            own |= {"end_s": own["start_s"] + 60.0, "step_s": 40.0}
            own["batches"] = 100 // times
            for _ in range(times):  # as many minutes more
                for name, values in rows.items():
                    values.append(own[name])
    rows["wait_s"][0] = 50.0  # a warm-up
    trace = Trace.from_columns(meta={"windows": rows, "begins_s": 2000.0})
    told = whole_run(trace)
    assert told.promised_s == pytest.approx(600.0)
    assert told.took_s == pytest.approx((600.0, 1200.0))
    assert "an epoch would take 0:10:00; they took 0:10:00 to 0:20:00" in str(told)
    rows["batches"][:10] = [50] * 10  # the loop broke off: no epoch that is known to be whole
    rows["batches"][10:40] = [20] * 30
    assert whole_run(Trace.from_columns(meta=trace.meta)).promised_s is None


class StandsStill(TensorDataset):
    def __getitem__(self, key):
        time.sleep(3.0 if key == 600 else 0.002)
        return super().__getitem__(key)


def test_a_loop_that_stands_still_is_told_of_while_it_does(short, tmp_path, monkeypatch):
    polls = torch.utils.data.dataloader._MultiProcessingDataLoaderIter._try_get_data
    monkeypatch.setattr(polls, "__defaults__", (0.1,))  # in place of 5 s
    got, heard = [], []
    loader = DataLoader(StandsStill(torch.arange(660)), batch_size=4, num_workers=1)
    options = {"last_s": LAST_S, "path": tmp_path / "run"}
    with record(loader, on_incident=lambda row: heard.append((row, len(got))), **options) as rec:
        for batch in loader:
            got.append(batch)
    row, at = next(each for each in heard if "still does" in each[0]["text"])
    assert (row["kind"], row["loader"], row["end_s"], at) == ("wait", 0, None, 600 // 4)
    rows = rec.trace.incidents.set_index("incident").loc[row["incident"]]
    assert "longer than ever" in rows["text"]
    assert rows["after_s"] > 2.5
    assert len(load(row["path"]).batches) > 0


def test_starts_of_workers_are_in_the_windows(short):
    loader = DataLoader(TensorDataset(torch.arange(60)), batch_size=BATCH, num_workers=1)
    with record(loader) as rec:
        for _ in range(2):
            list(loader)
    whole = rec.trace
    _, ring = ended(loader, 2)
    for trace in (whole, ring):
        by_epoch = trace.windows.groupby("epoch")["startup_s"].sum()
        assert (by_epoch > 0).tolist() == [True, True]
    assert ring.windows["batches"].sum() == whole.windows["batches"].sum()


class Computes(TensorDataset):
    def __getitem__(self, key):
        until = time.perf_counter() + 0.001
        while time.perf_counter() < until:
            pass
        return super().__getitem__(key)


@pytest.mark.skipif(sys.platform == "win32", reason="lines need a timer signal")
@pytest.mark.parametrize("workers", [0, 1])
def test_lines_are_those_of_what_is_kept(workers, short):
    data = Computes(torch.arange(N))
    loader = DataLoader(data, batch_size=BATCH, num_workers=workers, collate_fn=len)
    with record(loader, last_s=LAST_S, lines=True) as rec:
        for _ in loader:
            pass
    trace = rec.trace
    assert trace.meta["problems"] == []
    assert 0 < len(trace.batches) < N / BATCH
    lines = trace.lines()
    assert "Computes.__getitem__" in set(lines["function"])
    assert 0 < lines["seconds"].sum() < trace.batches["ready_s"].max() + LAST_S
