"""Clocks of several machines: the offset that round trips tell, and what becomes of it in a run."""

import contextlib
import itertools
import json
import multiprocessing
import os
import resource
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import loaderviz as lv
from forked import forked
from loaderviz import machine
from loaderviz.clocks import machine_offsets
from loaderviz.clocks.machine_offsets import CLOCK_FILE, Follower, Reference
from loaderviz.clocks.round_trips import (
    _PING,
    _PONG,
    ClockServer,
    Offset,
    measure_offset,
)
from own_code import in_recorder

ROOT = Path(__file__).parents[2]
SHIFT_NS = 1234 * 10**9  # of a machine that was started so much earlier
ABOUT = {"rank": 0, "host": "one", "clock_domain": "boot of one"}
ELSEWHERE = {"rank": 1, "host": "two", "clock_domain": "boot of two"}


def shifted():
    return time.perf_counter_ns() + SHIFT_NS


@pytest.fixture(autouse=True)
def meeting_place(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "localhost")


@pytest.fixture
def server():
    server = ClockServer("127.0.0.1", shifted)
    yield server
    server.close()


class Noted(dict):
    """The description of a recording."""

    def __init__(self):
        super().__init__(clock=None)
        self.changed = threading.Condition()

    def __call__(self, **facts):
        with self.changed:
            self.update(facts)
            self.changed.notify_all()

    def wait_for(self, key):
        with self.changed:
            assert self.changed.wait_for(lambda: self.get(key), timeout=30)
        return self[key]


delays = st.integers(0, 10**9)
pings = st.lists(st.tuples(delays, delays, delays), min_size=1, max_size=20)


@settings(max_examples=40)
@given(true=st.integers(-(10**18), 10**18), begun=st.integers(0, 10**18), pings=pings)
def test_the_true_offset_lies_within_the_uncertainty(true, begun, pings):
    seen, at = [], begun
    for pause, there, back in pings:
        sent = at + pause
        seen.append((sent, sent + there + true, sent + there + back))
        at = sent + there + back
    found = Offset.from_pings(seen)

    assert abs(true - found.middle_ns) <= found.uncertainty_ns
    shortest = min(there + back for _, there, back in pings)
    assert 2 * found.uncertainty_ns <= shortest + 1


@settings(max_examples=40)
@given(
    first=st.integers(-(10**15), 10**15),
    drift=st.integers(-(10**9), 10**9),
    delays=st.tuples(delays, delays, delays, delays),
    share=st.floats(0, 1),
)
def test_a_clock_that_drifts_stays_within_the_uncertainty(first, drift, delays, share):
    there, back, there_later, back_later = delays
    known = Offset.from_ping(0, there + first, there + back).union(
        Offset.from_ping(0, there_later + first + drift, there_later + back_later)
    )
    meanwhile = first + round(share * drift)
    assert abs(meanwhile - known.middle_ns) <= known.uncertainty_ns


def test_a_server_tells_its_clock_to_who_knows_the_token_whatever_others_send(server):
    address = ("127.0.0.1", server.port)
    for nonsense in (b"", b"x", b"GET / HTTP/1.1\r\n\r\n", bytes(10_000)):
        with socket.create_connection(address) as connection:
            connection.sendall(nonsense)
    with pytest.raises(OSError, match=r"closed|reset"):
        measure_offset(address, bytes(16), timeout_s=10)
    found = measure_offset(address, server.token, timeout_s=10)
    assert abs(SHIFT_NS - found.middle_ns) <= found.uncertainty_ns


@pytest.mark.parametrize("answer", [b"", b"nonsense", bytes(40), None])
def test_neither_nonsense_nor_silence_is_taken_for_a_clock(answer):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reply():
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        thread = threading.Thread(target=reply)
        if answer is not None:
            thread.start()
        error = r"closed|reset|no clock of this run" if answer is not None else "timed out"
        with pytest.raises(OSError, match=error):
            measure_offset(listener.getsockname(), bytes(range(16)), timeout_s=1)
        if answer is not None:
            thread.join()


