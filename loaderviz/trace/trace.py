"""The ``Trace``: four tables and what is known about them. Holds data, draws nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from loaderviz import schema
from loaderviz.errors import LoaderVizError
from loaderviz.trace.summary import Summary, summarize

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """What one recording, or one simulation, saw.

    Attributes:
        batches: one row per batch, from dispatch to release.
        samples: one row per sample, timed in the process that read it.
        workers: one row per worker process.
        spans: one row per named span of the consumer.
        meta: the loaders' configurations, versions, the CPU allowance, the start of the clock.

    Columns and units are those of ``loaderviz.schema``; times are float64 seconds since the start
    of the recording, NaN where something did not happen.
    """

    batches: pd.DataFrame
    samples: pd.DataFrame
    workers: pd.DataFrame
    spans: pd.DataFrame
    meta: Mapping[str, Any] = field(default_factory=dict)

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
            LoaderVizError: for a column that ``loaderviz.schema`` does not have.
        """
        return cls(
            _table("batches", schema.BATCHES, batches or {}),
            _table("samples", schema.SAMPLES, samples or {}),
            _table("workers", schema.WORKERS, workers or {}),
            _table("spans", schema.SPANS, spans or {}),
            dict(meta or {}),
        )

    def summary(self) -> Summary:
        """What limits this run, in numbers and in words."""
        return summarize(self)

    def __repr__(self) -> str:
        return str(self.summary())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """At the end of a notebook cell: the summary, and the timeline where there is one."""
        text = repr(self)
        if self.batches["delivered_s"].notna().any():
            # The one look upwards from here, when a person asks to see the trace.
            from loaderviz.figures import timeline

            return {**timeline(self)._repr_mimebundle_(**kwargs), "text/plain": text}
        return {"text/plain": text}


def _table(name: str, columns: schema.Columns, given: Mapping[str, Any]) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    unknown = set(given) - set(columns)
    if unknown:
        raise LoaderVizError(
            f"{name} has no column {sorted(unknown)[0]!r}; it has {', '.join(columns)}"
        )
    n = max((len(values) for values in given.values() if hasattr(values, "__len__")), default=0)
    blank = {"int64": 0, "float64": np.nan, "object": None}
    data = {}
    for column, kind in columns.items():
        values = given.get(column, blank[kind])
        if not hasattr(values, "__len__") or isinstance(values, str):
            values = [values] * n
        if column == "key" and all(isinstance(key, int | np.integer) for key in values):
            kind = "int64"
        data[column] = pd.Series(values, dtype=kind)
    return pd.DataFrame(data)
