"""What recordings say of what batches are made of, and how many bytes they hold."""

import gc
import weakref
from collections import OrderedDict, UserDict, deque, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader

import loaderviz as lv
from loaderviz.recorder import fetch_spool
from loaderviz.recorder.batch_signature import MOST_LEAVES, fixed_bytes, walk
from loaderviz.recorder.signature_text import signature_text
from loaderviz.trace.check_trace import MOST_CHARACTERS
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


class Dispatching(torch.Tensor):
    """Nor may any operation on it reach its own code."""

    @classmethod
    def __torch_dispatch__(cls, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("touched")


class Shapeless:
    """No tensor, though it has the name of a shape."""

    @property
    def shape(self) -> Any:
        raise AssertionError("touched")


class Named:
    """A key of a dict that nobody but the dict may compare."""

    compared = 0

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        Named.compared += 1
        return self is other


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


IMAGE, LABEL = torch.zeros(8, 3, 4, 4), torch.zeros(8, dtype=torch.int64)
TENSOR, ARRAY = torch.zeros(3, 5), np.zeros(7)  # 60 bytes and 56
NESTED = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])


PACKED = torch.nn.utils.rnn.pack_sequence([torch.zeros(3), torch.zeros(2)])
UNKNOWN = None
# What a batch is made of, and the bytes of its tensors, arrays and texts.
BATCHES = [
    (IMAGE, "float32 [8, 3, 4, 4]", 8 * 192),
    (TENSOR[:, :2], "float32 [3, 2]", 24),
    (torch.zeros(2, 3, dtype=torch.float16), "float16 [2, 3]", 12),
    (torch.zeros(0, 3), "float32 [0, 3]", 0),
    ([IMAGE, LABEL], "[float32 [8, 3, 4, 4], int64 [8]]", 8 * 192 + 64),
    ((TENSOR, [ARRAY, 3]), "(float32 [3, 5], [ndarray float64 [7], int])", 116),
    ({"a": TENSOR, 3: {"b": LABEL}}, "{'a': float32 [3, 5], 3: {'b': int64 [8]}}", 124),
    (OrderedDict(label=LABEL), "OrderedDict{'label': int64 [8]}", 64),
    (UserDict({"ids": LABEL, "mask": LABEL}), "UserDict{'ids': int64 [8], 'mask': int64 [8]}", 128),
    (Pair(TENSOR, LABEL), "Pair(image=float32 [3, 5], label=int64 [8])", 124),
    (Scene(LABEL, ["a", "bc"]), "Scene(points=int64 [8], labels=[2 x str])", 67),
    ([LABEL] * 3 + [None, 2.5, True, b"d"], "[3 x int64 [8], None, float, bool, bytes]", 193),
    ([3, 2j], "[int, complex]", 0),
    ([], "[]", 0),
    (None, "None", 0),
    (np.zeros((2, 3)), "ndarray float64 [2, 3]", 48),
    (np.float32(1), "float32", 4),
    (torch.nn.Parameter(torch.zeros(2)), "Parameter float32 [2]", 8),
    (torch.zeros(2).as_subclass(Shouting), "Shouting float32 [2]", 8),
    (PACKED, "PackedSequence(data=float32 [5], batch_sizes=int64 [3], sorted_indices=None, "
     "unsorted_indices=None)", 5 * 4 + 3 * 8),
    ([TENSOR] * MOST_LEAVES, f"[{MOST_LEAVES} x float32 [3, 5]]", 60 * MOST_LEAVES),
    (np.array(["a", None], object), "ndarray object [2]", UNKNOWN),
    (LABEL.to("meta"), "int64 [8]", 64),
    (LABEL.to_sparse(), "sparse_coo int64 [8]", UNKNOWN),
    (torch.zeros(2).as_subclass(Dispatching), "Dispatching", UNKNOWN),
    (Slotted(LABEL), "Slotted", UNKNOWN),
    ([Pinnable(LABEL), Shapeless(), deque([1]), {1}], "[Pinnable, Shapeless, deque, set]", UNKNOWN),
    ({Named(): 1}, "{<Named>: int}", 0),
    (Touchy, "type", UNKNOWN),
]  # fmt: skip


