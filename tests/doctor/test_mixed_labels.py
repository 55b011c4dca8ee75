"""LV114: which numbers of a sample count as labels, and when it says nothing."""

import random

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from loaderviz import doctor
from loaderviz._doctor.batch_contents import labels_of
from patients import SortedClasses
from streams import Items


def visited(items, **options):
    return doctor(DataLoader(Items(items), **{"batch_size": 20, **options}))


class Reshuffled(Items):
    """Shuffles the order of its ``items``, lists of samples, anew in each epoch."""

    def __iter__(self):
        for samples in random.sample(self.items, len(self.items)):
            yield from samples


def test_whole_numbers_of_samples_are_found_by_their_places():
    samples = [{"x": torch.rand(3), "y": i, "z": torch.tensor(i), "f": 0.5} for i in range(3)]
    assert labels_of(samples, several=True) == {"['y']": (0, 1, 2), "['z']": (0, 1, 2)}
    assert labels_of([(1.0, np.int64(4)), (2.0, np.int64(5))], several=True) == {"[1]": (4, 5)}
    assert labels_of([7, 8], several=True) == {"": (7, 8)}
    assert labels_of([True, "text", None, (), {}], several=True) == {}
    assert labels_of([(1,), "other"], several=True) == {}


def test_of_a_batch_that_the_dataset_made_they_are_arrays():
    batch = {"x": torch.rand(3, 2), "y": torch.tensor([4, 5, 6]), "f": torch.rand(3)}
    assert labels_of(batch, several=False) == {"['y']": (4, 5, 6)}


def test_the_evidence_is_what_a_batch_holds_and_what_it_would_hold():
    (finding,) = (
        each
        for each in doctor(DataLoader(SortedClasses(10), batch_size=20)).findings
        if each.code == "LV114"
    )
    (evidence,) = finding.evidence
    assert "20 samples that follow one another have 1." in evidence
    assert "different values of sample[1]" in evidence
    assert "key=lambda sample: sample[1]).mixing()" in finding.fix


def test_shards_that_are_shuffled_and_not_mixed_are_found():
    shards = [[(0.5, label)] * 60 for label in range(10)]
    diagnosis = doctor(DataLoader(Reshuffled(shards), batch_size=20))
    assert "LV114" in diagnosis.codes


def test_batches_that_the_dataset_makes_are_looked_into():
    shards = [[(torch.rand(20), torch.full((20,), label))] * 3 for label in range(10)]
    (found,) = (
        each
        for each in doctor(DataLoader(Reshuffled(shards), batch_size=None)).findings
        if each.code == "LV114"
    )
    assert "20 samples that follow one another have 1.0 different" in found.evidence[0]
    assert "these 600 samples" in found.evidence[0]


@pytest.mark.parametrize(
    "items",
    [
        [(0.5, i) for i in range(1000)],  # numbers of samples, no classes
        [(0.5, i % 10) for i in range(1000)],  # mixed, though nothing is random
        [(0.5, 3)] * 1000,
        [(0.5, i // 10) for i in range(40)],  # too few to tell
    ],
)
def test_other_streams_are_well(items):
    diagnosis = visited(items)
    assert "LV114" in diagnosis.clear


def test_one_class_at_the_beginning_of_a_long_stream_says_nothing_of_the_rest():
    shards = [[(0.5, label)] * 12_000 for label in range(3)]
    diagnosis = doctor(DataLoader(Reshuffled(shards), batch_size=20))
    (undecided,) = (each for each in diagnosis.undecided if each.code == "LV114")
    assert "sample[1] is the same in all that was seen" in undecided.evidence[0]


def test_a_sorted_stream_that_nothing_shuffles_is_not_judged():
    diagnosis = visited([(0.5, i // 100) for i in range(1000)])
    assert "LV114" not in diagnosis.codes
    (undecided,) = (each for each in diagnosis.undecided if each.code == "LV114")
    assert "nothing shuffles them" in undecided.evidence[0]
