"""Does what a training script does, says all that it sees, and ends with an error of its dataset.

Its argument is the folder to change to.
"""

import hashlib
import os
import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader


class Noisy:
    def __len__(self):
        return 12

    def __getitem__(self, i):
        if i == 100:
            raise KeyError(i)
        return torch.tensor([i, torch.rand(1).item()])


def train(loader, seen):
    for batch in loader:
        seen.update(batch.numpy().tobytes())


def main():
    os.chdir(sys.argv[1])
    torch.manual_seed(0)
    seen = hashlib.sha256()
    train(DataLoader(Noisy(), batch_size=4, shuffle=True), seen)
    kept = DataLoader(Noisy(), batch_size=4, num_workers=2, persistent_workers=True)
    for _ in range(2):
        train(kept, seen)
    train(DataLoader(Noisy(), num_workers=1, multiprocessing_context="spawn"), seen)
    print(seen.hexdigest(), torch.rand(1).item())
    print(__name__, sys.argv, sys.path, Path.cwd(), flush=True)
    print("this is an error", file=sys.stderr)
    train(DataLoader(Noisy(), sampler=[1, 100], num_workers=1), seen)


if __name__ == "__main__":
    main()
