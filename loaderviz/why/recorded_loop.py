"""The loop of a recording, and a whole epoch of it at pace, as ``replay`` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from loaderviz.loader_settings import PREFETCH_FACTOR
from loaderviz.trace.around_epochs import drawn_ahead, startups
from loaderviz.trace.columns_of_rows import Table, arrays, where
from loaderviz.trace.described_loaders import loader_description
from loaderviz.why.attribution import CAUSES
from loaderviz.why.replay import Epoch, Event, Loop, Workers

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace
    from loaderviz.why.attribution import Attribution
    from loaderviz.why.pace import Pace

MOST_EVENTS: Final = 5_000  # of a loop that are replayed: a tenth of a second for all causes
_NAMES = (
    *("rank", "loader", "epoch", "batch", "worker", "started_s", "ready_s"),
    *("requested_s", "delivered_s"),
)


class _Span(NamedTuple):
    """What the loop waited for: a batch, or what is around an epoch; from when to when."""

    start_s: float
    end_s: float
    loader: int
    epoch: int
    begins: bool = False  # the epoch
    due_s: Mapping[str, float] | None = None  # what it is due to; None of a batch


def recorded_loop(trace: Trace, attribution: Attribution) -> Loop:
    """What the loop of the first rank did, in order, with the loaders whose work was seen.

    A loader whose batches nobody saw being made is not in it: what is waited for it is the loop's
    own time.
    """
    rank = int(trace.batches["rank"].min()) if len(trace.batches) else 0
    rows = arrays(trace.batches[list(_NAMES)])
    rows["row"] = np.arange(len(rows["rank"]))
    rows = where(rows, rows["rank"] == rank)
    delivered = where(rows, ~np.isnan(rows["delivered_s"] - rows["requested_s"]))
    starts, draws = (
        {(loader, start_s) for whose, loader, start_s, _ in spans if whose == rank}
        for spans in (startups(trace), drawn_ahead(trace))
    )
    around = _around_epochs(delivered, attribution.of_rank(rank), starts | draws)
    begun_s: dict[tuple[int, int], tuple[float, float]] = {}  # in iter() of an epoch
    for span in around:
        if span.begins:
            begun = begun_s.get(span[2:4], span[:2])
            begun_s[span[2:4]] = min(begun[0], span.start_s), max(begun[1], span.end_s)
    workers: dict[int, Workers] = {}
    epochs: dict[tuple[int, int], Epoch] = {}
    for loader in np.unique(delivered["loader"]).tolist():
        own = where(rows, rows["loader"] == loader)
        if np.isnan(own["ready_s"] - own["started_s"])[~np.isnan(own["delivered_s"])].any():
            continue
        workers[loader] = _workers_of(trace, loader, own)
        for epoch in np.unique(own["epoch"]).tolist():
            in_iter = begun_s.get((loader, epoch))
            anew = in_iter is not None and (loader, in_iter[0]) in starts
            batches = where(own, own["epoch"] == epoch)
            epochs[loader, epoch] = _epoch(batches, workers[loader], in_iter, anew)
    names = ("requested_s", "delivered_s", "loader", "epoch")
    taken = map(_Span, *(delivered[name].tolist() for name in names))
    spans = sorted([*taken, *around], key=lambda span: span[:2])
    return Loop(workers, epochs, *_events(spans[:MOST_EVENTS], epochs))


def _workers_of(trace: Trace, loader: int, own: Table) -> Workers:
    about = loader_description(trace.meta, loader)
    n = int(own["worker"].max(initial=-1)) + 1
    n = max(n, int(about.get("num_workers") or 0)) if n else 0
    ahead = int(about.get("prefetch_factor") or PREFETCH_FACTOR)
    return Workers(n, ahead, bool(about.get("in_order", True)))


def _around_epochs(
    delivered: Table, attribution: Attribution, begins: set[tuple[int, float]]
) -> list[_Span]:
    """What is around each epoch; ``begins``: loader and start of what begins one, as ``iter()``."""
    found = []
    for loader in np.unique(delivered["loader"]).tolist():
        own = where(delivered, delivered["loader"] == loader)
        order = np.argsort(own["requested_s"], kind="stable")
        requests, epochs = own["requested_s"][order], own["epoch"][order]
        for row in np.flatnonzero((attribution.loader == loader) & (attribution.row < 0)).tolist():
            start_s, end_s = float(attribution.start_s[row]), float(attribution.end_s[row])
            is_begin = (loader, start_s) in begins
            nth = int(np.searchsorted(requests, start_s)) - (not is_begin)
            if 0 <= nth < len(epochs):
                due_s = dict(zip(CAUSES, attribution.seconds[row].tolist(), strict=True))
                found.append(_Span(start_s, end_s, loader, int(epochs[nth]), is_begin, due_s))
    return found


def _events(
    spans: list[_Span], epochs: Mapping[tuple[int, int], Epoch]
) -> tuple[tuple[Event, ...], float, float]:
    """The events of these spans in turn; how long they took, and until when."""
    events = []
    begun_s = until = spans[0].start_s if spans else 0.0
    for start_s, end_s, loader, epoch, begins, due_s in spans:
        if (loader, epoch) not in epochs:
            continue
        own_s = max(0.0, start_s - until)
        until = max(until, end_s)
        if due_s is None:
            events.append(Event(own_s, loader, epoch))
        else:
            events.append(Event(own_s, loader, epoch, end_s - start_s, begins, due_s))
    return tuple(events), until - begun_s, until


def _epoch(rows: Table, how: Workers, begun_s: tuple[float, float] | None, anew: bool) -> Epoch:
    """``begun_s``: from when to when the loop was in ``iter()``; None where it was not seen.

    ``anew``: whether workers were started there.
    """
    rows = where(rows, np.argsort(rows["batch"], kind="stable"))
    started, ready, asked = rows["started_s"], rows["ready_s"], rows["requested_s"]
    making_s = np.maximum(ready - started, 0.0)
    making_s = np.where(np.isnan(making_s), np.nanmedian(making_s), making_s)
    if not how.n:
        handed_s = np.maximum(rows["delivered_s"] - asked - making_s, 0.0)
        return Epoch(rows["row"], making_s, 0 * making_s, np.nan_to_num(handed_s), rows["worker"])
    handed_s = np.nan_to_num(np.maximum(rows["delivered_s"] - np.fmax(asked, ready), 0.0))
    taken_s = np.sort(rows["delivered_s"])
    first_s = begun_s[1] if begun_s else np.nanmin(np.append(asked, np.inf))
    asked_for_s = np.append(np.full(how.n_ahead, first_s), taken_s)[: len(started)]
    lag_s, boot_s = np.zeros(len(started)), {}
    for worker in np.unique(rows["worker"][rows["worker"] >= 0]).tolist():
        own = np.flatnonzero((rows["worker"] == worker) & ~np.isnan(started))
        if not len(own):
            continue
        free_s = np.append(-np.inf, ready[own][:-1])
        lag_s[own] = np.maximum(started[own] - np.fmax(free_s, asked_for_s[own]), 0.0)
        if anew and begun_s is not None:
            boot_s[worker] = max(0.0, float(started[own[0]] - begun_s[0]))
            lag_s[own[0]] = 0.0
    return Epoch(rows["row"], making_s, lag_s, handed_s, rows["worker"], boot_s)


def epoch_at_pace(loop: Loop, pace: Pace) -> Loop | None:
    """A whole epoch of one loader at its pace: its batches at pace, again and again.

    It begins and ends as epochs do, unless workers are kept, and has pauses at their rate. Of a
    long one the first batches: ``MOST_EVENTS``. None without a pace, or where the loader's work was
    not seen.
    """
    own = {key: epoch for key, epoch in loop.epochs.items() if key[0] == pace.loader}
    if pace.epoch is None or not own:
        return None
    pool = {
        name: np.concatenate([getattr(epoch, name) for epoch in own.values()])
        for name in ("rows", "making_s", "lag_s", "handed_s")
    }
    order = np.argsort(pool["rows"], kind="stable")
    place = np.searchsorted(pool["rows"][order], pace.rows)
    at_pace = order[place[np.isin(pace.rows, pool["rows"])]]
    if not len(at_pace):
        return None
    n = min(pace.epoch.n_batches, MOST_EVENTS)
    steps_s = np.resize(np.where(np.isnan(pace.steps_s), pace.step_s, pace.steps_s), n)
    if np.isfinite(pace.batches_per_pause):
        paused = np.arange(pace.batches_per_pause, n, pace.batches_per_pause).astype(int)
        steps_s[paused] += pace.pause_s
    begin = _usual_begin(loop, pace)
    how = loop.workers[pace.loader]
    # What workers do for their first batches they do in each epoch, and for no others.
    usual = max(own) if begin is None else (begin.loader, begin.epoch)
    only_start = pace.keeps_workers and len(own) == 1
    first = own[usual].rows[: 0 if only_start else how.n]
    firsts = np.concatenate([epoch.rows[: how.n] for epoch in own.values()])
    later = at_pace[~np.isin(pool["rows"][at_pace], firsts)]
    again = np.append(
        np.flatnonzero(np.isin(pool["rows"], first)), np.resize(later if len(later) else at_pace, n)
    )[:n]
    epoch = Epoch(
        rows=pool["rows"][again],
        making_s=pool["making_s"][again],
        lag_s=pool["lag_s"][again],
        handed_s=pool["handed_s"][again],
        worker=np.arange(n) % max(1, how.n),
        boot_s=own[begin.loader, begin.epoch].boot_s if begin else {},
    )
    events = [replace(begin, own_s=0.0, epoch=0)] if begin else []
    events += [Event(own_s, pace.loader, 0) for own_s in np.append(0.0, steps_s[:-1]).tolist()]
    if pace.epoch.end_s and (ends := [each for each in loop.events if _ends(each, pace.loader)]):
        lasts_s = pace.epoch.end_s
        like = max(ends, key=lambda end: end.due_s.get("restart", 0.0))  # not the last of all
        events.append(replace(like, own_s=float(steps_s[-1]), epoch=0, lasts_s=lasts_s))
    return Loop({pace.loader: how}, {(pace.loader, 0): epoch}, tuple(events))


def _ends(event: Event, loader: int) -> bool:
    """Whether the loop waits there for a loader's workers to end."""
    return event.loader == loader and event.lasts_s is not None and not event.begins


def _usual_begin(loop: Loop, pace: Pace) -> Event | None:
    """How epochs begin: with new workers, or with keys drawn ahead for those that were kept."""
    begins = [event for event in loop.events if event.begins and event.loader == pace.loader]
    anew = [event for event in begins if loop.epochs[event.loader, event.epoch].boot_s]
    kept = [event for event in begins if event not in anew]
    usual = kept if pace.keeps_workers or len(anew) < len(kept) else anew
    return usual[-1] if usual else None
