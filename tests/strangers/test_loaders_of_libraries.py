"""Loaders of other libraries, recorded as they are: `make strangers` installs them and runs this.

Each test is skipped where its library is missing. torchvision, whose build on PyPI does not fit
torch for CPUs, is stood in for by empty modules where a library imports it and does not use it.
"""

import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import loaderviz as lv


def run(loader: Any, epochs: int = 1) -> tuple[lv.Trace, list[list[Any]]]:
    with lv.record(loader) as rec:
        received = [list(loader) for _ in range(epochs)]
    assert rec.trace.meta["problems"] == []
    assert rec.trace.summary().n_batches == sum(map(len, received)) > 0
    return rec.trace, received


def assert_unseen(trace: lv.Trace, n_samples: int) -> None:
    """Waits, steps and samples are there, and nothing is said of what the loader did."""
    summary = trace.summary()
    assert summary.n_samples == n_samples
    assert set(summary.causes["cause"]) == {"unknown"}
    assert "workers not seen" in summary.numbers


def assert_seen(trace: lv.Trace, n_samples: int, n_workers: int) -> None:
    """The DataLoader inside is recorded, with its workers."""
    summary = trace.summary()
    assert (summary.n_samples, summary.n_workers) == (n_samples, n_workers)
    assert trace.batches["started_s"].notna().all()
    assert "foreign" not in {each["kind"] for each in trace.meta["loaders"]}


def slow(item: Any) -> Any:
    time.sleep(0.001)
    return item


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_thread_of_monais_loader_makes_batches_and_the_loop_waits_for_the_loader(num_workers):
    monai_data = pytest.importorskip("monai.data")
    dataset = [torch.tensor(i) for i in range(40)]
    loader = monai_data.ThreadDataLoader(
        dataset, batch_size=4, num_workers=num_workers, collate_fn=torch.stack
    )
    trace, received = run(loader, epochs=2)
    assert [torch.cat(epoch).tolist() for epoch in received] == [[*range(40)]] * 2
    summary = trace.summary()
    assert (summary.n_samples, summary.waits_are_seen) == (80, True)
    assert "read ahead by a thread of ThreadDataLoader" in str(summary)


class TestWebdataset:
    @pytest.fixture
    def shards(self, tmp_path: Path) -> str:
        wds = pytest.importorskip("webdataset")
        for shard in range(2):
            with wds.TarWriter(str(tmp_path / f"s-{shard}.tar")) as tar:
                for i in range(20):
                    tar.write({"__key__": f"{shard}-{i}", "npy": np.zeros((3, 4)), "cls": i})
        return str(tmp_path / "s-{0..1}.tar")

    def dataset(self, shards: str) -> Any:
        import webdataset as wds

        return wds.WebDataset(shards, shardshuffle=False).decode().to_tuple("npy", "cls")

    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_ready_made_batches_have_their_samples(self, shards, num_workers):
        import webdataset as wds

        loader = wds.WebLoader(
            self.dataset(shards).batched(10), batch_size=None, num_workers=num_workers
        )
        assert_seen(run(loader)[0], 40, num_workers)

    def test_a_pipeline_without_a_loader_shows_its_waits(self, shards):
        assert_unseen(run(self.dataset(shards).batched(10))[0], 40)

    def test_who_needs_a_dataloader_names_the_one_inside(self, shards):
        import webdataset as wds

        loader = wds.WebLoader(self.dataset(shards), batch_size=8)
        for verb in (lv.audit, lv.doctor, lv.recommend):
            with pytest.raises(lv.LoaderVizError, match=r"pass loader.pipeline\[0\]"):
                verb(loader)
        assert lv.audit(loader.pipeline[0]).exactly_once


class TestTorchdata:
    @pytest.mark.parametrize("method", ["thread", "process"])
    def test_nodes_show_their_waits_and_keep_their_state(self, method):
        nodes = pytest.importorskip("torchdata.nodes")

        def make() -> Any:
            node = nodes.IterableWrapper(range(40))
            node = nodes.ParallelMapper(node, slow, num_workers=2, method=method)
            return nodes.Loader(nodes.Prefetcher(nodes.Batcher(node, 4), 2))

        loader = make()
        trace, received = run(loader, epochs=2)
        assert_unseen(trace, 80)
        plain = make()
        assert received == [list(plain), list(plain)]
        assert loader.state_dict() == plain.state_dict()

    def test_a_loader_goes_on_where_it_was(self):
        nodes = pytest.importorskip("torchdata.nodes")
        loader = nodes.Loader(nodes.Batcher(nodes.IterableWrapper(range(40)), 4))
        with lv.record(loader) as rec:
            iterator = iter(loader)
            first = [next(iterator) for _ in range(3)]
            state = loader.state_dict()
            loader.load_state_dict(state)
            rest = list(loader)
        assert [each for batch in first + rest for each in batch] == list(range(40))
        assert len(rec.trace.batches) == 10

    def test_a_stateful_loader_is_recorded_as_torchs(self):
        stateful = pytest.importorskip("torchdata.stateful_dataloader")
        loader = stateful.StatefulDataLoader(list(range(20)), batch_size=4, num_workers=2)
        assert_seen(run(loader)[0], 20, 2)


