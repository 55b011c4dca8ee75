"""``loaderviz run``: scripts that know nothing of it, as real processes."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from torch.utils.data import DataLoader, dataloader

import loaderviz as lv
from forked import forked
from loaderviz._run import script_process, start_at_first_loader, start_script
from loaderviz.text import count

SCRIPTS = Path(__file__).parents[1] / "scripts"
HOME = str(Path(lv.__file__).parents[1])


def environment(**more):
    path = os.pathsep.join(filter(None, [HOME, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def python(*args, cwd, **env):
    return subprocess.run(
        [sys.executable, *map(str, args)],
        cwd=cwd,
        env=environment(**env),
        start_new_session=True,  # a script may interrupt all that belongs to it
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def run(*args, cwd, **env):
    return python("-m", "loaderviz", "run", *args, cwd=cwd, **env)


def recordings(folder):
    return {each.stem: lv.load(each) for each in sorted(folder.glob("rank-*"))}


# Each starts several processes that import torch.
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    home = tmp_path_factory.mktemp("trained")
    (home / "elsewhere").mkdir()
    script = os.path.relpath(SCRIPTS / "train.py", home)
    alone = python(script, "elsewhere", "--out", "x", cwd=home)
    recorded = run("--out", "run", script, "elsewhere", "--out", "x", cwd=home)
    return alone, recorded, home / "run"


@slow
def test_a_script_gets_and_says_what_it_would_alone(trained):
    alone, recorded, folder = trained
    assert recorded.stdout == alone.stdout != ""
    said, closing = recorded.stderr.rsplit("loaderviz: ", 1)
    assert said == alone.stderr
    assert "KeyError: 100" in said
    n_batches = lv.load(folder).summary().n_batches
    assert closing == f"recorded {n_batches} batches; to see more: loaderviz summary {folder}\n"
    assert n_batches == 22
    assert recorded.returncode == alone.returncode == 1


@slow
def test_each_of_its_loaders_is_in_one_recording(trained):
    ((name, trace),) = recordings(trained[2]).items()
    assert name == "rank-00000"
    assert trace.meta["complete"]
    loaders = trace.meta["loaders"]
    assert [each["start_method"] for each in loaders] == [None, "fork", "spawn", "fork"]
    delivered = trace.batches[trace.batches["delivered_s"].notna()]
    assert delivered.groupby(["loader", "epoch"]).size().tolist() == [3, 3, 3, 12, 1]
    assert set(trace.samples["worker"]) == {-1, 0, 1}


def test_a_module_ends_with_its_own_code_hears_its_signals_and_has_a_folder_of_its_own(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package/train.py").write_text(
        "import os, signal, sys\n"
        "from torch.utils.data import DataLoader\n"
        "signal.signal(signal.SIGUSR2, lambda *_: print('heard', flush=True))\n"
        "for batch in DataLoader(range(4)):\n"
        "    print(batch, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGUSR2)\n"
        "sys.exit(int(sys.argv[1]))\n"
    )
    limits = ("--max-spans", 1, "--max-bytes", 1 << 20, "--last", "10s", "--lines")
    done = run(*limits, "-m", "package.train", 3, cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout.splitlines()[4:] == ["heard"]
    (folder,) = tmp_path.glob("loaderviz-run-*")
    (trace,) = recordings(folder).values()
    assert len(trace.batches) == 4
    assert trace.meta["left_out"]
    assert trace.meta["max_bytes"] == 1 << 20
    assert "lines" in trace.meta
    assert trace.incidents.empty


READS_AHEAD = """
import os, queue, signal, threading
from torch.utils.data import DataLoader

def ahead(batches):
    ready = queue.Queue(2)
    def read():
        for batch in batches:
            ready.put(batch)
        ready.put(None)
    threading.Thread(target=read).start()
    while (batch := ready.get()) is not None:
        yield batch

list(DataLoader(range(8)))
os.kill(os.getpid(), signal.SIGUSR2)

class Ahead(DataLoader):
    def __iter__(self):
        return ahead(super().__iter__())