class TestStrangers:
    """What connects without knowing the token costs the training next to nothing."""

    def test_only_the_interface_where_the_ranks_meet_is_listened_on(self, tmp_path):
        reference = Reference(tmp_path, ABOUT, Noted())
        listening = {each.laddr.ip for each in open_ports(os.getpid())}
        reference.stop()
        assert listening <= {"127.0.0.1", "::1"}
        assert len(listening) == 1

    @pytest.mark.parametrize(
        ("name", "said"), [("", "ranks meet, is not set"), ("a..b", "could not be aligned")]
    )
    def test_without_a_meeting_place_nothing_listens(self, name, said, tmp_path, monkeypatch):
        monkeypatch.setenv("MASTER_ADDR", name)
        noted = Noted()
        assert machine_offsets.start_alignment(tmp_path, ABOUT, noted) is None
        assert said in noted["clock_note"]
        assert not open_ports(os.getpid())

    def test_who_falls_silent_is_let_go_and_others_get_their_turn(self, server):
        address = ("127.0.0.1", server.port)
        with (
            socket.create_connection(address, timeout=30) as silent,
            socket.create_connection(address, timeout=30) as known,
        ):
            known.sendall(_PING.pack(server.token, 1))
            assert silent.recv(1) == b""
            assert len(known.recv(_PONG.size)) == _PONG.size
            assert known.recv(1) == b""
        measure_offset(address, server.token, timeout_s=10)

    @pytest.mark.skipif(os.name != "posix", reason="needs limits of the process")
    def test_a_full_table_of_files_is_waited_out_without_work(self):
        assert forked(n_looks_without_files) < 20  # in a second; without a pause it is thousands


def n_looks_without_files():
    server, looks = ClockServer("127.0.0.1"), []
    answer_next = server._answer_next
    server._answer_next = lambda: (looks.append(1), answer_next())
    address = ("127.0.0.1", server.port)
    waiting, taken = [socket.socket() for _ in range(8)], []
    n_files = psutil.Process().num_fds() + 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (n_files, n_files))
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.open(sys.executable, os.O_RDONLY))
    for each in waiting:
        each.connect(address)
    time.sleep(1)
    n_looks = len(looks)
    for number in taken:
        os.close(number)
    for each in waiting:
        each.close()
    measure_offset(address, server.token, timeout_s=10)
    server.close()
    return n_looks


@pytest.fixture
def run(tmp_path):
    """Makes references and followers in one folder, and stops what a test has left."""
    made = []

    def make(kind, about, noted=None, **how):
        made.append(kind(tmp_path, about, Noted() if noted is None else noted, **how))
        return made[-1]

    yield make
    for each in made:
        each.stop()


class TestInARun:
    def test_the_offset_is_what_to_add_to_get_the_clock_of_rank_0(self, run, tmp_path):
        noted = Noted()
        reference = run(Reference, ABOUT, now=shifted)
        follower = run(Follower, ELSEWHERE, noted)
        clock = dict(noted.wait_for("clock"))
        assert clock["reference"] == "one"
        assert abs(clock["offset_ns"] - SHIFT_NS) <= clock["uncertainty_ns"]
        assert noted["clock_note"] is None
        reference.stop()
        follower.stop()  # what was measured stays when rank 0 has gone
        assert abs(noted["clock"]["offset_ns"] - clock["offset_ns"]) < 10**9
        assert "measured before" in noted["clock_note"]
        assert not [*tmp_path.iterdir()]

    def test_a_rank_that_comes_first_waits_for_rank_0(self, run):
        noted = Noted()
        run(Follower, ELSEWHERE, noted)
        assert "rank 0 has not begun" in noted.wait_for("clock_note")
        assert noted["clock"] is None
        run(Reference, ABOUT, now=shifted)
        assert noted.wait_for("clock")

    def test_ranks_that_share_a_clock_need_no_measurement(self, run):
        noted, own = Noted(), Noted()
        run(Reference, ABOUT, own)
        run(Follower, {**ABOUT, "rank": 1}, noted).stop()
        assert noted["clock"] == own["clock"]
        assert noted["clock"] == {"reference": "one", "offset_ns": 0, "uncertainty_ns": 0}

    def test_a_rank_0_that_was_killed_is_not_waited_for(self, run, tmp_path, monkeypatch):
        monkeypatch.setattr(machine_offsets, "ANSWER_TIMEOUT_S", 0.1)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        place = {**ABOUT, "address": "127.0.0.1", "port": port, "token": "00" * 16}
        (tmp_path / CLOCK_FILE).write_text(json.dumps(place))
        noted = Noted()
        run(Follower, ELSEWHERE, noted).stop()
        assert noted["clock"] is None
        assert "did not answer (127.0.0.1" in noted["clock_note"]

    @pytest.mark.parametrize("text", ["", "{}", "[]", '{"address": 3}', "\0"])
    def test_a_file_of_nonsense_is_as_good_as_none(self, text, run, tmp_path):
        (tmp_path / CLOCK_FILE).write_text(text)
        noted = Noted()
        run(Follower, ELSEWHERE, noted).stop()
        assert noted["clock"] is None
        assert "same folder" in noted["clock_note"]

    def test_a_run_that_is_started_anew_has_a_new_clock(self, run, tmp_path):
        old, new = run(Reference, ABOUT), run(Reference, ABOUT)
        old.stop()
        assert (tmp_path / CLOCK_FILE).exists()
        new.stop()
        assert not (tmp_path / CLOCK_FILE).exists()

    def test_what_rank_0_starts_leaves_the_serving_to_it(self, run, tmp_path):
        run(Reference, ABOUT)
        noted = Noted()
        child = machine_offsets.start_alignment(tmp_path, ABOUT, noted)
        child.stop()
        assert isinstance(child, Follower)
        assert noted["clock"]["offset_ns"] == 0
        assert (tmp_path / CLOCK_FILE).exists()

    def test_where_no_port_can_be_had_the_recording_goes_on(self, tmp_path, monkeypatch):
        @in_recorder
        def refuse(*_, **__):
            raise OSError("no ports today")

        monkeypatch.setattr(socket, "create_server", refuse)
        as_if_on_two_machines(monkeypatch, 0)
        trace = recorded(tmp_path)
        assert trace.meta["clock"] is None
        assert "no ports today" in trace.meta["clock_note"]
        assert trace.meta["complete"]

    def test_a_run_on_one_machine_starts_nothing(self, tmp_path, monkeypatch):
        as_if_on_two_machines(monkeypatch, 0)
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
        before = threading.active_count()
        with lv.record(DataLoader(range(3)), path=tmp_path) as rec:
            assert threading.active_count() == before
        assert "clock" not in rec.trace.meta

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_forked_workers_keep_no_socket(self, tmp_path, monkeypatch):
        as_if_on_two_machines(monkeypatch, 0)
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        with lv.record(DataLoader(range(3)), path=tmp_path):
            assert open_ports(os.getpid())
            child = context.Process(target=be_there, args=(theirs,))
            child.start()
            ours.recv()
            kept = open_ports(child.pid)
            ours.send("done")
            child.join()
            assert not kept
        assert not open_ports(os.getpid())


