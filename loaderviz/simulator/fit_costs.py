"""``Costs.from_trace``: the costs that one recording shows, at any number of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.array_types import Floats
from loaderviz.errors import LoaderVizError
from loaderviz.simulator.typical_costs import (
    BYTES_PER_S,
    RELEASE_BYTES_PER_S,
    TYPICAL_HANDOVER,
    TYPICAL_SHARE_S,
    TYPICAL_START,
)
from loaderviz.trace import Trace
from loaderviz.trace.around_epochs import endings, still_making
from loaderviz.trace.check_trace import MOST_SAMPLES
from loaderviz.trace.columns_of_rows import BATCH, arrays, batch_rows
from loaderviz.trace.described_loaders import loader_description
from loaderviz.why.attribution import AT_ONCE_S
from loaderviz.why.rank_summary import ranks_beside
from loaderviz.why.seen_batches import seen_batches
from loaderviz.why.worker_starts import OWN_PARTS

if TYPE_CHECKING:
    import pandas as pd

# Seconds of CPU a batch that threads of queues may take beside the one that reads, to send a batch
# on (``TYPICAL_HANDOVER``). More is that of helper threads.
QUEUES_S: Final = 2e-4
# Seconds after which a batch has surely arrived: five times the usual ``transport_s``.
ARRIVED_S: Final = 5 * TYPICAL_HANDOVER["transport_s"]
NO_TIME_S: Final = 1e-12  # in place of 0 below a line


def fit(trace: Trace, *, loader: int, step_cpu_share: float, cores: float | None) -> dict[str, Any]:
    """The fields of ``Costs.from_trace``; what the recording does not tell is left out.

    Where ``cores`` is None, the CPUs that were allowed are shared evenly among the machine's ranks.
    """
    if not isinstance(trace, Trace):
        raise LoaderVizError(
            f"Costs.from_trace() takes a Trace, but got {type(trace).__name__}. Take it from a "
            "recording: `with record(loader) as rec: ...`, then Costs.from_trace(rec.trace)."
        )
    delivered = seen_batches(trace, loader).sort_values("delivered_s")
    rank = int(delivered["rank"].iloc[0])
    own = trace.of_ranks([rank]).of_loader(loader)
    description = loader_description(own.meta, loader)
    in_workers = bool(description.get("num_workers"))
    making = _making(own, in_workers=in_workers)
    steps_s = (delivered["released_s"] - delivered["delivered_s"]).dropna().to_numpy()
    if in_workers:
        n_bytes = delivered["n_samples"].median() * making.get("sample_bytes", 0.0)
        steps_s = np.maximum(steps_s - n_bytes / RELEASE_BYTES_PER_S, 0.0)
    if cores is None and (allowed := trace.meta.get("cpu_allowance")) is not None:
        cores = allowed / ranks_beside(trace, rank)
    return {
        **TYPICAL_HANDOVER,
        **_drawing(delivered),
        **_handing_over(own.batches),
        **_starting(own, str(description.get("start_method") or "fork")),
        **making,
        "step_s": steps_s if len(steps_s) else 0.0,
        "step_cpu_share": step_cpu_share,
        "cores": cores,
    }


def _making(trace: Trace, *, in_workers: bool) -> dict[str, Any]:
    """The costs of reading, collating and sharing, by the batches that are complete.

    What the kernel says that workers stood in line for a CPU is taken out of all times.
    """
    made = trace.batches.dropna(subset=["started_s", "collate_s", "ready_s"])
    made = made[made["n_samples"].cumsum() <= MOST_SAMPLES]
    if made.empty:
        return {"sample_s": 0.0}
    took_s = np.maximum((made["ready_s"] - made["started_s"]).to_numpy(), NO_TIME_S)
    cpu_s, threads = _computing(made, took_s)
    # Where a worker hardly ran, clocks that are read one after the other make it over 1.
    queued_s = np.clip(made["queued_s"].fillna(0.0).to_numpy(), 0.0, took_s - cpu_s)
    # To collate is to compute; reading waits for other things, too.
    collate_s = (made["ready_s"] - made["collate_s"]).to_numpy()
    in_line_s = np.minimum(collate_s * queued_s / np.maximum(cpu_s + queued_s, NO_TIME_S), queued_s)
    collate_s = collate_s - in_line_s
    reading_s = (made["collate_s"] - made["started_s"]).to_numpy()
    alone_s = np.maximum(reading_s - (queued_s - in_line_s), 0.0)
    reading_cpu_s = np.clip(cpu_s - collate_s, 0.0, alone_s)
    n = made["n_samples"].to_numpy()
    n_bytes = (made["n_bytes"] / made["n_samples"].clip(lower=1)).median()
    sample_bytes = 0.0 if np.isnan(n_bytes) else float(n_bytes)
    return {
        "sample_s": _sample_s(trace, made)
        * np.repeat(alone_s / np.maximum(reading_s, NO_TIME_S), n),
        "cpu_share": np.repeat(reading_cpu_s / np.maximum(alone_s, NO_TIME_S), n),
        "threads": threads,
        "sample_bytes": sample_bytes,
        **_collating(float(np.median(collate_s)), float(np.median(n)), sample_bytes, in_workers),
    }


def _computing(made: pd.DataFrame, took_s: Floats) -> tuple[Floats, float]:
    """Seconds by the clock in which each batch's worker computed, and in how many threads at once.

    Others than the thread that reads may do so in this process or in children of it. Where CPUs are
    too few for all threads, no more are seen than ran.
    """
    thread_s = np.minimum(made["cpu_s"].fillna(0.0).to_numpy(), took_s)
    process_s = made["process_cpu_s"].fillna(0.0).to_numpy()
    if np.sum(process_s) < np.sum(thread_s) + QUEUES_S * len(made):
        return thread_s, 1.0
    threads = max(1.0, float(np.quantile(process_s / took_s, 0.9)))
    return np.minimum(process_s / threads, took_s), threads


def _collating(
    collate_s: float, n_samples: float, sample_bytes: float, in_workers: bool
) -> dict[str, float]:
    """What collating costs by the sample, and in a worker to share a batch and its bytes."""
    share_s, bytes_per_s = TYPICAL_SHARE_S, BYTES_PER_S
    n_bytes = max(1.0, n_samples) * sample_bytes
    if in_workers:
        share_s = min(collate_s, TYPICAL_SHARE_S)
        bytes_s = min(n_bytes / BYTES_PER_S, collate_s - share_s)
        bytes_per_s = n_bytes / bytes_s if bytes_s > 0 else BYTES_PER_S
        collate_s -= share_s + bytes_s
    return {
        "collate_sample_s": collate_s / max(1.0, n_samples),
        "share_s": share_s,
        "bytes_per_s": bytes_per_s,
    }


def _sample_s(trace: Trace, made: pd.DataFrame) -> Floats:
    """Seconds of each sample, scaled so that a batch's samples add up to what reading it took.

    Samples of a batch share its time evenly where they were read in one call or some are missing.
    """
    n = made["n_samples"].to_numpy()
    reading_s = (made["collate_s"] - made["started_s"]).to_numpy()
    sample_s = np.repeat(reading_s / np.maximum(n, 1), n)
    samples = arrays(trace.samples[[*BATCH, "position", "start_s", "end_s"]])
    took_s = samples["end_s"] - samples["start_s"]
    row = batch_rows(samples, arrays(made[[*BATCH]]))
    read = (row >= 0) & ~np.isnan(took_s)
    row, position, took_s = row[read], samples["position"][read], took_s[read]
    total_s = np.bincount(row, took_s, len(made))
    one_by_one = (np.bincount(row, minlength=len(made)) == n) & (total_s > 0)
    scale = np.divide(reading_s, total_s, out=np.zeros_like(reading_s), where=one_by_one)
    known = one_by_one[row]
    place = (np.cumsum(n) - n)[row] + position
    sample_s[place[known]] = (took_s * scale[row])[known]
    return np.asarray(sample_s, np.float64)


def _drawing(delivered: pd.DataFrame) -> dict[str, float]:
    """What the sampler takes for a key, and how much longer before an epoch's first batch."""
    drawn_s = (delivered["dispatched_s"] - delivered["drawing_s"]).clip(lower=0.0)
    if drawn_s.isna().all():
        return {}
    first = delivered["batch"] == 0
    usual_s = drawn_s[~first].mean()
    if np.isnan(usual_s):
        usual_s = drawn_s.mean()
    longer_s = drawn_s[first].mean() - usual_s
    return {
        "sampler_s": float(usual_s) / max(1.0, float(delivered["n_samples"].mean())),
        "first_key_s": max(0.0, float(np.nan_to_num(longer_s))),
    }


