"""Compares what the workers delivered with what one process reads. Nothing else counts this."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided


@dataclass(frozen=True)
class DeliveryCounts:
    """Samples that the workers delivered in one epoch, compared with what one process reads."""

    n_alone: int  # read by one process
    n_delivered: int
    n_repeats: int  # deliveries beyond the first
    n_lost: int  # never delivered


def count_deliveries(case: Case) -> DeliveryCounts:
    """Count the first epoch of an iterable-style loader with workers.

    Samples are told apart by their contents. Where these differ from one reading to the next, as
    with augmentation, only two results are certain: as many samples came as there are, or each
    worker delivered its fair share, rounded down.

    Raises:
        Undecided: if neither is the case, or if the epoch was not read to its end.
    """
    alone, delivered = case.epoch_without_workers(), case.epoch(0)
    if not alone.complete:
        raise Undecided(f"one process has read {alone.n_samples} samples, and there are more")
    expected = Counter(digest for note in alone.notes for digest in note.digests)
    received = Counter(digest for note in delivered.notes for digest in note.digests)
    n_alone, n_delivered = alone.n_samples, delivered.n_samples
    if None in expected or received.keys() - expected.keys():
        case.complete_epoch(0)
        shares = Counter(note.worker for note in delivered.notes for _ in range(note.n_samples))
        n_workers = case.setup.num_workers
        floors = dict.fromkeys(range(n_workers), n_alone // n_workers)
        if n_delivered != n_alone and shares != floors:
            raise Undecided(
                f"{n_delivered} samples came and one process reads {n_alone}, and others: what a "
                "worker yields is by chance, or depends on its share, as where samples are packed"
            )
        return DeliveryCounts(n_alone, n_delivered, 0, n_alone - n_delivered)
    n_repeats, n_lost = (received - expected).total(), (expected - received).total()
    if not delivered.complete and not n_repeats:
        raise Undecided(f"only {n_delivered} of {n_alone} samples were delivered in the time given")
    return DeliveryCounts(n_alone, n_delivered, n_repeats, n_lost if delivered.complete else 0)
