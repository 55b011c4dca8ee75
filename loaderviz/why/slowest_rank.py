"""Which rank the others wait for, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from loaderviz.text import duration, percent

if TYPE_CHECKING:
    import pandas as pd

MORE: Final = 0.1  # of the time, that a rank waits beyond what is usual: less may be chance
LONGER: Final = 1.2  # times as long a batch: less may be chance
FEW: Final = 3  # batches past the first tell no pace


@dataclass(frozen=True)
class Slowest:
    """A rank that waits, or takes, clearly longer than most.

    Where ranks add up their gradients after each batch, all go at the pace of the slowest: the one
    whose loader is slow waits for it, and the others wait for that rank, in their steps.
    """

    rank: int
    n_like_it: int  # ranks that are as clearly slow, itself included
    n_ranks: int
    cause: Literal["loader", "step"]
    holds_up: bool  # the others' steps are longer by what it waits: they wait for it
    wait_share: float  # of its time, past each epoch's first batch
    others_wait_share: float  # of the others' time: the median
    batch_s: float  # its time a batch, waiting and step, past each epoch's first
    others_batch_s: float

    def __str__(self) -> str:
        """Which rank is slow, by how much, and what of it."""
        if self.cause == "loader" and self.wait_share > self.others_wait_share:
            how = f"waits {percent(self.wait_share)} of the time"
            usual = percent(self.others_wait_share)
        else:
            how, usual = f"takes {duration(self.batch_s)} a batch", duration(self.others_batch_s)
        why = "its steps take longer"
        if self.cause == "loader":
            why = "its loader holds the others up" if self.holds_up else "its loader is slower"
        alike = f" (and {self.n_like_it - 1:,} more like it)" if self.n_like_it > 1 else ""
        others = "other" if self.n_ranks - self.n_like_it == 1 else "others"
        return f"Rank {self.rank}{alike} {how}, the {others} {usual}: {why}"


def slowest(ranks: pd.DataFrame) -> Slowest | None:
    """From the table of ``by_rank``; None where the ranks are alike, or there are too few."""
    later = (ranks["n_batches"] - ranks["n_first"]).to_numpy()
    known = ranks[later >= FEW]
    if len(known) < 2:
        return None
    n = (known["n_batches"] - known["n_first"]).to_numpy()
    wait_s = (known["wait_s"] - known["first_wait_s"]).to_numpy() / n
    # In the step on the first batch ranks wait for one whose epoch began late.
    step_s = (known["step_s"] - known["first_step_s"]).to_numpy() / n
    batch_s = wait_s + step_s
    share = np.divide(wait_s, batch_s, out=np.zeros(len(n)), where=batch_s > 0)
    more, longer = share > _usual(share) + MORE, batch_s > LONGER * _usual(batch_s)
    if not (more.any() or longer.any()):
        return None
    late, by = (more, share) if more.any() else (longer, batch_s)
    worst, others = int(np.argmax(by)), ~late
    waits_more = wait_s[worst] - np.median(wait_s[others])
    steps_more = step_s[worst] - np.median(step_s[others])
    return Slowest(
        rank=int(known["rank"].iloc[worst]),
        n_like_it=int(late.sum()),
        n_ranks=len(ranks),
        cause="loader" if more.any() or waits_more > steps_more else "step",
        holds_up=bool(-steps_more > waits_more / 2 > 0),
        wait_share=float(share[worst]),
        others_wait_share=float(np.median(share[others])),
        batch_s=float(batch_s[worst]),
        others_batch_s=float(np.median(batch_s[others])),
    )


def _usual(values: Any) -> Any:
    """The median; of two, the smaller."""
    return np.sort(values)[(len(values) - 1) // 2]
