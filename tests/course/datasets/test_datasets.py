"""The teaching datasets: what they hold, that it is the same everywhere, and how they refuse."""

import hashlib
import pickle
import sys
import sysconfig
import time
import traceback
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, IterableDataset, StackDataset

from loaderviz.course.datasets import (
    BulkRemoteTable,
    JpegImages,
    RemoteTable,
    SleepingDataset,
    SleepingStream,
    SourceFiles,
    images,
    jpeg_folder,
)
from loaderviz.errors import LoaderVizError


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory):
    """One cache for all tests that only read pictures."""
    cache = tmp_path_factory.mktemp("shared-cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADERVIZ_CACHE", str(cache))
        yield cache


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of the test's own, which does not exist yet."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LOADERVIZ_CACHE", str(folder))
    return folder


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A standard library of the test's own, for `SourceFiles`."""
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    return tmp_path


class Everything(IterableDataset):
    """Several datasets in one, so that each start method starts workers only once."""

    def __init__(self):
        self.stream = SleepingStream(8, sample_s=0)
        self.indexed = StackDataset(
            SleepingDataset(8, sample_s=[0, 0.001] * 4), SourceFiles(8), JpegImages(8, (32, 48))
        )

    def __iter__(self):
        for i in self.stream:
            yield i, self.indexed[i]


def plain_for(dataset):
    return [sample for sample in dataset]  # noqa: C416 (`for` is the point)


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("start_method", "workers"), [("fork", 2), pytest.param("spawn", 1, marks=pytest.mark.slow)]
)
@pytest.mark.usefixtures("shared_cache")
def test_workers_deliver_what_the_main_process_does_whatever_starts_them(start_method, workers):
    dataset = Everything()
    expected = list(DataLoader(dataset, batch_size=4))
    loader = DataLoader(
        dataset, batch_size=4, num_workers=workers, multiprocessing_context=start_method
    )
    # Workers take turns, and each holds all of the stream.
    of_all = [batch for batch in expected for _ in range(workers)]
    torch.testing.assert_close(list(loader), of_all, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: SleepingDataset(-1), "n=-1"),
        (lambda: SleepingDataset(2.5), "n=2.5"),
        (lambda: SleepingStream(3, -0.1), "sample_s=-0.1"),
        (lambda: SleepingDataset(3, float("nan")), "sample_s=nan"),
        (lambda: SleepingDataset(3, "soon"), "sample_s='s'"),
        (lambda: SleepingDataset(3, [0.1, 0.2, -3]), "sample_s=-3"),
        (lambda: SleepingStream(3, [0.1, 0.2]), "2 times for n=3 samples"),
        (lambda: SleepingDataset(3, fail_at=3), "fail_at=3"),
        (lambda: SleepingDataset(3, fail_at=-1), "fail_at=-1"),
        (lambda: BulkRemoteTable(-1), "n=-1"),
        (lambda: BulkRemoteTable(3, float("inf")), "trip_s=inf"),
        (lambda: SourceFiles(limit=0), "limit=0"),
        (lambda: JpegImages(0), "n=0"),
        (lambda: JpegImages(2, (0, 5)), "height=0"),
        (lambda: JpegImages(2, (5, 1.5)), r"width=1\.5"),
    ],
)
def test_impossible_times_and_numbers_are_refused_by_name(make, complaint, cache):
    with pytest.raises(LoaderVizError, match=complaint):
        make()
    assert not cache.exists()


# Sleeping, asking, computing


@settings(max_examples=40)
@given(n=st.integers(0, 20), index=st.integers(-30, 30))
def test_a_sample_is_its_index_and_an_index_means_what_it_means_to_a_list(n, index):
    dataset = SleepingDataset(n, sample_s=0)
    assert plain_for(dataset) == list(SleepingStream(n, sample_s=0)) == list(range(n))
    if -n <= index < n:
        assert dataset[index] == list(range(n))[index]
    else:
        with pytest.raises(IndexError, match=f"index {index} is out of range .* {n} samples"):
            dataset[index]


def test_each_sample_waits_its_own_time_before_it_arrives_or_fails(monkeypatch):
    slept = []
    dataset = SleepingDataset(3, sample_s=[0.5, 0, 2], fail_at=2)
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", slept.append)
        assert [dataset[0], dataset[1]] == [0, 1]
        with pytest.raises(ValueError, match="sample 2 is broken"):
            dataset[2]
        assert list(SleepingStream(2, sample_s=np.float32(0.25))) == [0, 1]
    assert slept == [0.5, 2, 0.25, 0.25]


def test_a_failing_sample_says_so_through_a_worker():
    loader = DataLoader(SleepingDataset(8, sample_s=0, fail_at=5), batch_size=4, num_workers=1)
    batches = iter(loader)
    assert next(batches).tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"sample 5 is broken on purpose \(fail_at=5\)") as error:
        next(batches)
    # The traceback's frames hold the iterator, and so the worker. Left to the garbage collector,
    # they go together with the worker's queues, and its shutdown runs into torch's 5 s time-out.
    traceback.clear_frames(error.tb)
    del batches


def test_the_stream_claims_no_length():
    # DataLoader would believe it, and warn about the duplicates that several workers bring.
    assert not hasattr(SleepingStream(3), "__len__")


