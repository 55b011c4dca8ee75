"""Files of strangers: what would wait for ever, lead elsewhere or fill the memory is refused."""

import os
import shutil
import socket

import pytest
from torch.utils.data import DataLoader

import loaderviz as lv
from loaderviz import machine
from loaderviz.cli.top import _WatchedFolder
from loaderviz.errors import LoaderVizError
from loaderviz.regular_file import MOST_TEXT_BYTES, open_regular, read_text

HUGE = 1 << 40


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("original") / "run"
    loader = DataLoader(range(4), batch_size=2)
    with lv.record(loader, path=path):
        list(loader)
    return path


@pytest.fixture
def copy(recording, tmp_path):
    return shutil.copytree(recording, tmp_path / "run")


def pipe(path):
    os.mkfifo(path)


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


def device(path):
    path.symlink_to("/dev/zero")


def circle(path):
    path.symlink_to(path.name)


def link_out(path):
    elsewhere = path.parents[1] / "elsewhere"
    elsewhere.write_text("{}")
    path.symlink_to(elsewhere)


def full_of_holes(path):
    path.write_bytes(b"LVSPOOL2" * 8)
    os.truncate(path, HUGE)


ODD = [pipe, unix_socket, device, circle, link_out, full_of_holes, lambda path: path.mkdir()]


@pytest.mark.parametrize("put", ODD, ids=lambda put: put.__name__)
@pytest.mark.parametrize("name", ["meta.json", "main.spool"])
@pytest.mark.parametrize("look", [lv.load, lambda path: _WatchedFolder(path).look()])
def test_an_odd_file_in_a_recording_is_refused(look, name, put, copy, monkeypatch):
    monkeypatch.chdir(copy)
    (copy / name).unlink()
    put(copy / name)
    with pytest.raises(LoaderVizError):
        look(copy)


@pytest.mark.parametrize("put", [pipe, link_out], ids=lambda put: put.__name__)
def test_the_odd_file_of_a_process_is_named_and_left_out(put, copy):
    put(copy / "worker-0-0-1.spool")
    trace = lv.load(copy)
    assert len(trace.batches) == 2
    assert "worker-0-0-1.spool" in trace.meta["problems"][0]


@pytest.mark.parametrize("name", ["a.parquet", "a"])
def test_a_rank_elsewhere_is_not_followed(name, recording, tmp_path):
    lv.load(recording).save(tmp_path / "saved.parquet")
    run = tmp_path / "run"
    run.mkdir()
    shutil.copytree(recording, run / "rank-00000")
    (run / name).symlink_to(recording if name == "a" else tmp_path / "saved.parquet")
    trace = lv.load(run)
    assert len(trace.batches) == 2
    assert "leads out of its folder" in trace.meta["problems"][0]


def test_what_the_user_names_may_be_a_link(recording, tmp_path):
    lv.load(recording).save(tmp_path / "saved.parquet")
    (tmp_path / "link.parquet").symlink_to(tmp_path / "saved.parquet")
    (tmp_path / "link").symlink_to(recording)
    for name in ("link.parquet", "link"):
        assert len(lv.load(tmp_path / name).batches) == 2


def test_what_is_too_large_is_told(tmp_path, monkeypatch):
    with (tmp_path / "b").open("wb") as file:
        file.truncate(MOST_TEXT_BYTES + 1)
    with pytest.raises(LoaderVizError, match="larger than 64 MiB"):
        read_text(tmp_path / "b")
    monkeypatch.setattr(machine, "memory_available_bytes", lambda: 1000)
    with pytest.raises(LoaderVizError, match="more than the free memory"):
        open_regular(tmp_path / "b")
    (tmp_path / "c").write_bytes(bytes(2000))
    open_regular(tmp_path / "c").close()  # small enough anyhow
