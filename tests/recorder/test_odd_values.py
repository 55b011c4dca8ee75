"""Whatever torch accepts is recorded: the loop is as without, and the trace can be kept."""

import enum
import math
import multiprocessing
import random
import warnings
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing import resource_sharer
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset

import loaderviz as lv
from loaderviz.plain_value import plain, truth, whole
from loaderviz.trace import check_trace
from loaderviz.trace.recording import read_recording


class Whole(enum.IntEnum):
    ONE = 1
    TWO = 2


class Colour(enum.Enum):
    RED = "red"


class Sulky:
    """Answers nothing: comparing, writing, measuring, or asking whether it is true raises."""

    def _sulk(self, *_: object) -> Any:
        raise RuntimeError("not now")

    def __repr__(self) -> str:
        return str(self._sulk())

    __eq__ = __bool__ = __len__ = __str__ = __format__ = __index__ = __int__ = _sulk
    __hash__ = object.__hash__


class Reticent:
    """Its class says nothing true of it, and nothing of its name."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise RuntimeError("no class")


@dataclass(frozen=True)
class Crop:
    path: str
    size: int


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class Rows(Dataset):
    """Reads any key, by where it is in the order of asking."""

    def __init__(self) -> None:
        self.asked = 0

    def __len__(self) -> int:
        return 8

    def __getitem__(self, key: Any) -> Any:
        self.asked += 1
        return torch.tensor([self.asked]), torch.rand(1)


class Unnamed(Rows, metaclass=Nameless):
    """A dataset whose class raises where it is asked for its name."""


WHOLES = [0, 1, np.int64(1), np.uint8(1), True, Whole.ONE, torch.tensor(1), np.array(1), 2.0]
TRUTHS = [
    *(True, 0, 1, None, "yes", [], [False], {}, np.bool_(False), np.True_, np.array([1])),
    *(torch.tensor(True), Whole.ONE, Colour.RED, object(), Sulky(), Crop, float("nan")),
]
TIMEOUTS = [0, np.float32(60), True, 60, math.nan, 1e6, math.inf, Fraction(60), torch.tensor(60.0)]
CONTEXTS = ["fork", np.str_("fork"), multiprocessing.get_context("fork"), None]
LISTS = [[0, 1, 2], (3, 4), torch.arange(3), np.arange(2), range(3), {5, 6}, [torch.tensor(1)] * 2]
ODD_KEYS = (
    *(0, -7, 2**70, 10**5000, 1.5, math.nan, math.inf, True, None, "\ud800", "\x1b[31m", "a"),
    *(b"\x00", (1, (2.0, "x")), [1, [math.nan]], {"a": [1]}, frozenset({1}), slice(1, 2), 1j, ...),
    *(np.int16(3), np.float32(2.5), np.bool_(True), np.str_("é"), np.array([1, 2]), Rows, Sulky),
    *(torch.tensor(4), torch.ones(2), Whole.TWO, Colour.RED, Crop("a", 2), Sulky(), Reticent()),
    *(Nameless, np.datetime64("2026-01-01"), np.longdouble(1) / 3),
)
# By name: some are so odd that no test tool may look at them.
KEYS = {f"{n}: {type(key).__name__}": key for n, key in enumerate(ODD_KEYS)}


def fixed(value: Any) -> bool:
    return not isinstance(value, np.ndarray | torch.Tensor)


def options() -> st.SearchStrategy[dict[str, Any]]:
    """Such as go together: most of them torch accepts."""
    some_truth = st.integers(0, len(TRUTHS) - 1).map(lambda i: f"truth {i}")
    keys = st.lists(st.sampled_from([*KEYS]), min_size=1, max_size=4)
    some_keys = st.one_of(keys, st.sampled_from(LISTS))
    size = st.sampled_from([*WHOLES[1:], None, 3, np.int64(2), 2**40])
    one_by_one = {
        "batch_size": st.one_of(st.sampled_from([1, 3, Whole.TWO, 2**40]), size),
        "drop_last": st.sampled_from([False, True, np.True_, "yes"]),
    }
    order = st.one_of(
        st.fixed_dictionaries({}, optional={"shuffle": some_truth, **one_by_one}),
        st.fixed_dictionaries({"sampler": some_keys}, optional=one_by_one),
        st.fixed_dictionaries({"batch_sampler": st.lists(some_keys, max_size=3)}),
    )
    anywhere = {
        **dict.fromkeys(("in_order", "pin_memory"), some_truth),
        "pin_memory_device": st.sampled_from(["", "cpu", np.str_("cuda:0"), None]),
    }
    # Of those that start a worker only few: it takes long. And none that can be changed in
    # place: torch counts it down where workers persist, and then waits for none for ever
    # (torch/utils/data/dataloader.py, ``_MultiProcessingDataLoaderIter._reset``).
    alone = st.fixed_dictionaries(
        {"num_workers": st.sampled_from([0, False, np.int64(0), torch.tensor(0)])},
        optional=anywhere,
    )
    in_workers = st.fixed_dictionaries(
        {"num_workers": st.sampled_from([*filter(fixed, WHOLES)])},
        optional={
            **anywhere,
            "persistent_workers": some_truth,
            "prefetch_factor": st.sampled_from(WHOLES),
            "timeout": st.sampled_from(TIMEOUTS),
            "multiprocessing_context": st.sampled_from(CONTEXTS),
        },
    )
    processes = st.one_of(st.just({}), alone, alone, in_workers)
    return st.tuples(order, processes).map(lambda both: {**both[0], **both[1]})


def meant(value: Any) -> Any:
    """What the options have by name, and lists anew."""
    if type(value) is list:
        return [meant(each) for each in value]
    if type(value) is str and value.startswith("truth "):
        return TRUTHS[int(value.removeprefix("truth "))]
    return KEYS[value] if type(value) is str and value in KEYS else value


def make(given_options: dict[str, Any], name: str) -> DataLoader | None:
    """The loader; None where torch refuses the options."""
    dataset = Unnamed() if name == "nameless" else type(name, (Rows,), {})()
    # What is there once is used up by the first loader: each has its own.
    own = {name: meant(value) for name, value in given_options.items()}
    try:
        return type(name, (DataLoader,), {})(dataset, **own)
    except Exception:
        return None


def epochs(loader: DataLoader) -> list[Any]:
    """Two epochs as they can be compared: batches, exceptions, and what was warned of."""
    torch.manual_seed(3)
    random.seed(3)
    seen: list[Any] = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            try:
                seen += [[each.tolist() for each in batch] for batch in loader]
            except Exception as error:
                seen.append((type(error), str(error)))
    return [seen, [str(each.message) for each in said], torch.rand(1).item(), random.random()]


NAMES = ["Loader", "nameless", "a\nb", "\x1b[2J", "é" * 300, "<b>&", "\u202e"]


@pytest.fixture
def _stop_sharing():
    """A tensor among the keys is shared with a worker by a thread of multiprocessing's."""
    yield
    resource_sharer.stop(timeout=10)


