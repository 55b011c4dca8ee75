"""Rank by rank: what each one's time went into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.trace.around_epochs import around_epochs, endings
from loaderviz.trace.described_loaders import delivered_once, recordings
from loaderviz.trace.steps import NS, groups, seconds_within, step_ends, united

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.trace import Trace

_WORKER = ("rank", "loader", "worker")
_COLUMNS = (
    *_WORKER,
    *("epoch", "batch", "n_samples", "ready_s", "requested_s", "delivered_s", "released_s"),
)


def by_rank(trace: Trace) -> pd.DataFrame:
    """One row per rank, in order: what its consumer did, in batches, samples and seconds.

    Columns: ``rank``; ``n_batches`` and ``n_samples``, delivered, but what another loader of the
    trace hands over counts there alone; ``n_workers``, 0 where the main
    process loads; ``epochs``; ``startup_s`` (of it ``ending_s``), ``wait_s`` (of it
    ``first_wait_s`` and ``handover_s``), ``step_s`` and ``samples_per_s`` as in ``Summary``; of
    batches that were the first of an epoch ``n_first``, how many, and ``first_step_s``.
    """
    import pandas as pd

    every = {column: trace.batches[column].to_numpy() for column in _COLUMNS}
    taken = delivered_once(trace)
    batches = {column: values[taken] for column, values in every.items()}
    ranks = _ranks(trace, every["rank"])
    row = np.searchsorted(ranks, batches["rank"])
    epoch = groups(*(batches[column] for column in ("rank", "loader", "epoch")))
    order = np.lexsort((batches["delivered_s"], epoch))
    firsts = np.flatnonzero(np.diff(epoch[order], prepend=-1))  # of each epoch, in this order
    first = order[firsts]
    delivered = batches["delivered_s"]
    requested = np.where(np.isnan(batches["requested_s"]), delivered, batches["requested_s"])
    waits = np.nan_to_num(delivered - requested)
    lay_ready = batches["ready_s"] <= requested
    lay_ready[first] = False
    released = step_ends(batches)
    spans = zip(
        batches["rank"][first], requested[first], _last(delivered, order, firsts), strict=True
    )
    begun = np.array(around_epochs(trace)).reshape(-1, 4)  # rank, loader, start, end
    ended = np.array(endings(trace)).reshape(-1, 4)
    of_rank = np.searchsorted(ranks, begun[:, 0])
    within_steps_s = np.zeros(len(ranks))
    for number, loader in np.unique(np.stack([of_rank, begun[:, 1]], axis=1), axis=0).astype(int):
        stretches = begun[(of_rank == number) & (begun[:, 1] == loader), 2:]
        of_its = row == number
        steps = seconds_within(delivered[of_its], released[of_its], as_one=True)
        within_steps_s[number] += steps(*stretches.T).sum()

    def total(values: Any, of: Any = slice(None)) -> Any:
        return np.bincount(row[of], values[of], len(ranks))

    return pd.DataFrame(
        {
            "rank": ranks,
            "n_batches": np.bincount(row, minlength=len(ranks)),
            "n_samples": total(batches["n_samples"]).astype(np.int64),
            "n_workers": _n_workers(trace, batches, ranks),
            "epochs": _count(ranks, [rank for rank, *_ in united(spans)]),
            "startup_s": np.bincount(of_rank, begun[:, 3] - begun[:, 2], len(ranks)),
            "ending_s": np.bincount(
                np.searchsorted(ranks, ended[:, 0]), ended[:, 3] - ended[:, 2], len(ranks)
            ),
            "wait_s": total(waits),
            "first_wait_s": total(waits, first),
            "handover_s": total(waits, lay_ready),
            # Within a step another loader may be begun, as for a validation, or an iterator be let
            # go of: that is no step.
            "step_s": total(released - delivered) - within_steps_s,
            "first_step_s": total(released - delivered, first),
            "samples_per_s": _paces(batches, released, order, firsts, ranks),
            "n_first": np.bincount(row[first], minlength=len(ranks)),
        }
    )


def ranks_beside(trace: Trace, rank: int) -> int:
    """How many ranks of this run shared the machine of one of them, itself included."""
    hosts = {each["rank"]: each.get("host") for each in recordings(trace.meta)}
    return sum(host == hosts[rank] for host in hosts.values()) if rank in hosts else 1


def _ranks(trace: Trace, of_batches: Any) -> Any:
    recorded = [each["rank"] for each in recordings(trace.meta)]
    of_workers = trace.workers["rank"].to_numpy()
    return np.unique(np.concatenate([of_batches, of_workers, np.array(recorded, np.int64)]))


def _count(ranks: Any, of: Any) -> Any:
    return np.bincount(np.searchsorted(ranks, np.asarray(of, np.int64)), minlength=len(ranks))


def _n_workers(trace: Trace, batches: dict[str, Any], ranks: Any) -> Any:
    if not trace.workers.empty:
        workers = [trace.workers[column].to_numpy() for column in _WORKER]
    else:
        workers = [batches[column][batches["worker"] >= 0] for column in _WORKER]
    first = np.unique(groups(*workers), return_index=True)[1]
    return _count(ranks, workers[0][first])


def _paces(batches: dict[str, Any], released: Any, order: Any, firsts: Any, ranks: Any) -> Any:
    """Samples a second, from the arrival of each epoch's first batch to that of its last.

    So as many steps count as waits. Of an epoch of one batch it is the whole.
    ``order`` sorts the batches by epoch and delivery; in it each epoch begins at one of ``firsts``.
    """
    if not len(order):
        return np.zeros(len(ranks))
    sizes = np.diff(firsts, append=len(order))
    first = order[firsts]
    skipped = first[sizes > 1]
    n_samples = batches["n_samples"].astype(float)
    n_samples[skipped] = 0
    begun = np.where(sizes > 1, batches["delivered_s"][first], batches["requested_s"][first])
    ends = batches["delivered_s"].copy()
    ends[skipped] = -np.inf
    alone = first[sizes == 1]
    ends[alone] = np.maximum(ends, released)[alone]
    spans = united(zip(batches["rank"][first], begun, _last(ends, order, firsts), strict=True))
    seconds = np.bincount(
        np.searchsorted(ranks, [rank for rank, *_ in spans]),
        [end - start for _, start, end in spans],
        len(ranks),
    )
    counted = np.bincount(np.searchsorted(ranks, batches["rank"]), n_samples, len(ranks))
    return np.divide(counted, seconds, out=np.zeros(len(ranks)), where=seconds > NS)


def _last(times: Any, order: Any, firsts: Any) -> Any:
    """Of each epoch the latest."""
    return np.maximum.reduceat(times[order], firsts) if len(order) else times
