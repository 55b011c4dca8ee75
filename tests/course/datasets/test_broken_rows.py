"""Datasets that deliver something else than they were asked for: what `audit` says of each."""

import pytest
from torch.utils.data import DataLoader

from loaderviz import audit
from loaderviz.course.datasets import (
    AnotherInstead,
    BrokenRows,
    DoubledRows,
    NoneInstead,
    collate_what_is_there,
)

BROKEN = (1, 4)


def test_a_broken_row_raises_and_the_others_are_full_of_their_number():
    rows = BrokenRows(6, BROKEN)
    assert [rows[i].tolist() for i in (0, 5)] == [[0.0] * 4, [5.0] * 4]
    with pytest.raises(OSError, match="row 4 is broken"):
        rows[4]
    with pytest.raises(IndexError):
        rows[6]


@pytest.mark.parametrize(
    ("dataset", "options", "came", "state"),
    [
        (AnotherInstead, {}, [0, 2, 2, 3, 5, 5], "replaced"),
        (NoneInstead, {"collate_fn": collate_what_is_there}, [0, 2, 3, 5], "dropped"),
    ],
)
def test_what_comes_in_place_of_a_broken_row(dataset, options, came, state):
    loader = DataLoader(dataset(6, BROKEN), batch_size=3, **options)
    assert [int(row[0]) for batch in loader for row in batch] == came
    contents = audit(loader).contents
    if len(contents):  # where a process can be copied
        assert contents[contents["state"] == state]["key"].tolist() == [*BROKEN]


def test_doubled_rows_are_right_once():
    rows = DoubledRows()
    assert [rows[0][1].item() for _ in range(3)] == [2.0, 4.0, 8.0]