@pytest.mark.parametrize(
    ("batch", "text", "n_bytes"),
    BATCHES,
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_a_signature_says_what_a_batch_is_made_of_and_how_many_bytes_it_has(batch, text, n_bytes):
    assert walk(batch) is not None
    assert signature_text(batch) == text
    assert n_bytes_of(batch) == n_bytes


def test_no_code_of_the_users_is_run():
    inner = TouchyDict(points=ARRAY.view(TouchyArray))
    assert n_bytes_of(TouchyList([TENSOR, inner])) == 116
    assert n_bytes_of(TouchyList([1] * (MOST_LEAVES + 1))) is None


class TestKeys:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (IMAGE, IMAGE[:4]),
            (IMAGE, IMAGE.double()),
            (LABEL, LABEL.to_sparse()),
            (LABEL, LABEL.numpy()),
            ([LABEL], (LABEL,)),
            ({"a": LABEL}, {"b": LABEL}),
            ({"a": LABEL}, OrderedDict(a=LABEL)),
            ([[1], 1], [[1, 1]]),
            ([[], [1]], [[1], []]),
            (["a"], [b"a"]),
            (Pair(1, 2), (1, 2)),
        ],
    )
    def test_of_unlike_batches_differ(self, one, other):
        assert walk(one)[0] != walk(other)[0]
        assert signature_text(one) != signature_text(other)

    def test_of_batches_of_one_shape_are_equal(self):
        for make in (lambda n: [IMAGE + n, {"more": (str(n), n)}], lambda n: Pair(np.ones(2), n)):
            assert walk(make(1))[0] == walk(make(22))[0]

    def test_no_name_of_the_users_is_compared(self):
        one, other = {Named(): 1}, {Named(): 1}
        Named.compared = 0
        assert walk(one)[0] == walk(other)[0]
        assert Named.compared == 0

    def test_of_what_is_too_much_or_has_no_shape_there_are_none(self):
        assert walk([[LABEL] * (MOST_LEAVES // 2)] * 2) is not None
        holds_itself: list[Any] = [LABEL]
        holds_itself.append(holds_itself)
        many = [[LABEL] * (MOST_LEAVES + 1), [[1] * 501] * 2, dict.fromkeys(range(10**6))]
        for batch in (*many, holds_itself, [LABEL, NESTED]):
            assert walk(batch) is None
            assert n_bytes_of(batch) is None


def test_a_long_text_is_cut_and_still_tells_batches_apart():
    batches = [[{f"part {i}": i} for i in range(n)] for n in (200, 201)]
    one, other = map(signature_text, batches)
    assert len(one) == len(other) == MOST_CHARACTERS
    assert one != other
    assert one[:900] == other[:900]


def test_a_mode_of_the_users_sees_nothing():
    class Watching(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    def collated(samples: list[int]) -> Any:
        return [IMAGE, torch.nn.Parameter(IMAGE)]

    loader = DataLoader(range(4), batch_size=2, collate_fn=collated)
    logs = []
    for recorded in (False, True):
        seen: list[Any] = []
        with Watching():
            if recorded:
                with lv.record(loader) as rec:
                    list(loader)
            else:
                list(loader)
        logs.append([str(func) for func in seen])
    assert logs[0] == logs[1]
    assert rec.trace.batches["shapes"].notna().all()


def pixels(key: int) -> dict[str, Any]:
    """18 bytes a sample: 2, 8 and 8 once it is collated."""
    return {"image": torch.zeros(2, dtype=torch.int8), "more": [key, (float(key),)]}


def of_length(key: int) -> Any:
    return torch.zeros(1 + key // 4)


def texts(trace: lv.Trace) -> list[Any]:
    return trace.batches["shapes"].tolist()


FULL = "{'image': int8 [4, 2], 'more': [int64 [4], [float64 [4]]]}"
REST = FULL.replace("[4", "[2")


class TestInARecording:
    @pytest.mark.parametrize(
        ("dataset", "num_workers", "options"),
        [
            (Keys(10, make=pixels), 0, {"shuffle": True}),
            (Keys(10, make=pixels), 2, {}),
            (Keys(10, make=pixels), 2, {"shuffle": True, "in_order": False}),
            (Bulk(10, make=pixels), 0, {}),
            (Stream(6, 4, make=pixels), 2, {}),
            (Keys(10, make=pixels), 0, {"max_spans": 0}),
            (Keys(10, make=pixels), 0, {"max_spans": 3}),
        ],
        ids=["here", "map", "in any order", "bulk", "stream", "no samples", "three samples"],
    )
    def test_each_batch_has_its_own(self, dataset, num_workers, options):
        limit = {name: options[name] for name in options if name == "max_spans"}
        options = {name: options[name] for name in options if name not in limit}
        loader = DataLoader(
            dataset,
            batch_size=4,
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
            **options,
        )
        with lv.record(loader, **limit) as rec:
            for _ in range(2):
                list(loader)
        batches = rec.trace.batches
        expected = [FULL if n == 4 else REST for n in batches["n_samples"]]
        assert texts(rec.trace) == expected
        assert {4, 2} == set(batches["n_samples"])
        assert batches["n_bytes"].tolist() == (18.0 * batches["n_samples"]).tolist()

    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_it_comes_through_a_file_a_folder_and_ranks(self, num_workers, tmp_path):
        loader = DataLoader(Keys(16, make=of_length), batch_size=4, num_workers=num_workers)
        with lv.record(loader, path=tmp_path / "rank-00000") as rec, lv.record(loader) as inner:
            list(loader)
        loaded = [lv.load(tmp_path / "rank-00000"), lv.load(tmp_path)]
        rec.trace.save(tmp_path / "saved.parquet")
        loaded.append(lv.load(tmp_path / "saved.parquet"))
        for trace in (rec.trace, inner.trace, *loaded):
            assert texts(trace) == [f"float32 [4, {n}]" for n in (1, 2, 3, 4)]

    def test_equal_ones_are_written_once_in_each_process(self, tmp_path):
        loader = DataLoader(Keys(400, make=pixels), batch_size=4, num_workers=2)
        with lv.record(loader, path=tmp_path / "run"):
            list(loader)
        for path in (tmp_path / "run").rglob("*.spool"):
            assert path.read_bytes().count(b"int8 [4, 2]") <= 2  # those of two workers
        assert len({id(text) for text in texts(lv.load(tmp_path / "run"))}) <= 2

    def test_past_a_limit_on_signatures_there_are_none(self, monkeypatch):
        monkeypatch.setattr(fetch_spool, "MOST_SIGNATURES", 2)
        loader = DataLoader(Keys(16, make=of_length), batch_size=4)
        with lv.record(loader) as rec:
            list(loader)
            list(loader)
        assert texts(rec.trace) == ["float32 [4, 1]", "float32 [4, 2]", None, None] * 2
        assert rec.trace.batches["n_bytes"].tolist() == [16, 32, 48, 64] * 2

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_unknown_bytes_are_nan_and_others_not(self, num_workers):
        def unlike(key: int) -> Any:
            return {key} if key % 4 == 2 else TENSOR

        loader = DataLoader(
            Keys(6, make=unlike), batch_size=2, collate_fn=as_it_is, num_workers=num_workers
        )
        with lv.record(loader) as rec:
            next(iter(loader))
            list(loader)
        found = rec.trace.batches.groupby("epoch")["n_bytes"].agg(list)
        n_bytes = 60 if num_workers else 120  # one tensor twice: it is sent once
        assert found[1][0] == found[1][2] == n_bytes
        assert np.isnan(found[1][1])

    @pytest.mark.parametrize(("num_workers", "n_bytes"), [(0, 8), (1, 4096)])
    def test_of_a_small_view_all_is_sent(self, num_workers, n_bytes):
        """Each of its own storage, of one shape and of several sizes."""
        loader = DataLoader(
            range(1, 4), collate_fn=lambda keys: torch.zeros(1024 * keys[0])[:2],
            num_workers=num_workers,
        )  # fmt: skip
        with lv.record(loader) as rec:
            list(loader)
        expected = [n_bytes * (key if num_workers else 1) for key in (1, 2, 3)]
        assert rec.trace.batches["n_bytes"].tolist() == expected
        assert texts(rec.trace) == ["float32 [2]"] * 3

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_no_batch_breaks_the_loop_or_the_recording(self, num_workers):
        odd = [Shapeless(), Pinnable(LABEL), NESTED, LABEL.to_sparse(), LABEL.to("meta")]
        odd += [np.array([1, None], object), [LABEL] * (MOST_LEAVES + 1)]
        batches = [LABEL, *odd, LABEL]
        loader = DataLoader(
            range(len(batches)),
            collate_fn=lambda samples: batches[samples[0]],
            num_workers=num_workers,
        )
        with lv.record(loader) as rec:
            n = sum(1 for _ in loader)
        assert n == len(batches)
        assert rec.trace.meta["complete"]
        assert texts(rec.trace)[0] == texts(rec.trace)[-1] == "int64 [8]"
        assert (rec.trace.batches["state"] == "delivered").all()


def test_nothing_of_a_batch_is_kept_alive():
    kept = []

    def watched(samples: list[int]) -> Any:
        batch = [torch.zeros(len(samples)), {"more": np.zeros(2)}]
        kept.append(weakref.ref(batch[0]))
        kept.append(weakref.ref(batch[1]["more"]))
        return batch

    loader = DataLoader(range(6), batch_size=2, collate_fn=watched)
    with lv.record(loader):
        for batch in loader:
            del batch
            gc.disable()
            assert all(each() is None for each in kept)
            gc.enable()
