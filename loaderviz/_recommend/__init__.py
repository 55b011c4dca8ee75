"""Which settings a loader should have: measured by real runs; of a recording, bounds."""

from loaderviz._recommend.recommend import recommend
from loaderviz._recommend.recommendation import Recommendation

__all__ = ["Recommendation", "recommend"]