# torch itself cannot end an iterator that failed to begin, and Python tells of it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("_stop_sharing")
@given(given_options=options(), name=st.sampled_from(NAMES))
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_loader_that_torch_accepts_is_recorded_as_it_is(given_options, name, tmp_path):
    alone, watched = make(given_options, name), make(given_options, name)
    assert (alone is None) == (watched is None)
    if alone is None or watched is None:
        return
    expected = epochs(alone)
    with lv.record(watched, label=name) as rec:
        seen = epochs(watched)
    assert seen == expected
    assert rec.trace.meta["complete"], rec.trace.meta["problems"]
    rec.trace.save(tmp_path / "run.parquet")
    opened = lv.load(tmp_path / "run.parquet")
    for trace in (rec.trace, opened):
        n = len(trace.batches)
        summary = trace.summary()
        assert str(summary)
        assert len(summary.causes) >= 0
    assert len(opened.batches) == n
    assert [repr(key) for key in opened.samples["key"]] == [
        repr(key) for key in rec.trace.samples["key"]
    ]


def test_keys_of_any_kind_are_recorded_and_can_be_saved(tmp_path):
    """Two of a kind in each batch: what is done with the keys of a batch depends on its kinds."""
    loader = DataLoader(Rows(), sampler=[key for key in ODD_KEYS for _ in range(2)], batch_size=2)
    with lv.record(loader) as rec:
        assert len(list(loader)) == len(ODD_KEYS)
    assert rec.trace.meta["complete"], rec.trace.meta["problems"]
    rec.trace.save(tmp_path / "run.parquet")
    opened = map(repr, lv.load(tmp_path / "run.parquet").samples["key"])
    known = map(repr, rec.trace.samples["key"])
    names = [name for name in KEYS for _ in range(2)]
    assert [*zip(names, opened, strict=True)] == [*zip(names, known, strict=True)]


