"""How much memory a Parquet file takes once it is unpacked, known before any of it is.

A page may unpack to thousands of times its size, and the footer may lie about it: the header of
each page is read, which Parquet's readers hold a page to (parquet.thrift, ``PageHeader``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from io import BytesIO
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
_ROW_GROUPS, _COLUMNS, _COLUMN = 4, 1, 3  # fields of the footer, of a row group, of its column
_PATH, _COLUMN_BYTES, _DATA_OFFSET, _DICTIONARY_OFFSET = 3, 7, 9, 11  # of the column's metadata
_STOP, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 3, 7, 8, 9, 10, 12
_BYTES_OF: Final = {_BYTE: 1, _DOUBLE: 8}
_LONG_LIST = 15  # its length stands by itself


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


def check_pages(file: BinaryIO) -> None:
    """Check that the pages of a Parquet file unpack to no more than those of its size may.

    Where they are is read here: pyarrow's Python classes end the process where the footer holds
    nonsense about a column (``ColumnChunk`` of its ``libparquet.pxd`` lets no exception through).

    Args:
        file: open for reading.

    Raises:
        ValueError: where it takes more, or has no pages where its footer says.
    """
    file_bytes = file.seek(0, os.SEEK_END)
    most, unpacked = max(SMALL_BYTES, MOST_UNPACKED * file_bytes), 0
    for group in _footer(file, file_bytes)[_ROW_GROUPS]:
        for chunk in group[_COLUMNS]:
            unpacked += _unpacked_bytes(file, chunk[_COLUMN])
            if unpacked > most:
                raise ValueError(
                    f"it unpacks to more than {size(most)}, the most for its {size(file_bytes)}"
                )


def _footer(file: BinaryIO, file_bytes: int) -> dict[int, Any]:
    """The file's own metadata: ``FileMetaData`` of parquet.thrift."""
    file.seek(-8, os.SEEK_END)
    n_bytes = int.from_bytes(file.read(4), "little")
    file.seek(max(file_bytes - 8 - n_bytes, 0))
    return _read_struct(BytesIO(file.read(n_bytes)).read)


def _unpacked_bytes(file: BinaryIO, column: dict[int, Any]) -> int:
    """Of all pages of a column of a row group."""
    name = b".".join(column[_PATH]).decode(errors="replace")
    offsets = (column[_DATA_OFFSET], column.get(_DICTIONARY_OFFSET, 0))
    total, start = 0, min(offset for offset in offsets if offset >= 4)
    end = start + column[_COLUMN_BYTES]
    while start < end:
        file.seek(start)
        fields = _read_struct(file.read)
        packed, unpacked = fields.get(_PACKED, -1), fields.get(_UNPACKED, -1)
        if packed < 0 or unpacked < 0:
            raise ValueError(f"a page of {name} has no size")
        if any(dict(fields.get(kind, {})).get(at) == _BY_PREFIX for kind, at in _ENCODING.items()):
            raise ValueError(f"{name} is encoded as no trace is")
        total += unpacked
        start = file.tell() + packed
    return total


def _read_struct(read: Callable[[int], bytes]) -> dict[int, Any]:
    """What is in a struct of Thrift's compact protocol, by field number."""
    fields: dict[int, Any] = {}
    number = 0
    while (head := read(1)[0]) != _STOP:
        number = number + (head >> 4) if head >> 4 else _zigzag(read)
        fields[number] = _read_value(head & 15, read)
    return fields


def _read_value(kind: int, read: Callable[[int], bytes]) -> Any:
    """An integer, bytes, the fields of a struct or a list of these; None of a truth value."""
    if _BYTE < kind < _DOUBLE:
        return _zigzag(read)
    if kind in (_BYTE, _DOUBLE, _BINARY):
        n_bytes = _BYTES_OF.get(kind) or _varint(read)
        if len(value := read(n_bytes)) < n_bytes:
            raise ValueError("it ends in the middle of a value")
        return value
    if kind == _STRUCT:
        return _read_struct(read)
    if kind in (_LIST, _SET):
        return _read_list(read)
    if kind > _BYTE:
        raise ValueError("it holds what no Parquet file does")
    return None


def _read_list(read: Callable[[int], bytes]) -> list[Any]:
    head = read(1)[0]
    n, kind = head >> 4, head & 15
    if n == _LONG_LIST:
        n = _varint(read)
    if kind < _BYTE:  # in a list a truth value takes a byte, elsewhere none
        kind = _BYTE
    return [_read_value(kind, read) for _ in range(n)]


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
            raise ValueError("it holds a number of more than 64 bits")
