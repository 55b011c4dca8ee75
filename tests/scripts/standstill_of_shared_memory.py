"""Batches for which /dev/shm is too small, in a run that is recorded into FOLDER."""

import sys

import torch
from torch.utils.data import DataLoader, Dataset

import loaderviz as lv


class Samples(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.zeros(1 << 19)  # 2 MiB


def main(folder):
    kept = []
    # The queue's own thread moves these to shared memory: what fails there is lost.
    loader = DataLoader(Samples(), batch_size=1, num_workers=1, collate_fn=list)
    with lv.record(loader, path=folder):
        for batch in loader:
            kept.append(batch)


if __name__ == "__main__":
    main(*sys.argv[1:])