assert len(list(Ahead(range(8)))) == 8
raise ValueError("the loss is nan")
"""


@pytest.fixture(scope="module")
def left_on(tmp_path_factory):
    """A script that is recorded for long; what it said, and its recording."""
    home = tmp_path_factory.mktemp("left-on")
    (home / "ahead.py").write_text(READS_AHEAD)
    done = run("--last", "1h", "--out", "run", "ahead.py", cwd=home)
    return done, lv.load(home / "run")


@slow
def test_of_a_thread_that_reads_ahead_the_wait_is_seen_where_a_class_of_loaders_has_it(left_on):
    """One that is made when the recording has begun; others are in recorder/test_whose_wait.py."""
    done, trace = left_on
    assert "recorded 16 batches" in done.stderr
    summary = trace.summary()
    assert summary.n_batches == 16
    assert summary.waits_are_seen


@slow
def test_a_script_that_is_left_on_saves_what_ends_it_and_what_a_signal_asks(left_on):
    done, trace = left_on
    assert done.returncode == 1
    incidents = trace.incidents
    assert incidents["kind"].tolist() == ["asked", "exception"]
    assert incidents["text"].iloc[-1] == "ValueError: the loss is nan"
    assert len(lv.load(incidents["path"].iloc[0]).batches) >= 7


def assert_interrupted(done, trace):
    assert done.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in done.stderr
    assert done.stderr.rstrip().splitlines()[-1].startswith("loaderviz: recorded ")
    assert trace.meta["complete"]
    assert trace.summary().failed_batch is None  # it was interrupted, in the workers too


def assert_killed(done, trace):
    assert len(done.stdout.splitlines()) == 4
    assert done.returncode == -signal.SIGTERM
    assert done.stderr == ""  # no code of its own runs then
    assert not trace.meta["complete"]


ENDS = [
    ("it is interrupted", assert_interrupted),
    pytest.param("it is killed", assert_killed, marks=slow),
]


@pytest.mark.parametrize(("end", "holds"), ENDS)
def test_however_it_ends_all_count_the_batches_that_the_loop_got(end, holds, tmp_path, loaderviz):
    done = run("--out", "run", SCRIPTS / "ends.py", end, cwd=tmp_path)
    n = len(done.stdout.splitlines())
    told = count(n, "batch", "batches")
    folder = tmp_path / "run"
    holds(done, recordings(folder)["rank-00000"])
    if holds is not assert_killed:
        assert f"loaderviz: recorded {told};" in done.stderr
    assert lv.load(folder).summary().n_batches == n
    assert f"\n{told} · " in loaderviz("summary", folder).out
    assert json.loads(loaderviz("report", folder, "--json").out)["summary"]["n_batches"] == n


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--log-dir=logs")
RUN = ("-m", "loaderviz", "run", "--out", "run")


@slow
@pytest.mark.parametrize(
    "how",
    [(*RUN,), (*TORCHRUN, *RUN)],
    ids=["mp.spawn", "torchrun of run"],
)
def test_each_rank_of_a_run_is_recorded(how, tmp_path):
    done = python(*how, SCRIPTS / "ranks.py", free_port(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0: [[0, 2], [4, 6]]", "1: [[1, 3], [5, 7]]"]
    assert done.stderr.count("loaderviz: recorded 2 processes; ") == 1
    assert sorted(lv.load(tmp_path / "run").batches["rank"]) == [0, 0, 1, 1]
    traces = recordings(tmp_path / "run")
    assert [*traces] == ["rank-00000", "rank-00001"]
    for rank, trace in enumerate(traces.values()):
        assert (trace.meta["rank"], trace.meta["world_size"]) == (rank, 2)
        assert trace.samples["key"].tolist() == [*range(rank, 8, 2)]


@slow
def test_every_process_and_every_kind_of_loader_is_recorded(tmp_path):
    done = run("--out", "run", SCRIPTS / "family.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    traces = recordings(tmp_path / "run")
    counts = sorted(tuple(t.batches.groupby("loader").size()) for t in traces.values())
    # Not those that a worker iterates: they are a part of its samples.
    assert counts == [(2, 3, 2), (4,), (5,), (6,)]
    assert all(trace.meta["complete"] for trace in traces.values())
    main = traces["rank-00000"]
    assert [each["class"] for each in main.meta["loaders"]][:2] == ["StatefulDataLoader", "Late"]


@slow
def test_a_fit_of_lightning_is_recorded(tmp_path):
    cache = str(tmp_path / "cache")
    script = SCRIPTS / "lightning_fit.py"
    done = run("--out", "run", script, cwd=tmp_path, TORCHINDUCTOR_CACHE_DIR=cache)
    assert done.stdout.splitlines()[-1] == "fitted 6", done.stderr
    (trace,) = recordings(tmp_path / "run").values()
    assert [each["num_workers"] for each in trace.meta["loaders"]] == [2, 0]
    assert trace.batches.groupby(["loader", "epoch"]).size().tolist() == [3, 3, 2, 2]
    assert trace.batches["delivered_s"].notna().all()


def test_a_script_that_loads_nothing_pays_next_to_nothing_and_is_told(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text("import sys\nsys.own_sitecustomize = True\n")
    script = tmp_path / "plain.py"
    script.write_text(
        "import os, sys\n"
        "print(sys.own_sitecustomize, sys.path, sys.modules['sitecustomize'].__file__)\n"
        "print('loaderviz' in sys.modules, 'torch' in sys.modules)\n"
    )
    path = os.pathsep.join([str(tmp_path / "site"), HOME])
    alone = python(script, cwd=tmp_path, PYTHONPATH=path)
    done = run("--out", "run", script, cwd=tmp_path, PYTHONPATH=path)
    assert done.stdout == alone.stdout
    assert done.stdout.endswith("False False\n")
    assert done.returncode == 0
    folder = tmp_path / "run"
    assert done.stderr.startswith(f"loaderviz: no DataLoader was recorded in {folder}; another ")
    assert "with loaderviz.record(loader):" in done.stderr
    assert [*folder.iterdir()] == []


def load_twice(folder):
    """What a script's loops get that is recorded there, and what is said of it."""
    settings = {"folder": str(folder), "limits": {}}
    os.environ[script_process.SETTINGS_VARIABLE] = json.dumps(settings)
    with redirect_stderr(io.StringIO()) as said:
        start_at_first_loader.arm(dataloader)
        got = [list(DataLoader(range(4), batch_size=None)) for _ in range(2)]
    return got, said.getvalue()


