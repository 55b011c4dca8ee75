"""Traces as Hypothesis draws them: clocks run back, steps overlap, things do not happen."""

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from loaderviz import Trace
from traces import made

TIMES = [name for name in made().batches if name.endswith("_s")]  # columns of batches


@st.composite
def traces_of_any_times(draw: Any, most_batches: int = 6) -> Trace:
    """A loader with 0 to 3 workers, whose batches have any times at all."""
    time_s = st.one_of(st.just(math.nan), st.floats(-10, 10))
    row = st.lists(time_s, min_size=len(TIMES), max_size=len(TIMES))
    times = np.array(draw(st.lists(row, max_size=most_batches))).reshape(-1, len(TIMES))
    workers, n = draw(st.integers(0, 3)), len(times)
    return Trace.from_columns(
        batches={
            **dict(zip(TIMES, times.T, strict=True)),
            "batch": range(n),
            "worker": [i % workers if workers else -1 for i in range(n)],
            "n_samples": 1,
        }
    )
