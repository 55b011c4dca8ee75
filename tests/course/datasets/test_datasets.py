"""The teaching datasets: what they hold, that it is the same everywhere, and how they refuse."""

import hashlib
import multiprocessing
import pickle
import subprocess
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, IterableDataset, StackDataset

from loaderviz.course.datasets import (
    JpegImages,
    SleepingDataset,
    SleepingStream,
    SourceFiles,
    _cache,
    _drawing,
    images,
    jpeg_folder,
)
from loaderviz.errors import LoaderVizError


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cache for all tests that only read pictures."""
    cache = tmp_path_factory.mktemp("shared-cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADERVIZ_CACHE", str(cache))
        yield cache


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, which does not exist yet."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LOADERVIZ_CACHE", str(folder))
    return folder


class Everything(IterableDataset[Any]):
    """Every dataset of the package in one, so that each start method starts workers only once."""

    def __init__(self) -> None:
        self.stream = SleepingStream(8, sample_s=0)
        self.indexed = StackDataset(
            SleepingDataset(8, sample_s=[0, 0.001] * 4), SourceFiles(8), JpegImages(8, (32, 48))
        )

    def __iter__(self) -> Iterator[Any]:
        for i in self.stream:
            yield i, self.indexed[i]


def plain_for(dataset: Any) -> list[Any]:
    """What `for` gets from a map-style dataset; type checkers look for an `__iter__` in vain."""
    return [sample for sample in dataset]  # noqa: C416 (`for` is the point)


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


# Through a DataLoader


@pytest.mark.parametrize("start_method", multiprocessing.get_all_start_methods())
@pytest.mark.usefixtures("shared_cache")
def test_workers_deliver_what_the_main_process_does_whatever_starts_them(start_method: str) -> None:
    dataset = Everything()
    expected = list(DataLoader(dataset, batch_size=4))
    loader = DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context=start_method)
    delivered = list(loader)
    # Two workers take turns, and each holds all of the stream.
    twice = [expected[0], expected[0], expected[1], expected[1]]
    torch.testing.assert_close(delivered, twice, rtol=0, atol=0)


def test_a_printed_batch_shows_which_samples_it_holds() -> None:
    batches = list(DataLoader(SleepingDataset(6, sample_s=0), batch_size=4))
    assert [str(batch) for batch in batches] == ["tensor([0, 1, 2, 3])", "tensor([4, 5])"]


def test_a_failing_sample_says_so_through_a_worker() -> None:
    loader = DataLoader(SleepingDataset(8, sample_s=0, fail_at=5), batch_size=4, num_workers=1)
    batches = iter(loader)
    assert next(batches).tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"sample 5 is broken on purpose \(fail_at=5\)") as error:
        next(batches)
    # The traceback's frames hold the iterator, and so the worker. Left to the garbage collector,
    # they go together with the worker's queues, and its shutdown runs into torch's 5 s time-out.
    traceback.clear_frames(error.tb)
    del batches


@pytest.mark.usefixtures("shared_cache")
def test_every_dataset_survives_pickling_with_all_its_settings() -> None:
    for dataset in [
        SleepingDataset(3, 0.5, fail_at=1),
        SleepingStream(3, [0.1, 0.2, 0.3]),
        SourceFiles(3),
        JpegImages(3, (8, 9)),
    ]:
        copy = pickle.loads(pickle.dumps(dataset))
        assert vars(copy) == vars(dataset)
        assert repr(copy) == repr(dataset)


# Sleeping


@given(st.integers(0, 30))
def test_a_plain_for_gives_the_whole_numbers_below_n(n: int) -> None:
    dataset = SleepingDataset(n, sample_s=0)
    assert len(dataset) == n
    assert plain_for(dataset) == list(range(n))
    assert list(SleepingStream(n, sample_s=0)) == list(range(n))


@given(n=st.integers(0, 20), index=st.integers(-30, 30))
def test_an_index_means_what_it_means_to_a_list(n: int, index: int) -> None:
    dataset = SleepingDataset(n, sample_s=0)
    if -n <= index < n:
        assert dataset[index] == list(range(n))[index]
    else:
        with pytest.raises(IndexError, match=f"index {index} is out of range .* {n} samples"):
            dataset[index]


def test_each_sample_waits_its_own_time_before_it_arrives_or_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    dataset = SleepingDataset(3, sample_s=[0.5, 0, 2], fail_at=2)
    numpy_s: Any = np.float32(0.25)
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", slept.append)
        assert [dataset[0], dataset[1]] == [0, 1]
        with pytest.raises(ValueError, match="sample 2 is broken"):
            dataset[2]
        assert slept == [0.5, 2]
        assert list(SleepingStream(2, sample_s=numpy_s)) == [0, 1]
    assert slept == [0.5, 2, 0.25, 0.25]


def test_the_stream_claims_no_length() -> None:
    # DataLoader would believe it, and warn about the duplicates that several workers bring.
    assert not hasattr(SleepingStream(3), "__len__")


@pytest.mark.parametrize("make", [SleepingDataset, SleepingStream])
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"n": -1}, "n=-1"),
        ({"n": 2.5}, "n=2.5"),
        ({"n": 3, "sample_s": -0.1}, "sample_s=-0.1"),
        ({"n": 3, "sample_s": float("inf")}, "sample_s=inf"),
        ({"n": 3, "sample_s": float("nan")}, "sample_s=nan"),
        ({"n": 3, "sample_s": "soon"}, "sample_s='s'"),
        ({"n": 3, "sample_s": None}, "sample_s=None"),
        ({"n": 3, "sample_s": [0.1, 0.2, -3]}, "sample_s=-3"),
        ({"n": 3, "sample_s": [0.1, 0.2]}, "2 times for n=3 samples"),
    ],
)
def test_impossible_times_and_numbers_are_refused_by_name(
    make: Callable[..., Any], arguments: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(LoaderVizError, match=complaint):
        make(**arguments)


@pytest.mark.parametrize("fail_at", [-1, 3, 1.5])
def test_a_sample_that_does_not_exist_cannot_be_the_one_that_fails(fail_at: Any) -> None:
    with pytest.raises(LoaderVizError, match=f"fail_at={fail_at}"):
        SleepingDataset(3, fail_at=fail_at)


# Source files


def test_keywords_count_in_code_and_not_in_strings_or_comments(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("if x:  # if else\n    return 'for'\nif y: pass\n")
    sample = SourceFiles(folder=tmp_path)[0]
    counts = dict(zip(SourceFiles.keywords, sample.tolist(), strict=True))
    assert {word: n for word, n in counts.items() if n} == {"if": 2, "return": 1, "pass": 1}


def test_the_standard_library_reads_the_same_twice() -> None:
    first, second = SourceFiles(), SourceFiles(limit=20)
    assert first.paths[:20] == second.paths
    assert len(first.paths) > 100
    standard_library = Path(sysconfig.get_paths()["stdlib"])
    parts = {part for path in first.paths for part in path.relative_to(standard_library).parts}
    assert "json" in parts
    assert parts.isdisjoint({"site-packages", "test", "__pycache__"})
    samples = torch.stack([second[i] for i in range(20)])
    assert samples.shape == (20, len(SourceFiles.keywords))
    assert samples.dtype == torch.int64
    assert samples.sum() > 0
    assert torch.equal(samples, torch.stack(plain_for(second)))


def test_files_are_in_order_of_path_and_tests_and_packages_are_left_out(tmp_path: Path) -> None:
    wanted = ["a/z.py", "a.py", "b/a.py", "b/c/a.py"]
    for name in [*reversed(wanted), "test/a.py", "b/site-packages/a.py", "b/notes.txt"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    dataset = SourceFiles(folder=tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in dataset.paths] == wanted


BROKEN = [
    b"if x:\n  if (",
    b"'''",
    b"if \xff",
    b"if \x00",
    b"\t if\n  if",
    b"if \r\\",
    b"x = \n\r0",
]
ENCODINGS = [b"", *(b"# coding: %s\n" % name for name in [b"latin-1", b"rot13", b"nope"])]


@given(
    st.sampled_from(ENCODINGS),
    st.lists(st.sampled_from(BROKEN) | st.binary(max_size=40), max_size=6),
)
def test_any_bytes_give_a_sample(
    tmp_path_factory: pytest.TempPathFactory, coding: bytes, parts: list[bytes]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any-bytes"
    folder.mkdir(exist_ok=True)
    (folder / "a.py").write_bytes(coding + b"\n".join(parts))
    sample = SourceFiles(folder=folder)[0]
    assert sample.shape == (len(SourceFiles.keywords),)


def test_a_broken_file_counts_as_far_as_it_was_read(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("pass\npass\n\nx = '''never closed\n")
    assert SourceFiles(folder=tmp_path)[0].sum() == 2


def test_a_python_without_its_source_is_refused_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zipped = tmp_path / "python311.zip"
    with monkeypatch.context() as patch:
        patch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(zipped)})
        with pytest.raises(LoaderVizError, match=r"311\.zip: .*without the source.*folder="):
            SourceFiles()
    with pytest.raises(LoaderVizError, match=r"no \.py file below .*nowhere"):
        SourceFiles(folder=tmp_path / "nowhere")


@pytest.mark.parametrize("limit", [0, -1, 2.5])
def test_a_limit_without_files_is_refused(limit: Any) -> None:
    with pytest.raises(LoaderVizError, match=f"limit={limit}"):
        SourceFiles(limit=limit)


# Pictures


@pytest.mark.usefixtures("shared_cache")
def test_a_picture_is_channels_height_width_from_0_to_1() -> None:
    dataset = JpegImages(8, size=(32, 48))
    samples = torch.stack(plain_for(dataset))
    assert samples.shape == (8, 3, 32, 48)
    assert samples.dtype == torch.float32
    assert 0 <= samples.min() < 0.3 < 0.7 < samples.max() <= 1
    # No two alike, and none of a single colour: worth looking at.
    assert len(torch.unique(samples, dim=0)) == 8
    assert samples.std(dim=(1, 2, 3)).min() > 0.05
    assert torch.equal(samples[-1], dataset[-1])


def test_pictures_are_made_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = jpeg_folder(2)
    assert folder.parent == cache
    assert sorted(digests(folder)) == ["00000.jpg", "00001.jpg"]
    monkeypatch.setattr(images, "draw", None)  # drawing again would fail
    assert jpeg_folder(2) == folder
    assert JpegImages(2).paths == (folder / "00000.jpg", folder / "00001.jpg")


RACER = """
import sys
from loaderviz.course.datasets import jpeg_folder
print("ready", flush=True)
sys.stdin.readline()
print(jpeg_folder(6))
"""


def test_racing_processes_agree_on_one_whole_set(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(images.__file__).parents[2]))
        racers = [
            subprocess.Popen(
                [sys.executable, "-c", RACER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    folders = {racer.communicate()[0].strip() for racer in racers}
    assert [racer.returncode for racer in racers] == [0, 0]
    assert folders == {str(folder) for folder in cache.iterdir()}, "one folder, nothing beside it"
    # To the byte what this process makes, of another number too.
    theirs = digests(Path(folders.pop()))
    monkeypatch.setenv("LOADERVIZ_CACHE", str(cache.with_name("other")))
    ours = digests(jpeg_folder(7))
    del ours["00006.jpg"]
    assert theirs == ours


def test_whoever_loses_the_race_takes_the_winners_pictures(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = _drawing.draw

    def overtaken(index: int) -> Any:
        monkeypatch.setattr(images, "draw", draw)
        winners.update(digests(jpeg_folder(3)))
        return 0 * draw(index)

    winners: dict[str, str] = {}
    monkeypatch.setattr(images, "draw", overtaken)
    folder = jpeg_folder(3)
    assert digests(folder) == winners
    assert list(cache.iterdir()) == [folder]


def test_an_interrupted_run_leaves_nothing_behind(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = _drawing.draw

    def interrupted(index: int) -> Any:
        if index == 1:
            raise KeyboardInterrupt
        return draw(index)

    with monkeypatch.context() as patch:
        patch.setattr(images, "draw", interrupted)
        with pytest.raises(KeyboardInterrupt):
            jpeg_folder(3)
    assert list(cache.iterdir()) == []
    assert len(digests(jpeg_folder(3))) == 3


@pytest.mark.usefixtures("cache")
def test_a_set_with_pictures_missing_is_refused_with_its_folder() -> None:
    folder = jpeg_folder(3)
    (folder / "00001.jpg").unlink()
    with pytest.raises(LoaderVizError, match="holds 2 pictures instead of 3: delete that folder"):
        JpegImages(3)


def test_a_cache_that_cannot_be_written_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LOADERVIZ_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(LoaderVizError, match=r"cache .*LOADERVIZ_CACHE"):
        jpeg_folder(1)


@pytest.mark.skipif(sys.platform == "win32", reason="paths and home are those of POSIX")
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"LOADERVIZ_CACHE": "/own", "XDG_CACHE_HOME": "/xdg"}, "/own"),
        ({"LOADERVIZ_CACHE": "~/own"}, "/home/ada/own"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/loaderviz"),
        ({"XDG_CACHE_HOME": "not/absolute"}, "/home/ada/.cache/loaderviz"),
        ({}, "/home/ada/.cache/loaderviz"),
    ],
)
def test_the_cache_folder_follows_the_environment(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOADERVIZ_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/ada", **environment}.items():
        monkeypatch.setenv(name, value)
    assert _cache.cache_folder() == Path(expected)


def test_without_pillow_the_message_says_what_to_install(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(LoaderVizError, match=r"pip install 'loaderviz\[notebook\]'"):
        JpegImages(2)
    assert not cache.exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"n": 0}, "n=0"),
        ({"n": "all"}, "n='all'"),
        ({"n": 2, "size": (0, 5)}, "height=0"),
        ({"n": 2, "size": (5, 1.5)}, r"width=1\.5"),
        ({"n": 2, "size": 5}, r"size=5: give \(height, width\)"),
    ],
)
def test_impossible_pictures_are_refused_by_name(
    arguments: dict[str, Any], complaint: str, cache: Path
) -> None:
    with pytest.raises(LoaderVizError, match=complaint):
        JpegImages(**arguments)
    assert not cache.exists()
