"""Batches whose size depends on the data."""

from itertools import chain

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from loaderviz import LoaderVizError
from loaderviz.course.datasets import LengthBuckets, LineChunks


def sequences_of(lengths):
    """Sequence i is as many times i + 1, so that padding (0) can be told apart."""
    return [torch.full((length,), i + 1) for i, length in enumerate(lengths)]


def names(batches):
    return sorted(int(row[0]) for batch in batches for row in batch)


@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(1, 30), max_size=40),
    budget=st.integers(30, 90),
    width=st.integers(1, 12),
)
def test_each_sequence_comes_once_among_its_like_and_within_the_budget(lengths, budget, width):
    batches = list(LengthBuckets(sequences_of(lengths), budget, width))
    assert names(batches) == list(range(1, len(lengths) + 1))
    for batch in batches:
        assert batch.numel() <= budget
        own = (batch > 0).sum(dim=1)
        assert int(own.max()) == batch.shape[1]
        assert len({(int(each) - 1) // width for each in own}) == 1


def test_workers_share_the_sequences():
    dataset = LengthBuckets(sequences_of([3, 9, 2, 8, 3, 3, 7, 1]), budget=20, width=4)
    assert names(DataLoader(dataset, batch_size=None, num_workers=2)) == list(range(1, 9))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"budget": 0}, "budget=0"),
        ({"budget": 4}, "budget=4 has no room for a sequence of 5"),
        ({"width": 0}, "width=0"),
        ({"sample_s": -1}, "sample_s=-1"),
    ],
)
def test_buckets_that_cannot_be_are_named(arguments, complaint):
    with pytest.raises(LoaderVizError, match=complaint):
        LengthBuckets(sequences_of([5]), **{"budget": 10, "width": 4, **arguments})


@pytest.fixture
def paths(tmp_path):
    found = [tmp_path / name for name in ("a.txt", "b.txt", "empty.txt")]
    found[0].write_text("".join(f"a{'-' * n}\n" for n in range(6)))
    found[1].write_text("b\nlast line without an end")
    found[2].write_text("")
    return found


@pytest.mark.parametrize("n_chars", [1, 8, 1000])
def test_lines_come_whole_in_order_and_chunks_do_not_mix_files(paths, n_chars):
    chunks = list(LineChunks(paths, n_chars))
    lines = list(chain.from_iterable(chunks))
    assert lines == [*(f"a{'-' * n}" for n in range(6)), "b", "last line without an end"]
    assert all(len({line[0] for line in chunk if line != "last line without an end"}) <= 1
               for chunk in chunks)  # fmt: skip
    assert len(chunks) >= 2


def test_workers_share_the_files(paths):
    loader = DataLoader(LineChunks(paths, 1000), batch_size=None, num_workers=2)
    assert [chunk[0] for chunk in loader] == ["a", "b"]


def test_a_chunk_of_nothing_is_refused(paths):
    with pytest.raises(LoaderVizError, match="n_chars=0"):
        LineChunks(paths, 0)
