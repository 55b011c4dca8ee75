"""Notebook 10: a loader with other settings, and an exercise: cure it."""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import sys
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from torch.utils.data import DataLoader

from loaderviz._audit import audit
from loaderviz._doctor import doctor
from loaderviz._plot_timings import take
from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.figures import timeline
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.recorder import record
from loaderviz.text import percent


def with_settings(loader: DataLoader[Any], settings: Mapping[str, Any]) -> DataLoader[Any]:
    """A copy of the loader with these settings, such as ``recommend`` gives; the rest is kept."""
    return copy_loader(loader, **LoaderSettings(**settings).options())


MOST_WAITING = 0.25  # of the time after the first batch
TRIES = 3  # one good run is enough: other programs on the machine may slow down the others
cure_hint = Hints(
    "first the samples: each worker has to read its own share. See notebook 04 or loaderviz.shard.",
    "then the random numbers: torch seeds its own generator differently in each worker.",
    "then the pace: a worker needs 4 x 0.02 s for a batch, and the model takes one every 0.02 s.",
)
_numbers = itertools.count()


@explains_errors
def cured(path: str | Path) -> Check:
    """Whether ``make_loader()`` of this file returns a loader that is right and fast enough."""
    with _module(Path(path)) as module:
        return _check_loader(module.make_loader())


BUSY: Final = (
    "Every sample once, new random numbers, and after the first batch the model waits for at most "
    f"{MOST_WAITING:.0%} of the time."
)


def _check_loader(loader: DataLoader[Any]) -> Check:
    result = audit(loader, key=itemgetter(0))
    if not result.exactly_once:
        return Check(False, f"Not right yet: {result.verdict}.", result.figure())
    with contextlib.redirect_stdout(io.StringIO()):  # the doctor announces what it runs
        findings = [finding for finding in doctor(loader) if finding.severity != "advice"]
    if findings:
        text = "\n\n".join(map(str, findings))
        return Check(False, f"Every sample comes once. But:\n\n{text}")
    if _draws(loader) & _draws(loader):
        return Check(False, "Every sample comes once, but with the previous epoch's numbers.")
    for _ in range(TRIES):
        with record(loader) as rec:
            take(loader, 0.02)
        wait_share = rec.trace.summary().later_wait_share
        if wait_share <= MOST_WAITING:
            break
    figure = timeline(rec.trace)
    waits = f"waits {percent(wait_share)} of the time"
    figure.layout.title.text = f"<b>After the first batch the model {waits}</b>"
    if wait_share > MOST_WAITING:
        return Check(False, f"Right, but slow: after the first batch it {waits}.", figure)
    return Check(True, BUSY, figure)


def _draws(loader: DataLoader[Any]) -> set[tuple[int, float]]:
    """Each sample's key and random number, over an epoch."""
    return {
        pair for keys, draws in loader for pair in zip(keys.tolist(), draws.tolist(), strict=True)
    }


@contextlib.contextmanager
def _module(path: Path) -> Iterator[Any]:
    """The file as a module with a new name, which workers of every start method can import."""
    name = f"my_loader_{next(_numbers)}"
    with TemporaryDirectory() as folder:
        Path(folder, f"{name}.py").write_text(path.read_text())
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        try:
            yield importlib.import_module(name)
        finally:
            sys.path.remove(folder)
            sys.modules.pop(name, None)