def _handing_over(batches: pd.DataFrame) -> dict[str, float]:
    """What it takes to get a batch from its worker; what the batches do not show is left out."""
    delivered = batches[batches["delivered_s"].notna() & (batches["worker"] >= 0)]
    if delivered.empty:
        return {}
    requested_s, delivered_s, pinned_s, ready_s = (
        delivered[name].to_numpy() for name in ("requested_s", "delivered_s", "pinned_s", "ready_s")
    )
    costs = {"send_s": _usual(_gaps_s(delivered))}
    if not np.isnan(pinned_s).all():
        free_s = np.append(-np.inf, np.sort(pinned_s)[:-1])[np.argsort(np.argsort(pinned_s))]
        pinning_s = float(np.nanmedian(pinned_s - np.fmax(ready_s, free_s)))
        costs["pin_s"] = max(0.0, pinning_s - TYPICAL_HANDOVER["take_s"])
        return _known(costs)
    # With each batch that is taken, the keys of one more are drawn and sent.
    drawing_s = np.nan_to_num((delivered["dispatched_s"] - delivered["drawing_s"]).median())
    took_s = delivered_s - requested_s - drawing_s - TYPICAL_HANDOVER["dispatch_s"]
    # A batch that had surely arrived when it was asked for shows how long it takes to take it; but
    # one that was received while another was waited for is at hand.
    there = (requested_s - ready_s > ARRIVED_S) & (took_s >= AT_ONCE_S)
    costs["take_s"] = _usual(took_s[there])
    # A batch that was not ready yet shows how long it was on its way.
    take_s = _known(costs).get("take_s", TYPICAL_HANDOVER["take_s"])
    on_way_s = np.maximum(delivered_s - ready_s - take_s, 0.0)
    costs["transport_s"] = _usual(on_way_s[requested_s < ready_s])
    return _known(costs)


