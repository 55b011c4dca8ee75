"""Folders that several processes want: each keeps its recording."""

import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from torch.utils.data import DataLoader

import loaderviz as lv

ROOT = Path(__file__).parents[2]

# Imports first, then begins when told, so that several begin at once.
SCRIPT = """
import sys, warnings
from torch.utils.data import DataLoader
import loaderviz as lv

label, path, n_rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
for number in range(n_rounds):
    sys.stdin.readline()
    loader = DataLoader(range(8), batch_size=2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with lv.record(loader, path=f"{path}-{number}", label=label) as rec:
            assert len(list(loader)) == 4
            print(len(said), flush=True)
            sys.stdin.readline()
    print(rec.trace.summary().n_batches, flush=True)
"""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs locks of files")


class Process:
    def __init__(self, label, path, n_rounds=1):
        self._popen = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, label, path, str(n_rounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self.hear() == "ready"

    def hear(self):
        return self._popen.stdout.readline().strip()

    def go_on(self):
        self._popen.stdin.write("\n")
        self._popen.stdin.flush()

    def kill(self):
        self._popen.send_signal(signal.SIGKILL)
        self.__exit__()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self._popen:
            self._popen.stdin.close()


def labels(folders):
    return sorted(lv.load(folder).meta["label"] for folder in folders)


def test_processes_that_begin_in_one_path_at_once_keep_a_recording_each(tmp_path):
    n_rounds, path = 10, tmp_path / "run"
    with Process("one", path, n_rounds) as one, Process("two", path, n_rounds) as two:
        for number in range(n_rounds):
            for each in (one, two):
                each.go_on()
            assert sorted(each.hear() for each in (one, two)) == ["0", "1"]  # one is warned
            for each in (one, two):
                each.go_on()
            assert [each.hear() for each in (one, two)] == ["4", "4"]
            own = [tmp_path / f"run-{number}", tmp_path / f"run-{number}-1"]
            assert labels(own) == ["one", "two"]
            assert not [*tmp_path.glob("*/*.lock")]


def test_a_folder_of_a_killed_process_is_taken_and_can_be_read(tmp_path):
    process = Process("one", tmp_path / "run")
    process.go_on()
    assert process.hear() == "0"
    process.kill()
    with pytest.raises(lv.LoaderVizError, match="taken"):
        lv.record(DataLoader(range(3)), path=tmp_path / "run-0").__enter__()
    assert lv.load(tmp_path / "run-0").meta["label"] == "one"


def test_where_warnings_are_errors_the_training_begins_all_the_same(tmp_path, capfd):
    with Process("one", tmp_path / "run") as other:
        other.go_on()
        assert other.hear() == "0"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with lv.record(DataLoader(range(8)), path=tmp_path / "run-0", label="two"):
                pass
        other.go_on()
        assert other.hear() == "4"
    assert "is kept in" in capfd.readouterr().err
    assert labels([tmp_path / "run-0-1"]) == ["two"]


def test_a_forked_child_keeps_a_recording_beside_that_of_its_parent(tmp_path):
    with lv.record(DataLoader(range(8), batch_size=2), path=tmp_path / "run") as rec:
        child = os.fork()
        if not child:
            status = 1
            try:
                own = lv.record(DataLoader(range(8)), path=tmp_path / "run", label="child")
                with pytest.warns(UserWarning, match="run-1"), own:
                    status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert rec.trace.meta["complete"]
    assert labels([tmp_path / "run-1"]) == ["child"]
