"""How well the streams of other libraries are mixed: `make strangers` installs them and runs this.

Each test is skipped where its library is missing.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

import loaderviz as lv

N = 2000


def place(sample: Any) -> Any:
    return sample["n"]


def mixing(loader: Any, key: Any = place) -> Any:
    found = lv.audit(loader, key=key)
    assert found.exactly_once
    return found.mixing()


class TestHuggingFace:
    def stream(self, num_shards: int, n: int = N) -> Any:
        datasets = pytest.importorskip("datasets")
        return datasets.Dataset.from_dict({"n": range(n)}).to_iterable_dataset(num_shards)

    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_a_larger_shuffle_buffer_mixes_better(self, num_workers):
        scores = []
        for size in (1, 100, N):
            stream = self.stream(8).shuffle(seed=0, buffer_size=size)
            scores.append(mixing(DataLoader(stream, batch_size=20, num_workers=num_workers)).score)
        assert scores[0] < 0.05  # it shuffles the shards, and not what is in them
        assert scores[0] < scores[1] < scores[2]
        assert scores[2] > 0.3

    def test_more_shards_than_workers_share_evenly_end_early(self):
        found = mixing(DataLoader(self.stream(3), batch_size=20, num_workers=2))
        assert found.workers["samples"].tolist() == [1333, 667]
        assert "worker 1 after" in str(found)


class TestWebdataset:
    @pytest.fixture
    def shards(self, tmp_path: Path) -> str:
        wds = pytest.importorskip("webdataset")
        for shard in range(4):
            with wds.TarWriter(str(tmp_path / f"s-{shard}.tar")) as tar:
                for i in range(50 * (shard + 1)):
                    tar.write({"__key__": f"{i}", "npy": np.zeros(2)})
        return str(tmp_path / "s-{0..3}.tar")

    def test_shard_and_key_tell_the_order_and_how_large_the_shards_are(self, shards):
        import webdataset as wds

        stream = wds.WebDataset(shards, shardshuffle=False).decode()
        loader = DataLoader(stream, batch_size=10, num_workers=2, collate_fn=list)
        found = mixing(loader, lambda sample: (sample["__url__"], sample["__key__"]))
        assert sorted(found.shards["samples"]) == [50, 100, 150, 200]
        assert found.score < 0.1
        shuffled = DataLoader(stream.shuffle(500), batch_size=10, collate_fn=list)
        assert mixing(shuffled, lambda sample: (sample["__url__"], sample["__key__"])).score > 0.7

    def test_ready_made_batches_give_a_key_for_each_sample(self, shards):
        import webdataset as wds

        stream = wds.WebDataset(shards, shardshuffle=False).decode().to_tuple("__key__", "npy")
        loader = wds.WebLoader(stream.batched(10), batch_size=None, num_workers=2)
        found = lv.audit(loader.pipeline[0], key=lambda batch: list(map(int, batch[0])))
        assert found.deliveries["sample"].count() == 500
        assert found.mixing().score < 0.9
