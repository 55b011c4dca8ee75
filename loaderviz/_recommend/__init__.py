"""Which settings a loader should have: predicted from one short recording of it."""

from loaderviz._recommend.recommend import recommend
from loaderviz._recommend.recommendation import Recommendation

__all__ = ["Recommendation", "recommend"]