class TestOptionsAreKeptAsTheirKind:
    @pytest.mark.parametrize("value", [1, np.int64(1), True, Whole.ONE, torch.tensor(1), 1.0])
    def test_a_whole_number(self, value):
        assert whole(value) == 1
        assert type(whole(value)) is int

    @pytest.mark.parametrize("number", range(len(TRUTHS)))
    def test_a_truth_is_that_of_torch_or_not_known(self, number):
        value = TRUTHS[number]
        known = truth(value)
        assert known is None if type(value) is Sulky else known is bool(value)

    @pytest.mark.parametrize(
        ("value", "kept"),
        [
            ([np.int64(2), [Colour.RED]], [2, ["Colour"]]),
            ({Whole.ONE: torch.ones(2)}, {"1": "Tensor"}),
            ({1, 2}, [1, 2]),
            (Rows(), "Rows"),
            (10**5000, "int"),
            (np.float32(0.5), 0.5),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_anything_else_is_plain_or_the_name_of_its_type(self, value, kept):
        assert plain(value) == kept

    def test_torch_reads_them_so(self):
        settings_ = {"num_workers": np.int64(1), "prefetch_factor": torch.tensor(3)}
        loader = DataLoader(Rows(), in_order=[False], **settings_)
        with lv.record(loader) as rec:
            list(loader)
        about = rec.trace.meta["loaders"][0]
        assert (about["num_workers"], about["prefetch_factor"], about["in_order"]) == (1, 3, True)


class TestArgumentsOfOurs:
    def test_numbers_are_of_any_type_and_names_of_any_class(self):
        loader = DataLoader(Rows())
        limits = {"max_spans": np.int64(3), "max_bytes": np.int64(1 << 20)}
        with lv.record(loader, label=Sulky(), **limits) as rec:
            for _ in loader:
                for name in (Sulky(), 3, None, Colour.RED, "\ud800"):
                    with lv.span(name):
                        pass
        assert rec.trace.meta["label"] == "<Sulky object>"
        assert len(rec.trace.batches) == 8
        names = rec.trace.spans["name"].tolist()
        assert names == ["<Sulky object>", "3"][: len(names)]

    @pytest.mark.parametrize(
        "wrong", [{"path": "a\0b"}, {"max_bytes": "1MB"}, {"max_bytes": True}, {"max_spans": 1.5}]
    )
    def test_others_are_refused_in_words(self, wrong):
        (name,) = wrong
        with pytest.raises(lv.LoaderVizError, match=f"{name}="):
            lv.record(DataLoader(Rows()), **wrong)


class TestWhatCannotBeKept:
    def test_an_option_is_left_out_with_a_word_and_nothing_else(self, tmp_path):
        loader = DataLoader(Rows(), batch_size=2**40)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with lv.record(loader, path=tmp_path / "run") as rec, lv.watch([]) as met_on_the_way:
                list(loader)
        for trace in (rec.trace, lv.load(tmp_path / "run"), met_on_the_way.trace):
            assert trace.meta["complete"]
            assert "batch_size" not in trace.meta["loaders"][0]
            (problem,) = trace.meta["problems"]
            assert problem.startswith("left out: meta['loaders'][0]['batch_size'] is 1099511627776")
            assert trace.meta["loaders"][0]["num_workers"] == 0
            assert len(trace.samples) == 8

    def test_of_too_many_empty_epochs_the_numbers_are_left_out(self, tmp_path, monkeypatch):
        monkeypatch.setattr(read_recording, "MOST_EPOCHS", 5)
        monkeypatch.setattr(check_trace, "MOST_EPOCHS", 5)
        keys: list[int] = []
        loader = DataLoader(Rows(), sampler=keys)
        with lv.record(loader, path=tmp_path / "run") as rec:
            for epoch in range(12):
                keys[:] = [epoch] * (epoch > 9)
                list(loader)
        for trace in (rec.trace, lv.load(tmp_path / "run")):
            assert trace.batches["epoch"].tolist() == trace.samples["epoch"].tolist() == [0, 1]
            assert trace.samples["key"].tolist() == [10, 11]
            assert trace.meta["complete"]
            assert trace.meta["problems"][0].startswith("left out: 10 epochs without a batch")
