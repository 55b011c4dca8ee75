"""Batches so small that what surrounds them takes the time: handing them over, single calls."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.trace.described_loaders import loader_description
from loaderviz.why.attribution import USUAL_HANDOVER_S

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.trace import Trace
    from loaderviz.why.attribution import Attribution

FEW_PARTS: Final = 10  # in a batch
FEW_BYTES: Final = 1 << 20  # of a batch
ANOTHER_TURN_S: Final = 0.005  # sys.getswitchinterval(): another thread may keep the GIL as long
IN_MEMORY_S: Final = 20e-6  # of a sample, at most: to open and read a file takes longer (measured)
FEWEST_SAMPLES: Final = 16  # of a batch: fewer calls are not what takes the time
LEAST_S: Final = 1e-4  # of a batch, to be worth a change: as LV314 has it


def handed_over_s(trace: Trace, attribution: Attribution) -> Any:
    """Of each batch that lay ready, how long it was handed over, keys that were drawn left out."""
    rows = attribution.row
    ready_s, requested_s = (trace.batches[name].to_numpy() for name in ("ready_s", "requested_s"))
    lay_ready = (rows >= 0) & (ready_s[rows] <= requested_s[rows])
    return attribution.of_cause("handover")[lay_ready]


def keeps_small_batches(batches: pd.DataFrame, handed_s: Any) -> bool:
    """Whether small batches take long, and their workers do not keep their own GIL meanwhile."""
    if not len(handed_s) or np.median(handed_s) < ANOTHER_TURN_S:
        return False
    seen = batches[batches[["cpu_s", "n_bytes", "shapes"]].notna().all(axis=1)]
    making_s = (seen["ready_s"] - seen["started_s"]).sum()
    return bool(seen["cpu_s"].sum() < making_s / 2 and _are_small(seen))


def takes_as_usual(batches: pd.DataFrame, handed_s: Any) -> bool:
    """Whether batches are small, and handed over in the time that torch takes for any."""
    return bool(len(handed_s) and np.median(handed_s) < USUAL_HANDOVER_S and _are_small(batches))


def _are_small(batches: pd.DataFrame) -> bool:
    seen = batches[batches[["n_bytes", "shapes"]].notna().all(axis=1)]
    few = seen["n_bytes"].median() <= FEW_BYTES  # False of none
    return bool(few and seen["shapes"].map(_parts_at_most).max() <= FEW_PARTS)


def _parts_at_most(signature: str) -> int:
    """The most parts that a batch of that signature may have: ``[2 x float32 [3]]`` has two."""
    signature = re.sub(r"\[[\d, ]*\]", "", signature)  # without sizes
    repeated = math.prod(int(n) for n in re.findall(r"(\d+) x ", signature))
    return repeated * (signature.count(",") + 1)


def one_by_one_s(trace: Trace, loader: int) -> float | None:
    """How long a sample of this loader usually takes; None where they do not come from memory.

    Nor where nobody knows whether torch reads them one by one and collates them itself, or where
    that takes too little to matter.
    """
    if loader_description(trace.meta, loader).get("one_by_one") is not True:
        return None
    batches = trace.batches[trace.batches["loader"] == loader]
    n_samples = batches["n_samples"].median()
    read_s = (batches["collate_s"] - batches["started_s"]) / batches["n_samples"].clip(lower=1)
    made_s = (batches["ready_s"] - batches["started_s"]).median()
    item_s = float(read_s.median())
    from_memory = n_samples >= FEWEST_SAMPLES and item_s <= IN_MEMORY_S and made_s >= LEAST_S
    return item_s if from_memory else None
