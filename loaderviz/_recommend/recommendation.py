"""The ``Recommendation``: settings, and what supports them. Holds data, draws nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from loaderviz._recommend.memory_budget import FreeBytes, Sizes
from loaderviz._upward import ShownResult, ask_above
from loaderviz.loader_settings import LoaderSettings
from loaderviz.text import PRINTED_WIDTH, wrapped

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace import Trace

MOST_NOTES: Final = 3  # sentences that are read beside a verdict
# Part of the loop's time: less is worth neither the order of batches nor workers that are kept,
# and a loop that waits less is called busy.
WORTH: Final = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class Recommendation(ShownResult):
    """Which settings a loader should have; ``print`` it, or end a notebook cell with it.

    Attributes:
        settings: ``num_workers, prefetch_factor, in_order, persistent_workers, pin_memory``, for
            ``DataLoader(dataset, **settings)``. From a recording alone: with the fewest workers
            that may do.
        code: the call, with what differs from torch's defaults.
        verdict: the main thing in one sentence.
        limits: what limits these settings: step, CPU, reading, shared (samples wait for one
            another), main process, memory or start, and what shows it; or that it is not known.
        notes: what else to know, a sentence or two each; three at most, the gravest first.
        numbers: what the verdict rests on, in one line.
        memory_bytes: memory that the workers and the batches in flight take; None: not known.
        shm_bytes: the part of it in ``/dev/shm``; None: not known.
        measured: whether settings were run. If not, rates of other numbers of workers are bounds.
        demand_per_s: samples/s that the loop takes where it never waits; infinite: as fast as they
            come; NaN: not known.
        candidates: a row for each setting that was run, or for each number of workers that there
            are bounds for, best first: the settings; ``samples_per_s`` as measured (NaN: bounds
            alone), with the part of the start of workers where it is known how long an epoch is;
            ``low_per_s`` and ``high_per_s``, two standard errors either way, or the bounds;
            ``start_s``, seconds until the first batch, without reading it; ``wait_share``, the part
            of the loop's time in ``next()``; ``cpus`` kept busy; ``runs`` and ``batches`` that were
            measured; ``memory_bytes``, ``shm_bytes`` (NaN: not known); ``fits``, whether that is
            free; ``present`` and ``recommended``, true in one row at most.
        cpu_allowance: CPUs that the loader may use.
        trace: the recording of the first look, or the one that was given; None where not even three
            batches fit into shared memory, so that no worker could be run.
    """

    settings: dict[str, Any]
    code: str
    verdict: str
    limits: str
    notes: tuple[str, ...]
    numbers: str
    memory_bytes: int | None
    shm_bytes: int | None
    measured: bool
    demand_per_s: float
    candidates: pd.DataFrame
    cpu_allowance: float
    trace: Trace | None

    def data(self) -> dict[str, Any]:
        """What it says as plain data, for JSON."""
        known = self.candidates.astype(object).where(self.candidates.notna(), None)
        names = ("verdict", "settings", "code", "limits", "notes", "memory_bytes", "shm_bytes")
        return {
            **{name: getattr(self, name) for name in (*names, "measured", "demand_per_s")},
            "candidates": known.to_dict("records"),
        }

    def figure(self, *, theme: Any = "light") -> Any:
        """Draw the throughput by the number of workers: as measured, or between which bounds.

        Args:
            theme: text and grid for a ``light`` or a ``dark`` page.

        Raises:
            LoaderVizError: for an unknown theme.
        """
        return ask_above("figure of a recommendation", self, theme)

    def __str__(self) -> str:
        call, mark, comment = self.code.partition("  # ")
        code = wrapped(call, hanging=call.index("(") + 1)
        if len(code.splitlines()[-1] + mark + comment) > PRINTED_WIDTH:
            mark = f"\n{mark.strip()} "  # a broken comment could not be pasted
        above, below = [f"{self.verdict}.", self.numbers], [f"Limit: {self.limits}.", *self.notes]
        return "\n".join([*map(wrapped, above), code + mark + comment, *map(wrapped, below)])


def code_of(settings: LoaderSettings, description: Mapping[str, Any]) -> str:
    """The call to write, with the options that differ from torch's defaults.

    ``description`` is the recorder's of the loader, which may tell its batch size.
    """
    known = {"batch_size": description.get("batch_size")}
    options = {name: value for name, value in known.items() if value is not None}
    options |= {"num_workers": settings.num_workers, **settings.changed_options()}
    text = ", ".join(f"{name}={value!r}" for name, value in options.items())
    return f"DataLoader(dataset, {text})  # the rest as you have it"


def candidates_table(
    rows: Iterable[tuple[LoaderSettings, dict[str, Any]]], sizes: Sizes, *, best: str
) -> pd.DataFrame:
    """``Recommendation.candidates``: of each setting what is known, the greatest ``best`` on top.

    What a row does not have is not known: NaN, or 0 ``runs``.
    """
    import pandas as pd

    free = FreeBytes.now()
    names = ("samples_per_s", "low_per_s", "high_per_s", "start_s", "wait_share", "cpus")
    unknown = {**dict.fromkeys(names, math.nan), "runs": 0, "batches": 0}
    table = pd.DataFrame(
        {
            **setting.options(),
            **unknown,
            **{name: value for name, value in known.items() if name in unknown},
            **sizes.columns(setting, free),
            "present": known["present"],
            "recommended": known["recommended"],
        }
        for setting, known in rows
    ).astype({"prefetch_factor": "Int64"})
    return table.sort_values(best, ascending=False, kind="stable", ignore_index=True)
