"""One real run of a loader, in a process of its own: it can be followed and ended at any moment.

The page stays alive because nothing of the run happens in its process; it follows the recording's
files. Ending the run ends its whole process group, workers included.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import multiprocessing
from torch.utils.data import DataLoader

from loaderviz.errors import LoaderVizError
from loaderviz.recorder import Recording
from loaderviz.trace import Trace, read_folder
from loaderviz.widgets.explorer_settings import ExplorerSettings

ASK_S = 0.5  # for a run to end itself; one that is stuck in its dataset is killed then


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
        self._outcome = Outcome()
        self._cancelled = self._killed = False
        self._recording = self._folder / "recording"
        self._messages, theirs = multiprocessing.Pipe(duplex=False)
        # A forked child of a process that has used CUDA cannot use it (torch.cuda, "Cannot
        # re-initialize CUDA in forked subprocess").
        context = multiprocessing.get_context("spawn" if torch.cuda.is_initialized() else None)
        self._process = context.Process(
            target=_run, args=(settings, own, self._recording, theirs), name="loaderviz-run"
        )
        atexit.register(self.close)
        try:
            self._process.start()
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()
        pid = self._process.pid
        if pid is not None and hasattr(os, "setpgid"):
            with contextlib.suppress(OSError):  # the child does the same; one of them comes first
                os.setpgid(pid, pid)

    @property
    def running(self) -> bool:
        return bool(self._process.is_alive())

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
        with contextlib.suppress(EOFError, OSError):
            if self._messages.poll():
                self._outcome = self._messages.recv()
        code = self._process.exitcode
        if self._outcome.failure is None and code and not self._cancelled:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            line = f"the process of the run ended with {how}"
            self._outcome = Outcome(Failure(line, line))
        return self._outcome

    def cancel(self) -> None:
        """End it now, whatever it is doing, and wait until none of its processes is left."""
        if self.running:
            self._cancelled = True
        self._kill()

    def close(self) -> None:
        """Free all that the run holds; a run that still goes on is ended."""
        atexit.unregister(self.close)
        self._kill()
        self._messages.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _kill(self) -> None:
        """Once: later the number of the process may be another's."""
        pid = self._process.pid
        if pid is None or self._killed:
            return
        self._killed = True
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if self.running:
                    os.kill(pid, signal.SIGTERM)
                    self._process.join(ASK_S)
                os.killpg(pid, signal.SIGKILL)
        elif self.running:
            for process in [*psutil.Process(pid).children(recursive=True), psutil.Process(pid)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        self._process.join()


def _run(
    settings: ExplorerSettings, own: DataLoader[Any] | None, folder: Path, messages: Connection
) -> None:
    """What happens in the process of the run."""
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
        _end_when_asked()
    torch.set_num_threads(1)  # a forked process must not use the threads of the one it came from
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
        messages.send(Outcome(repeated=repeated if own is None else None))
    except Exception as error:
        whole = "".join(traceback.format_exception(error))
        last = next(line for line in reversed(whole.splitlines()) if line.strip())
        messages.send(Outcome(Failure(last, whole)))
        sys.exit(1)


def _end_when_asked() -> None:
    """Between two steps of Python: a kill from outside may come while a queue is being made.

    glibc's ``sem_open`` makes a file of another name first, which such a kill would leave behind.
    """
    own = os.getpid()

    def end(number: int, frame: Any) -> None:
        if os.getpid() == own:
            os.killpg(own, signal.SIGKILL)
        os._exit(1)  # a worker that torch ends

    signal.signal(signal.SIGTERM, end)


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
