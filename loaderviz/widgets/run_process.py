"""One real run of a loader, in a process of its own: it can be followed and ended at any moment.

The page stays alive because nothing of the run happens in its process; it follows the recording's
files. A doctor's run waits in ``run_forked`` instead, until all is said or the time is up.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from loaderviz.errors import LoaderVizError
from loaderviz.loaders.forked_run import ChildProcess
from loaderviz.recorder import Recording
from loaderviz.trace import Trace, read_folder
from loaderviz.widgets.explorer_settings import ExplorerSettings


@dataclass(frozen=True)
class Failure:
    """An exception of the run: its last line, and the whole traceback."""

    last_line: str
    traceback: str


@dataclass(frozen=True)
class Outcome:
    """What the process of a run says at its end."""

    failure: Failure | None = None
    repeated: int | None = None  # samples of the teaching dataset that came again in an epoch


class LoaderRun:
    """Starts at once; ``close()`` it when it is over. Not reusable."""

    def __init__(self, settings: ExplorerSettings, own: DataLoader[Any] | None = None) -> None:
        self.settings = settings
        self._folder = Path(tempfile.mkdtemp(prefix="loaderviz-run-"))
        self._recording = self._folder / "recording"
        self._cancelled = False
        try:
            self._process = ChildProcess(_run, settings, own, self._recording)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        atexit.register(self.close)

    @property
    def running(self) -> bool:
        self._process.receive()  # else a long traceback would fill the pipe, and the run not end
        return self._process.running

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def snapshot(self) -> Trace | None:
        """What has been recorded so far; None before the first moment of it."""
        try:
            return read_folder(self._recording)
        except LoaderVizError:
            return None

    def outcome(self) -> Outcome:
        """How it went, once the run is over."""
        self._process.receive()
        outcome: Outcome = self._process.sent[-1] if self._process.sent else Outcome()
        code = self._process.exit_code
        if outcome.failure is None and code and not self._cancelled:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            line = f"the process of the run ended with {how}"
            return Outcome(Failure(line, line))
        return outcome

    def cancel(self) -> None:
        """End it now, whatever it is doing, and wait until none of its processes is left."""
        if self.running:
            self._cancelled = True
        self._process.end()

    def close(self) -> None:
        """Free all that the run holds; a run that still goes on is ended."""
        atexit.unregister(self.close)
        self._process.end()
        shutil.rmtree(self._folder, ignore_errors=True)


def _run(
    settings: ExplorerSettings,
    own: DataLoader[Any] | None,
    folder: Path,
    send: Callable[[Outcome], None],
) -> None:
    """What happens in the process of the run."""
    # The sliders mark how many CPUs there are; here nobody would see torch's own warning.
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    if settings.cores is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: settings.cores])
    try:
        loader = settings.make_loader(own)
        repeated = 0
        with Recording((loader,), path=folder):
            for _ in range(settings.epochs):
                repeated += _epoch(loader, settings, own is None)
        send(Outcome(repeated=repeated if own is None else None))
    except Exception as error:
        whole = "".join(traceback.format_exception(error))
        last = next(line for line in reversed(whole.splitlines()) if line.strip())
        send(Outcome(Failure(last, whole)))
        sys.exit(1)


def _epoch(loader: DataLoader[Any], settings: ExplorerSettings, teaching: bool) -> int:
    """Of the teaching dataset all, of another as many batches as are asked for.

    Returns how many of the teaching dataset's samples came again.
    """
    seen: set[int] = set()
    parent, repeated = os.getppid(), 0
    batches = iter(loader)
    for batch in batches if teaching else itertools.islice(batches, settings.n_batches):
        time.sleep(settings.step_s)
        if teaching:
            indices = batch[:, 0].tolist()
            repeated += len(indices) - len(set(indices) - seen)
            seen.update(indices)
        if os.getppid() != parent:
            break  # nobody is left to look at it
    return repeated
