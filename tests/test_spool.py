"""Spool files outlive their writer, and nothing that a file may hold breaks their readers."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import loaderviz as lv
from loaderviz import spool as spool_module
from loaderviz import spool_archive
from loaderviz.record_layout import (
    Batch,
    KeyKind,
    Tag,
    Task,
    batch_and_task_layout,
    encode_keys,
    pack_text,
    task_layout,
    unpack_text,
)
from loaderviz.spool import (
    FIRST_BLOCK_BYTES,
    HEADER_BYTES,
    WORD,
    NoIntegersError,
    Spool,
    SpoolFile,
)
from loaderviz.trace import ENDED_WORKERS_NAME, META_NAME, Trace
from probes import Keys, as_it_is

INT64 = st.integers(-(2**63), 2**63 - 1)
RECORDS = st.lists(st.tuples(st.integers(1, 20), st.lists(INT64, max_size=6)), max_size=20)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "a.spool", {"who": "me"})
    yield spool
    spool.close()


def records_of(path: Path) -> list[tuple[int, list[int]]]:
    """Tag and words of each record, in the order of writing."""
    file = SpoolFile(path)
    places = sorted((at, tag) for tag, found in file.records().items() for at in found.tolist())
    return [(tag, file.words[at : at + file.words[at]].tolist()) for at, tag in places]


def read(path: Path) -> list[tuple[int, list[int]]]:
    return [(tag, words[2:]) for tag, words in records_of(path)]


class TestWritingAndReading:
    @settings(max_examples=30)
    @given(records=RECORDS)
    def test_what_is_written_is_read_at_any_moment(self, records, tmp_path_factory):
        path = tmp_path_factory.mktemp("spool") / "a.spool"
        spool = Spool(path, {"who": "me", "ä": [1, None]})
        for i, (tag, fields) in enumerate(records):
            assert read(path) == records[:i]
            spool.write(tag, *fields)
        assert read(path) == records
        spool.close()
        assert read(path) == records
        assert SpoolFile(path).meta == {"who": "me", "ä": [1, None]}

    def test_records_go_on_in_further_blocks(self, writer, tmp_path):
        sizes = [FIRST_BLOCK_BYTES // WORD - 4, 3, FIRST_BLOCK_BYTES, 5]
        for i, size in enumerate(sizes):
            block, at = writer.reserve(size, i + 1)
            assert not any(block[at + 2 : at + size])
            block[at + size - 1] = i + 1
        found = [(tag, len(words), words[-1]) for tag, words in records_of(tmp_path / "a.spool")]
        assert found == [(i + 1, size, i + 1) for i, size in enumerate(sizes)]

    def test_a_record_is_filled_in_as_things_happen(self, writer, tmp_path):
        block, at = writer.reserve(4, 9)
        assert read(tmp_path / "a.spool") == [(9, [0, 0])]
        block[at + 3] = 5
        assert read(tmp_path / "a.spool") == [(9, [0, 5])]

    def test_what_is_no_integer_is_refused_and_leaves_no_trace(self, writer, tmp_path):
        class Odd:
            def __index__(self) -> int:
                raise LookupError

        class Interrupted:
            def __index__(self) -> int:
                raise KeyboardInterrupt

        errors = {"text": NoIntegersError, 1.5: NoIntegersError, None: NoIntegersError}
        errors |= {2**63: NoIntegersError, Odd(): NoIntegersError, Interrupted(): KeyboardInterrupt}
        for field, error in errors.items():
            with pytest.raises(error):
                writer.pack(Struct("4q"), (4, 7, 1, field))
        block, at = writer.reserve(6, 9)
        assert not any(block[at + 2 : at + 6])
        writer.pack(Struct("2q8xq"), (4, 8, np.int64(3)))
        assert read(tmp_path / "a.spool") == [(9, [0, 0, 0, 0]), (8, [0, 3])]

    @pytest.mark.parametrize("n_keys", [0, 1, 5])
    def test_layouts_have_each_field_in_its_place(self, n_keys, writer):
        keys = list(range(100, 100 + n_keys))
        batch = Batch.N_WORDS, Tag.BATCH, 1, 2, 3, 4, 5, 6
        n_words = Task.STAMPS + n_keys + 1 + n_keys
        task = n_words, Tag.TASK, 1, 2, 3, n_keys, 4, *keys
        block, at = writer.pack(task_layout(n_keys), task)
        places = (Task.ITERATOR, Task.ROUND, Task.STARTED, Task.N_KEYS, Task.KEY_KIND)
        assert [block[at + place] for place in places] == [1, 2, 3, n_keys, 4]
        first_key = Task.STAMPS + n_keys + 1
        assert block[at] == n_words
        assert block[at + first_key : at + first_key + n_keys].tolist() == keys
        assert not any(block[at + Task.KEY_KIND + 1 : at + first_key])
        both = block[at : at + n_words].tolist()
        block, at = writer.pack(Batch.LAYOUT, batch)
        assert block[at] == Batch.N_WORDS
        assert block[at + Batch.ITERATOR : at + Batch.PINNED].tolist() == [1, 2, 3, 4, 5]
        assert block[at + Batch.DRAWING] == 6
        assert not any(block[at + Batch.PINNED : at + Batch.DRAWING])
        both = block[at : at + Batch.N_WORDS].tolist() + both
        block, at = writer.pack(batch_and_task_layout(n_keys), (*batch, *task))
        assert block[at : at + len(both)].tolist() == both

    def test_a_full_disk_is_an_error_and_loses_nothing(self, writer, tmp_path, monkeypatch):
        writer.write(1, 10)

        def full(*args):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(spool_module, "_allocate", full)
        with pytest.raises(OSError, match="No space"):
            writer.reserve(FIRST_BLOCK_BYTES, 2)
        writer.write(3, 30)
        assert read(tmp_path / "a.spool") == [(1, [10]), (3, [30])]

    def test_systems_without_posix_fallocate_grow_files_too(self, tmp_path, monkeypatch):
        monkeypatch.delattr(os, "posix_fallocate")
        spool = Spool(tmp_path / "a.spool", {})
        spool.reserve(FIRST_BLOCK_BYTES, 1)
        spool.write(2, 3)
        spool.close()
        assert read(tmp_path / "a.spool")[1] == (2, [3])

    @pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
    def test_what_cuts_its_making_short_leaves_no_half_file(self, tmp_path, monkeypatch, error):
        def stop(*args):
            raise error

        monkeypatch.setattr(spool_module, "_allocate", stop)
        with pytest.raises(type(error)):
            Spool(tmp_path / "b.spool", {})
        assert not (tmp_path / "b.spool").exists()

    def test_one_file_has_one_writer_and_room_for_so_much_meta(self, writer, tmp_path):
        with pytest.raises(FileExistsError):
            Spool(tmp_path / "a.spool", {})
        with pytest.raises(lv.LoaderVizError, match="does not fit"):
            Spool(tmp_path / "b.spool", {"text": "x" * HEADER_BYTES})
        assert not (tmp_path / "b.spool").exists()
        writer.close()
        with (tmp_path / "other").open("w") as other:  # may get the number that became free
            writer.close()
            other.write("still open")


class TestKeys:
    @settings(max_examples=30)
    @given(keys=st.lists(INT64))
    def test_integers_stay_integers(self, keys):
        kind, words = encode_keys(keys)
        assert kind == KeyKind.INTEGERS
        assert list(words) == keys

    @settings(max_examples=30)
    @given(keys=st.lists(st.integers() | st.text(), min_size=1))
    def test_other_keys_are_kept_as_text(self, keys):
        kind, words = encode_keys([*keys, "text"])
        assert kind == KeyKind.TEXT
        assert json.loads(unpack_text(np.array(words))) == [*keys, "text"]

    @settings(max_examples=30)
    @given(text=st.text(st.characters(exclude_categories=["Cs"])))
    def test_text_is_padded_with_blanks(self, text):
        assert unpack_text(np.array(pack_text(text), dtype=np.int64)) == text.rstrip(" ")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with files of every kind, with keys of each kind.

    Of workers, those that were moved among them, and of this process.
    """
    path = tmp_path_factory.mktemp("recordings") / "run"
    loaders = [
        DataLoader(Keys(6), batch_size=2, num_workers=2),
        DataLoader(Keys(6), batch_size=2, sampler=["a", "b", 3, "c"], collate_fn=as_it_is),
        DataLoader(Keys(6), batch_size=2),
    ]
    with pytest.MonkeyPatch.context() as patch, lv.record(*loaders, path=path):
        list(loaders[0])
        list(loaders[0])  # its workers started, the files of those before were moved
        patch.setattr(spool_archive, "LARGEST_FILE_BYTES", 0)
        for loader in loaders[1:]:
            list(loader)
    assert (path / ENDED_WORKERS_NAME).exists()
    return path


