"""How many bytes batches hold, as recordings tell it."""

from collections import OrderedDict, UserDict, deque, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import loaderviz as lv
from loaderviz.recorder.batch_signature import MOST_LEAVES, fixed_bytes, walk
from probes import Bulk, Keys, Pinnable, Stream, as_it_is

Pair = namedtuple("Pair", "image label")


@dataclass
class Scene:
    points: torch.Tensor
    labels: list[Any]


@dataclass(slots=True)
class Slotted:
    points: torch.Tensor


class Shouting(torch.Tensor):
    """Every call of torch's on it is one too many."""

    @classmethod
    def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("touched")


class Touchy:
    """Nobody but its owner may look at it."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"touched {name}")


class TouchyList(list[Any]):
    def __iter__(self) -> Any:
        raise AssertionError("touched")

    def __len__(self) -> int:
        raise AssertionError("touched")

    def __getitem__(self, at: Any) -> Any:
        raise AssertionError("touched")


class TouchyDict(OrderedDict[str, Any]):
    def values(self) -> Any:
        raise AssertionError("touched")

    def __iter__(self) -> Any:
        raise AssertionError("touched")


class TouchyArray(np.ndarray[Any, Any]):
    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"touched {name}")


def n_bytes_of(batch: Any) -> int | None:
    seen = walk(batch)
    n_bytes = fixed_bytes(seen[2]) if seen else None
    return None if n_bytes is None else n_bytes + seen[1]


TENSOR = torch.zeros(3, 5)  # 60 bytes
ARRAY = np.zeros(7)  # 56
UNLIKE = torch.zeros(5).to_sparse()


class TestOfOneBatch:
    @pytest.mark.parametrize(
        ("batch", "n_bytes"),
        [
            (TENSOR, 60),
            (TENSOR[:, :2], 24),
            (torch.nn.Parameter(TENSOR), 60),
            (torch.zeros(2, 3, dtype=torch.float16), 12),
            (torch.zeros(0, 3), 0),
            (ARRAY, 56),
            (np.float32(1), 4),
            ([TENSOR, ARRAY], 116),
            ((TENSOR, [ARRAY, (TENSOR,)]), 176),
            ({"image": TENSOR, "more": {"mask": ARRAY}}, 116),
            (OrderedDict(image=TENSOR), 60),
            (UserDict({"ids": TENSOR, "mask": TENSOR}), 120),
            (Pair(TENSOR, 3), 60),
            (Scene(TENSOR, [ARRAY, 1.5]), 116),
            ([3, 2.5, True, None, 2j], 0),
            (["a", "bc", b"def"], 6),
            ([], 0),
            (None, 0),
            (torch.nn.utils.rnn.pack_sequence([torch.zeros(3), torch.zeros(2)]), 5 * 4 + 3 * 8),
            ([TENSOR] * MOST_LEAVES, 60 * MOST_LEAVES),
        ],
        ids=str,
    )
    def test_is_that_of_its_tensors_arrays_and_texts(self, batch, n_bytes):
        assert n_bytes_of(batch) == n_bytes

    @pytest.mark.parametrize(
        "batch",
        [
            object(),
            [TENSOR, Pinnable(TENSOR)],
            Slotted(TENSOR),
            deque([TENSOR]),
            {1, 2},
            iter([TENSOR]),
            UNLIKE,
            np.array([TENSOR, None], object),
            [TENSOR] * (MOST_LEAVES + 1),
            [1] * 10**6,
            [[TENSOR] * MOST_LEAVES] * 2,
            Touchy,
        ],
        ids=lambda batch: type(batch).__name__,
    )
    def test_is_unknown_where_something_else_is_in_it_or_too_much(self, batch):
        assert n_bytes_of(batch) is None

    def test_that_holds_itself_is_unknown(self):
        batch: list[Any] = [TENSOR]
        batch.append(batch)
        assert n_bytes_of(batch) is None

    def test_is_found_without_running_any_code_of_the_users(self):
        assert n_bytes_of(TENSOR.as_subclass(Shouting)) == 60
        inner = TouchyDict(points=ARRAY.view(TouchyArray))
        assert n_bytes_of(TouchyList([TENSOR, inner])) == 116
        assert n_bytes_of(TouchyList([1] * (MOST_LEAVES + 1))) is None


def pixels(key: int) -> dict[str, Any]:
    """18 bytes a sample: 2, 8 and 8 bytes once it is collated."""
    return {"image": torch.zeros(2, dtype=torch.int8), "more": [key, (float(key),)]}


def unlike(key: int) -> Any:
    return {key} if key % 4 == 2 else TENSOR


class TestInARecording:
    @pytest.mark.parametrize("num_workers", [0, 2])
    @pytest.mark.parametrize(
        ("dataset", "settings"),
        [
            (Keys(10, make=pixels), {}),
            (Keys(10, make=pixels), {"shuffle": True, "in_order": False}),
            (Bulk(10, make=pixels), {}),
            (Stream(6, 4, make=pixels), {}),
        ],
        ids=["map", "shuffled", "bulk", "stream"],
    )
    def test_each_batch_has_its_own(self, dataset, settings, num_workers):
        if num_workers:
            settings = {**settings, "persistent_workers": True}
        elif "in_order" in settings:
            settings = {"shuffle": True}
        loader = DataLoader(dataset, batch_size=4, num_workers=num_workers, **settings)
        with lv.record(loader) as rec:
            for _ in range(2):
                list(loader)
        batches = rec.trace.batches
        assert batches["n_samples"].sum() == 20
        assert batches["n_bytes"].tolist() == (18.0 * batches["n_samples"]).tolist()

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_without_a_batch_size_too(self, num_workers):
        loader = DataLoader(Keys(3, make=pixels), batch_size=None, num_workers=num_workers)
        with lv.record(loader) as rec:
            list(loader)
        assert rec.trace.batches["n_bytes"].tolist() == [2, 2, 2]

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_unknown_ones_are_nan_and_others_not(self, num_workers):
        loader = DataLoader(
            Keys(6, make=unlike), batch_size=2, collate_fn=as_it_is, num_workers=num_workers
        )
        with lv.record(loader) as rec:
            next(iter(loader))
            list(loader)
        found = rec.trace.batches.groupby("epoch")["n_bytes"].agg(list)
        assert found[1][0] == found[1][2] == 120
        assert np.isnan(found[1][1])

    def test_batches_that_were_not_made_have_none(self):
        def fail(key: int) -> Any:
            raise LookupError(key)

        loader = DataLoader(Keys(2, make=fail))
        with lv.record(loader) as rec, pytest.raises(LookupError):
            list(loader)
        assert np.isnan(rec.trace.batches["n_bytes"].tolist()).all()

    @pytest.mark.parametrize("max_spans", [0, 3])
    def test_they_are_told_past_the_limit_on_samples(self, max_spans):
        loader = DataLoader(Keys(8, make=pixels), batch_size=2)
        with lv.record(loader, max_spans=max_spans) as rec:
            list(loader)
        assert rec.trace.batches["n_bytes"].tolist() == [36] * 4

    def test_nested_recordings_both_tell(self):
        loader = DataLoader(Keys(4, make=pixels), batch_size=2)
        with lv.record(loader) as outer, lv.record(loader) as inner:
            list(loader)
        for rec in (outer, inner):
            assert rec.trace.batches["n_bytes"].tolist() == [36, 36]
