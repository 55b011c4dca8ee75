"""How well a stream is mixed: what its order of delivery has left of the order of its source.

The source is taken to hold the samples in the order of their keys. Nothing is run; the arithmetic
is on columns of millions of rows.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from loaderviz._audit.count_deliveries import lanes_of
from loaderviz.array_types import Ints

if TYPE_CHECKING:
    import pandas as pd

SEED = 0  # the uniform shuffle that we compare with is the same in every process
LEAST_SAMPLES = 64  # of fewer, no order can be told from a shuffle
LEAST_WINDOW = 16  # samples: in smaller batches, workers that take turns would look mixed
LEAST_WINDOWS = 8
MOST_LOOKED_AT = 1 << 20  # samples, all over the run: more change nothing
N_PARTS = 10  # of a run, whose mean places are compared


_NUMBER = re.compile(r"(\d+)")


class Nearness(NamedTuple):
    """How near to each other in the source the samples of a batch lie.

    Of fewer than ``LEAST_SAMPLES`` samples it is not known: NaN, and a window of 0.

    ``distance``: from a sample to the nearest other one of its window, in samples of the source;
    the geometric mean. ``shuffled_distance``: the same after a uniform shuffle. ``window``: how
    many samples in the order of delivery are looked at together.
    """

    distance: float
    shuffled_distance: float
    window: int

    @property
    def score(self) -> float:
        """0: as in the source; 1: as after a uniform shuffle."""
        return min(max((self.distance - 1) / (self.shuffled_distance - 1), 0.0), 1.0)


def nearness(order: Ints, batch_size: int) -> Nearness:
    """Compare an order with a uniform shuffle of it.

    Args:
        order: for each place in the delivery the place in the source: 0 to n - 1, each once.
        batch_size: of the loader. The order inside a batch does not matter to a model, nor here.
    """
    n = len(order)
    if n < LEAST_SAMPLES:
        return Nearness(np.nan, np.nan, 0)
    window = min(max(batch_size, LEAST_WINDOW), n // LEAST_WINDOWS)
    rng = np.random.default_rng(SEED)
    if n > MOST_LOOKED_AT:
        shuffles = [rng.integers(n, size=MOST_LOOKED_AT // window * window)]
    else:  # several, where one alone would differ from the next
        shuffles = [rng.permutation(n) for _ in range(-(-100_000 // n))]
    shuffled = np.mean([_log_distance(shuffle, window) for shuffle in shuffles])
    return Nearness(math.exp(_log_distance(order, window)), math.exp(shuffled), window)


def _log_distance(order: Ints, window: int) -> float:
    """The mean logarithm of the distance to the nearest other sample of the window."""
    n_windows = len(order) // window
    windows = order[: n_windows * window].reshape(n_windows, window)
    in_window = np.sort(windows[:: -(-len(order) // MOST_LOOKED_AT)], axis=1)
    gaps = np.diff(in_window, axis=1)
    first, last = gaps[:, :1], gaps[:, -1:]
    nearest = np.concatenate([first, np.minimum(gaps[:, :-1], gaps[:, 1:]), last], axis=1)
    return float(np.log(np.maximum(nearest, 1)).mean())


def equal_buffer(score: float, n: int) -> float:
    """How many samples a shuffle buffer holds that mixes ``n`` samples just as well.

    A buffer that holds the share b of the samples has a score of about 1 - (1 - b) ** e, whatever
    the batch size, as ``tests/audit/test_mixing.py`` tries. It is e * b for small b: a sample
    leaves the buffer after a time that is exponentially distributed.
    """
    return float(n * (1 - (1 - score) ** (1 / np.e)))


def order_of(places: Ints) -> Ints:
    """0 to n - 1 in place of any integers that sort alike; equal ones in random order."""
    n = len(places)
    lowest = int(places.min(initial=0))
    if int(places.max(initial=0)) - lowest < 4 * n:
        times = np.bincount(places - lowest)
        if times.max(initial=0) <= 1:
            return np.asarray((np.cumsum(times) - 1)[places - lowest], np.int64)
    if int(places.max(initial=0)) - lowest >= 1 << 31:
        lowest, places = 0, np.unique(places, return_inverse=True)[1]
    chance = np.random.default_rng(SEED).integers(1 << 32, size=n)
    order = np.empty(n, np.int64)
    order[np.argsort((places - lowest << 32) | chance)] = np.arange(n)
    return order


def drift_of(order: Ints) -> pd.DataFrame:
    """The mean place of each tenth of the run, as ``Mixing.drift`` holds it."""
    import pandas as pd

    n = len(order)
    ends = np.linspace(0, n, min(N_PARTS, n) + 1).astype(np.int64)
    sums = np.diff(np.concatenate([[0.0], np.cumsum(order, dtype=float)])[ends])
    sizes = np.diff(ends)
    # Drawn from n places without replacement, their mean has this standard deviation.
    noise = np.sqrt((n - sizes) / (12 * n * np.maximum(sizes, 1)))
    return pd.DataFrame(
        {
            "begins_at": ends[:-1] / max(n, 1),
            "samples": sizes,
            "mean_place": (sums / np.maximum(sizes, 1) + 0.5) / max(n, 1),
            "noise": noise,
        }
    )


def workers_of(deliveries: pd.DataFrame) -> tuple[pd.DataFrame, Any]:
    """A row for each worker, as ``Mixing.workers`` holds them, and each delivery's row."""
    import pandas as pd

    n = len(deliveries)
    ranks, workers, lane = lanes_of(deliveries)
    samples = np.bincount(lane, minlength=len(ranks))
    last = np.zeros(len(ranks), np.int64)
    last[lane] = np.arange(n)  # of several, the last one stays
    rows = {
        "rank": ranks,
        "worker": workers,
        "samples": samples,
        "share": samples / max(n, 1),
        "ends_at": (last + 1) / max(n, 1),
    }
    return pd.DataFrame(rows), lane.astype(np.int16)


def places_by_key(keys: Any) -> Ints | None:
    """For each key a number that sorts as it does; -1 for None. None where they do not sort.

    Integers are their own places. ``"shard-10"`` comes after ``"shard-9"``, and ``(2, 0)``, which
    may be shard and index, after ``(1, 99)``.
    """
    if keys.dtype != object:
        return np.asarray(keys, np.int64)
    import pandas as pd

    codes, known = pd.factorize(keys)  # None gets -1
    sortable = [_sortable(key) for key in known]
    if None in sortable or not sortable:
        return None
    rank = np.empty(len(known) + 1, np.int64)
    by_size: Any = sorted(range(len(known)), key=sortable.__getitem__)
    rank[by_size] = np.arange(len(known))
    rank[-1] = -1
    return rank[codes]


def shards_by_key(keys: Any) -> Any:
    """The first part of each key that is a tuple, as (shard, index); None where they are not."""
    if keys.dtype != object or not all(type(key) is tuple and len(key) > 1 for key in keys):
        return None
    return np.fromiter((key[0] for key in keys), object, len(keys))


def _sortable(key: Any) -> tuple[Any, ...] | None:
    """A tuple that can be compared with that of any other key; None for what does not sort."""
    if isinstance(key, int | float):
        return (0, key)
    if isinstance(key, bytes):
        key = key.decode("latin-1")
    if isinstance(key, str):
        parts = _NUMBER.split(key)  # text and number in turn
        return (1, *(int(part) if i % 2 else part for i, part in enumerate(parts)))
    if isinstance(key, tuple):
        inner = [_sortable(part) for part in key]
        return None if None in inner else (2, *inner)
    return None
