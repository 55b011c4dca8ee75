"""``span``: names a part of the consumer's own work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from loaderviz.clocks.process_clock import now
from loaderviz.plain_value import as_text
from loaderviz.recorder import class_hooks


@contextmanager
def span(name: str) -> Iterator[None]:
    """Name a part of the training step, in the recordings that are running.

    >>> for batch in loader:
    ...     with loaderviz.span("forward"):
    ...         loss = model(batch)
    ...     with loaderviz.span("backward"):
    ...         loss.backward()

    The span is a row of ``trace.spans`` and a bar under the consumer's lane. ``start_s`` and
    ``end_s`` are times of this process, in seconds of the recording. Where CUDA is in use,
    ``device_s`` is how long the device's current stream took for what was queued in between.
    Without a recording it does nothing.

    Raises:
        Exception: what the block raises, unchanged; the span ends there.
    """
    running = class_hooks.running()
    text = as_text(name) if running else ""
    begun_spans = [
        (watcher, class_hooks.call_guarded(watcher, watcher.begin_span, text, now()))
        for watcher in running
    ]
    try:
        yield
    finally:
        end_ns = now()
        for watcher, begun_span in begun_spans:
            class_hooks.call_guarded(watcher, watcher.end_span, begun_span, end_ns)
