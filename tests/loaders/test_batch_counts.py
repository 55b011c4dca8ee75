"""The batches of an epoch, as far as torch's own classes tell them."""

from typing import Any

import pytest
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    Sampler,
    SequentialSampler,
    WeightedRandomSampler,
)

from loaderviz.loaders.batch_counts import known_length
from loaderviz.loaders.describe_loader import describe

DATA = range(10)


class Seeded(RandomSampler):
    """As accelerate's: seeds itself in each epoch."""

    def __iter__(self) -> Any:
        yield from super().__iter__()


class Fewer(RandomSampler):
    def __len__(self) -> int:
        raise AssertionError("nobody asked for it")


class Own(Sampler[int]):
    def __iter__(self) -> Any:
        return iter(DATA)

    def __len__(self) -> int:
        raise AssertionError("nobody asked for it")


@pytest.mark.parametrize(
    ("options", "length"),
    [
        ({"shuffle": True, "batch_size": 4}, 3),
        ({"shuffle": True, "batch_size": 4, "drop_last": True}, 2),
        ({"sampler": WeightedRandomSampler([1.0] * 10, 6), "batch_size": 4}, 2),
        ({"sampler": Seeded(DATA), "batch_size": 4}, 3),
        ({"batch_sampler": BatchSampler(Seeded(DATA), 4, drop_last=False)}, 3),
        ({"batch_sampler": BatchSampler(RandomSampler(DATA), 5, drop_last=False)}, 2),
        ({"batch_sampler": BatchSampler(SequentialSampler(DATA), 5, drop_last=False)}, None),
        ({"batch_size": 4}, None),  # would ask the dataset, which nobody has done yet
        ({"sampler": Fewer(DATA), "batch_size": 4}, None),
        ({"sampler": Own(), "batch_size": 4}, None),
    ],
)
def test_it_is_known_where_no_code_of_the_user_is_asked(options, length):
    assert known_length(DataLoader(DATA, **options)) == length


def test_what_a_batch_sampler_draws_from_says_whether_it_is_shuffled():
    shuffled = DataLoader(DATA, batch_sampler=BatchSampler(RandomSampler(DATA), 5, drop_last=False))
    assert describe(shuffled)["shuffled"]
    assert not describe(DataLoader(DATA, batch_size=5))["shuffled"]
