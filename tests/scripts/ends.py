"""Takes four batches, then ends as it is told; prints the number of each batch that it got."""

import os
import signal
import sys
import time
from typing import NoReturn

from torch.utils.data import DataLoader

N_BATCHES = 4


def be_killed(number: int, *, workers_too: bool = False) -> NoReturn:
    os.kill(0 if workers_too else os.getpid(), number)
    time.sleep(1000)
    raise AssertionError


def main(end: str) -> None:
    # Whoever runs the tests in the background of a shell ignores it, and so would this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    loader = DataLoader(range(8 * N_BATCHES), batch_size=2, num_workers=2)
    for number, _ in enumerate(loader, 1):
        print(number, flush=True)
        if number < N_BATCHES:
            continue
        if end == "it is interrupted":  # with its workers, as by a terminal
            be_killed(signal.SIGINT, workers_too=True)
        elif end == "it is killed":
            be_killed(signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1])
