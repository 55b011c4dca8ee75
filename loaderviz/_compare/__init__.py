"""``compare``: what changed between two recordings, and whether it is more than noise."""

from loaderviz._compare.compare import Comparison, compare

__all__ = ["Comparison", "compare"]
