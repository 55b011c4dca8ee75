"""``audit`` of contents: what ruins samples and keeps their keys right, and what only looks so."""

import os
import random
import time

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate, get_worker_info

from loaderviz import audit, doctor, shard

N = 40


class Rows(Dataset):
    """Each of these is a dataset of N rows, right or wrong in a way of its own."""

    def __init__(self):
        self.rows = torch.arange(4.0 * N).reshape(N, 4)

    def __len__(self):
        return N

    def __getitem__(self, index):
        return self.rows[index]


class RingOfBuffers(Rows):
    """Three buffers in turn: the next sample changes none."""

    def __init__(self):
        super().__init__()
        self.buffers = [torch.zeros(4) for _ in range(3)]
        self.n = 0

    def __getitem__(self, index):
        self.n += 1
        return self.buffers[self.n % 3].copy_(self.rows[index])


class OneBuffer(Rows):
    def __init__(self):
        super().__init__()
        self.buffer = torch.zeros(4)

    def __getitem__(self, index):
        return self.buffer.copy_(self.rows[index])


class NumpyBuffer(OneBuffer):
    def __getitem__(self, index):
        return {"row": super().__getitem__(index).numpy(), "label": index}


class Replacing(Rows):
    def __getitem__(self, index):
        try:
            if index % 8 == 5:
                raise OSError("truncated")
            return self.rows[index]
        except OSError:
            return self[random.randrange(N)]


class NextInstead(Replacing):
    def __getitem__(self, index):
        try:
            if index % 8 == 5:
                raise OSError("truncated")
            return self.rows[index]
        except OSError:
            return self.rows[index + 1]


class SomeNone(Rows):
    def __getitem__(self, index):
        return None if index % 8 == 5 else self.rows[index]


class SharedFile(Rows):
    def __init__(self, path):
        path.write_bytes(b"".join(index.to_bytes(8, "little") for index in range(N)))
        self.file = path.open("rb", buffering=0)

    def __getitem__(self, index):
        self.file.seek(8 * index)
        time.sleep(0.001)
        return int.from_bytes(self.file.read(8), "little")

    def __del__(self):
        self.file.close()


class InPlace(Rows):
    def __getitem__(self, index):
        return self.rows[index].mul_(0.5).add_(1)


class Random(Rows):
    def __getitem__(self, index):
        return self.rows[index] + torch.rand(4)


class OwnGenerator(Rows):
    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index):
        return self.rows[index].numpy() + self.rng.random(4)


class FromTheSystem(Rows):
    def __getitem__(self, index):
        return os.urandom(8)


class Cached(Rows):
    def __init__(self):
        super().__init__()
        self.cache = {}

    def __getitem__(self, index):
        try:
            return self.cache[index]
        except KeyError:
            return self.cache.setdefault(index, self.rows[index] * 2)


class Zeros(Rows):
    def __init__(self):
        super().__init__()
        self.zero = torch.zeros(4)

    def __getitem__(self, index):
        return self.zero


