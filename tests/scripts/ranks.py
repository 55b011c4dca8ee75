"""Two ranks: those of torchrun, or without it two that are spawned. Its argument is a free port."""

import os
import sys

import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, DistributedSampler


def train(rank, port):
    if rank is None:
        dist.init_process_group("gloo")
    else:
        address = f"tcp://127.0.0.1:{port}"
        dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    numbers = range(8)
    mine = DistributedSampler(numbers, shuffle=False)
    batches = [batch.tolist() for batch in DataLoader(numbers, batch_size=2, sampler=mine)]
    sys.stdout.write(f"{dist.get_rank()}: {batches}\n")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    port = int(sys.argv[1])
    if "RANK" in os.environ:
        train(None, port)
    else:
        mp.spawn(train, (port,), nprocs=2)
