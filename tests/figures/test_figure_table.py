"""Tables of arrays: rows are matched by what their columns hold."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderviz.trace.columns_of_rows import codes

numbers = st.one_of(st.integers(-2, 3), st.integers(-(2**40), 2**40))
rows = st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=8)


def table(values):
    return dict(zip("abc", np.array(values, np.int64).reshape(-1, 3).T, strict=True))


@settings(max_examples=30)
@given(rows, rows)
def test_codes_are_equal_and_ordered_as_the_rows_are(left, right):
    found = np.concatenate(codes("abc", table(left), table(right)))
    _, places = np.unique(found, return_inverse=True)
    in_order = sorted({*left, *right})
    assert places.tolist() == [in_order.index(row) for row in left + right]


def test_an_empty_table_has_no_codes():
    left, right = codes("abc", table([]), table([(1, 2, 3)]))
    assert len(left) == 0
    assert len(right) == 1