class TestLitdata:
    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_its_loader_is_recorded_as_torchs(self, tmp_path, num_workers):
        litdata = pytest.importorskip("litdata")
        cache = pytest.importorskip("litdata.streaming.cache").Cache(str(tmp_path), chunk_size=10)
        for i in range(40):
            cache[i] = {"x": i}
        cache.done()
        cache.merge()
        dataset = litdata.StreamingDataset(str(tmp_path))
        loader = litdata.StreamingDataLoader(dataset, batch_size=4, num_workers=num_workers)
        trace, received = run(loader)
        assert_seen(trace, 40, num_workers)
        assert sorted(torch.cat([each["x"] for each in received[0]]).tolist()) == list(range(40))


class TestHuggingFace:
    @pytest.fixture
    def stream(self) -> Any:
        datasets = pytest.importorskip("datasets")
        columns = {"text": [f"t{i}" for i in range(40)], "ids": [[i] * 3 for i in range(40)]}
        return datasets.Dataset.from_dict(columns).to_iterable_dataset(num_shards=4)

    def test_in_a_dataloader_it_is_recorded_with_its_workers(self, stream):
        loader = DataLoader(stream.with_format("torch"), batch_size=4, num_workers=2)
        assert_seen(run(loader)[0], 40, 2)

    def test_ready_made_batches_have_their_samples(self, stream):
        assert_seen(run(DataLoader(stream.batch(4), batch_size=None))[0], 40, 0)

    @pytest.mark.parametrize("format_", [None, "torch"])
    def test_by_itself_it_shows_its_waits(self, stream, format_):
        assert_unseen(run(stream.with_format(format_).batch(8))[0], 40)
        assert_unseen(run(stream.with_format(format_))[0], 40)


class TestLightning:
    @pytest.mark.parametrize("mode", ["min_size", "max_size", "max_size_cycle", "sequential"])
    def test_the_loaders_that_it_combines_are_recorded_each(self, mode):
        combined = pytest.importorskip("lightning.pytorch.utilities").CombinedLoader
        loaders = {
            "a": DataLoader(range(20), batch_size=4),
            "b": DataLoader(range(12), batch_size=4, num_workers=1),
        }
        loader = combined(loaders, mode)
        with lv.record(loader) as rec:
            n = [len(list(loader)) for _ in range(2)]
        assert n[0] == n[1] > 0
        assert set(rec.trace.batches["loader"]) == {0, 1}
        delivered = rec.trace.batches.dropna(subset="delivered_s")
        assert delivered["started_s"].notna().all()
        assert {each["kind"] for each in rec.trace.meta["loaders"]} == {"map"}


class TestRay:
    def test_its_iterables_show_their_waits(self):
        ray = pytest.importorskip("ray")
        pytest.importorskip("ray.data")
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
        try:
            dataset = ray.data.range(100)
            for loader in (
                dataset.iter_torch_batches(batch_size=10),
                dataset.iterator().iter_batches(batch_size=10),
            ):
                assert_unseen(run(loader)[0], 100)
        finally:
            ray.shutdown()


class TestDali:
    def test_its_iterator_shows_its_waits(self):
        """On the CPU: with a GPU only the pipeline differs, and not its iterator."""
        pytest.importorskip("nvidia.dali")
        from nvidia.dali import fn, pipeline_def
        from nvidia.dali.plugin.pytorch import DALIGenericIterator

        @pipeline_def(batch_size=4, num_threads=1, device_id=None)
        def pipeline() -> Any:
            images = fn.random.uniform(range=[0, 1], shape=[3, 2])
            return images, fn.random.uniform(range=[0, 1], shape=[1])

        built = pipeline()
        built.build()
        loader = DALIGenericIterator([built], ["data", "label"], size=20, auto_reset=True)
        trace, received = run(loader, epochs=2)
        assert [len(epoch) for epoch in received] == [5, 5]
        assert_unseen(trace, 40)


class EmptyModule(ModuleType):
    """Has every class that it is asked for, with nothing in it."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class TestMosaicmlStreaming:
    @pytest.fixture
    def streaming(self, monkeypatch) -> Any:
        pytest.importorskip("transformers.feature_extraction_utils")  # looks for torchvision itself
        for part in ("", ".datasets", ".transforms", ".transforms.functional"):
            name = f"torchvision{part}"
            monkeypatch.setitem(sys.modules, name, EmptyModule(name))
        return pytest.importorskip("streaming")

    @pytest.fixture
    def make(self, streaming, tmp_path) -> Any:
        with streaming.MDSWriter(out=str(tmp_path), columns={"n": "int"}, size_limit=200) as out:
            for n in range(32):
                out.write({"n": n})

        def make() -> Any:
            dataset = streaming.StreamingDataset(local=str(tmp_path), batch_size=4, shuffle=False)
            return streaming.StreamingDataLoader(dataset, batch_size=4, num_workers=2)

        return make

    def test_it_is_recorded_as_torchs_own(self, make):
        loader = make()
        trace, received = run(loader)
        assert_seen(trace, 32, 2)
        assert [n for batch in received[0] for n in batch["n"].tolist()] == list(range(32))
        assert lv.audit(loader).exactly_once

    def test_it_goes_on_where_it_was(self, make):
        loader = make()
        with lv.record(loader) as rec:
            first = next(batches := iter(loader))
            state = loader.state_dict()
        del batches
        again = make()
        again.load_state_dict(state)
        assert rec.trace.summary().n_batches == 1
        assert [*first["n"], *(n for batch in run(again)[1][0] for n in batch["n"])] == [*range(32)]
