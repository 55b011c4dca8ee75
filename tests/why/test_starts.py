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
            "2 starts of 1.71 s each: 1.5 s to unpickle what was sent, 200 ms for the process and "
            "its imports (3 MiB sent)",
        ),
        (
            with_starts("fork", boot_s=1.0, init_s=0.5),
            "2 starts of 1.5 s each: 1 s until it is up, 500 ms in worker_init_fn",
        ),
        (
            with_starts("fork", boot_s=np.array([0.1, 0.5])),
            "2 starts of 100 ms to 500 ms; the longest, of worker 1: 500 ms until it is up",
        ),
        (
            with_starts("fork", 8, **ONE_IS_LATE),
            "8 starts of 21 ms to 2.02 s, usually 21 ms; the longest, of worker 0: "
            "2 s in worker_init_fn",
        ),
        (made(workers=2), "2 starts; a worker's first task comes after 250 ms"),
    ],
    ids=["longest part first", "forked", "unlike", "one worker alone", "parts not known"],
)
def test_the_evidence_names_the_parts_and_who_forks_is_not_told_to(trace, said):
    evidence, cure = row_of_start(trace)
    assert evidence == said
    assert cure
    if set(trace.workers["start_method"]) == {"fork"}:
        assert "multiprocessing_context" not in cure
    if "2 s in worker_init_fn" in said:
        assert "worker_init_fn" in cure


@pytest.mark.parametrize(
    ("parts", "cure"),
    [
        (
            {"pickle_s": 0.2, "unpickle_s": 0.2, "boot_s": 0.3},
            "open files and load arrays in the worker",
        ),
        ({"unpickle_s": 2.0, "boot_s": 0.2}, "open files and load arrays in the worker"),
        ({"unpickle_s": 0.1, "boot_s": 1.2}, "set_forkserver_preload"),
        ({"init_s": 1.0, "boot_s": 0.2}, "worker_init_fn"),
    ],
)
def test_the_cure_is_that_of_the_longest_part(parts, cure):
    assert cure in row_of_start(with_starts(**parts))[1]
