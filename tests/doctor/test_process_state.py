"""What the doctor reads of its own process."""

import mmap
import sys
from pathlib import Path

import pytest
import torch

from loaderviz._doctor.process_state import shared_and_own_bytes

LIBRARY = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
MANY_BYTES = 16 << 20


@pytest.mark.skipif(sys.platform != "linux" or not LIBRARY.exists(), reason="needs smaps_rollup")
def test_pages_of_a_library_that_become_resident_are_not_taken_for_objects_that_are_shared():
    with LIBRARY.open("rb") as file:
        first, second = (mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for _ in range(2))
    with first, second:
        before, _ = shared_and_own_bytes()
        for mapped in (first, second):  # in two places, so shared
            sum(mapped[at] for at in range(0, MANY_BYTES, mmap.PAGESIZE))
        after, _ = shared_and_own_bytes()
    assert abs(after - before) < MANY_BYTES / 4
