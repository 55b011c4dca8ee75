"""The ``Trace``: four tables, and ``meta`` about them. It holds data and draws nothing."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz import schema
from loaderviz._upward import ask_above
from loaderviz.errors import LoaderVizError
from loaderviz.trace.check_trace import TABLES, check
from loaderviz.trace.columns_of_rows import arrays
from loaderviz.trace.described_loaders import as_the_loop_sees_it, meta_of_ranks
from loaderviz.trace.lines_of_code import table
from loaderviz.trace.loaders_as_one import as_one
from loaderviz.trace.unread_samples import SamplesField, UnreadSamples
from loaderviz.trace.windows import incidents_of, of_these, windows_of

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.why.shapes import Shapes
    from loaderviz.why.summary import Summary


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """What one recording, or one simulation, saw.

    Attributes:
        batches: one row per batch, from dispatch to release.
        samples: one row per sample, timed in the process that read it.
        workers: one row per worker process.
        spans: one row per named span of the consumer.
        meta: the loaders' configurations, versions, how many CPUs it may use, when its clock began.

    Columns and units are those of ``loaderviz.schema``; times are float64 seconds since the start
    of the recording, NaN where something did not happen.

    Raises:
        LoaderVizError: where a table or ``meta`` holds what ``loaderviz.trace.check_trace`` does
            not allow there.
    """

    batches: pd.DataFrame
    samples: pd.DataFrame  # may be given as UnreadSamples
    workers: pd.DataFrame
    spans: pd.DataFrame
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        held = {name: vars(self)[name] for name in TABLES}
        check(
            {
                name: arrays(table)
                for name, table in held.items()
                if not isinstance(table, UnreadSamples)
            },
            self.meta,
        )

    @classmethod
    def from_columns(
        cls,
        *,
        batches: Mapping[str, Any] | None = None,
        samples: Mapping[str, Any] | None = None,
        workers: Mapping[str, Any] | None = None,
        spans: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Trace:
        """A trace from columns; those not given are 0, NaN or None in every row.

        Raises:
            LoaderVizError: for a column that ``loaderviz.schema`` does not have, for columns that
                differ in length, and as ``Trace`` does.
        """
        return cls(
            _table("batches", schema.BATCHES, batches),
            _table("samples", schema.SAMPLES, samples),
            _table("workers", schema.WORKERS, workers),
            _table("spans", schema.SPANS, spans),
            dict(meta or {}),
        )

    @property
    def n_sample_rows(self) -> int:
        """How many rows ``samples`` has, known without reading them."""
        return len(SamplesField.without_reading(self))

    def sample_parts(self) -> Iterator[pd.DataFrame]:
        """``samples`` in one part or more: for a run of many ranks, a recording at a time."""
        samples = SamplesField.without_reading(self)
        if isinstance(samples, UnreadSamples):
            yield from samples.parts(self.batches)
        else:
            yield samples

    def of_ranks(self, ranks: Collection[int]) -> Trace:
        """The trace of these ranks alone, its ``meta["ranks"]`` included."""
        names = ("batches", "workers", "spans")
        tables: dict[str, Any] = {name: _rows(getattr(self, name), "rank", ranks) for name in names}
        samples = SamplesField.without_reading(self)
        if isinstance(samples, UnreadSamples):
            tables["samples"] = samples.of_ranks(ranks)
        else:
            tables["samples"] = _rows(samples, "rank", ranks)
        meta = of_these(meta_of_ranks(self.meta, ranks), "rank", ranks)
        return self._part(**tables, meta=meta)

    def of_loader(self, number: int) -> Trace:
        """The trace of this loader alone, in all ranks; spans belong to no loader, and stay.

        Where there is no other loader, samples that were not read yet stay unread.
        """
        if all((table["loader"] == number).all() for table in (self.batches, self.workers)):
            return self
        names = ("batches", "samples", "workers")
        tables = {name: _rows(getattr(self, name), "loader", [number]) for name in names}
        meta = of_these(self.meta, "loader", [number])
        return self._part(**tables, spans=self.spans, meta=meta)

    def _part(self, **fields: Any) -> Trace:
        """A trace of some of these rows: they were checked before."""
        part = object.__new__(Trace)
        for name, value in fields.items():
            object.__setattr__(part, name, value)
        return part

    def summary(self) -> Summary:
        """What limits this run, in numbers and in words."""
        summary: Summary = ask_above("summary of a trace", self)
        return summary

    def shapes(self) -> Shapes:
        """What the batches are made of: how many shapes the model sees, and how often each.

        Its ``.table`` has a row for each: dtypes and shapes, batches, samples, share, and which
        batch was the first. What is padding in them is predicted, where it can be.
        """
        shapes: Shapes = ask_above("shapes of a trace", as_one(self))
        return shapes

    def phases(self) -> pd.DataFrame:
        """Which phases each loader's epochs have: what starts, warms up, goes on, pauses.

        A row for each stretch, by rank, loader and time. Columns: ``rank``, ``loader``, ``epoch``,
        ``phase``, ``from_batch`` and ``to_batch`` (its first and last batch), ``from_s`` and
        ``to_s`` (since the start of the recording), ``seconds``. A loader that is made anew at one
        line of code has the number of the first, and goes on from epoch to epoch. The phases are

        - ``start``: until the first batch is delivered; ``restart``: the same in later epochs whose
          workers are new. Its batch is the one that is waited for;
        - ``warm-up``: steps, or reading, that took longer than they do in the end;
        - ``earlier``: a level that it no longer has, and that was quicker;
        - ``pace``: what goes on from there;
        - ``pause``: a step at pace that takes at least one usual batch longer than the others, and
          by hyperfine's rule stands out from them (14.8 median absolute deviations);
        - ``no steady state``: fewer than eight batches, or a level that lasts for less than a
          quarter of the run, or one that is still drifting;
        - ``end``: from the last batch on, until the loop has seen the workers end.

        Each delivered batch is in one of ``warm-up``, ``earlier``, ``pace``, ``pause`` and ``no
        steady state``: from its delivery to the next one, so that the step on it is in its phase
        and what the loop waits for after that, too. The rule is that of Barrett et al., *Virtual
        machine warmup blows hot and cold* (OOPSLA 2017), for as few values as a recording has.
        """
        table: pd.DataFrame = ask_above("phases of a trace", as_one(self))
        return table

    @property
    def windows(self) -> pd.DataFrame:
        """The run minute by minute: a row for each rank, loader, epoch and minute, in order.

        Of a recording with ``last_s`` of its whole run, also of what is no longer in the other
        tables. There times are seconds since the recording began, and ``meta["begins_s"]`` is the
        one at which the other tables begin; windows are a tenth of ``last_s``, a minute at most,
        and after three days twice as long.

        Columns: ``rank``, ``loader``, ``epoch``; ``start_s`` and ``end_s``; ``batches`` that the
        loop was done with, what it waited in ``iter()``, as for the start of workers
        (``startup_s``), what it waited for batches (``wait_s``) and did with them (``step_s``);
        ``samples`` that were read, of which ``supply_per_s`` is what the workers make when none
        stands idle, and ``demand_per_s`` what the loop takes when it never waits, in samples per
        second; quantiles of what the loop waited for a batch (``ready_p50_s``, ``ready_p95_s``,
        ``ready_p99_s``) and of what reading one took (``read_p50_s``, ``read_p99_s``), in seconds;
        ``read_cpu_share``, of reading the part that its thread computed, 0 to 1; ``disk_bytes``
        that a disk gave; ``memory_bytes``, the resident memory of all who read, each as its
        largest; ``slowest_worker``, by the time for a sample, -1 for the main process or none. NaN
        where it is not known.
        """
        return windows_of(self)

    @property
    def incidents(self) -> pd.DataFrame:
        """What a recording with ``last_s`` has saved: a row for each incident, in order.

        Columns: ``rank``, ``incident`` (its number); ``kind``: ``step`` or ``reading`` (it takes
        longer than before, for two windows at least, and the loop feels it), ``wait`` (three times
        as long as any before, told while it goes on where workers read), ``memory`` (those who
        read hold more from window to window, less is free, and at this pace none is left before as
        long again, an hour at most), ``exception``, or ``asked`` by ``save_incident``; ``loader``,
        NaN where it is of none; ``start_s`` and ``end_s``, seconds since the recording began, to a
        window, ``end_s`` NaN where it has not ended; ``before_s`` and ``after_s``, what took
        longer; ``text``; and ``path``, which ``loaderviz.load`` opens: what was kept then. Of more
        than ten the first three and the latest seven have one, of a recording without a ``path``
        none.
        """
        return incidents_of(self)

    def lines(self, *, user: bool = True) -> pd.DataFrame:
        """Which lines of code took the time in which samples were read, the longest first.

        A row for each of the user's own lines, the calls of other packages that it makes included;
        where a stack has none, for the first line of a package. Recorded with
        ``record(loader, lines=True)``, by a look at the main thread of each process some hundred
        times a second while it reads: threads and processes that a sample starts are not seen.

        Columns: ``file`` (from the project's folder), ``line``, ``function``, ``source``;
        ``seconds`` and ``share`` (of all that was looked at, 0 to 1) in which it was the innermost
        such line; ``total_s`` and ``total_share``, with the user's own functions that it calls;
        ``cpu_s``, the CPU time of that thread in ``seconds``, where what is left is waiting (looked
        for by that time, so it is about right where it is a tenth of a second or more);
        ``waited_s``, how much of ``seconds`` the loop waited for; ``looks`` that found it, and the
        ``phase`` that has most of them: ``read``, ``collate``, ``init`` (of a worker: its
        ``worker_init_fn``, and the iterator of its stream), or ``sampler``. Arithmetic, such as
        ``a @ b``, and a call into C on a later line can share their time half and half.

        Args:
            user: False for a row for each innermost line, whoever's it is.

        Raises:
            LoaderVizError: where lines were not recorded.
        """
        return table(self, user=user)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to one file; ``loaderviz.load(path)`` opens it again.

        The file is Parquet (``loaderviz.trace.parquet.write_parquet`` says what is where): pandas,
        pyarrow, DuckDB and the like read it too. A file that is there already is replaced, in one
        step once all is written. Times are kept to the nanosecond: those of a recording come back
        as they are, those of a simulation rounded. Rows come back numbered from 0, tuples in
        ``meta`` as lists.

        Args:
            path: where to; by custom it ends in ``.parquet``.

        Raises:
            LoaderVizError: where the file cannot be written, or where a column holds what
                ``loaderviz.schema`` does not have there. A key that is no text, number, None, or
                tuple or list of such is written as its ``repr``; what JSON cannot hold of ``meta``
                is left out, with a word in its ``problems``.
        """
        from loaderviz.trace.parquet import write_parquet

        write_parquet.save(self, path)

    def to_perfetto(
        self, path: str | os.PathLike[str], *, profile: str | os.PathLike[str] | None = None
    ) -> None:
        """Write the trace as a file that Perfetto (ui.perfetto.dev) and chrome://tracing open.

        Each rank's consumer and each worker is a process with its lanes; a flow leads from each
        batch in its worker to the step on it, and counters show the batches that lie ready and the
        memory of the workers. Times are those of the trace, to the nanosecond. A file that is there
        already is replaced, in one step once all is written.

        Args:
            path: where to; packed by gzip where it ends in ``.gz``, which both viewers open.
            profile: a file that torch.profiler's ``export_chrome_trace`` wrote of the same run. All
                that it holds goes into the new file, beside the trace, on one time axis; times of
                the trace are rounded to 125 ns. The profiler uses the wall clock, which a recording
                reads as it starts: the axes agree as long as nobody sets that clock meanwhile.

        Raises:
            LoaderVizError: where the file cannot be written, the trace is empty, or the profile
                cannot be read or is of another time.
        """
        ask_above("Perfetto's file of a trace", as_the_loop_sees_it(self), path, profile)

    def __repr__(self) -> str:
        return str(self.summary())

    def _ipython_display_(self) -> None:
        """At the end of a notebook cell: the timeline, whose title is the summary, and causes."""
        if self.batches.empty:
            print(self)
            return
        for figure in ask_above("figures of a trace", self):
            figure._ipython_display_()


# Not in the class body: dataclass() would take it for the field's default.
Trace.samples = SamplesField()  # type: ignore[assignment]


def _rows(table: pd.DataFrame, column: str, numbers: Collection[int]) -> pd.DataFrame:
    return table[np.isin(table[column].to_numpy(), list(numbers))].reset_index(drop=True)


def _table(name: str, columns: schema.Columns, values_of: Mapping[str, Any] | None) -> pd.DataFrame:
    import pandas as pd

    values_of = {} if values_of is None else values_of  # a DataFrame will do, too
    unknown = set(values_of) - set(columns)
    if unknown:
        raise LoaderVizError(
            f"{name} has no column {sorted(unknown)[0]!r}; it has {', '.join(columns)}"
        )
    values_of = {column: _without_index(values) for column, values in values_of.items()}
    lengths = {column: len(values) for column, values in values_of.items() if _is_column(values)}
    n = max(lengths.values(), default=0)
    for column, length in lengths.items():
        if length != n:
            raise LoaderVizError(f"{name} has {n} rows, but {length} values of {column!r}")
    default = {"int64": 0, "float64": math.nan, "object": None}
    data = {}
    for column, kind in columns.items():
        values: Any = values_of.get(column, default[kind])
        if not _is_column(values):
            values = np.full(n, values) if isinstance(values, int | float) else [values] * n
        if column == "key" and _are_int64(values):
            kind = "int64"
        # A Series checks and converts, which takes ten times as long as taking an array as it is.
        fits = isinstance(values, np.ndarray) and values.dtype == kind != "object"
        data[column] = values if fits else pd.Series(values, dtype=kind, copy=False)
    return pd.DataFrame(data, copy=False)


def _without_index(values: Any) -> Any:
    """The values of a Series as an array, without its row labels; anything else as it is."""
    return values.to_numpy() if hasattr(values, "to_numpy") else values


def _is_column(values: Any) -> bool:
    return hasattr(values, "__len__") and not isinstance(values, str)


def _are_int64(keys: Any) -> bool:
    if isinstance(keys, np.ndarray) and np.can_cast(keys.dtype, np.int64):
        return True
    return all(isinstance(key, int | np.integer) and -(2**63) <= int(key) < 2**63 for key in keys)
