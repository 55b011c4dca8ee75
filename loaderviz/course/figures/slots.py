"""The slots of successive batches: does each continue its sequence, does a sample come twice?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from loaderviz.course.figures.lane_figures import lane_figure
from loaderviz.errors import LoaderVizError
from loaderviz.figures import style
from loaderviz.figures.display import Figure
from loaderviz.figures.timelines import boxes
from loaderviz.text import count

# Olive is near lime, and comes last: pictures of few sequences have no two that look alike.
IN_TURN = np.array([0, 1, 2, 3, 5, 6, 4])
N_FILLS = 2 * len(IN_TURN)  # each colour, and its other shade


@dataclass(frozen=True)
class Slots:
    """Batches whose slots each follow a sequence, checked; it shows a figure at the end of a cell.

    Attributes:
        table: the sample in each slot of each batch, int64, (batches, slots).
        sequence: the number of the sequence that each of these samples is from, int64, likewise.
        broken: whether a sample does not follow the one before it in its slot, bool, likewise.
    """

    table: Any
    sequence: Any
    broken: Any

    @classmethod
    def of(cls, batches: Iterable[Any], sequences: Iterable[Sequence[int]]) -> Slots:
        """Check batches, each one sample for each slot, against the sequences they are made of.

        Raises:
            LoaderVizError: for no batch, and for a sample that is in none of the sequences.
        """
        table = np.array([[int(sample) for sample in batch] for batch in batches], np.int64)
        if table.ndim != 2:
            raise LoaderVizError("there is no batch to look at: give a list of batches")
        sequence_of, next_sample, starts, ends = _chains(sequences)
        unknown = [int(sample) for sample in table.flat if int(sample) not in sequence_of]
        if unknown:
            raise LoaderVizError(f"sample {unknown[0]} is in none of the sequences")
        broken = np.zeros(table.shape, bool)
        for i, (previous, batch) in enumerate(pairwise(table.tolist()), start=1):
            broken[i] = [
                next_sample.get(last) != sample and not (last in ends and sample in starts)
                for last, sample in zip(previous, batch, strict=True)
            ]
        return cls(table, np.vectorize(sequence_of.__getitem__)(table), broken)

    @property
    def repeated(self) -> Any:
        """Whether a sample is in its batch more than once, bool, (batches, slots)."""
        return np.array([[batch.count(key) > 1 for key in batch] for batch in self.table.tolist()])

    @property
    def breaks(self) -> int:
        """How often a slot goes on with a sample that does not come next."""
        return int(self.broken.sum())

    @property
    def repeats(self) -> int:
        """How many batches hold a sample more than once."""
        return int(self.repeated.any(axis=1).sum())

    @property
    def verdict(self) -> str:
        """Says in one line whether every slot goes on where it was, and whether samples repeat."""
        n, steps = len(self.table), self.broken[1:].size
        if self.breaks:
            return f"{self.breaks} of {steps} times a slot does not go on where it was"
        if self.repeats:
            return f"Every slot goes on, but {self.repeats} of {n} batches hold a sample twice"
        return "Every slot goes on where it was, and no batch holds a sample twice"

    @property
    def numbers(self) -> str:
        """The numbers that the verdict rests on, and the marks that show them, in one line."""
        n, slots = self.table.shape
        bars = " (red bars)" if self.breaks else ""
        frames = " (red frames)" if self.repeats else ""
        repeats = count(self.repeats, "batch", "batches") if self.repeats else "no batch"
        return (
            f"{n} batches of {slots} slots · {count(self.breaks, 'break')}{bars} · "
            f"{repeats} with the same sample in two slots{frames}"
        )

    def __repr__(self) -> str:
        return f"{self.verdict}\n{self.numbers}"

    def _ipython_display_(self) -> None:
        self.figure()._ipython_display_()

    def figure(self) -> Figure:
        """Draw a lane for each slot, a box for each sample and one colour for each sequence."""
        n, n_lanes = self.table.shape
        return lane_figure(
            _marks(self),
            [f"slot {number}" for number in range(n_lanes)],
            title=self.verdict,
            numbers=self.numbers,
            x_title="batches, in the order in which they come",
            x={
                "showgrid": False, "range": [-0.6, n - 0.4], "nticks": 12,
                **({"dtick": 1} if n <= 16 else {}),
            },
            y={"range": [n_lanes - 0.45, -0.55]},
            uniformtext={"minsize": 8, "mode": "hide"},
        )  # fmt: skip


def _chains(
    sequences: Iterable[Sequence[int]],
) -> tuple[dict[int, int], dict[int, int], set[int], set[int]]:
    """For each sample its sequence's number and the next sample; all first and all last samples."""
    sequence_of: dict[int, int] = {}
    next_sample: dict[int, int] = {}
    starts, ends = set(), set()
    for number, sequence in enumerate(sequences):
        samples = [int(sample) for sample in sequence]
        sequence_of.update(dict.fromkeys(samples, number))
        next_sample.update(pairwise(samples))
        starts.add(samples[0])
        ends.add(samples[-1])
    return sequence_of, next_sample, starts, ends


def _marks(slots: Slots) -> list[dict[str, Any]]:
    """A box for each sample, a frame around each that repeats, and a bar at each break."""
    batch, lane = (index.ravel() for index in np.indices(slots.table.shape))
    sample, sequence = slots.table.ravel(), slots.sequence.ravel()
    number = _fill_numbers(sequence)
    colour = IN_TURN[number % len(IN_TURN)]
    hover = [
        f"<b>batch {i}</b>, slot {slot}<br>sample {key}, sequence {which}"
        for i, slot, key, which in zip(batch, lane, sample, sequence, strict=True)
    ]
    samples = boxes.bars(
        "sample", batch - 0.44, batch + 0.44, lane, thickness=0.72,
        fill=style.batch_codes(colour, number // len(IN_TURN)), batch=sequence,
        hover=hover, insidetextanchor="middle", **boxes.number_labels(sample, 12, on=colour),
    )  # fmt: skip
    twice = np.flatnonzero(slots.repeated.ravel())
    frames = boxes.bars(
        "repeat", batch[twice] - 0.485, batch[twice] + 0.485, lane[twice], thickness=0.88,
        fill=style.TRANSPARENT, edge=style.FAILED, edge_px=2,
    )  # fmt: skip
    broken = np.flatnonzero(slots.broken.ravel())
    breaks = boxes.bars(
        "break", batch[broken] - 0.535, batch[broken] - 0.465, lane[broken],
        thickness=0.92, fill=style.FAILED, edge=style.FAILED, edge_px=0,
    )  # fmt: skip
    return [samples, frames, breaks]


def _fill_numbers(sequence: Any) -> Any:
    """For each sample the number of its sequence's fill, below ``N_FILLS``.

    Sequences that would share a fill are numbered as they come: a picture shows few of many.
    """
    if sequence.max() < N_FILLS:
        return sequence
    in_turn = {number: i for i, number in enumerate(dict.fromkeys(sequence.tolist()))}
    return np.array([in_turn[number] for number in sequence.tolist()]) % N_FILLS
