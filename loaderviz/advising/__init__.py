"""Which settings a loader should have: predicted from one short recording of it."""

from loaderviz.advising.recommend import recommend
from loaderviz.advising.result import Recommendation

__all__ = ["Recommendation", "recommend"]
