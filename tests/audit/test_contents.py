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


class Unreadable(Rows):
    """Every eighth row cannot be read, and something else is returned."""

    def __getitem__(self, index):
        try:
            if index % 8 == 5:
                raise OSError("truncated")
            return self.rows[index]
        except OSError:
            return self.instead(index)


class Replacing(Unreadable):
    def instead(self, index):
        return self[random.randrange(N)]


class Filled(Unreadable):
    """Zeros, with the row's own label."""

    def __getitem__(self, index):
        return {"row": super().__getitem__(index).repeat(4), "label": index}

    def instead(self, index):
        return torch.zeros(4)


class FallingBack(Filled):
    """As where a word is not known: what comes then differs."""

    def instead(self, index):
        return self.rows[index] + 1


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


class Negatives(Rows):
    """Small numbers that differ with the seed of the process, and come from no known generator."""

    def __getitem__(self, index):
        return random.Random(1000 * torch.initial_seed() + index).randrange(4)


class Cached(Rows):
    def __init__(self):
        super().__init__()
        self.cache = {}

    def __getitem__(self, index):
        try:
            return self.cache[index]
        except KeyError:
            return self.cache.setdefault(index, self.rows[index] * 2)


class CachedByName(Cached):
    """Two keys are one for the cache."""

    def __getitem__(self, index):
        return self.cache.setdefault(index % 20, self.rows[index])


class Zeros(OneBuffer):
    def __getitem__(self, index):
        return self.buffer


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


def packed(samples):
    return torch.cat(samples).reshape(-1, 16)  # four samples a row


def audited(dataset, num_workers=2, **options):
    epochs = options.pop("epochs", 1)
    loader = DataLoader(dataset, 8, num_workers=num_workers, **options)
    return audit(loader, epochs, budget_s=60)  # on a busy machine the usual time may not do


def states(found):
    return found.contents["state"].value_counts().to_dict()


BUT = "Every key came exactly once, but "
RIGHT = "Every sample came exactly once."
NOT_COMPARED = "Every key came exactly once; contents were not compared: "
BY_CHANCE = "each read differs, as random augmentation makes it."
AS_A_LIST = {"collate_fn": list}


@pytest.mark.parametrize(
    ("dataset", "num_workers", "options", "expected", "verdict", "note"),
    [
        (OneBuffer, 0, {}, {"buffer": 35, "same": 5}, f"{BUT}35 of 40", "sample.clone()"),
        (RingOfBuffers, 0, {}, {"buffer": 25, "same": 15}, f"{BUT}25 of 40", "sample.clone()"),
        (Replacing, 0, {}, {"replaced": 5, "same": 35}, BUT, "met OSError (truncated, say)"),
        (
            Filled,
            0,
            {},
            {"replaced": 5, "same": 35},
            f"{BUT}5 of 40 samples came in place of what could not be read",
            "met OSError (truncated, say)",
        ),
        (
            SomeNone,
            2,
            {"collate_fn": without_none},
            {"dropped": 5, "same": 35},
            BUT,
            "without_none",
        ),
        (
            CachedByName,
            0,
            {},
            {"same": N},
            f"{BUT}what key 23 holds depends on what was read before it",
            "Reading changes what is read later",
        ),
        (Cached, 1, {}, {"same": N}, RIGHT, "contents compared"),
        (Zeros, 0, {}, {"same": N}, RIGHT, ""),
        (Twins, 0, {}, {"same": N}, RIGHT, ""),
        (FallingBack, 0, {}, {"same": N}, RIGHT, ""),
        (
            Rows,
            0,
            {"collate_fn": packed},
            {"same": N},
            "Every key came exactly once; 40 of 40 samples are the dataset's own, before "
            "collate_fn made fewer rows of them.",
            "makes 30 rows fewer than there are samples",
        ),
        (Random, 1, AS_A_LIST, {"random": N}, NOT_COMPARED + BY_CHANCE, ""),
        (FromTheSystem, 0, AS_A_LIST, {"random": N}, NOT_COMPARED + BY_CHANCE, ""),
        (Negatives, 2, {}, {"random": N}, NOT_COMPARED + BY_CHANCE, ""),
        (Opaque, 0, AS_A_LIST, {"not compared": N}, f"{NOT_COMPARED}they have no content", ""),
        (
            OnlyInWorkers,
            2,
            AS_A_LIST,
            {"not compared": N},
            f"{NOT_COMPARED}read alone, the dataset raises AttributeError",
            "",
        ),
    ],
)
def test_each_sample_is_told_to_be_what_it_is(
    dataset, num_workers, options, expected, verdict, note
):
    torch.manual_seed(0)  # of what comes by chance, some is the same each time
    found = audited(dataset(), num_workers, **options)
    assert states(found) == expected
    assert f"{found.verdict}.".startswith(verdict)
    assert note in " ".join(str(found).split())
    assert found.exactly_once is True  # of keys
    assert found.is_changed == verdict.startswith(BUT)
    assert found.n_left_out == expected.get("dropped", 0)
    assert list(found.contents.columns) == ["epoch", "key", "worker", "batch", "position", "state"]


