"""Random generators are where they were after a run: the global ones, and those that are held."""

import itertools
import random
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler

from fake_cuda import FakeCuda
from loaderviz.loaders.random_state import (
    global_states,
    held_generators,
    keep_random_state,
    numpy_generators,
    stream_being_read,
)


@dataclass
class Noise:
    """A transform that keeps a generator of each kind."""

    python: random.Random = field(default_factory=lambda: random.Random(1))
    numpy: np.random.Generator = field(default_factory=lambda: np.random.default_rng(2))
    legacy: np.random.RandomState = field(default_factory=lambda: np.random.RandomState(3))
    own: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(4))

    def __call__(self) -> list[float]:
        drawn = torch.rand((), generator=self.own).item()
        return [self.python.random(), self.numpy.random(), self.legacy.normal(), drawn]


class Noisy(Dataset):
    """Draws from all that it holds, and from the global generators."""

    def __init__(self) -> None:
        self.transforms = [Noise()]
        self.chance = random.SystemRandom()

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> list[Any]:
        return [index, self.chance.random() < 2, *self.transforms[0](), *everywhere()]


def everywhere() -> list[float]:
    return [random.random(), np.random.normal(), torch.rand(()).item()]


def noisy_loader() -> DataLoader:
    dataset, own = Noisy(), torch.Generator().manual_seed(5)
    sampler = RandomSampler(dataset, generator=torch.Generator().manual_seed(6))
    return DataLoader(dataset, sampler=sampler, generator=own, collate_fn=list)


def test_every_generator_is_given_back():
    loader = noisy_loader()
    with keep_random_state(loader):
        first = list(loader), everywhere()
    with keep_random_state(loader):
        assert (list(loader), everywhere()) == first
    assert (list(loader), everywhere()) == first
    assert (list(loader), everywhere()) != first


def test_they_are_given_back_after_a_failure():
    loader = noisy_loader()
    with keep_random_state(loader):
        first = list(loader)
    with suppress(ZeroDivisionError), keep_random_state(loader):
        list(loader)
        raise ZeroDivisionError
    assert list(loader) == first


def test_those_of_a_dataset_are_found_where_they_are_held():
    paths = [path for path, _ in held_generators(dataset=Noisy())]
    names = ("python", "numpy", "legacy", "own")
    assert paths == [f"dataset.transforms[0].{name}" for name in names]


RNG = np.random.default_rng(5)


def draw() -> float:
    return float(RNG.random())


def test_so_are_those_that_its_code_knows():
    in_closure = random.Random(6)

    class Knowing(Dataset):
        of_class = torch.Generator()
        system = random.SystemRandom()

        def __init__(self):
            self.transform = lambda x: x + in_closure.random()

        def __getitem__(self, index):
            return self.transform(index) + self.blurred()

        @staticmethod
        def blurred():
            return draw() + random.random()

    paths = dict(held_generators(dataset=Knowing()))
    assert {id(value) for value in paths.values()} == {
        id(Knowing.of_class),
        id(RNG),
        id(in_closure),
    }
    assert "dataset.of_class" in paths
    assert f"{__name__}.RNG" in paths
    assert any(path.startswith("in_closure of ") for path in paths)


def test_those_are_given_back_too():
    class Drawing(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return draw()

    loader = DataLoader(Drawing())
    with keep_random_state(loader):
        first = [batch.item() for batch in loader]
    assert [batch.item() for batch in loader] == first


def test_another_global_bit_generator_of_numpy_is_given_back_too():
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(7))
    try:
        with keep_random_state(DataLoader(range(3))):
            first = np.random.random()
        assert np.random.random() == first
    finally:
        np.random.set_bit_generator(before)
    assert [state.path for state in global_states()] == ["torch", "numpy.random", "random"]


class TestOnADevice:
    @pytest.fixture
    def states(self, monkeypatch):
        """The devices' generators, as torch shows them."""
        at = [torch.tensor([1]), torch.tensor([2])]
        monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: list(at))
        monkeypatch.setattr(
            torch.cuda, "set_rng_state_all", lambda states: at.__setitem__(slice(None), states)
        )
        return at

    def test_those_of_all_devices_are_given_back(self, states, monkeypatch):
        FakeCuda().stand_in(monkeypatch)
        with keep_random_state(DataLoader(range(3))):
            states[:] = [torch.tensor([3]), torch.tensor([4])]
        assert states == [torch.tensor([1]), torch.tensor([2])]

    def test_one_that_fails_keeps_no_other_from_being_given_back(self, states, monkeypatch):
        def broken(_states: Any) -> None:
            raise RuntimeError("CUDA error: device-side assert triggered")

        FakeCuda().stand_in(monkeypatch)
        monkeypatch.setattr(torch.cuda, "set_rng_state_all", broken)
        before = random.getstate()
        kept = keep_random_state(DataLoader(range(3)))
        with pytest.raises(RuntimeError, match="device-side assert"), kept:
            random.random()
        assert random.getstate() == before

    def test_cuda_is_not_initialised_to_look(self, states, monkeypatch):
        def started(*_: Any) -> None:
            raise AssertionError("CUDA was initialised")

        for name in ("get_rng_state_all", "set_rng_state_all", "_lazy_init"):
            monkeypatch.setattr(torch.cuda, name, started)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
        with keep_random_state(noisy_loader()):
            list(noisy_loader())


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
