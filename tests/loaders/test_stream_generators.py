"""NumPy's generators are found where a stream makes them, without running its code."""

import itertools

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from loaderviz.loaders.random_state import numpy_generators, stream_being_read


class Inner(IterableDataset):
    def __iter__(self):
        inner_rng = np.random.default_rng(1)
        for _ in range(4):
            yield inner_rng.random()


class Outer(IterableDataset):
    def __iter__(self):
        rng = np.random.default_rng(2)
        other = np.random.RandomState(3)  # noqa: F841  # it can be seeded anew at any time
        yield rng.random()
        yield from Inner()


def seen_while_collating(dataset):
    seen = []

    def collate(samples):
        seen.append(set(numpy_generators(dataset, stream_being_read())))
        return samples

    list(DataLoader(dataset, batch_size=2, collate_fn=collate))
    return seen


def test_those_in_the_variables_of_iter_and_of_what_it_yields_from_are_found():
    seen = seen_while_collating(Outer())
    assert seen[0] == {"rng in __iter__", "inner_rng in __iter__"}
    assert seen_while_collating(Inner())[0] == {"inner_rng in __iter__"}


def test_one_that_the_dataset_keeps_is_found_by_its_attribute():
    dataset = torch.utils.data.TensorDataset(torch.arange(4))
    dataset.rng = np.random.default_rng(0)
    assert seen_while_collating(dataset) == [{"dataset.rng"}] * 2


def test_a_stream_that_has_ended_or_has_no_variables_has_none():
    ended = iter(Inner())
    list(ended)
    for stream in (None, ended, iter([1]), itertools.count()):
        assert numpy_generators(Inner(), stream) == {}
    assert stream_being_read() is None