def test_a_buffer_may_be_overwritten_on_its_way_to_the_loop():
    """Its batch is pickled by a thread of the worker, which reads the next one meanwhile."""
    found = audited(NumpyBuffer(), collate_fn=list)
    assert states(found)["buffer"] >= 35
    assert "sample.clone()" in " ".join(found.notes)


def test_workers_that_share_an_open_file_get_what_others_seek(tmp_path):
    found = audited(SharedFile(tmp_path / "rows"), num_workers=3)
    assert {"replaced", "changed"} & set(states(found))
    assert "opened before the fork" in " ".join(found.notes)
    assert states(audited(SharedFile(tmp_path / "rows"), 0)) == {"same": N}


def test_a_worker_that_changes_its_copy_of_the_dataset_is_named():
    found = audited(Rows(), worker_init_fn=shuffle_own_copy)
    assert states(found).get("replaced", 0) > N / 2
    assert "worker_init_fn=shuffle_own_copy" in " ".join(found.notes)


def test_data_that_reading_changes_is_told_and_seen_in_the_next_epoch():
    found = audited(InPlace(), epochs=2, persistent_workers=True)
    assert any("Reading changes what is read later" in note for note in found.notes)
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

    found = audited(Longer(), 0)
    assert any(f"Key 40 and those after it {holds}" in note for note in found.notes)
    assert found.verdict == (
        "Every key came exactly once; 50 of 50 samples are the dataset's own, and from key 40 on "
        "they repeat"
    )
    (told,) = (each for each in doctor(DataLoader(Longer(), 8)).findings if each.code == "LV123")
    assert f"from key 40 on the keys {holds}" in told.evidence[0]


class Stream(IterableDataset):
    """Of N samples, each from ``give``, which gets a buffer, its number, and the one before."""

    def __init__(self, give):
        self.give, self.buffer = give, torch.zeros(4)

    def __iter__(self):
        before = None
        for index in shard(range(N)):
            before = self.give(self.buffer, index, before)
            yield before


def filled(buffer, index, before):
    return buffer.fill_(index)


def copied(buffer, index, before):
    return buffer.fill_(index).clone()


def zeros(buffer, index, before):
    return buffer


def beside_its_number(buffer, index, before):
    return index, buffer.fill_(index)


def the_last_one_again_after_an_error(buffer, index, before):
    try:
        return torch.tensor([1 / (index - 7)])
    except ZeroDivisionError:
        return before


def a_filler_after_an_error(buffer, index, before):
    try:
        return torch.tensor([index + 0 / (index % 8 - 7)])
    except ZeroDivisionError:
        return torch.tensor([-1])


@pytest.mark.parametrize(
    ("give", "num_workers", "n_overwritten"),
    [(filled, 0, 35), (beside_its_number, 2, 34)],  # of batches of 8, and the last of 8 or 4
)
def test_a_stream_that_yields_one_buffer_is_not_said_to_lose_samples(
    give, num_workers, n_overwritten
):
    found = audited(Stream(give), num_workers)
    assert found.verdict.startswith(f"{n_overwritten} of 40 samples were overwritten")
    assert found.exactly_once is False
    assert "sample.clone()" in found.notes[0]
    assert "shard" not in str(found)


@pytest.mark.parametrize(
    ("give", "by_what"),
    [
        (the_last_one_again_after_an_error, "a sample that comes elsewhere, too"),
        (a_filler_after_an_error, "the same filler each time"),
    ],
)
def test_a_stream_that_replaces_samples_after_an_error_is_not_said_to_be_whole(give, by_what):
    found = audited(Stream(give), 0)
    assert found.is_changed
    assert found.verdict.startswith("Every sample that one process reads came exactly once")
    assert "but the stream replaces some: test_contents.py:" in found.verdict
    assert "meets ZeroDivisionError" in found.verdict
    assert f"{by_what} was yielded then" in found.notes[0]


@pytest.mark.parametrize("give", [copied, zeros])
def test_a_stream_that_yields_copies_or_a_constant_is_right(give):
    assert audited(Stream(give)).verdict == "Every sample came exactly once"
    assert audit(DataLoader(Stream(filled), batch_size=None)).exactly_once


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


@pytest.fixture
def no_fork(monkeypatch):
    monkeypatch.setattr("loaderviz._contents.pristine_copy.may_fork", lambda num_workers: False)


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (Replacing, {"replaced": 5, "same": 35}),
        (Cached, {"same": N}),
    ],
)
def test_where_no_process_can_be_forked_a_pickle_is_read(dataset, expected, no_fork):
    assert states(audited(dataset())) == expected


def test_what_can_be_copied_in_no_way_is_not_compared(no_fork):
    class Unpicklable(Rows):
        """By its class, which is local."""

    assert "cannot be copied, by a fork or by pickle" in audited(Unpicklable(), 0).verdict


@pytest.mark.parametrize("forks", [True, False])
def test_generators_stand_where_they_stood(forks, request):
    if not forks:
        request.getfixturevalue("no_fork")
    dataset = OwnGenerator()
    before = dataset.rng.bit_generator.state, torch.get_rng_state(), random.getstate()
    assert states(audited(dataset, 0, collate_fn=list)) == {"random": N}
    assert dataset.rng.bit_generator.state == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
    assert random.getstate() == before[2]
