"""The exercises of the notebooks: one module a notebook, with its checks and hints.

``simulate_audit`` and ``take`` are here because several notebooks use them.
"""

from loaderviz._audit import simulate_audit
from loaderviz._plot_timings import take

__all__ = ["simulate_audit", "take"]
