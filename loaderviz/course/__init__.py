"""The exercises of the notebooks: one module a notebook, with its check and hints.

``guess_first``, ``simulate_audit``, ``source`` and ``take`` are here because several notebooks use
them.
"""

from loaderviz._audit import simulate_audit
from loaderviz._plot_timings import take
from loaderviz.course.cell_outputs import guess_first, source

__all__ = ["guess_first", "simulate_audit", "source", "take"]
