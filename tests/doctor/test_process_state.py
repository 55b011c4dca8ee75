"""What the doctor reads of its own process."""

import mmap
import multiprocessing
import sys
from pathlib import Path

import pytest
import torch

from loaderviz._doctor.process_state import lengths_and_epoch, shared_and_own_bytes

LIBRARY = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
MANY_BYTES = 16 << 20


class Cached:
    def __init__(self, **own):
        self.__dict__ |= {"cache": {}, "paths": ["a", "b"], "scalar": torch.tensor(3)} | own


@pytest.mark.parametrize(
    ("epoch", "noted"),
    [
        ({}, {}),
        ({"epoch": 4}, {"dataset.epoch": 4}),
        ({"epoch": multiprocessing.Value("i", 5)}, {"dataset.epoch": 5}),
        ({"epoch": torch.tensor([6])}, {"dataset.epoch": 6, "len(dataset.epoch)": 1}),
        ({"epoch": "seven"}, {}),
    ],
)
def test_what_grows_and_the_epoch_are_noted(epoch, noted):
    assert lengths_and_epoch(Cached(**epoch)) == {
        "len(dataset.cache)": 0,
        "len(dataset.paths)": 2,
        **noted,
    }


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
