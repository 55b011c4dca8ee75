"""What handlers and other threads raise reaches the user; a worker that dies costs nothing.

``LOADERVIZ_EVERY_POINT=1`` tries each point of a loop: it takes half an hour.
"""

import importlib
import itertools
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from forked import forked
from loaderviz import LoaderVizError, load, record
from loaderviz.recorder import iterator_log, session
from trace_laws import assert_lawful

SCRIPTS = Path(__file__).parents[1] / "scripts"
EVERY_POINT = "LOADERVIZ_EVERY_POINT" in os.environ


def interrupted(scenario: str, every: int, folder: Path) -> dict[str, Any]:
    # Torch opens a temporary file to see whether there are too many, and may be interrupted then.
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    sys.path.append(str(SCRIPTS))
    told: dict[str, Any] = importlib.import_module("interruptions").interrupted(scenario, every)
    return told


# It goes on to torch's own ``__del__``, a function in Python that ends the workers: an exception
# that comes there is lost without a recording, too.
TORCH_LOSES = "_RecordedMulti.__del__"


@pytest.mark.parametrize(
    ("scenario", "every"),
    [
        ("here", 4001),
        pytest.param("workers", 2503, marks=pytest.mark.slow),
        pytest.param("persistent", 4001, marks=pytest.mark.slow),
    ],
)
def test_an_exception_from_outside_goes_through_wherever_it_hits(
    scenario, every, tmp_path, monkeypatch
):
    """Some of the opcodes that the recorder executes in two epochs, entry and exit."""
    every = 7 if EVERY_POINT and scenario == "here" else every
    monkeypatch.setattr("forked.HANGS_S", 7200)  # it is silent until the last point
    told = forked(interrupted, scenario, every, tmp_path)
    points: list[dict[str, Any]] = told["results"]
    assert sum(point["came"] for point in points) > 10
    swallowed = [point for point in points if "swallowed" in point]
    assert [point for point in swallowed if TORCH_LOSES not in point["lost in"]] == []
    assert len(swallowed) <= 2  # one in each epoch: points are further apart than it is long
    assert all(point["classes"] for point in points)  # torch's own, as they were
    # At the very first opcode of __exit__ nothing can be done yet.
    assert [each for each in points if "not kept" in each and "snapshot" not in each] == []
    assert len([each for each in points if "not kept" in each]) <= 1 + EVERY_POINT
    assert not told["left"]


class TestAnInterruptionWhileTheTraceIsMade:
    def recorded(self, monkeypatch, n_times, **how):
        """A recording whose end is interrupted so many times, and what its loop got."""
        raised = iter([KeyboardInterrupt()] * n_times)

        def read_folder(folder):
            for error in raised:
                raise error
            return made(folder)

        made = session.read_folder
        monkeypatch.setattr(session, "read_folder", read_folder)
        before = dict(vars(DataLoader))
        loader = DataLoader(range(6))
        rec = record(loader, **how)
        with pytest.raises(KeyboardInterrupt), rec:
            got = list(loader)
        assert len(got) == 6
        assert dict(vars(DataLoader)) == before
        return rec

    def test_is_heard_once_it_is_made(self, monkeypatch):
        assert len(self.recorded(monkeypatch, 1).trace.batches) == 6

    def test_a_second_one_leaves_it_unmade(self, monkeypatch):
        rec = self.recorded(monkeypatch, 2)
        with pytest.raises(LoaderVizError, match="interrupted"):
            _ = rec.trace

    def test_but_what_is_kept_can_be_loaded(self, monkeypatch, tmp_path):
        rec = self.recorded(monkeypatch, 2, path=tmp_path / "run")
        with pytest.raises(LoaderVizError, match=r"loaderviz\.load"):
            _ = rec.trace
        trace = load(tmp_path / "run")
        assert len(trace.batches) == 6
        assert trace.meta["complete"]


def test_a_loop_that_is_left_early_is_done_with_its_batch_when_its_iterator_goes():
    loader = DataLoader(range(6))
    with record(loader) as rec:
        for _ in loader:
            break
        time.sleep(0.05)
        snapshot = rec.snapshot()
        list(loader)
    for trace in (snapshot, rec.trace):
        first, second = trace.batches.iloc[0], rec.trace.batches.iloc[1]
        assert first["delivered_s"] <= first["released_s"] < second["requested_s"] - 0.04


def test_a_loop_that_goes_on_after_an_interruption_of_the_recorder_is_lawful(monkeypatch):
    """The recording lacks the rest of that iterator, and says so."""
    noted = iterator_log.IteratorLog.note_dispatched
    calls = itertools.count()

    def note_dispatched(self, *args):
        if next(calls) == 4:
            raise TimeoutError("of the script's own")
        noted(self, *args)

    monkeypatch.setattr(iterator_log.IteratorLog, "note_dispatched", note_dispatched)
    loader = DataLoader(range(20), num_workers=2)
    got = []
    with warnings.catch_warnings(record=True) as caught, record(loader) as rec:
        warnings.simplefilter("always")
        iterator = iter(loader)
        while len(got) < 19:  # one batch goes with the exception, as it may in torch's own code
            try:
                got.append(int(next(iterator)))
            except TimeoutError as error:
                assert str(error) == "of the script's own"  # noqa: PT017
        again = list(loader)
    assert len(again) == 20
    assert_lawful(rec.trace)
    epochs = rec.trace.batches["epoch"].value_counts()
    assert epochs[1] == 20
    assert epochs[0] < 20
    assert not rec.trace.meta["complete"]
    assert len([each for each in caught if "interrupted" in str(each.message)]) == 1
