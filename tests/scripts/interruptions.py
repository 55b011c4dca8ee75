"""Raises from outside at points of a recorded loop, and tells what became of it.

``interruptions.py SCENARIO EVERY`` prints it as JSON; ``interrupted`` is for a process of its own,
which it changes for good. At each EVERY-th opcode of loaderviz's own code, of
the process that iterates, a signal is tripped, or an exception is set by
``PyThreadState_SetAsyncExc``, before it is executed, and CPython delivers it where it would at any
time: not at every opcode, as a trace function that raises would, and with no frame of the trace
function in the traceback.
"""

import contextlib
import ctypes
import functools
import gc
import itertools
import json
import os
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

from torch.utils.data import DataLoader, Dataset, dataloader

import loaderviz as lv

SIGNAL = signal.SIGUSR1
# Python 3.12 tells of opcodes only where some frame had asked before the tracing began.
sys._getframe().f_trace_opcodes = True


class StopBase(BaseException):
    """As a framework tells a training to stop."""


class StopError(Exception):
    """As a script tells itself to stop."""


class StopDiskError(OSError):
    """As a script says that its disk is gone."""


raised: list[BaseException] = []  # by a handler, at this point


MAKE = [
    lambda: StopError("stop"),
    lambda: OSError(28, "no space of the script's own"),
    lambda: StopBase(),
    lambda: ValueError("a value of the script's own"),
    lambda: KeyboardInterrupt(),
    lambda: RuntimeError("DataLoader worker (pid 1) is killed by signal: Killed."),
    lambda: StopDiskError(5, "gone"),
    lambda: SystemExit(143),
    lambda: FileNotFoundError(2, "no such file of the script's own"),
    lambda: KeyError("key"),
]


def stop(make: Any) -> None:
    raised.append(make())
    raise raised[-1]


def of_function(make: Any) -> Any:
    def handle(number: int, frame: FrameType | None) -> None:
        stop(make)

    return handle


def of_partial(make: Any) -> Any:
    def handle(what: Any, number: int, frame: FrameType | None) -> None:
        stop(what)

    return functools.partial(handle, make)


class Handler:
    def __init__(self, make: Any) -> None:
        self.make = make

    def __call__(self, number: int, frame: FrameType | None) -> None:
        stop(self.make)


def of_one_that_resets_itself(make: Any) -> Any:
    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        stop(make)

    return handle


HANDLERS = [of_function, of_partial, Handler, of_one_that_resets_itself]
# Of another thread there is the class alone.
CLASSES = [StopError, OSError, StopBase, ValueError, KeyboardInterrupt, TimeoutError]

_raise: Any = ctypes.PyDLL(None)["raise"]
_set_async: Any = ctypes.pythonapi.PyThreadState_SetAsyncExc


def trip(call: Any, *args: Any) -> Any:
    """An object whose attribute ``now`` ends the tracing and then makes the call.

    By C code alone: were a line of Python called from here, CPython would look for signals in it.
    """
    calls = zip(
        map(sys.settrace, itertools.repeat(None)),
        map(call, *map(itertools.repeat, args)),
        strict=True,
    )
    return type("Trip", (), {"now": property(functools.partial(next, calls))})()


def trip_of_signal() -> Any:
    return trip(_raise, int(SIGNAL))


def trip_of_thread(cls: type[BaseException]) -> Any:
    return trip(_set_async, ctypes.c_ulong(threading.get_ident()), ctypes.py_object(cls))


