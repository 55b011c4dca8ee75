"""Takes four batches, then ends as it is told; prints the number of each batch that it got."""

import os
import signal
import sys
import threading
import time
from typing import NoReturn

from torch.utils.data import DataLoader, Dataset

N_BATCHES = 4
BATCH_SIZE = 2


class Sick(Dataset):
    def __init__(self, end: str) -> None:
        self.end = end

    def __len__(self) -> int:
        return 4 * N_BATCHES

    def __getitem__(self, index: int) -> int:
        if index == N_BATCHES * BATCH_SIZE:
            if self.end == "the dataset raises":
                raise ValueError("no such sample")
            if self.end == "a worker is killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.end == "a hang is interrupted":
                time.sleep(1000)
        return index


def be_killed(number: int, *, workers_too: bool = False) -> NoReturn:
    os.kill(0 if workers_too else os.getpid(), number)
    time.sleep(1000)
    raise AssertionError


def main(end: str, num_workers: int) -> None:
    # Whoever runs the tests in the background of a shell ignores it, and so would this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    loader = DataLoader(Sick(end), batch_size=BATCH_SIZE, num_workers=num_workers)
    for number, _ in enumerate(loader, 1):
        print(number, flush=True)
        if number < N_BATCHES:
            continue
        if end == "a hang is interrupted":
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        elif end == "the loop is left":
            break
        elif end == "it is interrupted":
            be_killed(signal.SIGINT)
        elif end == "all are interrupted":  # as a terminal does
            be_killed(signal.SIGINT, workers_too=True)
        elif end == "it is killed":
            be_killed(signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
