"""What the processes of a recording saw of their lines of code, matched to its batches."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loaderviz.record_layout import Tag, unpack_text
from loaderviz.spool import SpoolFile, Words
from loaderviz.trace.lines_of_code import MOST_MOMENTS, PHASES, Frame, Looked
from loaderviz.trace.recording.batches_table import seconds_since


@dataclass
class LinesRead:
    """What has been read so far: of each process its looks, and their stacks."""

    not_seen: list[str] = field(default_factory=list)
    _looks: list[tuple[int, Words, dict[int, tuple[Frame, ...]]]] = field(default_factory=list)

    def read(self, worker: int, name: str, file: SpoolFile, records: dict[int, Words]) -> None:
        """Read what one process wrote; raises what reading damaged records raises."""
        words = file.words
        for start in records.get(Tag.NO_LOOKS, ())[:1]:
            why = unpack_text(words[start + 2 : start + words[start]])
            self.not_seen.append(f"{name}: {why}")
        starts = records.get(Tag.LOOK)
        if starts is None:
            return
        frames: dict[int, Frame] = {}
        for start in records.get(Tag.FRAME, np.zeros(0, np.int64)).tolist():
            number, line, *_ = words[start + 2 : start + 4].tolist()
            about = json.loads(unpack_text(words[start + 4 : start + words[start]]))
            file_, function, owner, source = map(str, about)
            frames[number] = Frame(file_, line, function, owner, source)
        stacks = {0: tuple[Frame, ...]()}
        for start in records.get(Tag.STACK, np.zeros(0, np.int64)).tolist():
            number, *inner = words[start + 2 : start + words[start]].tolist()
            if frames.keys() >= {*inner}:  # else a ring has lost them, and all that names it
                stacks[number] = tuple(frames[each] for each in inner)
        self._looks.append((worker, words[starts[:, None] + np.arange(2, 8)], stacks))

    def seen(self, rank: int, start_ns: int, loaders: dict[int, int], batches: Any) -> list[Looked]:
        """By loader, worker, phase and stack; ``loaders``: of each iterator."""
        total: dict[tuple[Any, ...], Any] = defaultdict(lambda: np.zeros(4))
        moments: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        looked_ns = sum(int(looks[:, 4].clip(0).sum()) for _, looks, _ in self._looks)
        for worker, looks, stacks in self._looks:
            for iterator in np.unique(looks[:, 0]).tolist():
                loader = loaders.get(iterator)
                if loader is None:
                    continue
                own = looks[(looks[:, 0] == iterator) & (looks[:, 3] >= start_ns)]
                if not len(own):
                    continue
                at_s = seconds_since(start_ns, own[:, 3])
                waited = _waited(at_s, own[:, 1], loader, worker, batches)
                spread = _spread(own[:, 3] - start_ns, own[:, 4], looked_ns // MOST_MOMENTS)
                for look, is_waited, when in zip(own.tolist(), waited, spread, strict=True):
                    _, phase, stack, _, weight_ns, cpu_ns = look
                    s = max(weight_ns, 0) / 1e9
                    key = loader, worker, phase % len(PHASES), stacks.get(stack, ())
                    total[key] += (weight_ns > 0, s, max(cpu_ns, 0) / 1e9, s * is_waited)
                    moments[key] += when.tolist()
        found = ((key, sums.tolist()) for key, sums in total.items())
        return [
            Looked._make((rank, *key, int(sums[0]), *sums[1:], tuple(moments[key])))
            for key, sums in found
        ]


def _spread(at_ns: Any, weight_ns: Any, least_ns: int) -> list[Any]:
    """Of each look the moments that it stands for, in us, as far apart as looks mostly are.

    One that came late, as after a long call, stands for those until then. ``least_ns``: they are
    at least so far apart.
    """
    known = weight_ns > 0
    until_ns = np.cumsum(weight_ns.clip(0))
    every_ns = int(weight_ns[known].min(initial=1 << 62))
    marks = np.arange(step := max(every_ns, least_ns), until_ns[-1] + 1, step)
    of_look = np.searchsorted(until_ns, marks)
    moments = at_ns[of_look] - (until_ns[of_look] - marks) // every_ns * every_ns
    ends = np.searchsorted(of_look, np.arange(len(at_ns)), side="right")
    return np.split(moments // 1000, ends[:-1])


def _waited(at_s: Any, phase: Any, loader: int, worker: int, batches: Any) -> Any:
    """Whether the loop waited then: for the batch that was made, or as it was begun for any."""
    of_loader = batches["loader"] == loader
    if not of_loader.any():  # none was written down, or delivered
        return np.zeros(len(at_s), bool)
    made = of_loader & (batches["worker"] == worker)
    started_s, ready_s, requested_s, delivered_s = (
        batches[name] for name in ("started_s", "ready_s", "requested_s", "delivered_s")
    )
    row = _last_begun(started_s, at_s, made)
    is_awaited = (row >= 0) & (at_s <= ready_s[row])
    is_awaited &= (requested_s[row] <= at_s) & (at_s <= delivered_s[row])
    any_row = _last_begun(requested_s, at_s, of_loader)
    before_any = at_s < np.fmin.reduce(requested_s[of_loader], initial=np.inf)
    of_any = before_any | ((any_row >= 0) & (at_s <= delivered_s[any_row]))
    return np.where(phase <= PHASES.index("collate"), is_awaited, of_any)


def _last_begun(begun_s: Any, at_s: Any, among: Any) -> Any:
    """The row, among some, that began last before each of these times; -1 where none did."""
    rows = np.flatnonzero(among & ~np.isnan(begun_s))
    rows = rows[np.argsort(begun_s[rows], kind="stable")]
    place = np.searchsorted(begun_s[rows], at_s, side="right") - 1
    return np.where(place >= 0, rows[np.maximum(place, 0)], -1) if len(rows) else place