def _usual(seconds: Floats) -> float:
    """The median; NaN of fewer than three, as it would be one of them."""
    return float(np.median(seconds)) if len(seconds) > 2 else np.nan


def _known(costs: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in costs.items() if not np.isnan(value)}


def _gaps_s(delivered: pd.DataFrame) -> Floats:
    """Seconds from a batch until its worker begins the next, where that was sent long before."""
    in_turn = delivered.sort_values(["epoch", "worker", "started_s"])
    of_worker = in_turn.groupby(["epoch", "worker"])
    before_s = of_worker["ready_s"].shift()
    queued = in_turn["dispatched_s"] < before_s - TYPICAL_HANDOVER["transport_s"]
    gaps_s = (in_turn["started_s"] - before_s)[queued].dropna()
    return np.asarray(gaps_s.clip(lower=0.0))  # clocks are read in turn


def _starting(trace: Trace, method: str) -> dict[str, Any]:
    """What it takes to start a worker, until it can take a task, and to end it.

    What an older recording does not tell is the typical cost.
    """
    startup_s, boot_s = TYPICAL_START.get(method, (0.0, 0.0))
    costs = {"startup_s": startup_s, "boot_s": boot_s, "start_method": method}
    began = trace.workers.dropna(subset=["started_s"]).sort_values("started_s")
    began = began.drop_duplicates("worker")  # the first of each
    if not began.empty and began["asked_s"].notna().all():
        until_s = float(began["started_s"].max() - began["asked_s"].min())
        costs["startup_s"] = max(0.0, until_s) / len(began)
    parts_s = began[OWN_PARTS].dropna(how="all").sum(axis=1)
    if len(parts_s):
        costs["boot_s"] = max(0.0, float(parts_s.min()))
    if spans := endings(trace):
        columns = {name: trace.batches[name].to_numpy() for name in ("rank", "loader", "ready_s")}
        made_s = still_making(columns, spans)
        ending_s = [end - until for (*_, end), until in zip(spans, made_s, strict=True)]
        costs["shutdown_s"] = max(0.0, float(np.median(ending_s))) / len(began)
    return costs
