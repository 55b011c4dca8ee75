"""Where each batch is at any moment: what the animation of the queues is drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import style
from loaderviz.trace import Trace

MOST_BATCHES = 300  # more would not be watched to their end


def life(trace: Trace) -> dict[str, Any]:
    """The stations of each batch in seconds; null where it never got there.

    The recording does not tell when the main process takes a batch from the result queue, but it
    follows: it takes them in the order of their arrival, only inside ``next()``, and until the one
    that it wants is there; those before lie in the reorder buffer
    (torch/utils/data/dataloader.py, ``_MultiProcessingDataLoaderIter._next_data``).

    Returns:
        ``workers``, the number of workers (0: the main process loads); ``pins``; ``end_s``; ``left
        _out``, how many batches more there are; and ``batches``, each a dictionary with ``name``,
        ``worker``, ``n``, ``fill`` and ``ink`` (colours), and the times ``dispatched``,
        ``started``, ``ready``, ``pinned``, ``taken``, ``delivered`` and ``released``.
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
    times = {
        name: shown[f"{name}_s"].to_numpy(float)
        for name in (
            *("dispatched", "started", "ready", "pinned", "requested", "delivered", "released"),
        )
    }
    times["taken"] = _taken(times)
    del times["requested"]
    several = shown["epoch"].nunique() > 1
    batches = [
        {
            "name": f"{epoch}·{batch}" if several else str(batch),
            "worker": int(worker),
            "n": int(n),
            "fill": style.colour(batch),
            "ink": style.text_on(batch),
            **{name: _number(at[i]) for name, at in times.items()},
        }
        for i, (epoch, batch, worker, n) in enumerate(
            zip(*(shown[c] for c in ("epoch", "batch", "worker", "n_samples")), strict=True)
        )
    ]
    return {
        "workers": int(shown["worker"].max()) + 1,
        "pins": bool(np.isfinite(times["pinned"]).any()),
        "end_s": _number(np.nanmax(np.concatenate(list(times.values())))),
        "left_out": len(table) - len(shown),
        "batches": batches,
    }


def _taken(times: dict[str, Any]) -> Any:
    """When the main process took each batch from the queue that brings it."""
    arrived = np.fmax(times["ready"], times["pinned"])  # skips what is missing
    taken = np.full(len(arrived), np.nan)
    coming = [i for i in np.argsort(arrived, kind="stable").tolist() if np.isfinite(arrived[i])]
    asked = np.argsort(times["delivered"], kind="stable").tolist()
    place = 0
    for wanted in asked:
        if not np.isfinite(times["delivered"][wanted]):
            break
        while not np.isfinite(taken[wanted]) and place < len(coming):
            i = coming[place]
            place += 1
            taken[i] = max(arrived[i], times["requested"][wanted])
    return taken


def _number(at: float) -> float | None:
    return round(float(at), 6) if np.isfinite(at) else None