def be_there(pipe):
    pipe.send("here")
    pipe.recv()


def open_ports(pid):
    process = psutil.Process(pid)
    return [each for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN]


def as_if_on_two_machines(monkeypatch, rank):
    for name, value in {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 1}.items():
        monkeypatch.setenv(name, str(value))


def recorded(path):
    loader = DataLoader(range(6), batch_size=2)
    with lv.record(loader, path=path) as rec:
        list(loader)
    return rec.trace


SECOND_MACHINE = """
    import sys, time
    own = time.perf_counter_ns
    time.perf_counter_ns = lambda: own() - int(sys.argv[2])
    import loaderviz as lv
    from loaderviz import machine
    from torch.utils.data import DataLoader

    machine.clock_domain = lambda: "another boot"
    loader = DataLoader(range(6), batch_size=2)
    with lv.record(loader, path=sys.argv[1]) as rec:
        while not rec.snapshot().meta["clock"]:
            time.sleep(0.01)
        list(loader)
"""


@pytest.mark.slow
def test_two_machines_leave_recordings_on_one_clock(tmp_path, monkeypatch):
    as_if_on_two_machines(monkeypatch, 0)
    script = tmp_path / "second.py"
    script.write_text(textwrap.dedent(SECOND_MACHINE))
    run = tmp_path / "run"
    loader = DataLoader(range(6), batch_size=2)
    with lv.record(loader, path=run):
        list(loader)
        before = time.perf_counter_ns()
        subprocess.run(
            [sys.executable, script, run, str(SHIFT_NS)],
            check=True,
            env={**os.environ, "RANK": "1", "PYTHONPATH": str(ROOT)},
        )
        after = time.perf_counter_ns()

    assert sorted(each.name for each in run.iterdir()) == [
        "rank-00000.parquet",
        "rank-00001.parquet",
    ]
    first, second = (lv.load(each).meta for each in sorted(run.iterdir()))
    assert first["clock"] == {"reference": first["host"], "offset_ns": 0, "uncertainty_ns": 0}
    assert second["clock"]["reference"] == first["host"]
    assert abs(second["clock"]["offset_ns"] - SHIFT_NS) <= second["clock"]["uncertainty_ns"]
    assert before < second["started"][0] + second["clock"]["offset_ns"] < after
    assert second["complete"]


def test_a_time_namespace_has_a_clock_of_its_own(monkeypatch):
    texts = itertools.cycle(["boot\n", "monotonic 1234 0\nboottime 0 0\n"])
    monkeypatch.setattr(Path, "read_text", lambda path: next(texts))
    assert machine.clock_domain() == "boot [1234, 0]"
    texts = itertools.cycle(["boot\n", "monotonic 0 0\nboottime 0 0\n"])
    assert machine.clock_domain() == "boot"
