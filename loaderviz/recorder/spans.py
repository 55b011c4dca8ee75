"""``span``: named stretches of the consumer's own work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from loaderviz.clock import now
from loaderviz.recorder import attach


@contextmanager
def span(name: str) -> Iterator[None]:
    """Name a part of the training step, in the recordings that are running.

    >>> for batch in loader:
    ...     with loaderviz.span("forward"):
    ...         loss = model(batch)
    ...     with loaderviz.span("backward"):
    ...         loss.backward()

    The span is a row of ``trace.spans`` (wall-clock time of this process, in seconds) and a bar
    under the consumer's lane. Without a recording it does nothing.

    Raises:
        Exception: what the block raises, unchanged; the span ends there.
    """
    start = now()
    try:
        yield
    finally:
        end = now()
        for observer in attach.running():
            observer.note_span(str(name), start, end)
