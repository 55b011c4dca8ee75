"""What starting workers takes: the evidence names its parts, and the cure fits the longest."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loaderviz import Trace
from traces import made


def with_starts(method: str = "spawn", n: int = 2, **parts: Any) -> Trace:
    trace = made(workers=n)
    return replace(trace, workers=trace.workers.assign(start_method=method, **parts))


def row_of_start(trace: Trace) -> tuple[str, str]:
    row = trace.summary().causes.set_index("cause").loc["start"]
    return row["evidence"], row["cure"]


SENT = {"pickle_s": 0.01, "pickle_bytes": 3 << 20, "boot_s": 0.2, "unpickle_s": 1.5}
ONE_IS_LATE = {"boot_s": 0.02, "init_s": np.array([2.0] + [0.001] * 7)}


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (
            with_starts(**SENT),
            "2 starts, the longest of 1.71 s: 1.5 s to unpickle what was sent, 200 ms for the "
            "process and its imports (3 MiB sent)",
        ),
        (
            with_starts("fork", boot_s=1.0, init_s=0.5),
            "2 starts, the longest of 1.5 s: 1 s until it is up, 500 ms in worker_init_fn",
        ),
        (
            with_starts("fork", 8, **ONE_IS_LATE),
            "8 starts, the longest of 2.02 s: 2 s in worker_init_fn, 20 ms until it is up",
        ),
        (made(workers=2), "2 starts; a worker's first task comes after 250 ms"),
    ],
    ids=["longest part first", "forked", "one worker alone", "parts not known"],
)
def test_the_evidence_names_the_parts(trace, said):
    assert row_of_start(trace)[0] == said


@pytest.mark.parametrize(
    ("method", "parts", "cure"),
    [
        ("spawn", {"pickle_s": 0.2, "unpickle_s": 0.2, "boot_s": 0.3}, "Send workers less"),
        ("spawn", {"unpickle_s": 2.0, "boot_s": 0.2}, "Send workers less"),
        ("spawn", {"unpickle_s": 0.1, "boot_s": 1.2}, "set_forkserver_preload"),
        ("fork", {"boot_s": 1.2}, "Do less at start-up"),  # who forks is not told to
        ("spawn", {"init_s": 1.0, "boot_s": 0.2}, "Do less in worker_init_fn"),
        ("fork", ONE_IS_LATE, "Do less in worker_init_fn"),  # of the longest start
    ],
)
def test_the_cure_is_that_of_the_longest_part(method, parts, cure):
    assert cure in row_of_start(with_starts(method, 8, **parts))[1]
