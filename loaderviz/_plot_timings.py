"""``plot_timings``: record a loader and draw its timeline, in one call."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from loaderviz.argument_checks import number, whole_number
from loaderviz.errors import LoaderVizError
from loaderviz.figures import timeline
from loaderviz.recorder import record

if TYPE_CHECKING:
    from loaderviz.figures.display import Figure


def plot_timings(
    loader: Iterable[Any],
    model_time: float = 0.0,
    n_batches: int | None = None,
    *,
    seconds: float | None = None,
    title: str | None = None,
) -> Figure:
    """Iterate a loader with a stand-in for the model, and draw what happened.

    >>> plot_timings(DataLoader(dataset, batch_size=4, num_workers=2), model_time=0.2, n_batches=4)

    The figure's ``trace`` holds what was recorded, for all that the picture does not show.

    Args:
        loader: a ``DataLoader``, or another loader that ``record`` takes.
        model_time: how long the stand-in step sleeps after each batch, in seconds.
        n_batches: how many batches to take; None for all there are.
        seconds: the least time that the axis spans, as in ``timeline``.
        title: what the picture is to show; None for the verdict on the run.

    Raises:
        LoaderVizError: for a ``loader`` that cannot be iterated or delivers nothing, a negative
            ``model_time``, an ``n_batches`` below 1, or ``seconds`` that are not above 0.
        Exception: whatever the loader or its dataset raises, unchanged.
    """
    _check(loader, model_time, n_batches)
    if isinstance(loader, Iterator):
        loader = _Iterated(loader)
    with record(loader) as recording:
        take(loader, model_time, n_batches)
    trace = recording.trace
    if trace.batches.empty:
        raise LoaderVizError(
            "the loader delivered no batch: its dataset is empty, or drop_last dropped all of it"
        )
    return timeline(trace, seconds=seconds, title=title)


def take(loader: Iterable[Any], model_time: float, n_batches: int | None = None) -> None:
    """Run the loop of a training script whose model sleeps ``model_time`` seconds for each batch.

    It takes ``n_batches``, or all there are. What the loader raises passes through.
    """
    for _ in itertools.islice(loader, n_batches):
        time.sleep(model_time)


class _Iterated:
    """An iterator as a loader: ``record`` can watch no generator."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator = iterator

    def __iter__(self) -> Iterator[Any]:
        return self._iterator


def _check(loader: Any, model_time: float, n_batches: int | None) -> None:
    if not isinstance(loader, Iterable):
        raise LoaderVizError(
            f"plot_timings() takes a DataLoader, but got {type(loader).__name__} {loader!r:.60}"
        )
    number("model_time", model_time)
    if n_batches is not None:
        whole_number("n_batches", n_batches, at_least=1)
