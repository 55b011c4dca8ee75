"""The exercises of the notebooks: one module a notebook, with its checks and hints.

``guess_first``, ``simulate_audit``, ``source`` and ``take`` are here because several notebooks use
them.
"""

from loaderviz._audit import simulate_audit
from loaderviz._plot_timings import take
from loaderviz.course.folded_answers import guess_first
from loaderviz.course.source_code import source

__all__ = ["guess_first", "simulate_audit", "source", "take"]
