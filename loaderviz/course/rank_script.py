"""The script of notebook 09, which every rank runs; ``launch_ranks.torchrun`` starts it.

``torchrun --nproc-per-node 2 -m loaderviz.course.rank_script FOLDER NAME ...`` runs the named
cases one after another. Each rank writes a recording and what its loop returned to the folder.
"""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

from loaderviz.course.datasets import ShardedStream, SplitStream, splits
from loaderviz.loaders.process_group import default_store
from loaderviz.recorder import record

N = 17
PATIENCE = timedelta(seconds=2)  # how long a rank waits for the others

# Loaders


def whole() -> DataLoader[int]:
    """A loader that ignores ranks."""
    numbers: Any = range(N)
    return DataLoader(numbers, batch_size=3)


def dealt(*, shuffle: bool = False) -> DataLoader[int]:
    """A ``DistributedSampler`` gives each rank its own indices."""
    numbers: Any = range(N)
    sampler: Any = DistributedSampler(numbers, shuffle=shuffle)
    return DataLoader(numbers, batch_size=3, sampler=sampler)


def dealt_to_workers() -> DataLoader[int]:
    """As ``dealt``, with workers: they read what the sampler of their rank says."""
    numbers: Any = range(N)
    sampler: Any = DistributedSampler(numbers, shuffle=False)
    return DataLoader(numbers, batch_size=3, sampler=sampler, num_workers=2)


def by_worker() -> DataLoader[int]:
    """A stream shared out among the workers of a rank, as in notebook 04."""
    return DataLoader(SplitStream(range(N), splits.by_stride), batch_size=3, num_workers=2)


def by_rank_and_worker() -> DataLoader[int]:
    """A stream shared out among all workers of all ranks."""
    return DataLoader(ShardedStream(range(N)), batch_size=3, num_workers=2)


def uneven() -> DataLoader[int]:
    """Each sample once: 9 for rank 0 and 8 for rank 1, which makes 3 batches and 2."""
    return DataLoader(ShardedStream(range(N)), batch_size=4)


# Loops


def read(loader: Any, epochs: int = 1, tell_epoch: bool = False) -> list[list[list[int]]]:
    """Returns the numbers that the loader delivers, by epoch and batch."""
    numbers = []
    for epoch in range(epochs):
        if tell_epoch:
            loader.sampler.set_epoch(epoch)
        numbers.append([batch.tolist() for batch in loader])
    return numbers


def train(batches: Any) -> list[str]:
    """After each batch the ranks add up their gradients: each waits for all others."""
    events: list[str] = []
    for step, _batch in enumerate(batches):
        gradient = torch.ones(1)
        try:
            dist.all_reduce(gradient, async_op=True).wait(PATIENCE)
        except RuntimeError:  # it waited in vain
            return [*events, f"step {step}: nobody answers"]
        events.append(f"step {step}")
    return [*events, "done"]


def in_step(loader: Any) -> Iterator[Any]:
    """Yields batches as long as every rank has one."""
    batches = iter(loader)
    while True:
        batch = next(batches, None)
        has_one = torch.tensor(int(batch is not None))
        dist.all_reduce(has_one, dist.ReduceOp.MIN)
        if not has_one:
            return
        yield batch


def train_in_step(loader: Any) -> list[str]:
    """``train``, but all ranks stop when the first has no batch left."""
    return train(in_step(loader))


CASES: dict[str, tuple[Callable[[], DataLoader[int]], Callable[[Any], Any]]] = {
    "whole": (whole, read),
    "dealt": (dealt, read),
    "dealt_to_workers": (dealt_to_workers, read),
    "forgotten": (partial(dealt, shuffle=True), partial(read, epochs=3)),
    "told": (partial(dealt, shuffle=True), partial(read, epochs=3, tell_epoch=True)),
    "by_worker": (by_worker, read),
    "by_rank_and_worker": (by_rank_and_worker, read),
    "in_step": (uneven, train_in_step),
    "uneven": (uneven, train),  # must be the last: an all_reduce that gave up is still pending
}


def main(folder: Path, names: list[str]) -> None:
    """Run the named cases in this rank, and write the recordings and results to the folder."""
    dist.init_process_group("gloo")
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    for name in names:
        make_loader, loop = CASES[name]
        loader = make_loader()
        with record(loader, path=folder / name):
            dist.barrier()  # all begin together, so that PATIENCE does not run out on a late start
            result = loop(loader)
        (folder / f"{name} {rank}.json").write_text(json.dumps(result))
    # No rank leaves before all have finished. Not a barrier, since an all_reduce may be pending.
    shared = default_store()
    shared.set(f"finished {rank}", "")
    shared.wait([f"finished {other}" for other in range(n_ranks)])
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
