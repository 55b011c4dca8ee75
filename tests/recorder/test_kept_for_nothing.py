"""What a loop keeps without knowing it: an epoch's batches, or the workers of loaders before."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from torch.utils.data import DataLoader

from loaderviz import load, record
from loaderviz.recorder.session import Recording

N_BATCHES = 4


def loader(num_workers: int = 0, **options: Any) -> DataLoader[Any]:
    return DataLoader(range(2 * N_BATCHES), batch_size=2, num_workers=num_workers, **options)


def forever(batches: DataLoader[Any]) -> Iterator[Any]:
    while True:
        yield from batches


def named(batches: DataLoader[Any]) -> Iterator[Any]:
    kept = itertools.cycle(batches)
    while True:
        yield next(kept)


@pytest.mark.parametrize(
    ("repeat", "keeps", "num_workers"),
    [
        (itertools.cycle, True, 1),
        (named, True, 0),
        (lambda batches: enumerate(itertools.cycle(batches)), True, 0),
        (forever, False, 0),
        (lambda batches: itertools.chain.from_iterable(itertools.repeat(batches)), False, 0),
        (lambda batches: itertools.chain(batches, batches, batches), False, 1),
    ],
)
def test_batches_that_cycle_keeps_are_told(repeat, keeps, num_workers, tmp_path):
    data = loader(num_workers)
    with (
        record(data, path=tmp_path / "run") as recording,
        contextlib.closing(iter_of(repeat(data))) as batches,
    ):
        assert len(list(itertools.islice(batches, 3 * N_BATCHES))) == 3 * N_BATCHES
    trace, loaded = recording.trace, load(tmp_path / "run")
    for each in (trace, loaded):
        assert each.meta["loaders"][0].get("cycled", False) == keeps
        assert len(each.batches) >= N_BATCHES
    summary = trace.summary()
    assert ("itertools.cycle has kept" in summary.verdict) == keeps
    assert any("no new order" in note for note in summary.notes) == keeps


def iter_of(batches: Any) -> Any:
    yield from batches


def test_a_loader_that_was_met_on_the_way_is_told_too():
    with Recording([], every_loader=True) as recording:
        list(loader())
        list(itertools.islice(itertools.cycle(loader()), 2 * N_BATCHES))
    assert [about.get("cycled", False) for about in recording.trace.meta["loaders"]] == [
        False,
        True,
    ]


def piled_up(*, keep: bool) -> list[str]:
    kept: list[Any] = []
    with Recording([], every_loader=True) as recording:
        for _ in range(3):
            made_anew = loader(1, persistent_workers=True)
            list(made_anew)
            kept = [*kept, made_anew] if keep else []
            del made_anew
    return [note for note in recording.trace.summary().notes if "pile up" in note]


def test_workers_of_loaders_that_are_kept_pile_up():
    (note,) = piled_up(keep=True)
    assert ": 1, 2, 3. Make the loader once" in note


def test_workers_of_loaders_that_are_let_go_do_not():
    assert piled_up(keep=False) == []


def test_a_line_without_a_cycle_is_looked_at_once(monkeypatch):
    """As that of an evaluation: a look takes longer the more a process holds."""
    looks = []
    monkeypatch.setattr("gc.get_referrers", lambda *held: looks.append(held) or [])
    for _ in range(3):
        loader = DataLoader(range(4))
        with record(loader):
            for _batch in loader:
                pass
    assert len(looks) == 1
