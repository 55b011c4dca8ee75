"""The slots of successive batches: does each go on where it was, and does a sample come twice?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.timelines import boxes

LANE_PX, AXIS_PX, TITLE_PX = 40, 58, 86
BREAK_WIDTH = 0.07  # of a box
IN_ORDER = "batches, in the order in which they come"


@dataclass(frozen=True)
class Slots:
    """Batches along sequences, as numbers. ``table`` has a row for each batch."""

    table: Any  # int64, (batches, slots)
    sequence: Any  # of each sample, int64, (batches, slots)
    broken: Any  # bool, (batches, slots): this sample does not follow the one before it

    @classmethod
    def of(cls, batches: Iterable[Any], sequences: Iterable[Sequence[int]]) -> Slots:
        """Raises LoaderVizError for no batch, and for a sample that is in none of the sequences."""
        table = np.array([[int(each) for each in batch] for batch in batches], np.int64)
        if table.ndim != 2:
            raise LoaderVizError("there is no batch to look at: give a list of batches")
        owner, follows, starts, ends = _chains(sequences)
        unknown = [int(each) for each in table.flat if int(each) not in owner]
        if unknown:
            raise LoaderVizError(f"sample {unknown[0]} is in none of the sequences")
        broken = np.zeros(table.shape, bool)
        for at, (before, now) in enumerate(pairwise(table.tolist()), start=1):
            broken[at] = [
                follows.get(a) != b and not (a in ends and b in starts)
                for a, b in zip(before, now, strict=True)
            ]
        return cls(table, np.vectorize(owner.__getitem__)(table), broken)

    @property
    def breaks(self) -> int:
        """How often a slot goes on with something else."""
        return int(self.broken.sum())

    @property
    def repeats(self) -> int:
        """How many batches hold a sample more than once."""
        return sum(len(set(row)) < len(row) for row in self.table.tolist())

    @property
    def verdict(self) -> str:
        n, steps = len(self.table), self.broken[1:].size
        if self.breaks:
            return f"{self.breaks} of {steps} times a slot does not go on where it was"
        if self.repeats:
            return f"Every slot goes on, but {self.repeats} of {n} batches hold a sample twice"
        return "Every slot goes on where it was, and no batch holds a sample twice"

    @property
    def numbers(self) -> str:
        n, slots = self.table.shape
        return (
            f"{n} batches of {slots} slots · {self.breaks} breaks · "
            f"{self.repeats} batches with a sample more than once"
        )

    def __repr__(self) -> str:
        return f"{self.verdict}\n{self.numbers}"

    def _ipython_display_(self) -> None:
        self.figure()._ipython_display_()

    def figure(self, theme: style.ThemeName = "light") -> Figure:
        """A lane for each slot, a box for each sample, one colour for each sequence."""
        return _draw(self, theme)


def _chains(sequences: Iterable[Sequence[int]]) -> tuple[dict[int, int], dict[int, int], Any, Any]:
    """Of each sample its sequence and the next one; which samples are first, which last."""
    owner: dict[int, int] = {}
    follows: dict[int, int] = {}
    starts, ends = set(), set()
    for number, sequence in enumerate(sequences):
        samples = [int(each) for each in sequence]
        owner.update(dict.fromkeys(samples, number))
        follows.update(pairwise(samples))
        starts.add(samples[0])
        ends.add(samples[-1])
    return owner, follows, starts, ends


def _draw(slots: Slots, theme: style.ThemeName) -> Figure:
    n, lanes = slots.table.shape
    batch, lane = (each.ravel() for each in np.indices((n, lanes)))
    sample, sequence = slots.table.ravel(), slots.sequence.ravel()
    fills = style.batch_codes(sequence)
    hover = [
        f"<b>batch {b}</b>, slot {s}<br>sample {each}, sequence {own}"
        for b, s, each, own in zip(batch, lane, sample, sequence, strict=True)
    ]
    marks = boxes.bars(
        "sample", batch - 0.46, batch + 0.46, lane, thickness=0.72, fill=fills, batch=sequence,
        hover=hover, text=[str(each) for each in sample], textposition="inside", textangle=0,
        insidetextanchor="middle",
        insidetextfont={"size": 12, "color": [style.text_on(int(each)) for each in sequence]},
    )  # fmt: skip
    at = np.flatnonzero(slots.broken.ravel())
    breaks = boxes.bars(
        "break", batch[at] - 0.5 - BREAK_WIDTH / 2, batch[at] - 0.5 + BREAK_WIDTH / 2, lane[at],
        thickness=0.92, fill=style.FAILED, edge=style.FAILED, edge_px=0,
    )  # fmt: skip
    height = TITLE_PX + lanes * LANE_PX + AXIS_PX
    look = style.theme(theme)
    labels = [f"slot {each}" for each in range(lanes)]
    layout = style.layout(
        look,
        title=slots.verdict,
        numbers=slots.numbers,
        height=height,
        margins=(axes.labels_px(labels), 22, TITLE_PX, AXIS_PX),
        lanes=labels,
    )
    each_one = {"dtick": 1} if n <= 16 else {}
    layout |= {
        "uniformtext": {"minsize": 8, "mode": "hide"},
        "xaxis": axes.axis(
            look, IN_ORDER, showgrid=False, range=[-0.6, n - 0.4], nticks=12, **each_one
        ),
        "yaxis": axes.lane_axis(look, labels, range=[lanes - 0.45, -0.55]),
    }
    return Figure(data=[marks, breaks], layout=layout)
