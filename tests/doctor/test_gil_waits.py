"""LV308: workers whose threads wait for the GIL, told from those that wait for a CPU."""

import dataclasses
import math
import sys
import threading

import pandas as pd
import pytest

from loaderviz._doctor.batch_probe import Note
from loaderviz._doctor.checks import CHECKS
from loaderviz._doctor.examination import Case
from loaderviz._doctor.gil_waits import GilWaits
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.run_epochs import Epoch
from loaderviz.course.datasets import SleepingDataset
from patients import loader
from traces import made

INTERVAL_S = 0.05  # far longer than what else delays a thread


def measured_s(*, beside_python: bool) -> float:
    """How long this thread waits, alone or while another computes in Python."""
    done = threading.Event()
    other = threading.Thread(target=lambda: [None for _ in iter(done.is_set, True)])
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(INTERVAL_S)
    waits = GilWaits()
    try:
        if beside_python:
            other.start()
        for _ in range(5):
            waits.measure()
    finally:
        done.set()
        sys.setswitchinterval(usual_s)
        if beside_python:
            other.join()
    return waits.median_s


@pytest.mark.skipif(sys.platform != "linux", reason="needs the time without a CPU")
def test_a_thread_that_wakes_waits_for_one_that_computes_in_python():
    assert measured_s(beside_python=True) > INTERVAL_S / 2
    assert measured_s(beside_python=False) < INTERVAL_S / 2


def test_before_it_is_measured_it_is_not_known():
    assert math.isnan(GilWaits().median_s)


@pytest.mark.parametrize(
    ("wait_s", "handover_s", "answer"),
    [
        (0.005, 0.012, "found"),
        (0.005, 0.1, "clear"),  # most of it is something else
        (0.0001, 0.012, "clear"),
        (0.005, 0.0, "clear"),  # nothing is lost
        (math.nan, 0.012, "undecided"),
    ],
)
def test_it_is_found_where_handing_over_is_mostly_such_waits(wait_s, handover_s, answer):
    trace = made(workers=1, batches=40)
    delivered_s = trace.batches[["ready_s", "requested_s"]].max(axis=1) + handover_s
    trace = dataclasses.replace(trace, batches=trace.batches.assign(delivered_s=delivered_s))
    notes = tuple(Note(0, 7, 2, gil_wait_s=wait_s, switch_s=0.005) for _ in range(40))
    epoch = Epoch("plain", 0, notes, True, first_s=1.0, delivered_s=(1.0,) * 40)
    setup = Setup(loader(SleepingDataset(80, 0), workers=1))
    case = Case(setup, ran=True, observations=(epoch,), trace=trace)
    share = {"seconds": 40 * handover_s, "share": 0.5, "saves_s": 40 * handover_s}
    row = {"cause": "handover", "evidence": "handing over takes long", "cure": "None", **share}
    case.__dict__["causes"] = pd.DataFrame([row] if handover_s else [], columns=[*row])
    finding = CHECKS["LV308"].judge(case)
    assert ("clear" if finding is None else finding.state) == answer
