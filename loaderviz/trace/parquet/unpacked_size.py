"""How much memory a Parquet file takes once it is unpacked, as its footer says, before it is.

A page may unpack to thousands of times its size.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

from loaderviz import machine
from loaderviz.text import size
from loaderviz.trace.check_trace import TABLES

MOST_UNPACKED: Final = 64  # times the size of the file
SMALL_BYTES: Final = 1 << 25  # unpacked, which any file may have: texts take up to 24 times that
MOST_ROW_BYTES: Final = 1 << 31  # of the tables, or ROWS_FACTOR times the size of the file
ROWS_FACTOR: Final = 256


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


def check_unpacked(file: BinaryIO, metadata: Any) -> None:
    """Check that a Parquet file unpacks to no more than one of its size may.

    Of the metadata of columns nothing is asked here: pyarrow's class ends the process where the
    footer holds nonsense about one (``ColumnChunk`` of its ``libparquet.pxd`` lets no exception
    through).

    Args:
        file: open for reading.
        metadata: its ``pyarrow.parquet.FileMetaData``.

    Raises:
        ValueError: where it takes more.
    """
    file_bytes = file.seek(0, os.SEEK_END)
    most = max(SMALL_BYTES, MOST_UNPACKED * file_bytes)
    groups = range(metadata.num_row_groups)
    if sum(metadata.row_group(i).total_byte_size for i in groups) > most:
        raise ValueError(
            f"it unpacks to more than {size(most)}, the most for its {size(file_bytes)}"
        )
