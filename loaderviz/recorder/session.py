"""``record``: one recording, from the start of its block to the trace."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
import threading
import warnings
import weakref
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from torch import multiprocessing
from torch.utils.data import DataLoader, IterableDataset

from loaderviz import clock, machine
from loaderviz.clock import now
from loaderviz.errors import LoaderVizError
from loaderviz.recorder import attach
from loaderviz.recorder.control import Control
from loaderviz.recorder.fetch import TimedFetch
from loaderviz.recorder.iterators import MAIN_PROCESS, IteratorLog, unwatch, watch
from loaderviz.recorder.worker import WorkerHook
from loaderviz.records import Tag
from loaderviz.spool import FAILED, Spool
from loaderviz.trace import META_NAME, Trace, read_folder


def record(
    loader: DataLoader[Any],
    *more: DataLoader[Any],
    path: str | Path | None = None,
    label: str | None = None,
) -> Recording:
    """Record what a ``DataLoader`` does while a block of code iterates it.

    >>> with record(loader) as rec:
    ...     for batch in loader:
    ...         train_step(batch)
    >>> rec.trace.batches

    Inside the block the loader is the same object and yields the same batches, in any training
    code. Several loaders go into one recording, each under its own number.

    Args:
        loader: the ``torch.utils.data.DataLoader`` to record, map-style or iterable-style.
        more: further loaders, such as one for validation.
        path: a folder to keep the recording in; ``loaderviz.load`` opens it, also while it is
            written and after a crash. Without one it lives in the trace alone.
        label: a name for the recording, shown where several are compared.

    Raises:
        LoaderVizError: for what is no ``DataLoader``, a ``path`` that holds something already, or a
            release of torch whose private parts have moved. Nothing was changed then.
    """
    loaders = tuple(_behind(given) for given in (loader, *more))
    return Recording(loaders, path=path, label=label)


class Recording:
    """A recording: ``trace`` once its block has ended, ``snapshot()`` while it runs."""

    def __init__(
        self,
        loaders: tuple[DataLoader[Any], ...],
        *,
        path: str | Path | None = None,
        label: str | None = None,
    ) -> None:
        attach.check_torch()
        self._loaders = list({id(loader): loader for loader in loaders}.values())
        self._every = not loaders  # whatever DataLoader is iterated meanwhile
        self._classes: set[type] = {type(loader) for loader in loaders} or {DataLoader}
        self._path = None if path is None else Path(path)
        self._label = label
        self._folder: Path | None = None
        self._running = False
        self._forgotten = False
        self._told = False
        self._lost: LoaderVizError | None = None
        self._trace: Trace | None = None
        self._lock = threading.RLock()
        self._iterator_numbers = itertools.count()
        self._epochs: defaultdict[int, itertools.count[int]] = defaultdict(itertools.count)
        self._watched: list[tuple[weakref.ref[Any], IteratorLog, TimedFetch | None]] = []
        self._processes: list[tuple[int, int, Any]] = []
        self._spool: Spool | None = None
        self._spools: list[Spool] = []  # of the fetches in this process
        self._free_spools: list[Spool] = []

    @property
    def trace(self) -> Trace:
        """What was recorded.

        Raises:
            LoaderVizError: while the block still runs (``snapshot()`` shows what there is so far),
                and where the recording's files have been lost.
        """
        if self._lost is not None:
            raise LoaderVizError(f"there is no trace: {self._lost}") from self._lost
        if self._trace is None:
            raise LoaderVizError(
                "the trace is complete when the `with record(...)` block has ended; "
                "inside the block, snapshot() returns what was recorded so far"
            )
        return self._trace

    def snapshot(self) -> Trace:
        """What has been recorded so far, as a trace of its own."""
        if self._trace is not None:
            return self._trace
        if self._folder is None:
            raise LoaderVizError("nothing is recorded yet: enter the `with record(...)` block")
        return read_folder(self._folder)

    def __enter__(self) -> Self:
        if self._folder is not None:
            raise LoaderVizError("a recording runs once; call record(loader) again for another")
        self._folder = _make_folder(self._path)
        try:
            self._start(self._folder)
        except BaseException as error:
            self._stop(now())
            shutil.rmtree(self._folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise LoaderVizError(f"cannot record into {self._folder}: {error}") from error
            raise
        return self

    def _start(self, folder: Path) -> None:
        self._meta: dict[str, Any] = {
            "label": self._label,
            "rank": machine.rank(),
            "started": clock.pair(),
            "loaders": [describe(loader) for loader in self._loaders],
            **machine.facts(),
        }
        self._write_meta()
        self._control = Control.create(folder)
        self._spool = Spool(folder / "main.spool", {})
        self._running = True
        attach.attach(self, self._classes)
        for loader in self._loaders:
            self._adopt_running(loader)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop(now())
        assert self._folder is not None
        if self._forgotten:  # the files are another process's
            return
        try:
            self._trace = read_folder(self._folder)
        except LoaderVizError as lost:  # never in place of what the user's block raised
            self._lost = lost
            self._tell(lost)
        else:
            if not self._trace.meta["complete"]:
                self._tell("a process could not write its part")
        if self._path is None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _stop(self, at: int) -> None:
        """Let go of everything, and write what is known at the end."""
        attach.detach(self, self._classes)
        with self._lock:
            for reference, log, timed in self._watched:
                iterator = reference()
                if iterator is not None:
                    log.release(at)
                    unwatch(iterator, log)
                if timed is not None:
                    timed.detach()
            self._watched.clear()
            self._note_exits()
            self._processes.clear()
            self._write(Tag.FINISH, at)
            self._running = False
            if self._spool is not None:
                self._control.stop()
                self._spool.header[FAILED] |= self._control.has_failure()
                self._spool.close()
            for spool in self._spools:
                spool.close()

    def _note_exits(self) -> None:
        """Write down how workers ended, and keep no more of them: each holds open files."""
        running = []
        for number, worker, process in self._processes:
            code = process.exitcode
            if code is None:
                running.append((number, worker, process))
            else:
                self._write(Tag.EXIT, number, worker, code)
        self._processes = running

    # What attach.py asks and tells (attach.Observer).

    def wants(self, loader: DataLoader[Any]) -> bool:
        return self._running and (self._every or any(loader is own for own in self._loaders))

    def worker_hook(self, user_init: Any) -> WorkerHook:
        assert self._folder is not None
        return WorkerHook(user_init, self._folder, next(self._iterator_numbers))

    def iterator_built(
        self, loader: DataLoader[Any], iterator: Any, hook: WorkerHook | None, drawn: list[int]
    ) -> None:
        with self._lock:
            if not self._running:  # it ended while this iterator was built, in another thread
                return
            if hook is None:
                number = next(self._iterator_numbers)
                log = self._watch(loader, iterator, number, self._time_here(iterator, number))
                log.begin_round()
                return
            log = self._watch(loader, iterator, hook.iterator, None)
            log.begin_round()
            # The iterator has dispatched its first tasks while it was built; where its class is
            # another library's, nobody has seen when.
            for task, info in list(iterator._task_info.items()):
                log.dispatch(task, info[0], drawn[task] if task < len(drawn) else 0)

    def forget(self) -> None:
        """In a forked process: never write to the files of the process that is recorded."""
        self._lock = threading.RLock()  # another thread may have held it, and is not here
        self._forgotten = True
        self._running = False
        self._spool = None
        self._free_spools.clear()

    def _watch(
        self, loader: DataLoader[Any], iterator: Any, number: int, timed: TimedFetch | None
    ) -> IteratorLog:
        which = self._number_of(loader)
        log = IteratorLog(self._write, lambda: next(self._epochs[which]), number)
        workers = getattr(iterator, "_workers", ())
        if workers:  # starting them has looked at all others too (multiprocessing/process.py)
            self._note_exits()
        self._write(Tag.ITERATOR, number, which, now(), len(workers))
        for worker, process in enumerate(workers):
            self._write(Tag.WORKER, number, worker, process.pid)
            self._processes.append((number, worker, process))
        watch(iterator, log)
        self._watched.append((weakref.ref(iterator), log, timed))
        return log

    def _time_here(self, iterator: Any, number: int) -> TimedFetch | None:
        """Time the fetches of an iterator that loads in this process.

        Each has a spool to itself while it lives, since several may run in turns or in threads.
        """
        assert self._folder is not None
        try:
            if self._free_spools:
                spool = self._free_spools.pop()
            else:
                spool = Spool(self._folder / f"here-{number}.spool", {"worker": MAIN_PROCESS})
                self._spools.append(spool)
        except OSError as error:
            self.fail(error)
            return None
        weakref.finalize(iterator, self._free_spools.append, spool).atexit = False
        return TimedFetch(iterator._dataset_fetcher, spool, number, 0, self._stopped)

    def _stopped(self) -> bool:
        return not self._running

    def _adopt_running(self, loader: DataLoader[Any]) -> None:
        """Persistent workers that were started before the recording: seen from outside only."""
        iterator: Any = loader._iterator
        if iterator is None or loader.num_workers == 0:
            return
        warnings.warn(
            "the workers of this DataLoader (persistent_workers=True) were started before the "
            "recording: their samples are not seen. Begin the recording before the first epoch.",
            stacklevel=4,
        )
        log = self._watch(loader, iterator, next(self._iterator_numbers), None)
        log.adopt(
            [
                (task, info[0])
                for task, info in iterator._task_info.items()
                if len(info) == 2 or iterator._workers_status[info[0]]  # else its stream has ended
            ]
        )

    def _number_of(self, loader: DataLoader[Any]) -> int:
        for number, own in enumerate(self._loaders):
            if own is loader:
                return number
        self._loaders.append(loader)
        self._meta["loaders"].append(describe(loader))
        self._write_meta()
        return len(self._loaders) - 1

    def _write(self, tag: Tag, *fields: int) -> None:
        with self._lock:
            if self._spool is None:
                return
            try:
                self._spool.write(tag, *fields)
            except (OSError, ValueError) as error:  # and not what torch raises on a worker's death
                self.fail(error)

    def fail(self, error: Exception) -> None:
        """A recorder that cannot write stops recording; the training goes on."""
        if self._spool is not None:
            self._spool.header[FAILED] = 1
            self._spool.close()
            self._spool = None
        self._running = False
        self._control.stop()
        self._tell(error)

    def _tell(self, what: object) -> None:
        if not self._told:
            self._told = True
            warnings.warn(f"loaderviz could not record everything: {what}", stacklevel=3)

    def _write_meta(self) -> None:
        assert self._folder is not None
        written = self._folder / f"{META_NAME}.new"
        written.write_text(json.dumps(self._meta, indent=1))
        written.replace(self._folder / META_NAME)


def describe(loader: DataLoader[Any]) -> dict[str, Any]:
    """A loader's configuration, read without running any of the user's code."""
    context = loader.multiprocessing_context or multiprocessing
    workers = loader.num_workers
    # To ask for the method in use without allow_none would settle it for good.
    method = context.get_start_method(allow_none=True) or context.get_all_start_methods()[0]
    return {
        "class": type(loader).__name__,
        "dataset": type(loader.dataset).__name__,
        "kind": "iterable" if isinstance(loader.dataset, IterableDataset) else "map",
        "batch_size": loader.batch_size,
        "num_workers": workers,
        "prefetch_factor": loader.prefetch_factor if workers else None,
        "persistent_workers": loader.persistent_workers,
        "pin_memory": bool(loader.pin_memory),
        "in_order": loader.in_order,
        "drop_last": loader.drop_last,
        "start_method": method if workers else None,
    }


def _behind(given: Any) -> DataLoader[Any]:
    """The DataLoader itself, where accelerate has wrapped it.

    Its wrapper answers ``isinstance`` as the loader would, and iterates its ``base_dataloader``
    (accelerate/data_loader.py, ``DataLoaderAdapter``).
    """
    loader: Any = given
    while not issubclass(type(loader), DataLoader):
        if not isinstance(loader, DataLoader) or not hasattr(loader, "base_dataloader"):
            raise LoaderVizError(
                f"record() takes a torch DataLoader, but got {_shown(given)}. "
                "Pass the loader that your loop iterates: record(DataLoader(dataset, ...))."
            )
        loader = loader.base_dataloader
    return cast(DataLoader[Any], loader)


def _make_folder(path: Path | None) -> Path:
    if path is None:
        return Path(tempfile.mkdtemp(prefix="loaderviz-"))
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise LoaderVizError(
            f"path={str(path)!r} is taken: a recording needs a new or empty folder"
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LoaderVizError(f"cannot make the recording folder {path}: {error}") from error
    return path.absolute()


def _shown(given: object) -> str:
    text = repr(given)
    return f"{type(given).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
