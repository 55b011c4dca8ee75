"""What no key shows: others in the place of samples that are None, and workers' own orders."""

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, default_collate

from loaderviz import audit, doctor

N = 120


class WithGaps(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, index):
        return None if index % 7 == 3 else (torch.full((9,), index + 1.0), index % 2)


class Filling:
    """Puts in another row, for each that is None."""

    def __init__(self, make_row):
        self.make_row = make_row

    def __call__(self, samples):
        held = [sample for sample in samples if sample is not None]
        n_missing = len(samples) - len(held)
        return default_collate(held + [self.make_row(held) for _ in range(n_missing)])


def drawn(held):
    index = 7 * int(torch.randint(N // 7, ()))
    return WithGaps()[index]


def first_again(held):
    return held[0]


def nothing(held):
    return torch.zeros(9), -1


@pytest.mark.parametrize("make_row", [drawn, first_again])
def test_samples_that_others_take_the_place_of_are_left_out(make_row):
    loader = DataLoader(WithGaps(), 8, num_workers=1, collate_fn=Filling(make_row))
    found = audit(loader)
    n = len([index for index in range(N) if index % 7 == 3])
    assert found.verdict == (
        f"Every key came exactly once, but {n} of 120 samples were left out of their batch by "
        "collate_fn"
    )
    assert "collate_fn=Filling puts other samples in the place of those" in str(found).replace(
        "\n", " "
    )
    assert set(found.contents[found.contents["state"] == "dropped"]["key"]) == set(range(3, N, 7))
    assert [each.code for each in doctor(loader).findings if each.severity != "advice"] == ["LV118"]


def test_what_only_keeps_the_place_of_a_sample_takes_nobodys():
    found = audit(DataLoader(WithGaps(), 8, collate_fn=Filling(nothing)))
    assert not found.is_changed


class Texts(WithGaps):
    def __getitem__(self, index):
        return torch.full((1 + index % 9,), index + 1.0)


def within_budget(samples):
    chosen, used = [], 0
    for sample in samples:
        if used + len(sample) <= 30:
            chosen.append(sample)
            used += len(sample)
    return pad_sequence(chosen, batch_first=True)


def packed(samples):
    tokens = torch.cat(samples)
    return tokens[: len(tokens) // 10 * 10].reshape(-1, 10), tokens[len(tokens) // 10 * 10 :]


def test_samples_without_which_a_batch_is_the_same_were_left_out():
    loader = DataLoader(Texts(), 10, collate_fn=within_budget)
    n = N - sum(len(batch) for batch in loader)
    assert audit(loader).verdict == (
        f"Every key came exactly once, but {n} of 120 samples were left out of their batch by "
        "collate_fn"
    )
    assert "LV118" in [each.code for each in doctor(loader).findings]


class SomeEmpty(Texts):
    def __getitem__(self, index):
        return torch.full((index % 9,), index + 1.0)


@pytest.mark.parametrize("dataset", [Texts(), SomeEmpty()])
def test_samples_that_are_packed_into_fewer_rows_were_not(dataset):
    found = audit(DataLoader(dataset, 10, collate_fn=packed))
    assert not found.is_changed
    assert found.verdict.endswith("before collate_fn made fewer rows of them")


class OwnOrder(Dataset):
    """Opened where it is first read, in an order that chance draws there."""

    def __init__(self, *, seeded):
        self.seed = 0 if seeded else None
        self.order = None

    def __len__(self):
        return N

    def __getitem__(self, index):
        if self.order is None:
            self.order = np.random.default_rng(self.seed).permutation(N)
        return torch.full((9,), float(self.order[index]))


class SameDraws(Dataset):
    """A generator that each worker has a copy of, so that all draw the same."""

    def __init__(self):
        self.generator = np.random.default_rng(0)

    def __len__(self):
        return N

    def __getitem__(self, index):
        return torch.from_numpy(self.generator.random(9))


class RowsTwice(Dataset):
    """Each row twice, in another worker; now and then one is flipped."""

    def __len__(self):
        return N

    def __getitem__(self, index):
        row = torch.arange(9.0) + 10 * (index % (N // 2))
        return row.flip(0) if torch.rand(()) < 0.3 else row


def test_workers_with_orders_of_their_own_give_samples_twice():
    found = audit(DataLoader(OwnOrder(seeded=False), 4, num_workers=3))
    n = (found.contents["state"] == "replaced").sum()
    assert found.is_changed
    assert found.verdict == (
        f"Every key came exactly once, but {n} of 120 samples hold what another key holds"
    )
    assert "Each worker has the data in an order of its own, by chance" in str(found)


@pytest.mark.parametrize(
    "dataset",
    [
        OwnOrder(seeded=True),
        pytest.param(SameDraws(), marks=pytest.mark.slow),
        pytest.param(RowsTwice(), marks=pytest.mark.slow),
    ],
)
def test_what_only_looks_like_an_order_of_each_worker_is_none(dataset):
    assert not audit(DataLoader(dataset, 4, num_workers=3)).is_changed


def test_one_worker_with_an_order_of_its_own_gives_each_once():
    assert not audit(DataLoader(OwnOrder(seeded=False), 4, num_workers=1)).is_changed


class SeldomFlipped(WithGaps):
    def __init__(self, draw):
        self.draw = draw

    def __getitem__(self, index):
        row = torch.arange(9.0) + 10 * index
        return row.flip(0) if self.draw() < 0.15 else row


@pytest.mark.parametrize(
    ("draw", "num_workers"),
    [
        pytest.param(lambda: torch.rand(()), 2, marks=pytest.mark.slow),
        (lambda: np.random.default_rng().random(), 0),
    ],
    ids=["torch", "new"],
)
def test_augmentation_that_seldom_changes_a_sample_is_no_fault(draw, num_workers):
    """Of a generator that is made anew each time, too, which nobody can seed."""
    assert not audit(DataLoader(SeldomFlipped(draw), 4, num_workers=num_workers)).is_changed
