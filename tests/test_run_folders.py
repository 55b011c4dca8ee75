"""The folder that the ranks of a run share: one recording each, one file once it has ended."""

import pytest
from torch.utils.data import DataLoader

import loaderviz as lv


@pytest.fixture
def as_rank(monkeypatch):
    def become(rank, n_ranks=2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(n_ranks))

    return become


def recorded(path):
    loader = DataLoader(range(6), batch_size=2)
    with lv.record(loader, path=path) as rec:
        list(loader)
    return rec.trace


def test_each_rank_leaves_one_file(as_rank, tmp_path):
    for rank in range(2):
        as_rank(rank)
        recorded(tmp_path)

    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "rank-00000.parquet",
        "rank-00001.parquet",
    ]
    trace = lv.load(tmp_path / "rank-00001.parquet")
    assert trace.meta["rank"] == 1
    assert trace.meta["world_size"] == 2
    assert trace.samples["key"].tolist() == [*range(6)]


def test_while_it_runs_there_is_a_folder_that_can_be_opened(as_rank, tmp_path):
    as_rank(1)
    loader = DataLoader(range(6), batch_size=2)
    with lv.record(loader, path=tmp_path):
        list(loader)
        running = lv.load(tmp_path / "rank-00001")
    assert running.samples["key"].tolist() == [*range(6)]
    assert not running.meta["complete"]


def test_a_folder_with_a_recording_of_this_rank_is_refused(as_rank, tmp_path):
    as_rank(0)
    recorded(tmp_path)

    with pytest.raises(lv.LoaderVizError, match="holds a recording of rank 0 already"):
        recorded(tmp_path)


def test_where_the_file_cannot_be_written_the_folder_stays(as_rank, tmp_path, monkeypatch):
    def full(*_):
        raise lv.LoaderVizError("the disk is full")

    as_rank(0)
    monkeypatch.setattr(lv.Trace, "save", full)
    with pytest.warns(UserWarning, match="the disk is full"):
        recorded(tmp_path)

    assert lv.load(tmp_path / "rank-00000").samples["key"].tolist() == [*range(6)]
