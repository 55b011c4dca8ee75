"""LV603 and LV604: what the shape of a batch is, and how much of it is padding."""

from collections import UserDict

import torch
from torch.utils.data import DataLoader, Dataset

from loaderviz import doctor
from loaderviz._doctor.batch_contents import Padding, padding_of
from loaderviz._doctor.batch_probe import Probe


class Lengths(Dataset):
    """Sequences of many lengths, 1 to 100, most of them short."""

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(1 + (37 * index % 200) ** 2 // 402)


def to_longest(samples: list[torch.Tensor]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)


def to_a_hundred(samples: list[torch.Tensor]) -> torch.Tensor:
    rows = to_longest(samples)
    return torch.nn.functional.pad(rows, (0, 100 - rows.shape[1]))


SAMPLES = [torch.ones(n) for n in (3, 1, 2)]
ROWS = to_longest(SAMPLES)


def test_padding_is_seen_where_a_batch_holds_what_its_samples_held():
    assert padding_of(SAMPLES, ROWS) == Padding("", 3, (3, 1, 2))
    batch = ROWS, torch.tensor([3, 1, 2])
    assert padding_of(SAMPLES, batch) == Padding("[0]", 3, (3, 1, 2))
    wide = torch.zeros(3, 10)
    assert padding_of(SAMPLES, wide) == Padding("", 10, (3, 1, 2))
    tokens = [{"ids": [1] * n, "n": n} for n in (3, 1, 2)]
    assert padding_of(tokens, UserDict(ids=ROWS)) == Padding("['ids']", 3, (3, 1, 2))


def test_a_mask_tells_also_of_samples_that_were_padded_before():
    mask = torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0]])
    samples = [{"attention_mask": row} for row in mask]
    batch = {"ids": torch.ones(2, 4), "attention_mask": mask}
    assert padding_of(samples, batch) == Padding("['attention_mask']", 4, (2, 1))


def test_no_padding_is_claimed_where_none_is_seen():
    equal = [torch.ones(3)] * 2
    assert padding_of(equal, torch.stack(equal)) is None
    assert padding_of(SAMPLES, [*SAMPLES]) is None  # not put together
    long = [torch.ones(5), *SAMPLES[1:]]
    assert padding_of(long, to_longest(long).T) is None  # not a row for each
    assert padding_of(SAMPLES, (ROWS, ROWS + 1)) is None  # which of the two?
    assert padding_of(SAMPLES[:1], ROWS[:1]) is None
    assert padding_of({"x": 1}, ROWS) is None
    assert padding_of(["a text", "b"], torch.zeros(2, 9)) is None


def test_padding_is_that_of_all_batches_and_shapes_are_those_without_a_smaller_last_one():
    loader = DataLoader(Lengths(), batch_size=12, collate_fn=to_longest)
    batches = list(loader)
    found = {each.code: each.evidence for each in doctor(loader).findings}
    share = 1 - sum(float(batch.sum()) for batch in batches) / sum(b.numel() for b in batches)
    assert f"{share:.0%}".replace("%", " %") in found["LV604"][0]
    assert "in batches of similar lengths" in found["LV604"][1]
    shapes = {tuple(batch.shape) for batch in batches if len(batch) == 12}
    assert f"16 batches of 12 samples have {len(shapes)} shapes" in found["LV603"][0]


def test_workers_and_a_fixed_length_change_no_padding():
    loader = DataLoader(Lengths(), batch_size=10, num_workers=1, collate_fn=to_a_hundred)
    assert {"LV603", "LV604"} & {*doctor(loader).codes} == {"LV604"}


class Odd(UserDict):
    """A batch that cannot be read."""

    def __iter__(self):
        raise RuntimeError("not to be read")


def test_of_a_batch_that_cannot_be_read_no_more_is_known():
    batch, note = Probe(lambda samples: Odd(x=1), None, batched=True, labels=False, weigh=False)(
        SAMPLES
    )
    assert type(batch) is Odd
    assert (note.fault, note.signature, note.padding) == ("", "", None)
