"""The candidates as a DataFrame, best first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz._recommend.evidence import Evidence
from loaderviz._recommend.memory_budget import fits, memory_bytes, shm_bytes
from loaderviz._recommend.predict import Prediction
from loaderviz._recommend.recommendation_text import Outcome, measured_per_s, samples_per_s

if TYPE_CHECKING:
    import pandas as pd

KNOWN_ERROR = 0.05  # of a prediction, as benchmarks/fidelity.py finds it


def uncertainty(evidence: Evidence) -> float:
    """How far off a prediction may be: the simulator's own error, and the recording's."""
    return math.hypot(KNOWN_ERROR, evidence.error)


def candidates(found: Outcome) -> pd.DataFrame:
    import pandas as pd

    table = pd.DataFrame([_row(found, each) for each in found.predictions])
    table["prefetch_factor"] = table["prefetch_factor"].astype("Int64")
    return table.sort_values("samples_per_s", ascending=False, kind="stable", ignore_index=True)


def _row(found: Outcome, one: Prediction) -> dict[str, Any]:
    evidence, setting = found.evidence, one.setting
    rate = samples_per_s(evidence, one)
    batch_s, pace_s = float(np.mean(one.batch_s)), float(np.mean(one.pace_s))
    off = math.hypot(uncertainty(evidence), float(np.ptp(one.batch_s)) / max(batch_s, 1e-12))
    memory, shm = memory_bytes(evidence, setting), shm_bytes(evidence, setting)
    measured = measured_per_s(found, setting)
    return {
        **setting.options(),
        "samples_per_s": rate,
        "low_per_s": rate / (1 + off),
        "high_per_s": rate * (1 + off),
        "steady_per_s": rate * batch_s / max(pace_s, 1e-12),
        "wait_s": one.wait_share * pace_s,
        "wait_share": one.wait_share,
        "run_s": float(np.mean(one.run_s)),
        "cpus": one.cpus,
        "memory_bytes": math.nan if memory is None else float(memory),
        "shm_bytes": math.nan if shm is None else float(shm),
        "fits": fits(evidence, setting, found.room),
        "measured_per_s": measured,
        "error": rate / measured - 1,
        "present": one is found.present,
        "recommended": one is found.chosen,
    }
