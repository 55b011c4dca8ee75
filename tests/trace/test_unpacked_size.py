"""A file that would unpack to far more than its size is refused before it does."""

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import loaderviz as lv
from damage import sealed
from loaderviz import LoaderVizError, Trace, machine
from loaderviz.trace.parquet import unpacked_size
from loaderviz.trace.parquet.unpacked_size import check_pages
from traces import made, recorded


def unpacked_bytes(path, monkeypatch):
    """What the headers of all pages say."""
    monkeypatch.setattr(unpacked_size, "SMALL_BYTES", 0)
    monkeypatch.setattr(unpacked_size, "MOST_UNPACKED", 0)
    total = 0
    metadata = pq.read_metadata(path)
    with path.open("rb") as file:
        for i in range(metadata.num_row_groups):
            group = metadata.row_group(i)
            for j in range(group.num_columns):
                column = group.column(j)
                start = column.dictionary_page_offset or column.data_page_offset
                total += unpacked_size._unpacked_bytes(
                    file, start, column.total_compressed_size, column
                )
        with pytest.raises(ValueError, match="it unpacks to more than 0 B"):
            check_pages(file, metadata)
    return total


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_the_headers_of_pages_say_how_large_they_are(version, codec, tmp_path, monkeypatch):
    texts = [f"file {i % 1000}" * 3 for i in range(50_000)]
    columns = pa.table({"a": np.arange(50_000), "b": texts, "c": texts})
    pq.write_table(
        columns,
        tmp_path / "a",
        compression=codec,
        use_dictionary=["b"],
        data_page_version=version,
        data_page_size=20_000,
        write_page_checksum=True,
    )
    metadata = pq.read_metadata(tmp_path / "a").row_group(0)
    columns = [metadata.column(i) for i in range(metadata.num_columns)]
    with_headers = sum(column.total_uncompressed_size for column in columns)
    total = unpacked_bytes(tmp_path / "a", monkeypatch)
    assert 0.95 * with_headers < total < with_headers  # without the headers themselves


def test_texts_that_repeat_the_one_before_are_refused(tmp_path):
    columns = pa.table({"a": ["x" * 1000 + str(i) for i in range(1000)]})
    encoding = {"a": "DELTA_BYTE_ARRAY"}
    pq.write_table(columns, tmp_path / "a", use_dictionary=False, column_encoding=encoding)
    with (tmp_path / "a").open("rb") as file, pytest.raises(ValueError, match="encoded as no"):
        check_pages(file, pq.read_metadata(file))


def test_a_text_of_a_gigabyte_is_refused_in_a_small_file(tmp_path, monkeypatch):
    trace = made()
    keyed = replace(trace, samples=trace.samples.assign(key=["a"] * len(trace.samples)))
    path = tmp_path / "a.parquet"
    keyed.save(path)
    parquet = pq.ParquetFile(path)
    tables = [parquet.read_row_group(i) for i in range(parquet.num_row_groups)]
    with pq.ParquetWriter(path, tables[0].schema, store_schema=False, compression="zstd") as writer:
        writer.add_key_value_metadata(parquet.metadata.metadata)
        for rows in tables:
            if rows["table"][0].as_py() == "samples":
                texts = [f'"{i}{"x" * 10_000_000}"' for i in range(len(rows))]
                rows = rows.set_column(rows.schema.names.index("key"), "key", pa.array(texts))
            writer.write_table(rows)
    path.write_bytes(sealed(path.read_bytes()))
    assert path.stat().st_size < 100_000
    with pytest.raises(LoaderVizError, match=r"is damaged \(it unpacks to more than 32 MiB"):
        lv.load(path)


def test_rows_take_no_more_memory_than_there_is(tmp_path, monkeypatch):
    recorded(2000).save(tmp_path / "a.parquet")
    monkeypatch.setattr(machine, "memory_available_bytes", lambda: 10_000)
    assert len(lv.load(tmp_path / "a.parquet").samples) == 2000  # small enough anyhow
    monkeypatch.setattr(unpacked_size, "SMALL_BYTES", 0)
    with pytest.raises(LoaderVizError, match=r"rows take .* of memory"):
        lv.load(tmp_path / "a.parquet")


def test_what_could_not_be_opened_is_not_saved(tmp_path):
    keys = [f"{i}" + "x" * 10_000_000 for i in range(4)]
    trace = Trace.from_columns(samples={"key": keys})
    with pytest.raises(LoaderVizError, match=re.escape("it unpacks to more than 32 MiB")):
        trace.save(tmp_path / "a.parquet")
    assert not list(tmp_path.iterdir())
