"""Two ranks that meet after each step; the loader of rank 1 hangs: ``... FOLDER MEETING``."""

import os
import sys
import time

import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

import loaderviz as lv


class Samples(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        if i == 12 and os.environ["RANK"] == "1":
            time.sleep(1000)
        return i


def main(folder, meeting):
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    loader = DataLoader(Samples(), batch_size=4, num_workers=1)
    with lv.record(loader, path=folder):
        for _ in loader:
            dist.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])
