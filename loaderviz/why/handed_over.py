"""How long batches that lay ready were handed over, and whether this process was kept from it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.trace import Trace
    from loaderviz.why.attribution import Attribution

FEW_PARTS = 10  # in a batch
FEW_BYTES = 1 << 20
ANOTHER_TURN_S = 0.005  # sys.getswitchinterval(): as long as another thread may keep the GIL
# Of a small batch, twice what it usually takes: 0.6 to 1.5 ms (torch 2.13 on Linux 6.18, measured).
USUAL_S = 0.002
COMPUTES_LITTLE = 0.5  # of the time in which it makes batches


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
    return bool(seen["cpu_s"].sum() < COMPUTES_LITTLE * making_s and _are_small(seen))


def takes_as_usual(batches: pd.DataFrame, handed_s: Any) -> bool:
    """Whether batches are small, and handed over in the time that torch takes for any."""
    return bool(len(handed_s) and np.median(handed_s) < USUAL_S and _are_small(batches))


def _are_small(batches: pd.DataFrame) -> bool:
    seen = batches[batches[["n_bytes", "shapes"]].notna().all(axis=1)]
    few = seen["n_bytes"].median() <= FEW_BYTES  # False of none
    return bool(few and seen["shapes"].map(_parts_at_most).max() <= FEW_PARTS)


def _parts_at_most(signature: str) -> int:
    """The most parts that a batch of that signature may have: ``[2 x float32 [3]]`` has two."""
    signature = re.sub(r"\[[\d, ]*\]", "", signature)  # without sizes
    repeated = math.prod(int(n) for n in re.findall(r"(\d+) x ", signature))
    return repeated * (signature.count(",") + 1)
