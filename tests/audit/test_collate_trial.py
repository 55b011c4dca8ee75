"""What calling ``collate_fn`` shows: each fault, and what only looks like one."""

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

from loaderviz import audit

N = 40


class Texts(Dataset):
    """Sequences of unequal lengths, each with a label."""

    def __init__(self):
        self.texts = [torch.full((2 + index * 7 % 11,), index + 1.0) for index in range(N)]

    def __len__(self):
        return N

    def __getitem__(self, index):
        return self.texts[index], index * 3 % 10


class IntoOneBuffer:
    def __init__(self):
        self.out = torch.zeros(8, 16)

    def __call__(self, samples):
        out = self.out[: len(samples)]
        for row, (text, _) in zip(out, samples, strict=True):
            row[:] = text[0]
        return out


class NotCleared:
    def __init__(self):
        self.scratch = np.zeros((8, 16), np.float32)

    def __call__(self, samples):
        longest = max(len(text) for text, _ in samples)
        out = self.scratch[: len(samples), :longest]
        for row, (text, _) in zip(out, samples, strict=True):
            row[: len(text)] = text
        return torch.from_numpy(out.copy())


def in_place(samples):
    for text, _ in samples:
        text.sub_(1.0)
    return pad_sequence([text for text, _ in samples])


def packed_texts_sorted_alone(samples):
    texts, labels = zip(*samples, strict=True)
    return pack_sequence(sorted(texts, key=len, reverse=True)), torch.tensor(labels)


def packed(samples):
    texts, labels = zip(*samples, strict=True)
    return pack_sequence(texts, enforce_sorted=False), torch.tensor(labels)


def cut_to_the_first(samples):
    n = len(samples[0][0])
    return torch.stack([torch.cat([text, torch.zeros(n)])[:n] for text, _ in samples])


def labels_reversed(samples):
    rows = torch.stack([text[:2] for text, _ in samples])
    return {"text": rows, "label": torch.tensor([label for _, label in samples][::-1])}


def all_sorted(samples):
    texts, labels = zip(*sorted(samples, key=lambda sample: len(sample[0])), strict=True)
    return pad_sequence(texts, batch_first=True), torch.tensor(labels)


def sorted_with_ties(samples):
    samples = sorted(samples, key=lambda sample: len(sample[0]) // 6)
    texts, labels = zip(*samples, strict=True)
    lengths = torch.tensor([len(text) // 6 for text in texts])
    return pad_sequence(texts, batch_first=True), lengths, torch.tensor(labels)


def with_the_order(samples):
    order = sorted(range(len(samples)), key=lambda place: len(samples[place][0]))
    texts = pad_sequence([samples[place][0] for place in order], batch_first=True)
    return texts, torch.tensor([label for _, label in samples]), torch.tensor(order)


def mixed_up(samples):
    rows = torch.stack([text[:2] for text, _ in samples])
    labels = torch.tensor([label for _, label in samples])
    other = torch.randperm(len(samples))
    return 0.7 * rows + 0.3 * rows[other], labels, labels[other]


class WithItsOwnChance:
    def __init__(self):
        self.generator = np.random.default_rng(0)

    def __call__(self, samples):
        texts = pad_sequence([text for text, _ in samples])
        return texts * torch.from_numpy(self.generator.random(len(texts)))[:, None]


class Counting:
    n = 0

    def __call__(self, samples):
        self.n += 1
        return all_sorted(samples), self.n


def audited(collate_fn, num_workers=0):
    loader = DataLoader(Texts(), 8, num_workers=num_workers, collate_fn=collate_fn)
    return audit(loader, budget_s=60)  # on a busy machine the usual time may not do


@pytest.mark.parametrize(
    ("collate_fn", "says"),
    [
        (IntoOneBuffer(), "=IntoOneBuffer fills one buffer for all"),
        (NotCleared(), "=NotCleared makes another batch of the same samples"),
        (in_place, "=in_place changes the dataset's own data in place: key 0 "),
        (
            labels_reversed,
            "=labels_reversed puts rows of ['text'] and ['label'] together that are of different",
        ),
        (packed_texts_sorted_alone, "puts rows of [0] and [1] together"),
        (cut_to_the_first, "=cut_to_the_first makes rows of another size of the same samples"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_fault_of_collate_fn_is_told_in_the_verdict(collate_fn, says):
    found = audited(collate_fn)
    assert says in found.verdict
    assert found.verdict.startswith("Every key came exactly once, but ")
    assert found.is_changed
    assert found.exactly_once


@pytest.mark.parametrize(
    "collate_fn",
    [
        all_sorted,
        packed,
        sorted_with_ties,
        with_the_order,
        mixed_up,
        WithItsOwnChance(),
        Counting(),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_what_makes_right_batches_is_not_accused_and_not_said_to_be_compared(collate_fn):
    found = audited(collate_fn)
    assert not found.is_changed
    name = getattr(collate_fn, "__qualname__", type(collate_fn).__name__)
    assert found.verdict == (
        f"Every key came exactly once; 40 of 40 samples are the dataset's own, before "
        f"collate_fn={name} made batches of them"
    )


def test_collate_fn_is_as_it_was_once_it_was_tried():
    counting = Counting()
    audited(counting, 2)
    assert counting.n == 0


def test_where_it_gets_one_sample_and_no_list_it_is_not_tried():
    def halved(sample):
        assert not isinstance(sample, list)
        return sample[0] / 2

    found = audit(DataLoader(Texts(), batch_size=None, collate_fn=halved))
    assert not found.is_changed
    assert found.verdict.startswith("Every key came exactly once")
