"""What a stream overwrites, replaces or loses (LV116 to LV118), and streams that only look so."""

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate

import loaderviz as lv

N = 40


class Stream(IterableDataset):
    """Of N samples, shared out, each by ``give``, which is told which one, and the one before."""

    def __init__(self, give):
        self.give, self.buffer = give, torch.zeros(3)

    def __iter__(self):
        before = None
        for index in lv.shard(range(N)):
            before = self.give(self, index, before)
            yield before


def row(index):
    return torch.full((3,), float(index))


def read(index):
    if index % 8 == 5:
        raise OSError("truncated")
    return row(index)


def into_one_buffer(stream, index, before):
    return stream.buffer.fill_(index)


def the_last_one_again(stream, index, before):
    try:
        return read(index)
    except OSError:
        return before


def tried_again(stream, index, before):
    try:
        return read(index)
    except OSError:
        return row(index)


def a_filler(stream, index, before):
    try:
        if index % 8 == 5:
            raise OSError("truncated")
        return row(index)
    except OSError:
        return torch.zeros(3)


def none_sometimes(stream, index, before):
    return None if index % 8 == 5 else row(index)


def without_none(samples):
    return default_collate([sample for sample in samples if sample is not None])


@pytest.mark.parametrize(
    ("give", "collate_fn", "code", "says", "num_workers"),
    [
        (into_one_buffer, None, "LV116", "changes when a later one is read", 0),
        (the_last_one_again, None, "LV117", "meets OSError: truncated", 2),
        (a_filler, None, "LV117", "meets OSError: truncated", 0),
        (none_sometimes, without_none, "LV118", "leaves out 5 of 40 samples", 2),
        (tried_again, None, "", "", 0),
        (none_sometimes, list, "", "", 0),
    ],
)
def test_what_becomes_of_its_samples_is_told(give, collate_fn, code, says, num_workers):
    loader = DataLoader(Stream(give), 8, num_workers=num_workers, collate_fn=collate_fn)
    found = {each.code: " ".join(each.evidence) for each in lv.doctor(loader, budget_s=60)}
    assert {"LV116", "LV117", "LV118"} & set(found) == ({code} if code else set())
    assert says in found.get(code, "")
