"""Folders that several processes want: each keeps its recording."""

import os
import signal
import warnings
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import loaderviz as lv
from forked import TALK, Forked, forked

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs locks of files")


def record_rounds(talk: Any, label: str, path: Path, n_rounds: int = 1) -> None:
    """Begins when told, so that several begin at once; tells how many warnings there are."""
    for number in range(n_rounds):
        talk.recv()
        loader = DataLoader(range(8), batch_size=2)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with lv.record(loader, path=f"{path}-{number}", label=label) as rec:
                assert len(list(loader)) == 4
                talk.send(len(said))
                talk.recv()
        talk.send(rec.trace.summary().n_batches)


def begun(*args: Any) -> Forked:
    return Forked(record_rounds, TALK, *args)


def labels(folders):
    return sorted(lv.load(folder).meta["label"] for folder in folders)


def test_processes_that_begin_in_one_path_at_once_keep_a_recording_each(tmp_path):
    n_rounds, path = 4, tmp_path / "run"
    with (
        begun("one", path, n_rounds) as one,
        begun("two", path, n_rounds) as two,
    ):
        for number in range(n_rounds):
            for each in (one, two):
                each.say()
            assert sorted(each.hear() for each in (one, two)) == [0, 1]  # one is warned
            for each in (one, two):
                each.say()
            assert [each.hear() for each in (one, two)] == [4, 4]
            own = [tmp_path / f"run-{number}", tmp_path / f"run-{number}-1"]
            assert labels(own) == ["one", "two"]
            assert not [*tmp_path.glob("*/*.lock")]


def test_a_folder_of_a_killed_process_is_taken_and_can_be_read(tmp_path):
    with begun("one", tmp_path / "run") as process:
        process.say()
        assert process.hear() == 0
        os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(lv.LoaderVizError, match="taken"):
        lv.record(DataLoader(range(3)), path=tmp_path / "run-0").__enter__()
    assert lv.load(tmp_path / "run-0").meta["label"] == "one"


def test_where_warnings_are_errors_the_training_begins_all_the_same(tmp_path, capfd):
    with begun("one", tmp_path / "run") as other:
        other.say()
        assert other.hear() == 0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with lv.record(DataLoader(range(8)), path=tmp_path / "run-0", label="two"):
                pass
        other.say()
        assert other.hear() == 4
    assert "is kept in" in capfd.readouterr().err
    assert labels([tmp_path / "run-0-1"]) == ["two"]


def test_a_forked_child_keeps_a_recording_beside_that_of_its_parent(tmp_path):
    def record_too() -> None:
        own = lv.record(DataLoader(range(8)), path=tmp_path / "run", label="child")
        with pytest.warns(UserWarning, match="run-1"), own:
            pass

    with lv.record(DataLoader(range(8), batch_size=2), path=tmp_path / "run") as rec:
        forked(record_too)
    assert rec.trace.meta["complete"]
    assert labels([tmp_path / "run-1"]) == ["child"]
