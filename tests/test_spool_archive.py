"""Files of ended processes, moved into one."""

import pytest

from loaderviz import spool_archive
from loaderviz.errors import LoaderVizError
from loaderviz.record_layout import Tag
from loaderviz.spool import ENDED, RSS_PEAK, RollingSpool, Spool, SpoolFile
from loaderviz.spool_archive import ArchivedSpool


@pytest.fixture
def archive(tmp_path):
    spool = Spool(tmp_path / "archive.spool", {})
    yield spool
    spool.close()


def make_file(path, n_records, **meta):
    spool = RollingSpool(path, meta)
    for number in range(n_records):
        spool.write(Tag.TASK, number, -number, 1 << 62)
    spool.header[ENDED], spool.header[RSS_PEAK] = 17, 4096
    spool.note_problem("the disk is full")
    spool.close()


def read(tmp_path):
    file = SpoolFile(tmp_path / "archive.spool")
    return [ArchivedSpool(file.format, record) for record in spool_archive.records(file)]


def content(file):
    starts = file.records().get(Tag.TASK, ())
    records = [file.words[at : at + file.words[at]].tolist() for at in starts]
    head = file.format, file.meta, file.ended_ns, file.rss_peak_bytes, file.problem
    return head, records


@pytest.mark.parametrize("n_records", [0, 1, 5000])  # 5000: several blocks
def test_what_is_moved_reads_as_before(n_records, archive, tmp_path):
    before = []
    for number in range(3):
        path = tmp_path / f"{number}.spool"
        make_file(path, n_records, worker=number, name="ä")
        before.append(content(SpoolFile(path)))
        size = path.stat().st_size
        assert spool_archive.move(path, archive) == size
        assert not path.exists()
    assert [content(file) for file in read(tmp_path)] == before
    assert len(before[0][1]) == n_records


def test_a_file_that_cannot_be_read_stays(archive, tmp_path):
    (tmp_path / "a.spool").write_bytes(b"nonsense")
    with pytest.raises(LoaderVizError):
        spool_archive.move(tmp_path / "a.spool", archive)
    assert (tmp_path / "a.spool").exists()
    assert read(tmp_path) == []
