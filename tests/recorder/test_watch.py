"""``watch``: a loop over what is no DataLoader gets what it would get, and is recorded."""

import gc
import itertools
import traceback
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import loaderviz as lv
from foreign_loaders import Piped
from own_code import in_recorder


def batches(n: int = 5) -> Iterator[torch.Tensor]:
    for number in range(n):
        yield torch.full((4, 2), number)


class Sequence:
    """What a loop takes without an ``__iter__``."""

    def __getitem__(self, index: int) -> list[int]:
        return [[1, 2], [3, 4]][index]


ITERABLES = {
    "a generator": batches,
    "a list": lambda: [*batches()],
    "what zip makes": lambda: zip(batches(), batches(), strict=True),
    "an iterator of a list": lambda: iter([*batches()]),
    "a sequence": Sequence,
    "nothing": list,
}


@pytest.mark.parametrize("name", ITERABLES)
def test_the_loop_gets_what_it_would_get_and_each_batch_is_there(name, tmp_path):
    plain = ITERABLES[name]()
    with lv.watch(ITERABLES[name](), path=tmp_path / "run") as watched, lv.watch([1]) as other:
        received = [list(watched) for _ in range(2)]
        list(other)
    assert repr(received) == repr([list(plain) for _ in range(2)])
    summary = watched.trace.summary()
    assert summary.n_batches == sum(map(len, received))
    assert watched.trace.meta["problems"] == []
    assert len(lv.load(tmp_path / "run").batches) == summary.n_batches
    assert len(other.trace.batches) == 1


def test_an_error_is_the_generators_own():
    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("the second is broken")

    with lv.watch(failing()) as watched, pytest.raises(ValueError, match="broken") as raised:
        list(watched)
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert [frame.name for frame in frames][1:] == ["failing"]
    assert watched.trace.batches["state"].tolist() == ["delivered", "failed"]


def test_a_loop_that_hardly_waits_has_no_culprit():
    with lv.watch(iter(range(20))) as watched:
        list(watched)
    trace, nth = watched.trace, np.arange(20.0)
    times = {"requested_s": nth, "delivered_s": nth + 0.001, "released_s": nth + 1}
    slow_steps = replace(trace, batches=trace.batches.assign(ready_s=np.nan, **times))
    verdict = "After the first batch the model never waits: the loader keeps up"
    assert slow_steps.summary().verdict == verdict


def test_the_objects_are_the_same_and_none_is_kept():
    given = [*batches()]
    with lv.watch(given) as watched:
        assert all(one is other for one, other in zip(watched, given, strict=True))
        pointers = [weakref.ref(batch) for batch in given]
        given.clear()
        assert [pointer() for pointer in pointers] == [None] * 5


def test_waits_steps_and_samples_are_recorded_and_the_cause_is_unknown():
    with lv.watch(batches(), label="mine") as watched:
        for _ in watched:
            pass
    trace = watched.trace
    assert trace.batches["n_samples"].tolist() == [4] * 5
    assert trace.batches["released_s"].notna().all()
    assert set(trace.summary().causes["cause"]) == {"unknown"}
    assert (trace.meta["loaders"][0]["dataset"], trace.meta["label"]) == ("batches", "mine")


def test_a_second_loop_over_a_generator_goes_on_where_the_first_was_left():
    with lv.watch(batches()) as watched:
        first = [int(batch[0, 0]) for batch in itertools.islice(watched, 2)]
        for batch in watched:
            first.append(int(batch[0, 0]))
            break
        assert first == [0, 1, 2]
        assert int(next(watched)[0, 0]) == 3
    assert len(watched.trace.batches) == 4
    assert [int(batch[0, 0]) for batch in watched] == [4]  # after the block, too, and unrecorded
    assert len(watched.trace.batches) == 4


def test_a_generator_hears_what_it_is_sent_and_is_closed():
    heard = []

    def hearing() -> Iterator[int]:
        try:
            heard.append((yield 0))
            yield 1
        finally:
            heard.append("closed")

    with lv.watch(hearing()) as watched:
        assert (next(watched), watched.send("hello")) == (0, 1)
        watched.close()
        assert heard == ["hello", "closed"]
        assert list(watched) == []


def test_it_ends_with_the_last_who_has_it():
    generator = batches()
    alive = weakref.ref(generator)
    gc.disable()
    try:
        with lv.watch(generator) as watched:
            del generator
            next(watched)
        trace = watched.trace
        del watched
        assert alive() is None
    finally:
        gc.enable()
    assert len(trace.batches) == 1


def test_it_answers_as_the_iterable():
    class Loader:
        epoch = 0

        def __iter__(self) -> Iterator[int]:
            return iter([self.epoch])

        def __len__(self) -> int:
            return 1

    loader = Loader()
    with lv.watch(loader) as watched:
        assert len(watched) == 1
        watched.epoch = 7
        assert list(watched) == [7]
        with pytest.raises(AttributeError, match="'Loader' object has no attribute 'epohc'"):
            watched.epohc  # noqa: B018
    assert not lv.watch([])
    with pytest.raises(TypeError, match=r"'generator' has no len"):
        len(lv.watch(batches()))


@pytest.mark.parametrize("make", [DataLoader, Piped])
def test_a_dataloader_behind_it_is_recorded_with_its_samples(make):
    with lv.watch(make(range(20), batch_size=4, num_workers=1)) as watched:
        assert len(list(watched)) == 5
    assert len(watched.trace.samples) == 20
    assert [each["kind"] for each in watched.trace.meta["loaders"]] == ["map"]


def test_a_recording_that_fails_leaves_the_loop_alone(monkeypatch):
    fail = in_recorder(lambda _: 1 / 0)
    monkeypatch.setattr("loaderviz.recorder.foreign_log.n_samples_of", fail)
    with pytest.warns(UserWarning, match="ZeroDivisionError"), lv.watch(batches()) as watched:
        assert len(list(watched)) == 5


@pytest.mark.parametrize("given", [7, batches, None])
def test_what_no_loop_takes_is_refused_with_the_way_out(given: Any):
    with pytest.raises(lv.LoaderVizError, match=r"watch\(my_batches\(\)\)"):
        lv.watch(given)
