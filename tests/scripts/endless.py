"""Trains until it is stopped; says so when the first batches are through."""

import signal
import time

from torch.utils.data import DataLoader

if __name__ == "__main__":
    # Whoever runs the tests in the background of a shell ignores it, and so would this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, _ in enumerate(DataLoader(range(10**6), batch_size=2, num_workers=1)):
        if number == 3:
            print("under way", flush=True)
        time.sleep(0.01)
