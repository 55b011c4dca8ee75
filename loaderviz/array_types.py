"""Names of the arrays that annotations speak of."""

from __future__ import annotations

from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
Seconds = float | Floats  # one for all, or one for each
