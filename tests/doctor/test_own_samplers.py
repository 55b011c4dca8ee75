"""LV121: own samplers whose order is the same in each epoch, and those that depend on set_epoch."""

import pytest
import torch
from torch.utils.data import DataLoader, Sampler

import loaderviz as lv
from pitfalls import undecided


class Drawn(Sampler):
    """Draws its order from a seed that is the same each time."""

    def __init__(self, size=0):
        self.size, self.epoch = size, 0

    def __iter__(self):
        generator = torch.Generator().manual_seed(1 + self.epoch)
        order = torch.randperm(48, generator=generator).tolist()
        yield from torch.tensor(order).split(self.size) if self.size else order

    def __len__(self):
        return 48 // (self.size or 1)


class DrawnInBatches(Drawn):
    def __iter__(self):
        yield from (batch.tolist() for batch in super().__iter__())


class ByEpoch(Drawn):
    def set_epoch(self, epoch):
        self.epoch = epoch


@pytest.mark.parametrize(
    "options", [{"sampler": Drawn()}, {"batch_sampler": DrawnInBatches(8)}], ids=["keys", "batches"]
)
def test_the_same_order_in_each_epoch_is_told(options):
    found = lv.doctor(DataLoader(range(48), **options), budget_s=20)
    assert "LV121" in found.codes


def test_an_order_that_may_depend_on_set_epoch_is_undecided():
    found = lv.doctor(DataLoader(range(48), sampler=ByEpoch()), budget_s=20)
    assert "LV121" not in found.codes
    assert "sampler has a set_epoch" in undecided(found)["LV121"]