class Twins(Rows):
    def __getitem__(self, index):
        return self.rows[index // 2]


class Opaque(Rows):
    def __getitem__(self, index):
        return object()


class OnlyInWorkers(Rows):
    def __getitem__(self, index):
        return self.rows[index] * get_worker_info().num_workers


def without_none(samples):
    return default_collate([sample for sample in samples if sample is not None])


def shuffle_own_copy(worker):
    rows = get_worker_info().dataset
    rows.rows = rows.rows[torch.randperm(N, generator=torch.Generator().manual_seed(worker))]


def as_a_list(samples):
    return list(samples)


def audited(dataset, num_workers=2, **options):
    epochs = options.pop("epochs", 1)
    return audit(DataLoader(dataset, 8, num_workers=num_workers, **options), epochs)


def states(found):
    return found.contents["state"].value_counts().to_dict()


@pytest.mark.parametrize(
    ("dataset", "num_workers", "options", "expected", "cure"),
    [
        (OneBuffer, 0, {}, {"buffer": 35, "same": 5}, "sample.clone()"),
        (OneBuffer, 2, {}, {"buffer": 35, "same": 5}, "sample.clone()"),
        (RingOfBuffers, 2, {}, {"buffer": 25, "same": 15}, "sample.clone()"),
        (Replacing, 0, {}, {"replaced": 5, "same": 35}, "met OSError (truncated, say)"),
        (NextInstead, 2, {}, {"replaced": 5, "same": 35}, "met OSError (truncated, say)"),
        (SomeNone, 2, {"collate_fn": without_none}, {"dropped": 5, "same": 35}, "without_none"),
    ],
)
def test_what_ruins_samples_is_told_beside_their_keys(
    dataset, num_workers, options, expected, cure
):
    found = audited(dataset(), num_workers, **options)
    assert states(found) == expected
    assert found.exactly_once is True  # of keys
    assert found.is_changed
    assert found.verdict.startswith("Every key came exactly once, but ")
    assert cure in " ".join(found.notes)
    assert len(found.contents) == N
    assert list(found.contents.columns) == ["epoch", "key", "worker", "batch", "position", "state"]


@pytest.mark.parametrize(
    ("dataset", "num_workers"), [(Rows, 0), (Rows, 2), (Cached, 2), (Zeros, 0), (Twins, 0)]
)
def test_what_only_looks_so_is_right(dataset, num_workers):
    found = audited(dataset(), num_workers)
    assert states(found) == {"same": N}
    assert found.verdict == "Every sample came exactly once"
    assert "contents compared" in found.numbers


@pytest.mark.parametrize("dataset", [Random, OwnGenerator, FromTheSystem])
def test_what_differs_with_each_read_is_not_compared_and_not_accused(dataset):
    found = audited(dataset(), collate_fn=as_a_list)
    assert states(found) == {"random": N}
    assert found.verdict == (
        "Every key came exactly once; contents were not compared: each read differs, as random "
        "augmentation makes it"
    )
    assert not found.is_changed


def test_a_buffer_may_be_overwritten_on_its_way_to_the_loop():
    """Its batch is pickled by a thread of the worker, which reads the next one meanwhile."""
    found = audited(NumpyBuffer(), collate_fn=as_a_list)
    assert states(found)["buffer"] >= 35
    assert "sample.clone()" in " ".join(found.notes)


def test_workers_that_share_an_open_file_get_what_others_seek(tmp_path):
    found = audited(SharedFile(tmp_path / "rows"), num_workers=4)
    assert {"replaced", "changed"} & set(states(found))
    assert "opened before the fork" in " ".join(found.notes)
    assert states(audited(SharedFile(tmp_path / "rows"), 0)) == {"same": N}


def test_a_worker_that_changes_its_copy_of_the_dataset_is_named():
    found = audited(Rows(), worker_init_fn=shuffle_own_copy)
    assert states(found).get("replaced", 0) > N / 2
    assert "worker_init_fn=shuffle_own_copy" in " ".join(found.notes)


def test_data_that_reading_changes_is_told_and_seen_in_the_next_epoch():
    assert any("Reading changes what is read later" in note for note in audited(InPlace()).notes)
    found = audited(InPlace(), epochs=2, persistent_workers=True)
    assert set(found.contents.query("epoch == 0")["state"]) == {"same"}
    assert set(found.contents.query("epoch == 1")["state"]) == {"changed"}


def test_a_batch_that_changes_on_its_way_to_the_loop():
    """``collate_fn`` fills the same shared memory again, before the loop has seen it."""

    class Reused:
        def __init__(self):
            self.out = torch.zeros(8, 4).share_memory_()

        def __call__(self, samples):
            return torch.stack(samples, out=self.out)

    found = audited(Rows(), num_workers=1, collate_fn=Reused(), prefetch_factor=4)
    assert states(found).get("changed", 0) >= 8


@pytest.mark.parametrize(
    ("dataset", "why"),
    [
        (Opaque, "no content that can be told"),
        (OnlyInWorkers, "read alone, the dataset raises AttributeError"),
    ],
)
def test_what_cannot_be_compared_is_said(dataset, why):
    found = audited(dataset(), collate_fn=as_a_list)
    assert states(found) == {"not compared": N}
    assert why in found.verdict


def test_the_budget_bounds_what_is_read():
    class Slow(Rows):
        def __getitem__(self, index):
            time.sleep(0.02)
            return index

    found = audit(DataLoader(Slow(), 8, num_workers=2), budget_s=0.1)
    assert 0 < states(found)["same"] < N
    assert "budget_s=" in " ".join(found.notes)
    found = audit(DataLoader(Rows(), 8), budget_s=0)
    assert "budget_s=0 leaves no time" in found.verdict


@pytest.mark.parametrize(
    ("place", "holds"),
    [
        (lambda index: index % N, "hold what the keys from 0 on hold"),
        (lambda index: min(index, N - 1), f"hold what key {N - 1} holds"),
    ],
)
def test_a_dataset_longer_than_its_data(place, holds):
    class Longer(Rows):
        def __len__(self):
            return N + 10

        def __getitem__(self, index):
            return self.rows[place(index)]

    found = audited(Longer())
    assert any(f"Key 40 and those after it {holds}" in note for note in found.notes)
    assert "from key 40 on they repeat" in found.verdict
    (told,) = (each for each in doctor(DataLoader(Longer(), 8)).findings if each.code == "LV123")
    assert f"from key 40 on the keys {holds}" in told.evidence[0]


class Stream(IterableDataset):
    """Of N samples, each of which it takes from ``give``."""

    def __init__(self, give):
        self.give, self.buffer = give, torch.zeros(4)

    def __iter__(self):
        for index in shard(range(N)):
            yield self.give(self.buffer, index)


def filled(buffer, index):
    return buffer.fill_(index)


def copied(buffer, index):
    return buffer.fill_(index).clone()


def zeros(buffer, index):
    return buffer


def beside_its_number(buffer, index):
    return index, buffer.fill_(index)


def packed(samples):
    return torch.cat(samples).reshape(-1, 16)  # four samples a row


def test_samples_that_are_put_together_are_not_said_to_be_left_out():
    found = audited(Rows(), 0, collate_fn=packed)
    assert states(found) == {"same": N}
    assert (found.n_left_out, found.is_changed) == (0, False)
    assert found.verdict == (
        "Every key came exactly once; 40 of 40 samples are the dataset's own, before collate_fn "
        "made fewer rows of them"
    )
    assert "makes 30 rows fewer than there are samples" in " ".join(found.notes)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("give", [filled, beside_its_number])
def test_a_stream_that_yields_one_buffer_is_not_said_to_lose_samples(give, num_workers):
    found = audited(Stream(give), num_workers)
    n_overwritten = {0: 35, 2: 34}[num_workers]  # of batches of 8, and the last of 8 or 4
    assert found.verdict.startswith(f"{n_overwritten} of 40 samples were overwritten")
    assert found.exactly_once is False
    assert "sample.clone()" in found.notes[0]
    assert "shard" not in str(found)


def repeating_after_an_error(stream, index, before):
    try:
        return torch.tensor([1 / (index - 7)])
    except ZeroDivisionError:
        return before


class Remembering(IterableDataset):
    def __iter__(self):
        sample = None
        for index in shard(range(N)):
            sample = repeating_after_an_error(self, index, sample)
            yield sample


def test_a_stream_that_repeats_a_sample_after_an_error_is_not_said_to_be_whole():
    found = audited(Remembering(), 0)
    assert found.is_changed
    assert "but the stream replaces some: test_contents.py:" in found.verdict
    assert "meets ZeroDivisionError" in found.verdict
    assert found.verdict.startswith("Every sample that one process reads came exactly once")


def filled_after_an_error(stream, index, before):
    try:
        return torch.tensor([index + 0 / (index % 8 - 7)])
    except ZeroDivisionError:
        return torch.tensor([-1])


class Filling(IterableDataset):
    def __iter__(self):
        for index in shard(range(N)):
            yield filled_after_an_error(self, index, None)


def test_a_filler_in_a_stream_is_not_said_to_come_elsewhere():
    found = audited(Filling(), 0)
    assert "the same filler each time was yielded then" in " ".join(found.notes)
    assert "elsewhere" not in str(found)


def test_keys_past_the_data_are_not_said_to_be_samples_of_their_own():
    class TooLong(Dataset):
        def __len__(self):
            return N

        def __getitem__(self, index):
            return torch.tensor([index % 30])

    assert audited(TooLong()).verdict == (
        "Every key came exactly once; 40 of 40 samples are the dataset's own, and from key 30 on "
        "they repeat"
    )


@pytest.mark.parametrize("seed", range(3))
def test_small_numbers_that_are_drawn_and_the_same_by_chance_are_held_against_no_loader(seed):
    class Negatives(Rows):
        """Which differ with the seed of the process, and draw from no generator that is known."""

        def __getitem__(self, index):
            return random.Random(1000 * torch.initial_seed() + index).randrange(4)

    torch.manual_seed(seed)
    found = audited(Negatives(), num_workers=2)
    assert not found.is_changed
    assert states(found) == {"random": N}


@pytest.mark.parametrize("give", [copied, zeros])
def test_a_stream_that_yields_copies_or_a_constant_is_right(give):
    assert audited(Stream(give)).verdict == "Every sample came exactly once"
    assert audit(DataLoader(Stream(filled), batch_size=None)).exactly_once


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (OneBuffer, {"buffer": 35, "same": 5}),
        (Replacing, {"replaced": 5, "same": 35}),
        (Cached, {"same": N}),
        (Random, {"random": N}),
    ],
)
def test_where_no_process_can_be_forked_a_pickle_is_read(dataset, expected, monkeypatch):
    monkeypatch.setattr("loaderviz._contents.pristine_copy.may_fork", lambda num_workers: False)
    assert states(audited(dataset())) == expected


