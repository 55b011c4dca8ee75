"""A file that would unpack to far more than its size is refused before it does."""

import contextlib
import multiprocessing
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import loaderviz as lv
from damage import rewrite_groups, sealed
from loaderviz import LoaderVizError, Trace, machine
from loaderviz.trace.parquet import unpacked_size
from traces import made, recorded


def with_huge_keys(rows: pa.Table) -> pa.Table:
    if rows["table"][0].as_py() != "samples":
        return rows
    texts = [f'"{i}{"x" * 10_000_000}"' for i in range(len(rows))]
    return rows.set_column(rows.schema.names.index("key"), "key", pa.array(texts))


def test_a_text_of_a_gigabyte_is_neither_opened_nor_saved(tmp_path):
    trace, path = made(), tmp_path / "a.parquet"
    replace(trace, samples=trace.samples.assign(key=["a"] * len(trace.samples))).save(path)
    rewrite_groups(path, with_huge_keys)
    assert path.stat().st_size < 100_000
    too_much = "it unpacks to more than 32 MiB"
    with pytest.raises(LoaderVizError, match=rf"is damaged \({too_much}"):
        lv.load(path)
    keyed = Trace.from_columns(samples={"key": [f"{i}" + "x" * 10_000_000 for i in range(4)]})
    with pytest.raises(LoaderVizError, match=re.escape(too_much)):
        keyed.save(tmp_path / "b.parquet")
    assert [*tmp_path.iterdir()] == [path]


def test_rows_take_no_more_memory_than_there_is(tmp_path, monkeypatch):
    recorded(2000).save(tmp_path / "a.parquet")
    monkeypatch.setattr(machine, "memory_available_bytes", lambda: 10_000)
    assert len(lv.load(tmp_path / "a.parquet").samples) == 2000  # small enough anyhow
    monkeypatch.setattr(unpacked_size, "SMALL_BYTES", 0)
    with pytest.raises(LoaderVizError, match=r"rows take .* of memory"):
        lv.load(tmp_path / "a.parquet")


def damaged_footers(content: bytes, seed: int) -> Iterator[bytes]:
    """The file with one byte of its footer changed, under a right seal."""
    n_bytes = int.from_bytes(content[-8:-4], "little")
    noise = random.Random(seed)
    for _ in range(40):
        at = noise.randrange(len(content) - 8 - n_bytes, len(content) - 8)
        yield sealed(content[:at] + bytes([noise.randrange(256)]) + content[at + 1 :])


def open_each(contents: Iterable[bytes], path: Path) -> None:
    for content in contents:
        path.write_bytes(content)
        with contextlib.suppress(LoaderVizError):
            lv.load(path)


def test_no_byte_of_the_footer_ends_the_process(tmp_path):
    made().save(tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    child = multiprocessing.get_context("fork").Process(
        target=open_each, args=(damaged_footers(content, seed=1), tmp_path / "b.parquet")
    )
    child.start()
    child.join()
    assert child.exitcode == 0
