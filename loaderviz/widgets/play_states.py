"""Where each batch is at any moment, for the animation of the queues."""

from __future__ import annotations

from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import style
from loaderviz.trace import Trace

RECORDED_STATIONS = ("dispatched", "started", "ready", "pinned", "delivered", "released")
MOST_BATCHES = 300  # nobody would watch more to the end


def station_times(trace: Trace) -> dict[str, Any]:
    """When each batch reached each station, in seconds; None where it never got there.

    A trace does not say when the main process takes a batch from the result queue, but that can be
    worked out. It takes batches in the order of their arrival, only inside ``next()``, and only
    until the one that it wants is there; those that it took before that one lie in the reorder
    buffer (torch/utils/data/dataloader.py, ``_MultiProcessingDataLoaderIter._next_data``).

    Returns:
        A dictionary that can be JSON: ``workers``, the number of workers (0: the main process
        loads); ``pins``, whether there is a pin thread; ``end_s``; ``left_out``, how many batches
        past the first 300 there are; and ``batches``, each a dictionary with ``name``, ``worker``,
        ``n`` (samples), ``fill`` and ``ink`` (colours), and the times ``dispatched``, ``started``,
        ``ready``, ``pinned``, ``taken``, ``delivered`` and ``released``.

    Raises:
        LoaderVizError: if ``trace`` is not a ``Trace``, or holds no batch.
    """
    if not isinstance(trace, Trace):
        raise LoaderVizError(f"play() shows a Trace, but got {type(trace).__name__} {trace!r:.60}")
    table = trace.batches
    table = table[
        (table["rank"] == table["rank"].min()) & (table["loader"] == table["loader"].min())
    ]
    if table.empty:
        raise LoaderVizError("this trace holds no batch: there is nothing to play")
    table = table.sort_values(["epoch", "batch"]).reset_index(drop=True)
    shown = table.iloc[:MOST_BATCHES]
    times = {name: shown[f"{name}_s"].to_numpy(float) for name in (*RECORDED_STATIONS, "requested")}
    times["taken"] = _taken_s(times)
    del times["requested"]
    several_epochs = shown["epoch"].nunique() > 1
    columns = ("epoch", "batch", "worker", "n_samples")
    batches = [
        {
            "name": f"{epoch}·{batch}" if several_epochs else str(batch),
            "worker": int(worker),
            "n": int(n_samples),
            "fill": style.colour(batch),
            "ink": style.text_on(batch),
            **{name: _rounded(times_s[i]) for name, times_s in times.items()},
        }
        for i, (epoch, batch, worker, n_samples) in enumerate(
            zip(*(shown[column] for column in columns), strict=True)
        )
    ]
    return {
        "workers": int(shown["worker"].max()) + 1,
        "pins": bool(np.isfinite(times["pinned"]).any()),
        "end_s": _rounded(np.nanmax(np.concatenate(list(times.values())))),
        "left_out": len(table) - len(shown),
        "batches": batches,
    }


def _taken_s(times: dict[str, Any]) -> Any:
    """When the main process took each batch from the queue that brings it."""
    arrived_s = np.fmax(times["ready"], times["pinned"])  # skips what is missing
    taken_s = np.full(len(arrived_s), np.nan)
    by_arrival = np.argsort(arrived_s, kind="stable").tolist()
    arrivals = iter([i for i in by_arrival if np.isfinite(arrived_s[i])])
    for wanted in np.argsort(times["delivered"], kind="stable").tolist():
        if not np.isfinite(times["delivered"][wanted]):
            break
        if np.isfinite(taken_s[wanted]):
            continue  # it was taken while an earlier one was waited for
        for i in arrivals:
            taken_s[i] = max(arrived_s[i], times["requested"][wanted])
            if i == wanted:
                break
    return taken_s


def _rounded(time_s: float) -> float | None:
    return round(float(time_s), 6) if np.isfinite(time_s) else None
