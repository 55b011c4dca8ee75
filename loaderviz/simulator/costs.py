"""``Costs``: what each part of loading takes, given by hand or fitted to a recording."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from loaderviz.argument_checks import number
from loaderviz.array_types import Seconds
from loaderviz.errors import LoaderVizError
from loaderviz.machine import cpu_allowance
from loaderviz.simulator.fit_costs import fit
from loaderviz.simulator.typical_costs import (
    BYTES_PER_S,
    TYPICAL_START,
    check_start_method,
)
from loaderviz.trace import Trace

_RESAMPLED: Final = (
    *("sample_s", "cpu_share", "collate_s", "transport_s", "take_s", "pin_s"),
    "step_s",  # in the order of delivery
)
_SHARES: Final = ("cpu_share", "step_cpu_share")


@dataclass(frozen=True, eq=False, kw_only=True)
class Costs:
    """What each part of loading costs, in seconds.

    >>> Costs(sample_s=0.01, step_s=0.05)
    >>> Costs.from_trace(rec.trace)

    A time is a number, or an array of numbers that is gone through in order, again and again, so
    that a slow region of the dataset stays in its place. Arrays of ``sample_s`` and ``cpu_share``
    hold one value for each sample, in the order in which samples are asked for: each epoch begins
    with the first, unless they are of several whole epochs. All other arrays hold one for each
    batch, ``step_s`` in the order of delivery.

    Attributes:
        sample_s: to read one sample.
        cpu_share: the part of it, 0 to 1, that keeps a CPU busy; the rest is waiting, as for a
            disk. Workers that compute share ``cores``; those that wait do not.
        threads: CPUs that a sample keeps busy while it computes: more than 1 where helper threads
            work on it, as those of OpenCV or OpenMP do.
        collate_s: to collate one batch, on the CPU; ``collate_sample_s`` more for each sample.
        share_s: to put a batch into shared memory while it is collated, in a worker, on the CPU;
            its bytes take longer, at ``bytes_per_s``.
        sample_bytes: bytes of a sample. Pinning, too, copies them at ``bytes_per_s``. A consumer
            that is done with a batch in shared memory gives it back, on the CPU, within its step.
        send_s: to hand a batch on and to get the next task, in a worker, on the CPU.
        transport_s: from a worker to the consumer, for one batch, its bytes aside.
        take_s: to unpickle a batch, in the main process or in its pin thread, with what that waits
            for Python's lock of a worker which reads meanwhile.
        pin_s: to pin a batch, its bytes aside.
        step_s: the consumer's own work on a batch, such as to copy it to the device and to train;
            ``step_cpu_share`` of it keeps a CPU busy.
        sampler_s: to draw the key of one sample from the sampler, in the main process.
        first_key_s: so much longer before an epoch's first batch, as where the sampler puts all
            keys into an order at first.
        dispatch_s: to send the keys of a batch to a worker.
        startup_s: to start one worker, in the main process, one after another.
        boot_s: from a worker's start until it can take a task, on the CPU.
        shutdown_s: to end one worker, in the main process.
        start_method: the start method whose ``startup_s`` and ``boot_s`` these are; None: any.
        cores: CPUs allowed, at least a part of one; None: as many as this process may use.

    Raises:
        LoaderVizError: for a value that is not a number or array of numbers, a negative or
            infinite time, an empty array, a share above 1, ``threads`` below 1, or ``cores`` that
            are not above 0.
    """

    sample_s: Any = 0.01
    cpu_share: Any = 0.0
    threads: float = 1.0
    collate_s: Any = 0.0
    collate_sample_s: float = 0.0
    share_s: float = 0.0
    sample_bytes: float = 0.0
    bytes_per_s: float = BYTES_PER_S
    send_s: float = 0.0
    transport_s: Any = 0.0
    take_s: Any = 0.0
    pin_s: Any = 0.0
    step_s: Any = 0.0
    step_cpu_share: float = 0.0
    sampler_s: float = 0.0
    first_key_s: float = 0.0
    dispatch_s: float = 0.0
    startup_s: float = 0.0
    boot_s: float = 0.0
    shutdown_s: float = 0.0
    start_method: str | None = None
    cores: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "start_method":
                check_start_method(value)
            elif field.name in _RESAMPLED:
                object.__setattr__(self, field.name, _times(field.name, value))
            elif field.name == "cores" and value is None:
                object.__setattr__(self, "cores", cpu_allowance())
            else:
                object.__setattr__(self, field.name, _number(field.name, value))
        for name in ("cores", "bytes_per_s"):
            if getattr(self, name) <= 0:
                raise LoaderVizError(f"{name}={getattr(self, name)!r}: give a number above 0")
        if self.threads < 1:
            raise LoaderVizError(f"threads={self.threads!r}: give at least 1, the worker's own")
        for name in _SHARES:
            if np.max(getattr(self, name)) > 1:
                most = float(np.max(getattr(self, name)))
                raise LoaderVizError(f"{name}={most!r}: a share is 0 to 1, 1 for all of the time")
        lengths = {np.size(values) for values in (self.sample_s, self.cpu_share) if np.ndim(values)}
        if len(lengths) > 1:
            raise LoaderVizError(
                f"sample_s holds {np.size(self.sample_s)} values and cpu_share "
                f"{np.size(self.cpu_share)}: give one for each sample in both, or one number"
            )

    @classmethod
    def from_trace(
        cls,
        trace: Trace,
        *,
        loader: int = 0,
        step_cpu_share: float = 0.0,
        cores: float | None = None,
    ) -> Costs:
        """The costs that one recording shows, whatever its number of workers.

        Each sample has its own time, and its batch's share of CPU time. What the kernel says that
        workers stood in line for a CPU is taken out. Samples and steps keep their order.

        What a recording cannot show is the typical cost on Linux: the start of workers and handing
        over where the main process loads, a start method that was not used, how quickly bytes are
        shared and given back. Where the kernel does not tell of standing in line, as on macOS, of
        helper threads or of the main process, it is taken for what the work takes; so is what other
        processes did to this one: of such a machine only a run tells.

        Args:
            trace: a recording with at least one delivered batch.
            loader: which of its loaders.
            step_cpu_share: the part of a step, 0 to 1, that keeps a CPU busy, which a recording
                does not tell. 0 for a step on a device.
            cores: CPUs allowed; None: as many as the recording says.

        Raises:
            LoaderVizError: for anything but a trace, a trace without a delivered batch of that
                loader, batches that were not recorded in their workers, or bad values.
        """
        return cls(**fit(trace, loader=loader, step_cpu_share=step_cpu_share, cores=cores))

    def start_of(self, method: str | None) -> tuple[float, float]:
        """Seconds to start one worker with ``method``: in the main process, and in the worker."""
        if method is None or self.start_method in (None, method):
            return self.startup_s, self.boot_s
        return TYPICAL_START[method]


def _times(name: str, value: Any) -> Seconds:
    if (
        isinstance(value, str | bytes)
        or getattr(value, "ndim", 1) == 0
        or not hasattr(value, "__len__")
    ):
        return _number(name, value)
    try:
        times = np.array(value if isinstance(value, np.ndarray) else list(value), np.float64)
    except (TypeError, ValueError) as error:
        raise LoaderVizError(f"{name} must hold numbers: {error}") from error
    if times.ndim != 1 or times.size == 0:
        raise LoaderVizError(
            f"{name} has the shape {times.shape}: give a number, or one row with at least one"
        )
    bad = ~(np.isfinite(times) & (times >= 0))
    if bad.any():
        at = int(np.argmax(bad))
        raise LoaderVizError(f"{name}[{at}]={times[at]}: give finite values of 0 or more")
    times.flags.writeable = False
    return times


def _number(name: str, value: Any) -> float:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    return number(name, value)
