"""Makes the recordings that notebook 10 shows: the stand-in's cure before, after, and ideal.

    python notebooks/recordings/record_10.py

The store takes 100 ms for a picture, as does a step, and the folder has 6,000. The first 180
batches are recorded, and the first 200 pictures one by one. Where others use the machine, put
`chrt -r 10` in front: what they did is no part of the recordings.
"""

import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

from loaderviz import Trace, ideal, record
from loaderviz.course import train_script

HERE = Path(__file__).parent


def photos(num_workers: int) -> Any:
    """The cured loader of a slower store and a larger folder: its list, 50 times over."""
    loader = train_script.make_cured(num_workers)
    loader.dataset.request_s = 0.1
    loader.dataset.files *= 50
    return loader


LOADERS = {
    "photos_before": lambda: photos(2),
    "photos_after": lambda: photos(5),
    "photos_ideal": lambda: ideal(photos(2)),
}


def first_batches(loader: Any) -> Trace:
    """Steps of 100 ms on the first 180 batches."""
    with record(loader, max_spans=200) as rec:
        for _ in islice(loader, 180):
            time.sleep(0.1)
    rec.trace.meta.pop("pressure_s", None)
    return rec.trace


def main() -> None:
    for name in sys.argv[1:] or LOADERS:
        trace = first_batches(LOADERS[name]())
        trace.save(HERE / f"{name}.parquet")
        print(f"{name}: {trace.summary().verdict}")


if __name__ == "__main__":
    main()
