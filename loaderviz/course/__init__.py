"""The exercises of the notebooks: one module a notebook, with its check and hints.

``guess_first``, ``simulate_audit``, ``source`` and ``take`` are here because several notebooks use
them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loaderviz._audit import simulate_audit as simulate_audit
    from loaderviz._plot_timings import take as take
    from loaderviz.course.cell_outputs import guess_first as guess_first
    from loaderviz.course.cell_outputs import source as source

# Imported when first used: every worker that is spawned, and every script of a notebook, comes by
# here, and has no use for figures.
_HOMES = {
    "guess_first": "loaderviz.course.cell_outputs",
    "simulate_audit": "loaderviz._audit",
    "source": "loaderviz.course.cell_outputs",
    "take": "loaderviz._plot_timings",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'loaderviz.course' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
