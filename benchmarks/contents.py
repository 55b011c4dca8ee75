"""Does `audit` find wrong contents, and accuse no right ones? `python benchmarks/contents.py`.

Forty loaders with one fault each, and forty that only look alike. Half of each are in this file;
`contents_held_out.py` has the other half, which were written without a look at how contents are
compared. For each: what is wrong with it, what `audit` says first, and whether that is right. Then
what an audit of 10,000 small samples costs, beside loading them twice. `--only NAME` runs some.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    Subset,
    TensorDataset,
    default_collate,
    get_worker_info,
)

from loaderviz import LoaderVizError, audit

N = 48
FOLDER = Path(tempfile.mkdtemp(prefix="contents-"))


@dataclass(frozen=True)
class Case:
    """A loader, and what is wrong with its contents: nothing, where that is empty."""

    name: str
    make: Callable[[], DataLoader[Any]]
    expected: str
    source: str = ""
    epochs: int = 1


class Rows(Dataset[Any]):
    """N rows of a tensor, read by a function of the dataset and an index."""

    def __init__(self, read: Callable[[Any, int], Any], **held: Any) -> None:
        self.rows = torch.arange(8.0 * N).reshape(N, 8)
        self.read = read
        self.__dict__.update(held)

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> Any:
        return self.read(self, index)


def plain(data: Any, index: int) -> Any:
    return data.rows[index]


def into_buffer(data: Any, index: int) -> Any:
    return data.buffer.copy_(data.rows[index])


def into_array(data: Any, index: int) -> Any:
    data.array[:] = data.rows[index].numpy()
    return data.array


def in_a_dict(data: Any, index: int) -> Any:
    data.sample["row"] = data.rows[index]
    data.sample["label"] = index
    return data.sample


def view_of_scratch(data: Any, index: int) -> Any:
    data.scratch[: 4 + index % 3] = index
    return data.scratch[:4]


def next_on_error(data: Any, index: int) -> Any:
    try:
        if index % 12 == 7:
            raise OSError("image file is truncated")
        return data.rows[index]
    except OSError:
        return data.read(data, index + 1)


def random_on_error(data: Any, index: int) -> Any:
    try:
        if index % 12 == 7:
            raise ValueError("corrupt record")
        return {"row": data.rows[index], "key": index}
    except ValueError:
        return data.read(data, int(torch.randint(N, ())))


def previous_on_error(data: Any, index: int) -> Any:
    try:
        data.last = (
            data.rows[{k: k for k in range(0, N, 5)}[index]] if index % 5 == 0 else data.rows[index]
        )
        if index % 11 == 4:
            raise KeyError(index)
    except KeyError:
        return data.rows[0]
    return data.last


def none_sometimes(data: Any, index: int) -> Any:
    return None if index % 9 == 2 else (data.rows[index], index)


def from_file(data: Any, index: int) -> Any:
    data.file.seek(64 * index)
    time.sleep(0.0005)
    return data.file.read(64)


def normalised_in_place(data: Any, index: int) -> Any:
    return data.rows[index].sub_(1).div_(2)


def popped(data: Any, index: int) -> Any:
    return data.lists[index].pop(0) if len(data.lists[index]) > 1 else data.lists[index][0]


def noisy(data: Any, index: int) -> Any:
    return data.rows[index] + torch.randn(8)


def numpy_noise(data: Any, index: int) -> Any:
    return data.rows[index].numpy() + data.rng.normal(size=8)


def cached(data: Any, index: int) -> Any:
    if index not in data.cache:
        data.cache[index] = data.rows[index] * 3
    return data.cache[index]


def zeros(data: Any, index: int) -> Any:
    return data.zero


def retried(data: Any, index: int) -> Any:
    try:
        return data.wrong[index]
    except KeyError:
        return data.rows[index]


def from_memory_map(data: Any, index: int) -> Any:
    return torch.from_numpy(np.array(data.map[index]))


def counted(data: Any, index: int) -> Any:
    data.n_reads += 1
    return data.rows[index]


def from_own_connection(data: Any, index: int) -> Any:
    if data.connection is None:
        data.connection = sqlite3.connect(data.path)
    return data.connection.execute("SELECT value FROM t WHERE key = ?", (index,)).fetchone()[0]


def nan_and_text(data: Any, index: int) -> Any:
    return {"text": f"sample {index}", "value": float("nan"), "none": "", "list": []}


def a_set(data: Any, index: int) -> Any:
    return frozenset({index, index + 1, "a"})


def without_none(samples: list[Any]) -> Any:
    return default_collate([sample for sample in samples if sample is not None])


def listed(samples: list[Any]) -> Any:
    return samples


def shuffle_rows(worker: int) -> None:
    data: Any = get_worker_info().dataset
    data.rows = data.rows[torch.randperm(N, generator=torch.Generator().manual_seed(worker))]


def shift_rows(worker: int) -> None:
    data: Any = get_worker_info().dataset
    data.rows = data.rows + worker


def seed_rng(worker: int) -> None:
    get_worker_info().dataset.rng = np.random.default_rng(worker)


class FilledAgain:
    """A ``collate_fn`` that stacks into the same shared memory each time."""

    def __init__(self) -> None:
        self.out = torch.zeros(8, 8).share_memory_()

    def __call__(self, samples: list[Any]) -> Any:
        return torch.stack(samples, out=self.out)


def data_file() -> Any:
    path = FOLDER / "rows"
    np.arange(8 * N).reshape(N, 8).tofile(path)
    return path.open("rb", buffering=0)


def memory_map() -> Any:
    data_file().close()
    return np.memmap(FOLDER / "rows", np.int64, "r", shape=(N, 8))


def database() -> str:
    path = FOLDER / "rows.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS t (key INTEGER PRIMARY KEY, value TEXT)")
        connection.executemany("REPLACE INTO t VALUES (?, ?)", [(k, f"v{k}") for k in range(N)])
    return str(path)


def loader(
    read: Callable[[Any, int], Any], workers: int = 2, *, held: Any = dict, **options: Any
) -> DataLoader[Any]:
    return DataLoader(Rows(read, **held()), batch_size=8, num_workers=workers, **options)


def case(name: str, expected: str, *arguments: Any, epochs: int = 1, **options: Any) -> Case:
    return Case(name, partial(loader, *arguments, **options), expected, epochs=epochs)


@lru_cache
def cached_read(index: int) -> int:
    return index * index


CASES = [
    case("one buffer", "buffer", into_buffer, held=lambda: {"buffer": torch.zeros(8)}),
    case("one buffer, no workers", "buffer", into_buffer, 0, held=lambda: {"buffer": torch.zeros(8)}),
    case("one buffer, spawn", "buffer", into_buffer, 1, held=partial(dict, buffer=torch.zeros(8)), multiprocessing_context="spawn"),
    case("one array", "buffer", into_array, 4, held=lambda: {"array": np.zeros(8, np.float32)}),
    case("one dict", "buffer", in_a_dict, held=lambda: {"sample": {}}),
    case("a view of scratch memory", "buffer", view_of_scratch, held=lambda: {"scratch": np.zeros(8)}),
    case("the next one on an error", "replaced", next_on_error),
    case("the next one on an error, no workers", "replaced", next_on_error, 0),
    case("a random one on an error", "replaced", random_on_error, 4),
    case("the first one on an error", "replaced", previous_on_error),
    case("collate drops None", "dropped", none_sometimes, collate_fn=without_none),
    case("collate drops None, no workers", "dropped", none_sometimes, 0, collate_fn=without_none),
    case("a file shared by workers", "changed", from_file, 4, held=lambda: {"file": data_file()}),
    case("a file shared by two", "changed", from_file, held=lambda: {"file": data_file()}),
    case("rows shuffled in each worker", "replaced", plain, worker_init_fn=shuffle_rows),
    case("rows shifted in each worker", "changed", plain, 4, worker_init_fn=shift_rows),
    case("normalised in place", "mutated", normalised_in_place),
    case("normalised in place, two epochs", "mutated", normalised_in_place, persistent_workers=True, epochs=2),
    case("lists that are popped", "mutated", popped, held=lambda: {"lists": [[k, -k] for k in range(N)]}, collate_fn=listed),
    case("collate fills one batch again", "changed", plain, 1, collate_fn=FilledAgain(), prefetch_factor=4),
    case("rows", "", plain),
    case("rows, no workers", "", plain, 0),
    case("rows, spawn", "", plain, 1, multiprocessing_context="spawn"),
    case("torch noise", "", noisy, 4),
    case("numpy noise, own generator", "", numpy_noise, held=lambda: {"rng": np.random.default_rng(0)}),
    case("numpy noise, seeded by worker", "", numpy_noise, held=lambda: {"rng": None}, worker_init_fn=seed_rng),
    case("a cache that fills", "", cached, persistent_workers=True, held=lambda: {"cache": {}}, epochs=2),
    case("the same zeros for all", "", zeros, held=lambda: {"zero": torch.zeros(8)}),
    case("a fallback that is right", "", retried, held=lambda: {"wrong": {}}),
    case("a memory map", "", from_memory_map, 4, held=lambda: {"map": memory_map()}),
    case("reads are counted", "", counted, held=lambda: {"n_reads": 0}),
    case("a connection in each worker", "", from_own_connection, held=lambda: {"path": database(), "connection": None}),
    case("NaN and empty text", "", nan_and_text, collate_fn=listed),
    case("sets", "", a_set, collate_fn=listed),
    Case("tensors", lambda: DataLoader(TensorDataset(torch.arange(N), torch.rand(N, 3)), 8, shuffle=True), ""),
    Case("a part, some twice", lambda: DataLoader(Subset(Rows(plain), [1, 2, 2, 3, 7, 7]), 2, num_workers=2), ""),
    Case("two in a row", lambda: DataLoader(ConcatDataset([Rows(plain), Rows(plain)]), 8, num_workers=2), ""),
    Case("a list of texts", lambda: DataLoader([f"line {k % 5}" for k in range(N)], 8, num_workers=2), ""),
    Case("a range, spawned", lambda: DataLoader(range(N), 8, num_workers=1, multiprocessing_context="spawn"), ""),
    case("a cached function", "", lambda _, index: cached_read(index), 2),
]  # fmt: skip


def main() -> None:
    from contents_held_out import CASES as HELD_OUT

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="a part of the names")
    chosen = parser.parse_args()
    for title, cases in (("in sight", CASES), ("held out", HELD_OUT)):
        right: dict[bool, list[bool]] = {True: [], False: []}
        for each in cases:
            if chosen.only in each.name:
                right[bool(each.expected)].append(tell(each))
        found, quiet = right[True], right[False]
        print(
            f"{title}: {sum(found)} of {len(found)} found, {sum(quiet)} of {len(quiet)} not accused"
        )
    if not chosen.only:
        cost()


def tell(each: Case) -> bool:
    """Audit a case, print what it says, and return whether that is right."""
    try:
        found = audit(each.make(), epochs=each.epochs)
    except LoaderVizError as error:
        print(f"  wrong  {each.name}: {error}")
        return False
    states = set(found.contents["state"]) if found.contents is not None else set()
    mutated = any("changes the data" in note or "data has changed" in note for note in found.notes)
    is_right = {
        "": not found.is_changed and not mutated,
        "changed": bool(states & {"changed", "replaced"}),
        "mutated": mutated,
        "lost": found.exactly_once is False and len(found.missing) > 0,
        "doubled": found.exactly_once is False and len(found.duplicates) > 0,
        "dropped": found.n_left_out > 0,
    }.get(each.expected, each.expected in states)
    print(
        f"  {'right' if is_right else 'WRONG'}  {each.name} ({each.expected or 'healthy'}): {found.verdict}"
    )
    return is_right


class Computed(Dataset[Any]):
    """10,000 samples of two numbers, of which each takes 0.1 ms of computing."""

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> torch.Tensor:
        until = time.perf_counter() + 1e-4
        while time.perf_counter() < until:
            pass
        return torch.tensor([index, index + 1.0])


def cost() -> None:
    """An audit of 10,000 small samples, beside loading them twice."""
    copied = TensorDataset(torch.arange(20_000.0).reshape(10_000, 2))
    for name, dataset in {"copied": copied, "computed in 0.1 ms": Computed()}.items():
        for workers in (0, 2):
            ratios = []
            for _ in range(3):
                started = time.perf_counter()
                for _ in range(2):
                    list(DataLoader(dataset, 64, num_workers=workers))
                loaded_s = time.perf_counter() - started
                started = time.perf_counter()
                audit(DataLoader(dataset, 64, num_workers=workers))
                ratios.append((time.perf_counter() - started) / loaded_s)
            times = sorted(ratios)[1]
            print(f"{name}, {workers} workers: an audit takes {times:.1f} times loading twice")


if __name__ == "__main__":
    main()
