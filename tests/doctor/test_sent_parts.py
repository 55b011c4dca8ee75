"""What workers are sent is weighed part by part, and what cannot be sent is named."""

import functools
import math
import multiprocessing
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Subset

from loaderviz._doctor.checks import CHECKS
from loaderviz._doctor.examination import Case
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.lv5_sending import SentPart, weigh_what_is_sent
from loaderviz._doctor.run_epochs import Epoch
from loaderviz.course.datasets import SleepingDataset
from patients import Squared, loader, square
from traces import made


class Holding(SleepingDataset):
    """Takes any attributes."""

    def __init__(self, **held: Any) -> None:
        super().__init__(8, 0)
        self.__dict__.update(held)


class Reader:
    def __init__(self) -> None:
        self.lock = threading.Lock()


class OwnState(Holding):
    def __getstate__(self) -> Any:
        return {"small": bytes(10), "made": bytes(1000)}


def others(n: int) -> list[Holding]:
    return [Holding(array=np.full((100, 50), i)) for i in range(n)]


def locked() -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    names = ["ab"[i % 2] * 99 + str(i) for i in range(9)]
    return {"lock": context.Lock(), "epoch": context.Value("i", 3), "names": names}


def weighed(dataset: Any, *, within_s: float = 60, **options: Any) -> Any:
    setup = Setup(loader(dataset, **{"multiprocessing_context": "spawn", **options}))
    return weigh_what_is_sent(setup, time.monotonic() + within_s)


@pytest.mark.parametrize(
    ("dataset", "path", "kind"),
    [
        (Holding(few=[1], many=[b"x" * 9] * 1000), "dataset.many", "list of 1,000"),
        (Subset(others(1)[0], range(4)), "dataset.dataset.array", "ndarray of 100 x 50"),
        (ConcatDataset(others(1)), "dataset.datasets[0].array", "ndarray of 100 x 50"),
        (ConcatDataset(others(3)), "dataset.datasets", "list of 3"),
        (OwnState(much=bytes(1 << 20)), "dataset.made", "bytes of 1,000"),
        # workers share what tensors hold
        (Holding(shared=torch.zeros(1 << 18), listed=[0.5] * 1000), "dataset.listed", "list of"),
        (Holding(**locked()), "dataset.names", "list of 9"),
    ],
)
def test_the_heaviest_part_is_named_wherever_it_is_held(dataset, path, kind):
    part = weighed(dataset)
    assert (part.path, part.error) == (path, "")
    assert part.kind.startswith(kind)
    assert part.n_bytes > 0
    assert part.seconds > 0
    assert multiprocessing.context.get_spawning_popen() is None


def test_it_may_be_what_another_function_holds():
    collate = functools.partial(max, bytes(10_000))
    assert weighed(Holding(), collate_fn=collate).path == "collate_fn"


def test_what_cannot_be_pickled_is_named_where_it_is():
    part = weighed(Holding(reader=Reader(), names=["x"] * 10_000))
    assert (part.path, part.kind) == ("dataset.reader.lock", "lock")
    assert "cannot pickle" in part.error


def test_nothing_is_weighed_where_nothing_is_sent():
    assert weighed(Squared(square), multiprocessing_context="fork") is None


def test_too_little_time_is_no_answer():
    texts = Holding(texts=[str(i) for i in range(100_000)])
    with pytest.raises(TimeoutError):
        weighed(texts, within_s=-1)


PATHS = SentPart("dataset.paths", "list of 9", 30 << 20, 0.2)


@pytest.mark.parametrize(
    ("sent", "method", "found"),
    [
        ({}, "spawn", True),
        ({}, "fork", False),
        ({"pickle_bytes": 1 << 20}, "spawn", False),
        ({"pickle_bytes": math.nan}, "spawn", False),
        ({"pickle_s": 0.03, "unpickle_s": 0.03}, "spawn", False),
        # one waits until the other has booted, which is due to what is sent
        ({"pickle_s": 0.03, "unpickle_s": 0.03, "started_s": [0.3, 1.7]}, "spawn", True),
    ],
)
@pytest.mark.parametrize("part", [PATHS, None])
def test_sending_is_found_where_it_takes_long(sent, method, found, part):
    values = {"pickle_s": 0.3, "pickle_bytes": 30 << 20, "boot_s": 1.0, "unpickle_s": 0.2}
    values |= {"started_s": [0.3, 0.6], **sent}
    trace = made(workers=2)
    trace = replace(trace, workers=trace.workers.assign(start_method=method, **values))
    epoch = Epoch(0, (SimpleNamespace(),), True, delivered_s=(4.0,))
    setup = Setup(loader(Holding(), multiprocessing_context=method))
    observations = (epoch, part) if part else (epoch,)
    finding = CHECKS["LV315"].judge(Case(setup, True, observations=observations, trace=trace))
    assert (finding is not None) == found
    if finding is not None:
        assert "each of 2 workers is sent 30 MiB" in finding.evidence[0]
        assert ("dataset.paths (list of 9) is 30 MiB of it" in finding.evidence[-1]) == bool(part)
        assert ('"paths": None' in finding.fix) == bool(part)
