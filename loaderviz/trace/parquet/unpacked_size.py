"""How much memory a Parquet file takes once it is unpacked, known before any of it is.

A page may unpack to thousands of times its size, and the footer may lie about it: the header of
each page is read, which Parquet's readers hold a page to (parquet.thrift, ``PageHeader``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final

from loaderviz import machine
from loaderviz.text import size
from loaderviz.trace.check_trace import TABLES

MOST_UNPACKED: Final = 64  # times the size of the file
SMALL_BYTES: Final = 1 << 25  # unpacked, which any file may have: texts take up to 24 times that
MOST_ROW_BYTES: Final = 1 << 31  # of the tables, or ROWS_FACTOR times the size of the file
ROWS_FACTOR: Final = 256
_UNPACKED, _PACKED, _DATA, _DATA_V2 = 2, 3, 5, 8  # fields of a page's header
_ENCODING = {_DATA: 2, _DATA_V2: 4}  # fields of those
_BY_PREFIX = 7  # DELTA_BYTE_ARRAY: each text may repeat a long part of the one before
_STOP, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 0, 3, 7, 8, 9, 10, 11, 12


def check_rows(file: BinaryIO, n_rows: Mapping[str, int]) -> None:
    """Check that tables of so many rows take no more memory than those of a file of its size may.

    Raises:
        ValueError: where they take more.
    """
    file_bytes = file.seek(0, os.SEEK_END)
    needed = sum(8 * len(TABLES[name]) * n for name, n in n_rows.items())
    most = min(max(MOST_ROW_BYTES, ROWS_FACTOR * file_bytes), machine.memory_available_bytes())
    if needed > max(most, SMALL_BYTES):
        raise ValueError(
            f"its {sum(n_rows.values()):,} rows take {size(needed)} of memory, and a file of "
            f"{size(file_bytes)} may take {size(most)} here"
        )


def check_pages(file: BinaryIO, metadata: Any) -> None:
    """Check that the pages of a file unpack to no more than those of a file of its size may.

    Args:
        file: open for reading.
        metadata: pyarrow's of the file.

    Raises:
        ValueError: where it takes more, or has no pages where its footer says.
    """
    file_bytes = file.seek(0, os.SEEK_END)
    most, unpacked = max(SMALL_BYTES, MOST_UNPACKED * file_bytes), 0
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        for j in range(group.num_columns):
            column = group.column(j)
            starts = (column.data_page_offset, column.dictionary_page_offset)
            start = min(offset for offset in starts if offset is not None and offset >= 4)
            unpacked += _unpacked_bytes(file, start, column.total_compressed_size, column)
            if unpacked > most:
                raise ValueError(
                    f"it unpacks to more than {size(most)}, the most for its {size(file_bytes)}"
                )


def _unpacked_bytes(file: BinaryIO, start: int, n_bytes: int, column: Any) -> int:
    """Of all pages of a column of a row group."""
    total, end = 0, start + n_bytes
    while start < end:
        file.seek(start)
        fields = _read_struct(file.read)
        packed, unpacked = fields.get(_PACKED, -1), fields.get(_UNPACKED, -1)
        if packed < 0 or unpacked < 0:
            raise ValueError(f"a page of {column.path_in_schema} has no size")
        if any(dict(fields.get(kind, {})).get(at) == _BY_PREFIX for kind, at in _ENCODING.items()):
            raise ValueError(f"{column.path_in_schema} is encoded as no trace is")
        total += unpacked
        start = file.tell() + packed
    return total


def _read_struct(read: Callable[[int], bytes]) -> dict[int, Any]:
    """The integers and structs in a struct of Thrift's compact protocol, by field number."""
    fields: dict[int, Any] = {}
    number = 0
    while (head := read(1)[0]) != _STOP:
        number = number + (head >> 4) if head >> 4 else _zigzag(read)
        fields[number] = _read_value(head & 15, read)
    return fields


def _read_value(kind: int, read: Callable[[int], bytes]) -> Any:
    """An integer or the fields of a struct; others are skipped."""
    if _BYTE < kind < _DOUBLE:
        return _zigzag(read)
    if kind == _STRUCT:
        return _read_struct(read)
    elif kind in (_LIST, _SET, _MAP) or kind > _STRUCT:
        raise ValueError("the header of a page holds what none does")
    elif kind >= _BYTE:
        read({_BYTE: 1, _DOUBLE: 8}.get(kind) or _varint(read))
    return None


def _zigzag(read: Callable[[int], bytes]) -> int:
    value = _varint(read)
    return (value >> 1) ^ -(value & 1)


def _varint(read: Callable[[int], bytes]) -> int:
    value = shift = 0
    while True:
        byte = read(1)[0]
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value
        if shift > 63:
            raise ValueError("the header of a page holds a number of more than 64 bits")
