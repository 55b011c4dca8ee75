"""The exercises of the notebooks: one module a notebook, with its checks and hints.

``simulate_audit`` and ``take`` are what several of them begin with.
"""

from loaderviz._audit import simulate_audit
from loaderviz._plot_timings import take

__all__ = ["simulate_audit", "take"]
