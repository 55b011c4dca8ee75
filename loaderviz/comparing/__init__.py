"""``compare``: what changed between two recordings, and whether it is more than noise."""

from loaderviz.comparing.compare import Comparison, compare

__all__ = ["Comparison", "compare"]
