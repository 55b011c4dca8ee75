"""What workers share that were forked after it was opened, wherever it is kept (LV503)."""

import gzip
import os
import socket
import sys
import threading

import numpy as np
import pytest
from torch.utils.data import DataLoader, Dataset, Sampler

import loaderviz as lv

N, SIZE = 64, 8
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems fork no workers")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("handles") / "rows"
    path.write_bytes(b"".join(index.to_bytes(SIZE, "little") for index in range(N)))
    return path


class Rows(Dataset):
    """Each is read by a function of its index."""

    def __init__(self, read, **held):
        self.read = read
        vars(self).update(held)

    def __len__(self):
        return N

    def __getitem__(self, index):
        return self.read(self, index)


def told(dataset, **options):
    found = lv.doctor(DataLoader(dataset, 4, num_workers=1, **options), budget_s=60)
    return [each.evidence[0] for each in found.findings if each.code == "LV503"]


def read_file(file, index):
    file.seek(SIZE * index)
    return int.from_bytes(file.read(SIZE), "little")


def test_a_file_that_ends_where_it_stood_before(path):
    """Read to its end by ``__init__``, say, which the last sample of an epoch does, too."""
    with path.open("rb", buffering=0) as file:
        file.seek(0, os.SEEK_END)
        (line,) = told(Rows(lambda self, index: read_file(self.file, index), file=file))
    assert line == f"dataset.file is an open _io.FileIO of {str(path)!r}"


def test_a_compressed_file(path):
    packed = path.with_suffix(".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with gzip.open(packed) as file:
        (line,) = told(Rows(lambda self, index: read_file(self.file, index), file=file))
    assert line == f"dataset.file is an open gzip.GzipFile of {str(packed)!r}"


def test_a_connection():
    here, there = socket.socketpair()

    def answer():
        while request := there.recv(SIZE):
            there.sendall(request)

    def ask(self, index):
        self.line.sendall(index.to_bytes(SIZE, "little"))
        return int.from_bytes(self.line.recv(SIZE), "little")

    server = threading.Thread(target=answer)
    server.start()
    with there, here:
        assert told(Rows(ask, line=here)) == ["dataset.line is an open socket.socket"]
        here.shutdown(socket.SHUT_WR)
        server.join()


def test_a_file_of_a_closure_is_known_by_its_position(path):
    with path.open("rb") as rows:
        (line,) = told(Rows(lambda self, index: read_file(rows, index)))
    assert line.startswith(f"{path} is open here as rows of ")


def test_a_bare_descriptor(path):
    fd = os.open(path, os.O_RDONLY)

    def read(self, index):
        os.lseek(self.fd, SIZE * index, os.SEEK_SET)
        return int.from_bytes(os.read(self.fd, SIZE), "little")

    try:
        assert told(Rows(read, fd=fd)) == [f"{path} is open here (file descriptor {fd})"]
    finally:
        os.close(fd)


def test_what_a_thread_may_have_read_is_not_said_of_workers(path):
    """A fork shares the position with this process, whose threads may read meanwhile."""
    fd, done = os.open(path, os.O_RDONLY), threading.Event()

    def read_on():
        while not done.wait(0.001):
            os.lseek(fd, (os.lseek(fd, 0, os.SEEK_CUR) + 1) % (N * SIZE), os.SEEK_SET)

    thread = threading.Thread(target=read_on)
    thread.start()
    try:
        assert told(Rows(lambda self, index: index)) == []
    finally:
        done.set()
        thread.join()
        os.close(fd)


class FromAFile(Sampler):
    """Reads in the main process what to ask for."""

    def __init__(self, file):
        self.file = file

    def __len__(self):
        return N

    def __iter__(self):
        for index in range(N):
            yield read_file(self.file, index)


def test_what_has_no_position_or_whose_position_nobody_uses_is_shared_by_nobody(path):
    """Nor is what the main process alone reads."""

    def read(self, index):
        return int(self.rows[index]), os.pread(self.file.fileno(), SIZE, SIZE * index)

    rows = np.memmap(path, np.int64, "r")
    with path.open("rb") as of_sampler, path.open("rb", buffering=0) as file:
        assert told(Rows(read, rows=rows, file=file), sampler=FromAFile(of_sampler)) == []