class Tracer:
    """Counts the opcodes of loaderviz, and trips before the one that ``at`` says."""

    def __init__(self, trip: Any = None, at: int = -1) -> None:
        self.trip, self.at, self.count = trip, at, 0
        self.where = ""

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_globals.get("__name__", "").startswith("loaderviz."):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self.local

    def local(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event != "opcode":
            return self.local
        local = self.local
        self.count += 1
        if self.count == self.at:
            code = frame.f_code
            self.where = f"{code.co_filename.rpartition('/')[2]}:{frame.f_lineno} {code.co_name}"
            _ = self.trip.now
        return local


class Numbers(Dataset):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> int:
        return index


def loop(loader: DataLoader, kept: list[Any], **how: Any) -> None:
    """Two epochs, one of them left early, with spans."""
    with lv.record(loader, **how) as rec:
        kept.append(rec)
        for _ in range(2):
            for step, _batch in enumerate(loader):
                with lv.span("step"):
                    pass
                if step == 1:
                    break
        for _batch in loader:
            pass
    kept.append("left")


SCENARIOS: dict[str, Any] = {
    "here": {"batch_size": 2},
    "workers": {"batch_size": 2, "num_workers": 1},
    "persistent": {"batch_size": 2, "num_workers": 1, "persistent_workers": True},
}


def classes() -> list[dict[str, Any]]:
    names = (
        "_BaseDataLoaderIter",
        "_SingleProcessDataLoaderIter",
        "_MultiProcessingDataLoaderIter",
    )
    return [dict(vars(cls)) for cls in (DataLoader, *(getattr(dataloader, n) for n in names))]


def attempt(settings: dict[str, Any], point: int, n_th: int, folder: Path) -> dict[str, Any]:
    """One loop that is interrupted at this point; returns what became of it."""
    raised.clear()
    async_class = None
    if n_th % 5 == 4:
        async_class = CLASSES[n_th // 5 % len(CLASSES)]
        to_trip, kind = trip_of_thread(async_class), f"thread, {async_class.__name__}"
    else:
        make = MAKE[n_th % len(MAKE)]
        handler = HANDLERS[n_th // len(MAKE) % len(HANDLERS)]
        signal.signal(SIGNAL, handler(make))
        to_trip, kind = trip_of_signal(), f"{handler.__name__}, {type(make()).__name__}"
    before, kept, got = classes(), [], None
    lost: list[str] = []  # what dropped an exception: a finalizer, by its name
    sys.unraisablehook = lambda told: lost.append(getattr(told.object, "__qualname__", ""))
    tracer = Tracer(to_trip, point)
    loader = DataLoader(Numbers(), **settings)
    sys.settrace(tracer)
    try:
        loop(loader, kept, path=folder / str(point) if n_th % 2 else None)
        for _ in range(10):
            pass
    except BaseException as error:
        got = error
    sys.settrace(None)
    sys.unraisablehook = sys.__unraisablehook__
    signal.signal(SIGNAL, signal.SIG_IGN)
    came = bool(raised) or (async_class is not None and tracer.count >= point)
    expected = raised[0] if raised else None
    if isinstance(got, SystemError):  # of CPython, which was traced when it delivered it
        got = got.__cause__
    same = got is expected if expected is not None else type(got) is async_class
    result = {"point": point, "kind": kind, "where": tracer.where, "came": came}
    if came and not same:
        result["swallowed"] = repr(got)
        result["lost in"] = lost
    if got is not None and not same:
        result["traceback"] = traceback.format_exception(got)
    if got is not None:
        traceback.clear_frames(got.__traceback__)
        result["within"] = [
            f"{Path(each.filename).name}:{each.lineno} {each.name}"
            for each in traceback.extract_tb(got.__traceback__)
        ][-5:]
        got.__traceback__ = None
    raised.clear()
    del got, expected
    result["classes"] = classes() == before
    if kept:
        try:
            trace = kept[0].trace
            result["kept"] = len(trace.batches)
        except lv.LoaderVizError as error:
            result["not kept"] = str(error)
            with contextlib.suppress(lv.LoaderVizError):
                result["snapshot"] = len(kept[0].snapshot().batches)
    if kept and "not kept" in result:  # the signal hit before the end could begin
        with contextlib.suppress(AssertionError):
            kept[0].__exit__(None, None, None)
        result["classes"] = classes() == before
    return result


def interrupted(scenario: str, every: int) -> dict[str, Any]:
    """What became of each loop of this scenario: ``here``, ``workers`` or ``persistent``."""
    settings = SCENARIOS[scenario]
    warnings.simplefilter("ignore")
    os.register_at_fork(after_in_child=functools.partial(sys.settrace, None))  # of workers
    tracer = Tracer()
    loop(DataLoader(Numbers(), **settings), [])  # with all that is imported on the way
    results = []
    sys.settrace(tracer)
    loop(DataLoader(Numbers(), **settings), [])
    sys.settrace(None)
    for n_th, point in enumerate(range(1, tracer.count, every)):
        with tempfile.TemporaryDirectory(prefix="interrupted-") as folder:
            results.append(attempt(settings, point, n_th, Path(folder)))
        if n_th % 20 == 0:
            gc.collect()
    left = [path.name for path in Path(tempfile.gettempdir()).glob("loaderviz-*")]
    return {"left": left, "results": results}


if __name__ == "__main__":
    json.dump(interrupted(sys.argv[1], int(sys.argv[2])), sys.stdout)