def test_a_request_for_many_rows_is_one_trip(monkeypatch):
    slept = []
    one, many = RemoteTable(10, trip_s=0.5), BulkRemoteTable(10, trip_s=0.5)
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", slept.append)
        rows = [[*map(torch.Tensor.tolist, DataLoader(each, batch_size=4))] for each in (one, many)]
        for each in (lambda: one[10], lambda: many.__getitems__([0, -11])):
            with pytest.raises(IndexError, match="out of range"):
                each()
    assert rows[0] == rows[1] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert (one.trips, many.trips) == (10, 3)
    assert slept == [0.5] * 13


# Source files


def test_keywords_count_in_code_and_not_in_strings_or_comments_as_far_as_it_can_be_read(library):
    (library / "a.py").write_text("if x:  # if else\n    return 'for'\nif y: pass\n")
    (library / "b.py").write_text("pass\npass\n\nx = '''never closed\n")
    whole, broken = SourceFiles()
    counts = dict(zip(SourceFiles.keywords, whole.tolist(), strict=True))
    assert {word: n for word, n in counts.items() if n} == {"if": 2, "return": 1, "pass": 1}
    assert broken.sum() == 2


def test_files_are_in_order_of_path_and_tests_and_packages_are_left_out(library):
    wanted = ["a/z.py", "a.py", "b/a.py", "b/c/a.py"]
    for name in [*reversed(wanted), "test/a.py", "b/site-packages/a.py", "b/notes.txt"]:
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).touch()
    found = [path.relative_to(library).as_posix() for path in SourceFiles().paths]
    assert found == wanted


def test_the_standard_library_can_be_read_and_one_without_source_is_refused(library, monkeypatch):
    with pytest.raises(LoaderVizError, match=r"no \.py file below .*without the source"):
        SourceFiles()
    monkeypatch.undo()
    samples = torch.stack(plain_for(SourceFiles(limit=20)))
    assert samples.shape == (20, len(SourceFiles.keywords))
    assert samples.dtype == torch.int64
    assert samples.sum() > 0


# Pictures


@pytest.mark.usefixtures("shared_cache")
def test_a_picture_is_channels_height_width_from_0_to_1():
    dataset = JpegImages(8, size=(32, 48))
    samples = torch.stack(plain_for(dataset))
    assert samples.shape == (8, 3, 32, 48)
    assert samples.dtype == torch.float32
    assert 0 <= samples.min() < 0.3 < 0.7 < samples.max() <= 1
    # No two alike, and none of a single colour: worth looking at.
    assert len(torch.unique(samples, dim=0)) == 8
    assert samples.std(dim=(1, 2, 3)).min() > 0.05
    assert torch.equal(samples[-1], dataset[-1])


def test_pictures_are_made_once_and_are_the_same_whatever_their_number_is(cache, monkeypatch):
    folder, more = jpeg_folder(2), digests(jpeg_folder(3))
    assert folder.parent == cache
    assert digests(folder) == {name: more[name] for name in ("00000.jpg", "00001.jpg")}
    monkeypatch.setattr(images, "_make", None)  # making them again would fail
    assert JpegImages(2).paths == (folder / "00000.jpg", folder / "00001.jpg")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_whoever_is_interrupted_or_loses_the_race_leaves_nothing_behind(cache, error):
    def loses(folder):
        Path(folder, "1.jpg").touch()
        if error is OSError:  # another process has made them meanwhile
            (cache / "pictures").mkdir()
            (cache / "pictures" / "2.jpg").touch()
        raise error

    if error is OSError:
        assert list(digests(images.cached_folder("pictures", loses))) == ["2.jpg"]
    else:
        with pytest.raises(KeyboardInterrupt):
            images.cached_folder("pictures", loses)
        assert list(cache.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="paths and home are those of POSIX")
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"LOADERVIZ_CACHE": "{}/own", "XDG_CACHE_HOME": "{}/xdg"}, "own"),
        ({"LOADERVIZ_CACHE": "~/own"}, "own"),
        ({"XDG_CACHE_HOME": "{}/xdg"}, "xdg/loaderviz"),
        ({"XDG_CACHE_HOME": "not/absolute"}, ".cache/loaderviz"),
        ({}, ".cache/loaderviz"),
    ],
)
def test_the_cache_folder_follows_the_environment(environment, expected, tmp_path, monkeypatch):
    for name in ("LOADERVIZ_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "{}", **environment}.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    assert jpeg_folder(1).parent == tmp_path / expected


def test_without_pillow_or_a_folder_to_write_in_the_way_out_is_told(cache, monkeypatch):
    cache.touch()  # a file
    with pytest.raises(LoaderVizError, match=r"cannot keep .*LOADERVIZ_CACHE"):
        jpeg_folder(1)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(LoaderVizError, match=r"pip install 'loaderviz\[notebook\]'"):
        JpegImages(2)


@pytest.mark.usefixtures("shared_cache")
def test_every_dataset_survives_pickling_with_all_its_settings():
    for dataset in [
        SleepingDataset(3, 0.5, fail_at=1),
        SleepingStream(3, [0.1, 0.2, 0.3]),
        RemoteTable(3, 0.5),
        SourceFiles(3),
        JpegImages(3, (8, 9)),
    ]:
        assert vars(pickle.loads(pickle.dumps(dataset))) == vars(dataset)