def test_what_can_be_copied_in_no_way_is_not_compared(monkeypatch):
    monkeypatch.setattr("loaderviz._contents.pristine_copy.may_fork", lambda num_workers: False)

    class Unpicklable(Rows):
        """By its class, which is local."""

    assert "cannot be copied, by a fork or by pickle" in audited(Unpicklable()).verdict


@pytest.mark.parametrize("forks", [True, False])
def test_generators_stand_where_they_stood(forks, monkeypatch):
    if not forks:
        monkeypatch.setattr("loaderviz._contents.pristine_copy.may_fork", lambda num_workers: False)
    dataset = OwnGenerator()
    before = dataset.rng.bit_generator.state, torch.get_rng_state(), random.getstate()
    audited(dataset, 0, collate_fn=as_a_list)
    assert dataset.rng.bit_generator.state == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
    assert random.getstate() == before[2]


class Filled(Rows):
    """Some rows cannot be read: zeros come then, with the row's own label."""

    def __getitem__(self, index):
        try:
            if index % 8 == 3:
                raise OSError("truncated")
            return {"row": self.rows[index].repeat(4), "label": index}
        except OSError:
            return {"row": torch.zeros(16), "label": index}


class FallingBack(Filled):
    """As where a word is not known: what comes then differs."""

    def __getitem__(self, index):
        sample = super().__getitem__(index)
        return sample if sample["row"].any() else {**sample, "row": self.rows[index].repeat(4) + 1}


