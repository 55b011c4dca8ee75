"""What was delivered, counted against what one process reads: the one place that does so."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided


@dataclass(frozen=True)
class Tally:
    """What the workers delivered in one epoch, beside what one process reads."""

    n_alone: int
    n_delivered: int
    twice: int  # deliveries beyond the first
    lost: int  # never delivered


def tally(case: Case) -> Tally:
    """Counts the first epoch of an iterable-style loader with workers.

    Samples are told apart by their contents. Where these differ from one reading to the next, as
    with augmentation, numbers alone tell little: that as many came as there are, or that each
    worker delivered its floor of a fair share.

    Raises Undecided where neither tells, or where the epoch was not read to its end.
    """
    alone, delivered = case.alone(), case.epoch(0)
    if not alone.complete:
        raise Undecided(f"one process has read {alone.n_samples} samples and there are more")
    expected = Counter(each for note in alone.notes for each in note.digests)
    got = Counter(each for note in delivered.notes for each in note.digests)
    n_alone, n_delivered = alone.n_samples, delivered.n_samples
    if None in expected or got.keys() - expected.keys():
        case.whole(0)
        shares = Counter(note.worker for note in delivered.notes for _ in range(note.n_samples))
        n_workers = case.setup.num_workers
        floors = dict.fromkeys(range(n_workers), n_alone // n_workers)
        if n_delivered != n_alone and shares != floors:
            raise Undecided(
                f"{n_delivered} samples came where one process reads {n_alone}; contents differ "
                "at every reading, so that repeats cannot be told from new samples"
            )
        return Tally(n_alone, n_delivered, 0, n_alone - n_delivered)
    twice, lost = (got - expected).total(), (expected - got).total()
    if not delivered.complete and not twice:
        raise Undecided(f"{n_delivered} of {n_alone} samples were delivered in the time given")
    return Tally(n_alone, n_delivered, twice, lost if delivered.complete else 0)
