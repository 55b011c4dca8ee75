"""What becomes of a saving where one loop takes batches of several loaders, as with ``zip``.

A wait for one loader's batch is time in which the workers of the others get ahead. Cut it, and some
of it is spent waiting for the others instead: that much is not saved.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz._causes.recorded_loader import RecordedLoader, Run
from loaderviz.errors import LoaderVizError

if TYPE_CHECKING:
    from loaderviz.trace import Trace
    from loaderviz.trace.analysis.attribution import Attribution
    from loaderviz.trace.analysis.reading_time import Reading

LEAST_S = 1e-3  # of waits within the steps of another loader: less is not looked into
TOUCHING_S = 1e-9  # times are whole nanoseconds


@dataclass
class OtherLoaders:
    """The loaders of a recording, of one rank, as far as they are waited for in turns."""

    trace: Trace
    attribution: Attribution
    reading: Reading
    examined: Collection[int]  # the loaders that count
    _steps: dict[int, _Steps] = field(default_factory=dict)  # by loader

    def spend_s(self, loader: int, cause: str, saved_s: float) -> float:
        """Of what cutting a cause of that loader saves, what the loop then waits for others.

        Raises:
            LoaderVizError: Where there is another one, and the trace does not say enough of it.
        """
        rank = self.trace.batches["rank"].min()
        own = self.attribution
        waits = (own.loader == loader) & (own.rank == rank)
        others = np.unique(own.loader[~waits & (own.rank == rank)]).tolist()
        others = [other for other in others if other in self.examined]
        if saved_s < LEAST_S or not others:
            return 0.0
        lengths_s = own.of_cause(cause)[waits]
        if lengths_s.sum() < saved_s:  # it saves others, too
            lengths_s = own.seconds[waits].sum(axis=1)
        lengths_s = lengths_s * min(1.0, saved_s / max(lengths_s.sum(), LEAST_S))
        span_s = own.start_s[waits], own.end_s[waits]
        return max(self._steps_of(other).spend_s(*span_s, lengths_s) for other in others)

    def _steps_of(self, loader: int) -> _Steps:
        if loader not in self._steps:
            self._steps[loader] = _Steps(RecordedLoader.of(self.trace, loader, self.reading))
        return self._steps[loader]


class _Steps:
    """What the loop did between two batches of a loader."""

    def __init__(self, loader: RecordedLoader) -> None:
        batches = loader.batches.dropna(subset=["delivered_s", "released_s"])
        batches = batches.sort_values("delivered_s")
        self._start_s, self._end_s = (
            batches[name].to_numpy() for name in ("delivered_s", "released_s")
        )
        self._loader = loader
        self._run: Run | None = None

    def spend_s(self, start_s: Any, end_s: Any, shorter_s: Any) -> float:
        """Seconds that this loader is waited for, with waits within its steps that much shorter."""
        if not len(self._start_s):  # it was never taken from
            return 0.0
        step = np.searchsorted(self._start_s, start_s + TOUCHING_S, side="right") - 1
        within = (step >= 0) & (end_s <= self._end_s[step] + TOUCHING_S)
        steps_s = np.zeros(len(self._start_s))
        np.add.at(steps_s, step[within], shorter_s[within])
        if steps_s.sum() < LEAST_S:
            return 0.0
        run = self._run = self._run or self._loader.run()
        before_s = np.asarray(run.costs.step_s)
        if before_s.shape != steps_s.shape:
            raise LoaderVizError("the trace does not tell each step of its loaders")
        after = run.costing(step_s=np.maximum(before_s - steps_s, 0.0))
        instead_s = float(steps_s.sum()) - (run.elapsed_s - after.elapsed_s)
        return max(0.0, instead_s) * run.scale
