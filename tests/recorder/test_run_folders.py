"""The folder that the ranks of a run share: one recording each, one file once it has ended."""

import pytest
from torch.utils.data import DataLoader

import loaderviz as lv
from loaderviz.recorder import recording_folders
from loaderviz.trace.parquet import write_parquet
from own_code import in_recorder


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
        loader = DataLoader(range(6), batch_size=2)
        with lv.record(loader, path=tmp_path):
            list(loader)
            running = lv.load(tmp_path / f"rank-0000{rank}")
        assert running.samples["key"].tolist() == [*range(6)]
        assert not running.meta["complete"]
        with pytest.raises(lv.LoaderVizError, match=f"holds a recording of rank {rank} already"):
            recorded(tmp_path)

    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "rank-00000.parquet",
        "rank-00001.parquet",
    ]
    trace = lv.load(tmp_path / "rank-00001.parquet")
    assert trace.meta["rank"] == 1
    assert trace.meta["world_size"] == 2
    assert trace.samples["key"].tolist() == [*range(6)]


def test_where_the_file_cannot_be_written_the_folder_stays(as_rank, tmp_path, monkeypatch):
    @in_recorder
    def full(*_):
        raise lv.LoaderVizError("the disk is full")

    as_rank(0)
    monkeypatch.setattr(lv.Trace, "save", full)
    with pytest.warns(UserWarning, match="the disk is full"):
        recorded(tmp_path)

    assert lv.load(tmp_path / "rank-00000").samples["key"].tolist() == [*range(6)]


def test_ctrl_c_while_the_file_is_written_leaves_the_folder_and_the_trace(
    as_rank, tmp_path, monkeypatch
):
    def interrupt(*_):
        raise KeyboardInterrupt

    as_rank(0)
    loader = DataLoader(range(6), batch_size=2)
    monkeypatch.setattr(write_parquet, "seal", interrupt)
    with pytest.raises(KeyboardInterrupt), lv.record(loader, path=tmp_path) as rec:
        list(loader)
    assert [each.name for each in tmp_path.iterdir()] == ["rank-00000"]
    assert lv.load(tmp_path / "rank-00000").meta["complete"]
    assert len(rec.trace.samples) == 6


def test_one_while_the_folder_goes_leaves_the_file(as_rank, tmp_path, monkeypatch):
    def interrupt(folder):
        (folder / "meta.json").unlink(missing_ok=True)
        raise KeyboardInterrupt

    as_rank(0)
    with monkeypatch.context() as patch:
        patch.setattr(recording_folders, "_remove_files", interrupt)
        with pytest.raises(KeyboardInterrupt):
            recorded(tmp_path)
    assert len(lv.load(tmp_path / "rank-00000.parquet").samples) == 6


@pytest.mark.parametrize("max_bytes", [None, 1 << 20])
def test_workers_outlive_the_folder_that_they_wrote_to(as_rank, tmp_path, max_bytes):
    as_rank(0)
    loader = DataLoader(range(60), batch_size=2, num_workers=2, persistent_workers=True)
    with lv.record(loader, path=tmp_path, max_bytes=max_bytes) as rec:
        for at, _ in enumerate(loader):
            if at == 3:
                break
    assert [each.name for each in tmp_path.iterdir()] == ["rank-00000.parquet"]
    assert rec.trace.workers["exit"].tolist() == ["running", "running"]
    for _ in range(2):
        assert len(list(loader)) == 30
    assert [each.name for each in tmp_path.iterdir()] == ["rank-00000.parquet"]
