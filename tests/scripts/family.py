"""Loaders of several kinds in several processes."""

import os
import subprocess
import sys

from torch import multiprocessing as mp
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader


class Nested:
    """Each sample reads another loader."""

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return len(list(DataLoader(range(3))))


def in_a_child(rank):
    assert len(list(DataLoader(range(4), num_workers=1))) == 4


def forked_without_multiprocessing():
    child = os.fork()
    if child == 0:
        assert len(list(DataLoader(range(6)))) == 6
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    list(StatefulDataLoader(range(2)))

    class Late(DataLoader):
        def _get_iterator(self):
            return super()._get_iterator()

    list(Late(range(3)))
    list(DataLoader(Nested(), num_workers=1))
    mp.start_processes(in_a_child, nprocs=1, start_method="fork")
    forked_without_multiprocessing()
    program = "from torch.utils.data import DataLoader; list(DataLoader(range(5)))"
    subprocess.run([sys.executable, "-c", program], check=True)
