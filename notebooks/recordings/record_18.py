"""Makes what notebook 18 shows: which lines read the samples, of a quick loop and of a slow one.

    cd notebooks/recordings && python record_18.py

It takes half a minute, needs Linux, and writes two small Parquet files beside itself. Those that
ship were made on 2 CPUs in November 2026.
"""

import time

import numpy as np
import pandas as pd
import torch
from torch.utils.data import DataLoader, Dataset

from loaderviz import record


class Days(Dataset):
    def __init__(self):
        self.table = pd.DataFrame(np.random.default_rng(0).random((24 * 800, 30)))

    def __len__(self):
        return 800

    def __getitem__(self, day):
        rows = [self.table.iloc[24 * day + i] for i in range(24)]
        return torch.tensor(np.array(rows)), self.weather(day)

    def weather(self, day):
        time.sleep(0.008)  # an answer from the network
        if day % 80 == 50:
            time.sleep(0.3)  # there was none: ask again
        return day % 7


def main() -> None:
    for name, step_s in (("lines_of_a_quick_loop", 0.005), ("lines_of_a_slow_loop", 0.1)):
        loader = DataLoader(Days(), batch_size=8, num_workers=2)
        with record(loader, lines=True) as rec:
            for _ in loader:
                time.sleep(step_s)
        rec.trace.save(f"{name}.parquet")
        print(rec.trace.summary())
        print(rec.trace.lines()[["line", "source", "seconds", "share"]].head(5))


if __name__ == "__main__":
    main()