class CachedByName(Rows):
    """Two keys are one for the cache."""

    def __init__(self):
        super().__init__()
        self.cache = {}

    def __getitem__(self, index):
        return self.cache.setdefault(index % 20, self.rows[index])


def test_fillers_for_what_cannot_be_read_are_told_and_other_values_are_not():
    found = audited(Filled(), 0)
    assert states(found) == {"same": 35, "replaced": 5}
    assert "5 of 40 samples came in place of what could not be read" in found.verdict
    assert "met OSError (truncated, say)" in found.notes[0]
    assert not audited(FallingBack(), 0).is_changed


def test_a_cache_that_takes_two_keys_for_one_is_told():
    found = audited(CachedByName(), 0)
    assert "depends on what was read before it" in found.verdict
    assert found.is_changed


class Packed(IterableDataset):
    """Cuts a worker's share into rows of equal length: other rows with each number of workers."""

    def __iter__(self):
        held = [value for index in shard(range(N)) for value in (index,) * (1 + index % 5)]
        for start in range(0, len(held), 8):
            yield torch.tensor((held[start : start + 8] + [0] * 8)[:8])


def test_a_stream_that_packs_is_not_accused_of_losing_all():
    found = audited(Packed())
    assert (found.exactly_once, found.is_changed) == (None, False)
    assert "which ones is not known" in found.verdict
    assert "samples are packed" in found.notes[0]