def test_where_nothing_can_be_written_the_script_goes_on(tmp_path):
    (tmp_path / "run").write_text("in the way")
    got, said = forked(load_twice, tmp_path / "run")
    assert got == [[0, 1, 2, 3]] * 2
    assert said.count("loaderviz: this process is not recorded: cannot make a folder") == 1


def test_a_script_that_does_not_exist_is_one_line_and_makes_no_folder(tmp_path):
    done = run("--out", "run", "nothing.py", "--lr", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("loaderviz: the script 'nothing.py' does not exist")
    assert len(done.stderr.splitlines()) == 1
    assert [*tmp_path.iterdir()] == []


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a script, as far as to the point where it would take this process's place."""
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)

    def started(program, args, environment):
        raise SystemExit(args)

    monkeypatch.setattr(os, "execve", started)

    def begin(target="train.py", *, folder=Path("run"), **more):
        with pytest.raises(SystemExit):
            start_script.start(target, [], folder=folder, limits={}, **more)

    return begin


def test_a_folder_that_holds_something_is_refused(start, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/notes.txt").write_text("")
    with pytest.raises(lv.LoaderVizError, match=r"run holds 'notes.txt' already"):
        start()
    start(join=True)


def test_what_is_no_folder_is_refused(start, tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(lv.LoaderVizError, match="cannot make the folder run"):
        start()


def test_ranks_share_a_folder_but_not_with_an_earlier_run(start, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(lv.LoaderVizError, match="give all of them the same --out DIR"):
        start(folder=None)
    (tmp_path / "run/rank-00000").mkdir(parents=True)
    start()
    (tmp_path / "run/rank-00001.parquet").write_text("")
    with pytest.raises(lv.LoaderVizError, match=r"holds 'rank-00001.parquet' already"):
        start()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    start()


def test_runs_that_begin_in_one_second_have_folders_of_their_own(start, tmp_path):
    start(folder=None)
    start(folder=None)
    assert len([*tmp_path.glob("loaderviz-run-*")]) == 2


def test_a_command_that_is_no_script_is_pointed_to_its_module(start):
    with pytest.raises(lv.LoaderVizError, match=r"loaderviz run -m torch\.distributed\.run"):
        start("torchrun")
