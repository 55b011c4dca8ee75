"""A script for torchrun: four ranks train twice; in the second run a worker dies, then a rank."""

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

import loaderviz as lv
from probes import Deadly, Keys

N = 32
ITS_WORKER_DIES, DIES = 1, 2  # ranks


def loader_of(dataset, rank):
    sampler = DistributedSampler(dataset, num_replicas=4, rank=rank, shuffle=False)
    return DataLoader(dataset, batch_size=2, num_workers=1, sampler=sampler, collate_fn=len)


def train(loader):
    for _ in loader:
        dist.all_reduce(torch.ones(1))


def main(folder):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loader = loader_of(Keys(N, make=int), rank)
    with lv.record(loader, path=folder / "whole"):
        train(loader)
    dist.barrier()
    try:
        loader = loader_of(Deadly(N, at=4 * 4 + ITS_WORKER_DIES), rank)  # that rank's fifth
        with lv.record(loader, path=folder / "deadly"):
            for at, _ in enumerate(loader):
                if rank == DIES and at == 1:
                    wait_for_the_others(folder / "deadly")
                    os.kill(os.getpid(), signal.SIGKILL)
    except RuntimeError as error:
        print(f"rank {rank}: {error}", flush=True)


def wait_for_the_others(run):
    while len([*run.glob("*.parquet")]) < 3:
        time.sleep(0.02)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
