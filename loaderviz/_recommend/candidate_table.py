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
    """How far off a prediction may be, as a part of it: the simulator's and the recording's error.

    0.1 is 10 %.
    """
    return math.hypot(KNOWN_ERROR, evidence.error)


def candidates(outcome: Outcome) -> pd.DataFrame:
    """One row a setting, as ``Recommendation.candidates`` describes it."""
    import pandas as pd

    table = pd.DataFrame([_row(outcome, prediction) for prediction in outcome.predictions])
    table["prefetch_factor"] = table["prefetch_factor"].astype("Int64")
    return table.sort_values("samples_per_s", ascending=False, kind="stable", ignore_index=True)


def _on_a_quiet_machine(evidence: Evidence, prediction: Prediction) -> float:
    """How many times as fast it may be where no other process uses the CPUs; 1 where none did."""
    left, used = evidence.costs_of(prediction.setting).cores, prediction.cpus
    assert left is not None
    return max(1.0, evidence.cores / left * min(1.0, used / left)) if left < evidence.cores else 1.0


def _row(outcome: Outcome, prediction: Prediction) -> dict[str, Any]:
    evidence, setting = outcome.evidence, prediction.setting
    rate = samples_per_s(evidence, prediction)
    batch_s, pace_s = float(np.mean(prediction.batch_s)), float(np.mean(prediction.pace_s))
    spread = float(np.ptp(prediction.batch_s)) / max(batch_s, 1e-12)
    error = math.hypot(uncertainty(evidence), spread)
    memory, shm = memory_bytes(evidence, setting), shm_bytes(evidence, setting)
    measured = measured_per_s(outcome, setting)
    low = rate / (1 + error)
    if evidence.unlike:
        low = min(low, evidence.recorded_per_s)
    if setting.num_workers > evidence.n_readers:
        known = (measured_per_s(outcome, each) for each in outcome.measured)
        low = min(low, max(evidence.shown_per_s, *known, 0.0))
    return {
        **setting.options(),
        "samples_per_s": rate,
        "low_per_s": low,
        "high_per_s": rate * (1 + error) * _on_a_quiet_machine(evidence, prediction),
        "steady_per_s": rate * batch_s / max(pace_s, 1e-12),
        "wait_s": prediction.wait_share * pace_s,
        "wait_share": prediction.wait_share,
        "run_s": float(np.mean(prediction.run_s)),
        "cpus": prediction.cpus,
        "memory_bytes": math.nan if memory is None else float(memory),
        "shm_bytes": math.nan if shm is None else float(shm),
        "fits": fits(evidence, setting, outcome.free_bytes),
        "measured_per_s": measured,
        "error": rate / measured - 1 if measured else math.nan,
        "present": prediction is outcome.present,
        "recommended": prediction is outcome.chosen,
    }