def load_or_refuse(path: object) -> Trace | None:
    """The trace; or None for a LoaderVizError, the only error that there may be."""
    try:
        trace = lv.load(path)
    except lv.LoaderVizError:
        return None
    str(trace.summary())
    return trace


class TestDamage:
    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "[]",
            "null",
            "{}",
            "[" * 100_000,
            '{"started": [0, 0], "rank": 0}',
            '{"started": [0, 0], "rank": 0, "loaders": 3}',
            '{"started": [0, 0], "rank": 0, "loaders": [{}]}',
            '{"started": [1e400, 0], "rank": 0, "loaders": []}',
            '{"started": [99999999999999999999, 0], "rank": 0, "loaders": []}',
            '{"started": "soon", "rank": 0, "loaders": []}',
            '{"started": [0, 0], "rank": 1e30, "loaders": []}',
            '{"started": [0, 0], "rank": 0, "loaders": []}',
        ],
    )
    def test_any_meta_gives_a_trace_or_a_refusal(self, text, recording, tmp_path):
        shutil.copytree(recording, tmp_path / "run")
        (tmp_path / "run" / META_NAME).write_text(text)
        load_or_refuse(tmp_path / "run")

    @pytest.mark.parametrize("name", [META_NAME, "main.spool", "control"])
    def test_a_file_that_is_missing(self, name, recording, tmp_path):
        shutil.copytree(recording, tmp_path / "run")
        (tmp_path / "run" / name).unlink()
        trace = load_or_refuse(tmp_path / "run")
        assert (trace is None) == (name != "control")

    def test_a_workers_file_that_is_missing_or_empty_loses_that_worker_alone(
        self, recording, tmp_path
    ):
        whole = lv.load(recording)
        for content in (None, b""):
            shutil.copytree(recording, tmp_path / "run", dirs_exist_ok=True)
            (file,) = (tmp_path / "run").glob("worker-1-1-*")
            file.unlink() if content is None else file.write_bytes(content)
            trace = lv.load(tmp_path / "run")
            of_workers = whole.samples["worker"] >= 0
            lost = (whole.samples["worker"] == 1) & (whole.samples["epoch"] == 1)
            assert len(trace.samples) == len(whole.samples) - lost.sum()
            assert lost.sum() < of_workers.sum()
            assert trace.batches["delivered_s"].equals(whole.batches["delivered_s"])

    def test_a_fetch_that_claims_a_million_samples_takes_no_memory_for_them(
        self, recording, tmp_path
    ):
        shutil.copytree(recording, tmp_path / "run")
        file = next((tmp_path / "run").glob("here-*.spool"))
        words = np.fromfile(file, np.int64)
        at = HEADER_BYTES // WORD + SpoolFile(file).records()[Tag.TASK][0]
        words[at + Task.N_SAMPLES] = 10**6
        words.tofile(file)
        trace = lv.load(tmp_path / "run")
        assert len(trace.samples) == len(lv.load(recording).samples)
        assert "what it wrote is damaged" in " ".join(trace.meta["problems"])
