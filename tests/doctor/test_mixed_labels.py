"""LV114: which numbers of a sample count as labels, and when it says nothing."""

import random

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from loaderviz import doctor
from loaderviz._doctor.batch_contents import labels_of
from loaderviz._doctor.batch_probe import Note
from loaderviz._doctor.checks import CHECKS
from loaderviz._doctor.examination import Case
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.run_epochs import Epoch
from patients import SortedClasses
from streams import Items


def judged(labels, *, dataset=None, complete=True):
    """What the check says where these came in batches of 20, in each of two epochs."""
    batches = [tuple(labels[at : at + 20]) for at in range(0, len(labels), 20)]
    notes = tuple(Note(n_samples=len(batch), labels={"[1]": batch}) for batch in batches)
    epochs = tuple(Epoch(number, notes, complete, ()) for number in (0, 1))
    setup = Setup(DataLoader(dataset or Items([])))
    return CHECKS["LV114"].judge(Case(setup, ran=True, observations=epochs))


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


def test_shards_that_are_shuffled_and_not_mixed_are_found_in_batches_that_the_dataset_makes():
    shards = [[(torch.rand(20), torch.full((20,), label))] * 3 for label in range(10)]
    (found,) = (
        each
        for each in doctor(DataLoader(Reshuffled(shards), batch_size=None)).findings
        if each.code == "LV114"
    )
    assert "20 samples that follow one another have 1.0 different" in found.evidence[0]
    assert "these 600 samples" in found.evidence[0]


@pytest.mark.parametrize(
    "labels",
    [
        range(1000),  # numbers of samples, no classes
        [i % 10 for i in range(1000)],  # mixed, though nothing is random
        [3] * 1000,
        [i // 10 for i in range(40)],  # too few to tell
    ],
)
def test_other_streams_are_well(labels):
    assert judged(labels) is None


@pytest.mark.parametrize(
    ("labels", "dataset", "complete", "why"),
    [
        ([3] * 1000, Reshuffled([]), False, "sample[1] is the same in all that was seen"),
        ([i // 100 for i in range(1000)], Items([]), True, "nothing shuffles them"),
    ],
    ids=["of a long stream only the beginning", "sorted"],
)
def test_what_may_be_meant_is_not_judged(labels, dataset, complete, why):
    finding = judged(labels, dataset=dataset, complete=complete)
    assert finding.state == "undecided"
    assert why in finding.evidence[0]
