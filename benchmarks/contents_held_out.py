"""The held-out half of `contents.py`: loaders made after public bug reports and library patterns.

They were written without a look at how contents are compared, as others write them.
"""
from __future__ import annotations

import atexit
import functools
import io
import itertools
import os
import pickle
import random
import shutil
import sqlite3
import struct
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from typing import Callable

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
)


@dataclass
class Case:
    name: str
    make: Callable[[], DataLoader]
    expected: str
    source: str
    epochs: int = 1
    note: str = ""


CASES: list[Case] = []


def case(expected: str, source: str, epochs: int = 1, note: str = ""):
    def add(make):
        CASES.append(Case(make.__name__, make, expected, source, epochs, note))
        return make

    return add


def _tmpdir() -> str:
    """A temporary folder, removed when the process that made it ends."""
    path = tempfile.mkdtemp(prefix="heldout_")
    pid = os.getpid()

    def remove():
        if os.getpid() == pid:
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return path


def _png(rng: np.random.Generator, size: int = 12) -> bytes:
    out = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (size, size, 3), dtype=np.uint8)).save(out, "PNG")
    return out.getvalue()


# =====================================================================================================================
# Faulty, map-style
# =====================================================================================================================

# ---- buffer ---------------------------------------------------------------------------------------------------------


class ScaleTo01:
    """uint8 -> float in [0, 1]; writes into one scratch tensor, to save the allocation."""

    def __init__(self, shape):
        self.scratch = torch.empty(shape)

    def __call__(self, img):
        return torch.mul(img.float(), 1 / 255.0, out=self.scratch)


class FacesDataset(Dataset):
    def __init__(self, images, labels, transform=None):
        self.images = images
        self.labels = labels
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        img, label = self.images[index], int(self.labels[index])
        if self.transform is not None:
            img = self.transform(img)
        return img, label


@case("buffer", "out= into a preallocated tensor, the same bug as openai/baselines#418 (DummyVecEnv hands out one reused observation buffer)")
def transform_with_scratch_tensor():
    g = torch.Generator().manual_seed(11)
    images = torch.randint(0, 256, (48, 3, 8, 8), dtype=torch.uint8, generator=g)
    labels = torch.randint(0, 10, (48,), generator=g)
    return DataLoader(FacesDataset(images, labels, ScaleTo01((3, 8, 8))), batch_size=8, shuffle=True, num_workers=2)


class Row:
    """A cursor on a table, as PyTables hands it out: one object for the whole iteration."""

    def __init__(self, table):
        self._table = table
        self.nrow = -1

    def __getitem__(self, column):
        return self._table[column][self.nrow]


class TableDataset(Dataset):
    def __init__(self, table):
        self.table = table
        self.row = Row(table)

    def __len__(self):
        return len(self.table["my_id"])

    def __getitem__(self, i):
        self.row.nrow = i
        return self.row


def collate_rows(rows):
    return {
        "my_id": torch.tensor([int(r["my_id"]) for r in rows]),
        "vector": torch.from_numpy(np.stack([r["vector"] for r in rows])),
    }


@case("buffer", "PyTables/PyTables#955 (list(table.iterrows()) holds one Row object, so all rows are the last one)")
def one_row_object_for_all_rows():
    rng = np.random.default_rng(12)
    table = {"my_id": np.arange(54), "vector": rng.standard_normal((54, 16)).astype(np.float32)}
    return DataLoader(TableDataset(table), batch_size=6, collate_fn=collate_rows, num_workers=0)


class RecordFile(Dataset):
    """Fixed-size records; a batch is read at once through __getitems__, into one bytearray and without copies."""

    RECORD = 128

    def __init__(self, path):
        self.path = path
        self.n = os.path.getsize(path) // self.RECORD
        self._files = {}
        self._buf = bytearray(self.RECORD)

    def _file(self):
        pid = os.getpid()
        if pid not in self._files:
            self._files = {pid: open(self.path, "rb")}
        return self._files[pid]

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        f = self._file()
        f.seek(i * self.RECORD)
        f.readinto(self._buf)
        return np.frombuffer(self._buf, dtype=np.float32)

    def __getitems__(self, indices):
        return [self[i] for i in indices]


@case("buffer", "jnwatson/py-lmdb#58 and numpy.frombuffer over a reader's own buffer (zero-copy values are only good until the next read)")
def getitems_into_one_bytearray():
    path = os.path.join(_tmpdir(), "records.bin")
    np.random.default_rng(13).standard_normal((72, 32)).astype(np.float32).tofile(path)
    return DataLoader(RecordFile(path), batch_size=6, shuffle=True, num_workers=4)


# ---- replaced -------------------------------------------------------------------------------------------------------


class CaptionDataset(Dataset):
    """LAVIS-like: annotations as dicts, and another annotation at random if the image cannot be read."""

    def __init__(self, annotation, files):
        self.annotation = annotation
        self.files = files

    def __len__(self):
        return len(self.annotation)

    def __getitem__(self, index):
        available = False
        while not available:
            try:
                ann = self.annotation[index]
                image = Image.open(io.BytesIO(self.files[ann["image"]])).convert("RGB")
                image = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float() / 255
                available = True
            except Exception:
                index = random.randint(0, len(self.annotation) - 1)
        return {"image": image, "text_input": ann["caption"], "image_id": ann["image_id"]}


@case("replaced", "salesforce/LAVIS#62 (except Exception: index = random.randint(...))")
def random_other_image_after_error():
    rng = np.random.default_rng(21)
    files, annotation = {}, []
    for i in range(40):
        name = f"coco/{i:06d}.png"
        data = _png(rng)
        files[name] = data[: len(data) // 3] if i in (5, 17, 18, 33) else data
        annotation.append({"image": name, "image_id": 1000 + i, "caption": f"a photo of thing {i}"})
    return DataLoader(CaptionDataset(annotation, files), batch_size=5, num_workers=2)


class TextImageDataset(Dataset):
    """DALLE-pytorch-like: the next sample if this one is corrupt."""

    def __init__(self, folder):
        self.keys = sorted(p[:-4] for p in os.listdir(folder) if p.endswith(".txt"))
        self.folder = folder

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, ind):
        key = self.keys[ind]
        try:
            with Image.open(os.path.join(self.folder, key + ".png")) as image:
                pixels = np.array(image.convert("L"))
        except OSError:
            return self.__getitem__((ind + 1) % len(self))
        with open(os.path.join(self.folder, key + ".txt")) as f:
            text = f.read()
        return torch.tensor([ord(c) for c in text.ljust(20)[:20]]), torch.from_numpy(pixels)


@case("replaced", "lucidrains/DALLE-pytorch#194 and rom1504/clip-retrieval#13 (corrupt image: return self.__getitem__(ind + 1))")
def next_sample_after_corrupt_image():
    folder = _tmpdir()
    rng = np.random.default_rng(22)
    for i in range(36):
        data = _png(rng)
        if i in (4, 20, 35):
            data = data[:40]
        with open(os.path.join(folder, f"{i:04d}.png"), "wb") as f:
            f.write(data)
        with open(os.path.join(folder, f"{i:04d}.txt"), "w") as f:
            f.write(f"caption no {i}")
    dataset = TextImageDataset(folder)
    return DataLoader(Subset(dataset, list(range(35, -1, -1))), batch_size=4, num_workers=0)


class UtteranceDataset(Dataset):
    def __init__(self, utterances):
        self.utterances = utterances

    def __len__(self):
        return len(self.utterances)

    def __getitem__(self, i):
        utt = self.utterances[i]
        return {"id": utt["id"], "speaker": utt["speaker"], "feats": utt["feats"]}


def shuffle_in_worker(worker_id):
    """'Shuffle, with a seed for each worker': the list itself, and so the meaning of every index, differs by worker."""
    info = get_worker_info()
    random.Random(info.seed).shuffle(info.dataset.utterances)


@case("replaced", "huggingface/datasets#5696 and meta-pytorch/data#302 (each worker shuffles with its own seed), here on a map-style dataset in worker_init_fn")
def worker_init_fn_shuffles_the_list():
    g = torch.Generator().manual_seed(23)
    utterances = [{"id": f"utt{i:03d}", "speaker": i % 7, "feats": torch.randn(10, generator=g)} for i in range(60)]
    return DataLoader(UtteranceDataset(utterances), batch_size=6, num_workers=2, worker_init_fn=shuffle_in_worker)


class OnDiskDataset(Dataset):
    """PyG-like: index_select gives a view with its own _indices; the batched path forgets to go through them."""

    def __init__(self, db):
        self.db = db
        self._indices = None

    def indices(self):
        return range(len(self.db)) if self._indices is None else self._indices

    def index_select(self, idx):
        other = OnDiskDataset(self.db)
        other._indices = [self.indices()[i] for i in idx]
        return other

    def get(self, raw):
        return pickle.loads(self.db[raw])

    def multi_get(self, raws):
        return [self.get(raw) for raw in raws]

    def __len__(self):
        return len(self.indices())

    def __getitem__(self, i):
        return self.get(self.indices()[i])

    def __getitems__(self, batch):
        return self.multi_get(batch)


@case("replaced", "pyg-team/pytorch_geometric#10674 (__getitems__ ignores the subset's indices and returns the first rows of the database)")
def getitems_ignores_the_subset():
    rng = np.random.default_rng(24)
    db = [pickle.dumps({"smiles": "C" * (i % 9 + 1), "mol": i, "pos": rng.standard_normal((3, 3))}) for i in range(80)]
    valid = OnDiskDataset(db).index_select(range(50, 80))
    return DataLoader(valid, batch_size=10, num_workers=0)


# ---- changed --------------------------------------------------------------------------------------------------------


class PackedFile(Dataset):
    """One file of packed records, opened once in __init__: after fork all workers share one file offset."""

    HEAD = struct.Struct("<II")
    BODY = 256

    def __init__(self, path, n):
        self.n = n
        self.fid = open(path, "rb", buffering=0)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        self.fid.seek(i * (self.HEAD.size + self.BODY))
        key, label = self.HEAD.unpack(self.fid.read(self.HEAD.size))
        time.sleep(0.0005)  # a network file system between the two reads
        body = np.frombuffer(self.fid.read(self.BODY), dtype=np.uint8).copy()
        return {"key": key, "label": label, "signal": body}


@case("changed", "pytorch/pytorch#11929 and #11887, torchmd/torchmd-net#84, mehta-lab/VisCy#417 (handle opened in __init__, read by forked workers)",
      note="a race: which samples are wrong differs from run to run; a wrong sample has its own key and mostly another record's signal, whole or in part")
def one_file_offset_for_four_workers():
    path = os.path.join(_tmpdir(), "packed.dat")
    rng = np.random.default_rng(31)
    with open(path, "wb") as f:
        for i in range(80):
            f.write(PackedFile.HEAD.pack(i, i % 5) + rng.integers(0, 256, PackedFile.BODY, dtype=np.uint8).tobytes())
        f.write(bytes(12 * (PackedFile.HEAD.size + PackedFile.BODY)))  # preallocated tail
    return DataLoader(PackedFile(path, 80), batch_size=5, num_workers=4)


class NormalizeInplace:
    """torchvision's first Normalize: in place, on whatever it is given."""

    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def __call__(self, tensor):
        return tensor.sub_(self.mean).div_(self.std)


class Transformed(Dataset):
    def __init__(self, dataset, transform):
        self.dataset = dataset
        self.transform = transform

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, i):
        x, y = self.dataset[i]
        return self.transform(x), y


@case("changed", "pytorch/vision#680 (Normalize works in place on data that is kept in memory; it becomes more and more normalized)", epochs=2,
      note="persistent workers: the workers' copies are what changes, the main process's data stay; 'mutated' is right as well")
def normalized_again_in_every_epoch():
    g = torch.Generator().manual_seed(32)
    mnist = TensorDataset(torch.rand(64, 1, 6, 6, generator=g), torch.randint(0, 10, (64,), generator=g))
    return DataLoader(Transformed(mnist, NormalizeInplace(0.1307, 0.3081)), batch_size=8, num_workers=2, persistent_workers=True)


class BufferedCollate:
    """Stacks every batch into the same tensor. Once sent, that tensor lies in shared memory: later batches of the
    same worker overwrite the ones that still wait in the queue."""

    def __init__(self, batch_size, shape):
        self.out = torch.empty((batch_size, *shape))

    def __call__(self, samples):
        out = self.out[: len(samples)]
        torch.stack([s["x"] for s in samples], out=out)
        return {"x": out, "id": torch.tensor([s["id"] for s in samples])}


class DictOfTensors(Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "id": i}


@case("changed", "emfdavid/insitubatch#21 and vllm-project/speculators#815 (batch output buffers preallocated and reused), without a pool that waits for the consumer")
def batch_tensor_reused_by_collate():
    g = torch.Generator().manual_seed(33)
    return DataLoader(DictOfTensors(torch.randn(96, 40, generator=g)), batch_size=8, num_workers=2, prefetch_factor=3,
                      collate_fn=BufferedCollate(8, (40,)))


# ---- dropped --------------------------------------------------------------------------------------------------------


class FaceCrops(Dataset):
    """None where no face was found in the video."""

    def __init__(self, crops):
        self.crops = crops

    def __len__(self):
        return len(self.crops)

    def __getitem__(self, i):
        crop = self.crops[i]
        if crop is None:
            return None
        return {"video": f"{i:04d}.mp4", "face": torch.from_numpy(crop)}


def collate_without_none(batch):
    batch = list(filter(lambda x: x is not None, batch))
    return default_collate(batch)


@case("dropped", "pytorch/pytorch#57429, dessa-oss/DeepFake-Detection#5 (collate_fn filters None)")
def collate_filters_none():
    rng = np.random.default_rng(41)
    crops = [None if i % 11 == 3 else rng.random((3, 6, 6), dtype=np.float32) for i in range(66)]
    return DataLoader(FaceCrops(crops), batch_size=6, num_workers=2, collate_fn=collate_without_none)


class Graph:
    def __init__(self, idx, x, edge_index):
        self.idx, self.x, self.edge_index = idx, x, edge_index


class GraphDataset(Dataset):
    def __init__(self, graphs):
        self.graphs = graphs

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, i):
        return self.graphs[i]


def graphormer_collator(items, max_node=10):
    items = [item for item in items if item is not None and item.x.size(0) <= max_node]
    n = max(item.x.size(0) for item in items)
    x = torch.zeros(len(items), n, items[0].x.size(1))
    for k, item in enumerate(items):
        x[k, : item.x.size(0)] = item.x
    return {"idx": torch.tensor([item.idx for item in items]), "x": x}


@case("dropped", "microsoft/Graphormer#101 (the collator leaves out graphs with more than max_node nodes, also for validation)")
def collate_leaves_out_large_graphs():
    g = torch.Generator().manual_seed(42)
    graphs = []
    for i in range(45):
        n = 3 + (i * 7) % 9 if i % 13 else 14
        graphs.append(Graph(i, torch.randn(n, 4, generator=g), torch.randint(0, n, (2, 2 * n), generator=g)))
    return DataLoader(GraphDataset(graphs), batch_size=9, num_workers=0, collate_fn=graphormer_collator)


# ---- mutated --------------------------------------------------------------------------------------------------------


class SpectrogramMemmap(Dataset):
    """np.memmap with mode r+, and a normalization in place: the file on disk changes."""

    def __init__(self, path, shape):
        self.data = np.memmap(path, dtype=np.float32, mode="r+", shape=shape)

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        spec = self.data[i]
        spec -= spec.mean()
        spec /= 2 * spec.std() + 1e-3
        return torch.from_numpy(np.array(spec)), i


@case("mutated", "numpy.memmap's documentation (r+ writes through) with the in-place transform of pytorch/vision#680; cf. Deltares/imod-python#2", epochs=2,
      note="the workers write to the file on disk, so that the main process's memory map changes too")
def memmap_normalized_on_disk():
    path = os.path.join(_tmpdir(), "spec.npy")
    (np.random.default_rng(51).standard_normal((32, 5, 8)) * 3 + 4).astype(np.float32).tofile(path)
    return DataLoader(SpectrogramMemmap(path, (32, 5, 8)), batch_size=4, num_workers=2)


class DetectionDataset(Dataset):
    """Targets kept in memory and scaled in place; spawn moves the tensors to shared memory, so that all see it."""

    def __init__(self, images, boxes):
        self.images = images
        self.boxes = boxes

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img = self.images[i]
        target = {"boxes": self.boxes[i], "image_id": i}
        target["boxes"] *= 0.5  # the image is resized to one half
        return img[:, ::2, ::2], target


@case("mutated", "mindee/doctr#840 and Megvii-BaseDetection/YOLOX#275 (targets changed in place), with tensors that spawn moves to shared memory", epochs=2,
      note="spawn: the start takes seconds, as torch is imported in each worker")
def boxes_scaled_in_shared_memory():
    g = torch.Generator().manual_seed(52)
    images = torch.rand(24, 1, 8, 8, generator=g)
    boxes = torch.rand(24, 4, generator=g) * 100 + 1
    return DataLoader(DetectionDataset(images, boxes), batch_size=4, num_workers=2, multiprocessing_context="spawn", persistent_workers=True)


class FeaturesDataset(Dataset):
    """simpletransformers-like: the label is popped out of the row."""

    def __init__(self, features):
        self.features = features

    def __len__(self):
        return len(self.features)

    def __getitem__(self, i):
        features = self.features[i]
        label = features.pop("label", -100)
        return {k: torch.tensor(v) for k, v in features.items()}, label


@case("mutated", "ThilinaRajapakse/simpletransformers#974 (label = features.pop('label'): gone in the second epoch)", epochs=2)
def label_popped_out_of_the_row():
    rng = np.random.default_rng(53)
    features = [{"input_ids": rng.integers(0, 1000, 12).tolist(), "attention_mask": [1] * 12, "label": int(rng.integers(0, 3))} for _ in range(40)]
    return DataLoader(FeaturesDataset(features), batch_size=8, shuffle=True, num_workers=0)


class NewsTitleDataset(Dataset):
    def __init__(self, data_set):
        self.data_set = data_set

    def __len__(self):
        return len(self.data_set)

    def __getitem__(self, idx):
        return self.data_set[idx]


def collate_extending_the_lists(batch_data):
    max_len = max(len(instance["input_ids"]) for instance in batch_data)
    input_ids_list = []
    for instance in batch_data:
        input_ids_temp = instance["input_ids"]
        input_ids_temp.extend([0] * (max_len - len(instance["input_ids"])))
        input_ids_list.append(torch.tensor(input_ids_temp, dtype=torch.long))
    return {"input_ids": torch.stack(input_ids_list), "id": torch.tensor([instance["id"] for instance in batch_data])}


@case("mutated", "liucongg/GPT2-NewsTitle#3 (collate pads with list.extend on the dataset's own lists)", epochs=2)
def collate_extends_the_datasets_lists():
    rng = np.random.default_rng(54)
    data_set = [{"id": i, "input_ids": rng.integers(1, 5000, int(rng.integers(3, 30))).tolist()} for i in range(56)]
    return DataLoader(NewsTitleDataset(data_set), batch_size=7, shuffle=True, num_workers=0, collate_fn=collate_extending_the_lists)


class Cutout:
    """albumentations' first Cutout: the hole is cut into the image that was given."""

    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        y = random.randint(0, image.shape[0] - self.size)
        x = random.randint(0, image.shape[1] - self.size)
        image[y : y + self.size, x : x + self.size] = 0
        return image


@functools.lru_cache(maxsize=256)
def decode_cached(data: bytes) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(data)).convert("RGB"))


class CachedImages(Dataset):
    def __init__(self, blobs, transform):
        self.blobs = blobs
        self.transform = transform

    def __len__(self):
        return len(self.blobs)

    def __getitem__(self, i):
        return {"image": self.transform(decode_cached(self.blobs[i])), "target": i % 4}


@case("mutated", "albumentations-team/albumentations#39 (Cutout modifies its input), sktime/sktime#6451 and tkem/cachetools#184 (mutable object out of a cache)", epochs=2,
      note="random augmentation, but the holes stay in the cached image and add up; the data are in a cache of the module's")
def cutout_on_lru_cached_image():
    rng = np.random.default_rng(55)
    decode_cached.cache_clear()
    return DataLoader(CachedImages([_png(rng, 10) for _ in range(32)], Cutout(4)), batch_size=8, num_workers=0)


# =====================================================================================================================
# Faulty, iterable-style
# =====================================================================================================================


class CsvStream(IterableDataset):
    """Every worker reads all files."""

    def __init__(self, files):
        self.files = files

    def __iter__(self):
        for path in self.files:
            with open(path) as f:
                for line in f:
                    imei, value = line.strip().split(",")
                    yield {"imei": imei, "value": float(value)}


@case("doubled", "huggingface/datasets#3423, vahidk/tfrecord#78, espnet/espnet#2081 (the data are repeated num_workers times)")
def stream_not_split_over_workers():
    folder = _tmpdir()
    files = []
    for k in range(4):
        files.append(os.path.join(folder, f"sequence_{k}.csv"))
        with open(files[-1], "w") as f:
            f.writelines(f"86{k}{j:03d},{k * 10 + j / 7:.4f}\n" for j in range(10))
    return DataLoader(CsvStream(files), batch_size=5, num_workers=2)


class ShardedStream(IterableDataset):
    """n_shards // num_workers shards for each worker: the rest is nobody's."""

    def __init__(self, shards):
        self.shards = shards

    def __iter__(self):
        info = get_worker_info()
        shards = self.shards
        if info is not None:
            per_worker = len(shards) // info.num_workers
            shards = shards[info.id * per_worker : (info.id + 1) * per_worker]
        for shard in shards:
            yield from (pickle.loads(blob) for blob in shard)


@case("lost", "webdataset/webdataset#65, huggingface/datasets#6623 and #6594 (number of shards not a multiple of the number of workers)")
def shards_left_over_by_floor_division():
    rng = np.random.default_rng(62)
    shards = [[pickle.dumps((k * 6 + j, rng.standard_normal(5).astype(np.float32))) for j in range(6)] for k in range(10)]
    return DataLoader(ShardedStream(shards), batch_size=4, num_workers=4)


class SqlRange(IterableDataset):
    """The range of ids is split as in the torch documentation, but BETWEEN takes both ends."""

    def __init__(self, path, start, end):
        self.path, self.start, self.end = path, start, end

    def __iter__(self):
        info = get_worker_info()
        if info is None:
            lo, hi = self.start, self.end
        else:
            per_worker = -(-(self.end - self.start) // info.num_workers)
            lo = self.start + info.id * per_worker
            hi = min(lo + per_worker, self.end)
        con = sqlite3.connect(self.path)
        try:
            for key, text in con.execute("SELECT id, text FROM docs WHERE id BETWEEN ? AND ? ORDER BY id", (lo, hi)):
                yield key, text
        finally:
            con.close()


@case("doubled", "the range split of torch.utils.data.IterableDataset's documentation, with SQL's BETWEEN (both ends included)",
      note="only the row at each inner border comes twice: one row of 60 for two workers")
def border_row_read_by_two_workers():
    path = os.path.join(_tmpdir(), "docs.sqlite")
    con = sqlite3.connect(path)
    con.execute("CREATE TABLE docs (id INTEGER PRIMARY KEY, text TEXT)")
    con.executemany("INSERT INTO docs VALUES (?, ?)", [(i, f"document {i} " + "lorem " * (i % 4)) for i in range(60)])
    con.commit()
    con.close()
    return DataLoader(SqlRange(path, 0, 60), batch_size=6, num_workers=2)


# =====================================================================================================================
# Healthy, map-style
# =====================================================================================================================


class RandomFlipAndNoise:
    def __call__(self, x):
        if torch.rand(()) < 0.5:
            x = x.flip(-1)
        return x + 0.05 * torch.randn_like(x)


@case("", "pattern, not looked up: torchvision-style transforms that draw from torch's generator, which DataLoader seeds in each worker")
def augmented_with_torch_rng():
    g = torch.Generator().manual_seed(101)
    base = TensorDataset(torch.rand(64, 1, 6, 6, generator=g), torch.arange(64))
    return DataLoader(Transformed(base, RandomFlipAndNoise()), batch_size=8, shuffle=True, num_workers=2)


def seed_worker(worker_id):
    worker_seed = torch.initial_seed() % 2**32
    np.random.seed(worker_seed)
    random.seed(worker_seed)


class PointClouds(Dataset):
    """Random rotation and a random choice of points, from numpy's global generator."""

    def __init__(self, clouds, npoints):
        self.clouds, self.npoints = clouds, npoints

    def __len__(self):
        return len(self.clouds)

    def __getitem__(self, i):
        cloud = self.clouds[i]
        cloud = cloud[np.random.choice(len(cloud), self.npoints)]
        a = np.random.uniform(0, 2 * np.pi)
        rot = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]], dtype=np.float32)
        return cloud @ rot, i % 3


@case("", "pytorch.org/docs/stable/notes/randomness.html#dataloader (seed_worker), after pytorch/pytorch#5059 and open-mmlab/OpenPCDet#886")
def augmented_with_numpy_seeded_per_worker():
    rng = np.random.default_rng(102)
    clouds = [rng.standard_normal((int(rng.integers(30, 60)), 3)).astype(np.float32) for _ in range(48)]
    return DataLoader(PointClouds(clouds, 16), batch_size=6, num_workers=4, worker_init_fn=seed_worker,
                      generator=torch.Generator().manual_seed(0))


class RandomCropOwnRng(Dataset):
    """An own numpy generator, made in each worker from the system's entropy."""

    def __init__(self, images):
        self.images = images
        self._rng = None

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        if self._rng is None:
            self._rng = np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
        y, x = self._rng.integers(0, 4, 2)
        return {"image": self.images[i][y : y + 8, x : x + 8], "name": f"img_{i}.npy", "salt": os.urandom(2).hex()}


@case("", "own np.random.Generator per worker, seeded from os.urandom, persistent workers (after facebookresearch/fairseq#1383)", epochs=2)
def cropped_with_own_generator():
    images = np.random.default_rng(103).integers(0, 256, (40, 12, 12), dtype=np.uint8)
    return DataLoader(RandomCropOwnRng(images), batch_size=5, num_workers=2, persistent_workers=True)


class CocoCaptions(Dataset):
    """Five captions for an image, one of them at random; counts what was read."""

    def __init__(self, anns):
        self.anns = anns
        self.reads = Counter()
        self.total = 0

    def __len__(self):
        return len(self.anns)

    def __getitem__(self, i):
        self.reads[i] += 1
        self.total += 1
        ann = self.anns[i]
        return {"image_id": ann["image_id"], "caption": random.choice(ann["captions"]), "feature": ann["feature"]}


@case("", "pattern, not looked up: COCO captions, one of five at random, as caption trainers read them; a counter of reads", epochs=2)
def random_caption_and_a_counter():
    g = torch.Generator().manual_seed(104)
    anns = [{"image_id": 500 + i, "captions": [f"caption {c} of image {i}" for c in range(5)], "feature": torch.randn(6, generator=g)} for i in range(36)]
    return DataLoader(CocoCaptions(anns), batch_size=6, shuffle=True, num_workers=0)


class CachedThenAugmented(Dataset):
    """The cache fills in the first epoch; the random hole is cut into a copy."""

    def __init__(self, blobs):
        self.blobs = blobs
        self.cache = {}

    def __len__(self):
        return len(self.blobs)

    def __getitem__(self, i):
        if i not in self.cache:
            self.cache[i] = np.array(Image.open(io.BytesIO(self.blobs[i])))
        return Cutout(3)(self.cache[i].copy()), i


@case("", "albumentations-team/albumentations#39 as fixed, and wkentaro/fcn#70 (copy before the transform); dataset-side cache as in albumentations#390", epochs=2)
def cache_that_fills_and_copies():
    rng = np.random.default_rng(105)
    return DataLoader(CachedThenAugmented([_png(rng, 9) for _ in range(30)]), batch_size=6, num_workers=0)


class SlidingWindows(Dataset):
    """Overlapping windows: all samples are views of one tensor in shared memory, which nobody writes to."""

    def __init__(self, series, window, horizon):
        self.series, self.window, self.horizon = series, window, horizon

    def __len__(self):
        return len(self.series) - self.window - self.horizon + 1

    def __getitem__(self, i):
        return self.series[i : i + self.window], self.series[i + self.window : i + self.window + self.horizon]


@case("", "pattern, not looked up: time-series windows and nanoGPT's get_batch, views of one tensor (share_memory_)")
def views_of_one_shared_tensor():
    series = torch.randn(100, 3, generator=torch.Generator().manual_seed(106)).share_memory_()
    return DataLoader(SlidingWindows(series, 16, 4), batch_size=9, shuffle=True, num_workers=2)


@case("", "pattern, not looked up: real data sets hold exact duplicates and blank images; drop_last with shuffle")
def rows_twice_and_rows_of_zeros():
    x = torch.rand(60, 10, generator=torch.Generator().manual_seed(107))
    x[10:20] = x[0:10]
    x[30:38] = 0
    y = torch.zeros(60, dtype=torch.long)
    y[25:] = 1
    return DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True, drop_last=True, num_workers=0)


class TokenMemmap(Dataset):
    """Opens the memory map on the first read of each process, and does not pickle it."""

    def __init__(self, path, n, block):
        self.path, self.n, self.block = path, n, block
        self._tokens = None

    def __getstate__(self):
        return {**self.__dict__, "_tokens": None}

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if self._tokens is None:
            self._tokens = np.memmap(self.path, dtype=np.uint16, mode="r")
        chunk = self._tokens[i * self.block : (i + 1) * self.block + 1].astype(np.int64)
        return torch.from_numpy(chunk[:-1]), torch.from_numpy(chunk[1:])


@case("", "karpathy/nanoGPT's np.memmap of tokens, opened lazily as in MannLabs/scPortrait#327 and galilai-group/stable-worldmodel#194",
      note="spawn: the start takes seconds, as torch is imported in each worker")
def memmap_opened_lazily_under_spawn():
    path = os.path.join(_tmpdir(), "train.bin")
    np.random.default_rng(108).integers(0, 50257, 32 * 12 + 1).astype(np.uint16).tofile(path)
    return DataLoader(TokenMemmap(path, 32, 12), batch_size=4, num_workers=2, multiprocessing_context="spawn")


class SqliteDataset(Dataset):
    """A connection for each process."""

    def __init__(self, path, n):
        self.path, self.n = path, n
        self._con, self._pid = None, None

    def _connection(self):
        if self._pid != os.getpid():
            self._con, self._pid = sqlite3.connect(self.path), os.getpid()
        return self._con

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        event_no, energy, pulses = self._connection().execute("SELECT event_no, energy, pulses FROM truth WHERE event_no = ?", (i,)).fetchone()
        return {"event_no": event_no, "energy": energy, "pulses": np.frombuffer(pulses, dtype=np.float32)}


def collate_events(batch):
    """Pulses have different lengths: a list of tensors, and a tensor for the rest."""
    return {
        "event_no": torch.tensor([b["event_no"] for b in batch]),
        "energy": torch.tensor([b["energy"] for b in batch]),
        "pulses": [torch.from_numpy(b["pulses"].copy()) for b in batch],
    }


@case("", "graphnet-team/graphnet#243 and gentoo/portage#600 as fixed (a connection for each pid); some events have no pulses")
def sqlite_connection_per_process():
    path = os.path.join(_tmpdir(), "events.db")
    rng = np.random.default_rng(109)
    con = sqlite3.connect(path)
    con.execute("CREATE TABLE truth (event_no INTEGER PRIMARY KEY, energy REAL, pulses BLOB)")
    for i in range(50):
        pulses = rng.random(0 if i % 9 == 2 else int(rng.integers(1, 12)), dtype=np.float32)
        con.execute("INSERT INTO truth VALUES (?, ?, ?)", (i, float(rng.exponential()), pulses.tobytes()))
    con.commit()
    con.close()
    return DataLoader(SqliteDataset(path, 50), batch_size=5, num_workers=2, collate_fn=collate_events)


class RgbdFolder(Dataset):
    """.png or else .jpg, and a depth of zeros with a flag where there is none."""

    def __init__(self, files, n):
        self.files, self.n = files, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        try:
            data = self.files[f"{i:03d}.png"]
        except KeyError:
            data = self.files[f"{i:03d}.jpg"]
        rgb = np.array(Image.open(io.BytesIO(data)).convert("RGB"))
        try:
            depth, has_depth = self.files[f"{i:03d}.depth"], True
        except KeyError:
            depth, has_depth = np.zeros(rgb.shape[:2], np.float32), False
        return {"rgb": torch.from_numpy(rgb), "depth": torch.from_numpy(depth), "has_depth": has_depth, "frame": i}


@case("", "pattern, not looked up: fallback to another extension and to a missing modality (try/except KeyError, same key)")
def fallback_for_a_missing_file():
    rng = np.random.default_rng(110)
    files = {}
    for i in range(32):
        if i % 5 == 1:
            out = io.BytesIO()
            Image.open(io.BytesIO(_png(rng))).save(out, "JPEG")
            files[f"{i:03d}.jpg"] = out.getvalue()
        else:
            files[f"{i:03d}.png"] = _png(rng)
        if i % 4:
            files[f"{i:03d}.depth"] = rng.random((12, 12), dtype=np.float32)
    return DataLoader(RgbdFolder(files, 32), batch_size=4, num_workers=0)


class FlakyClient:
    """The first request of some keys fails in each process, as with an object store under load."""

    def __init__(self, store):
        self.store = store
        self.asked = set()

    def get(self, key):
        if key % 6 == 2 and key not in self.asked:
            self.asked.add(key)
            raise OSError("503 slow down")
        return self.store[key]


class RetryingDataset(Dataset):
    def __init__(self, client, n):
        self.client, self.n = client, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        for attempt in range(3):
            try:
                data = self.client.get(i)
                break
            except OSError:
                if attempt == 2:
                    raise
        gt = pickle.loads(data)
        return gt["lq"], gt["gt"]


@case("", "XPixelGroup/BasicSR's retry loop (cf. BasicSR#646), here with the same key, and it succeeds")
def retry_with_the_same_key():
    rng = np.random.default_rng(111)
    store = [pickle.dumps({"lq": rng.random((3, 3)), "gt": rng.random((6, 6))}) for _ in range(42)]
    return DataLoader(RetryingDataset(FlakyClient(store), 42), batch_size=6, num_workers=2, persistent_workers=True)


class ProfiledDataset(Dataset):
    """Who loaded it, and when: for the profile of the input pipeline."""

    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        start = time.perf_counter()
        info = get_worker_info()
        value = self.x[i].clone()
        return {
            "x": value,
            "meta": {"index": i, "worker": -1 if info is None else info.id, "loaded_at": time.time(), "seconds": time.perf_counter() - start},
        }


@case("", "NVIDIA-NeMo/Speech#5117's reproduction returns the worker's id in the sample; timestamps for a profile of the input pipeline")
def worker_id_and_timestamp_in_the_sample():
    return DataLoader(ProfiledDataset(torch.randn(44, 7, generator=torch.Generator().manual_seed(112))), batch_size=4, num_workers=2)


class PatientTable(Dataset):
    """Rows of a data frame, with missing values as NaN and strings."""

    def __init__(self, frame):
        self.frame = frame

    def __len__(self):
        return len(self.frame)

    def __getitem__(self, i):
        row = self.frame.iloc[i]
        return {"patient": row["patient"], "labs": row[["hb", "crp", "na"]].to_numpy(dtype=np.float32), "outcome": float(row["outcome"])}


@case("", "pattern, not looked up: tabular data with missing values (PhysioNet 2012), NaN is content")
def nan_and_strings_from_pandas():
    rng = np.random.default_rng(113)
    frame = pd.DataFrame({
        "patient": [f"P{i:04d}" if i % 10 else "" for i in range(30)],
        "hb": np.where(rng.random(30) < 0.3, np.nan, rng.normal(13, 2, 30)),
        "crp": np.where(rng.random(30) < 0.5, np.nan, rng.exponential(9, 30)),
        "na": rng.normal(140, 3, 30),
        "outcome": np.where(np.arange(30) % 8 == 5, np.nan, rng.integers(0, 2, 30)),
    })
    frame.loc[12, ["hb", "crp", "na"]] = np.nan
    return DataLoader(PatientTable(frame), batch_size=5, num_workers=0)


class Molecule:
    """An own class without __eq__; the adjacency is a sparse tensor; a molecule may be empty."""

    __slots__ = ("name", "x", "adj")

    def __init__(self, name, x, adj):
        self.name, self.x, self.adj = name, x, adj


class MoleculeDataset(Dataset):
    def __init__(self, specs):
        self.specs = specs

    def __len__(self):
        return len(self.specs)

    def __getitem__(self, i):
        name, n, edges = self.specs[i]
        x = torch.arange(n * 2, dtype=torch.float32).reshape(n, 2) + i
        adj = torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1]), (n, n), check_invariants=True)
        return Molecule(name, x, adj)


def keep_list(batch):
    return batch


@case("", "own graph objects with a sparse adjacency and an identity collate, after NVIDIA-BioNeMo/bionemo-recipes#107")
def sparse_tensors_in_own_objects():
    g = torch.Generator().manual_seed(114)
    specs = []
    for i in range(36):
        n = 0 if i % 12 == 7 else 2 + i % 5
        specs.append((f"mol-{i}", n, torch.randint(0, n, (2, n + 1), generator=g) if n else torch.empty((2, 0), dtype=torch.long)))
    return DataLoader(MoleculeDataset(specs), batch_size=6, num_workers=0, collate_fn=keep_list)


@case("", "torch.utils.data.WeightedRandomSampler with replacement over ConcatDataset and a Subset with repeated indices (oversampling of a rare class)", epochs=2)
def weighted_sampling_over_repeated_subset():
    g = torch.Generator().manual_seed(115)
    common = TensorDataset(torch.randn(50, 4, generator=g), torch.zeros(50, dtype=torch.long), torch.arange(50))
    rare = TensorDataset(torch.randn(6, 4, generator=g), torch.ones(6, dtype=torch.long), torch.arange(100, 106))
    both = ConcatDataset([common, Subset(rare, [0, 1, 2, 3, 4, 5] * 3 + [0, 0])])
    weights = [1.0] * 50 + [3.0] * 20
    sampler = WeightedRandomSampler(weights, num_samples=64, replacement=True, generator=torch.Generator().manual_seed(1))
    return DataLoader(both, batch_sampler=BatchSampler(sampler, 8, drop_last=False), num_workers=4)


class ChunkedFile(Dataset):
    """Takes a list of indices and gives a batch (batch_size=None); handle and chunk cache are made on first use."""

    CHUNK = 8

    def __init__(self, path, n, width):
        self.path, self.n, self.width = path, n, width

    def __len__(self):
        return self.n

    def _chunk(self, c):
        if not hasattr(self, "_file"):
            self._file = open(self.path, "rb")
            self._cached = functools.lru_cache(maxsize=4)(self._read)
        return self._cached(c)

    def _read(self, c):
        self._file.seek(c * self.CHUNK * self.width * 4)
        chunk = np.frombuffer(self._file.read(self.CHUNK * self.width * 4), dtype=np.float32).reshape(-1, self.width)
        return chunk  # read-only

    def __getitem__(self, indices):
        if isinstance(indices, int):
            return self._chunk(indices // self.CHUNK)[indices % self.CHUNK].copy()
        return np.stack([self._chunk(i // self.CHUNK)[i % self.CHUNK] for i in indices])


@case("", "pytorch/pytorch#37409 and #14705 (bulk loading: batch_size=None, a BatchSampler as sampler), handle opened lazily as in pytorch/pytorch#11929's solution",
      note="whoever reads this dataset in the main process before the workers start makes them share its handle; the loader itself does not")
def bulk_reads_without_automatic_batching():
    path = os.path.join(_tmpdir(), "chunks.f32")
    np.random.default_rng(116).standard_normal((96, 10)).astype(np.float32).tofile(path)
    dataset = ChunkedFile(path, 96, 10)
    sampler = BatchSampler(RandomSampler(dataset, generator=torch.Generator().manual_seed(2)), 12, drop_last=False)
    return DataLoader(dataset, batch_size=None, sampler=sampler, num_workers=2)


class BucketBatchSampler:
    """Batches of images of one size; the order of the batches is random in every epoch."""

    def __init__(self, sizes, batch_size):
        self.sizes, self.batch_size = sizes, batch_size

    def _batches(self):
        order = sorted(range(len(self.sizes)), key=lambda i: self.sizes[i])
        for _, group in itertools.groupby(order, key=lambda i: self.sizes[i]):
            group = list(group)
            for k in range(0, len(group), self.batch_size):
                yield group[k : k + self.batch_size]

    def __iter__(self):
        batches = list(self._batches())
        random.shuffle(batches)
        return iter(batches)

    def __len__(self):
        return sum(1 for _ in self._batches())


class OpenedImages(Dataset):
    """PIL images opened in __init__, from memory, and decoded on first use."""

    def __init__(self, blobs):
        self.images = [Image.open(io.BytesIO(b)) for b in blobs]
        self.sizes = [im.size for im in self.images]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return {"pixels": torch.from_numpy(np.array(self.images[i].convert("RGB"))), "size": self.sizes[i], "id": i}


@case("", "python-pillow/Pillow#559 (Image.open is lazy) with images kept open, but from memory; batch_sampler after torchvision's GroupedBatchSampler (pytorch/vision#3714)", epochs=2)
def pil_images_opened_in_init():
    rng = np.random.default_rng(117)
    dataset = OpenedImages([_png(rng, 6 + 2 * (i % 3)) for i in range(39)])
    return DataLoader(dataset, batch_sampler=BucketBatchSampler(dataset.sizes, 5), num_workers=2, persistent_workers=True)


# =====================================================================================================================
# Healthy, iterable-style
# =====================================================================================================================


class TextLines(IterableDataset):
    """Every worker takes each n-th line; some lines are empty, some come twice in the file."""

    def __init__(self, path):
        self.path = path

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        with open(self.path, encoding="utf-8") as f:
            for number, line in itertools.islice(enumerate(f), first, None, step):
                yield number, line.rstrip("\n")


@case("", "webdataset/webdataset#71 and huggingface/datasets' example-wise split (islice by worker id)")
def lines_split_by_worker():
    path = os.path.join(_tmpdir(), "corpus.txt")
    with open(path, "w", encoding="utf-8") as f:
        for i in range(70):
            k = i // 2 if i > 60 else i
            f.write("\n" if i % 13 == 6 else f"Zeile {k}: größer als {k % 4}\n")
    return DataLoader(TextLines(path), batch_size=8, num_workers=2)


class ShuffledShards(IterableDataset):
    """Three shards, a shuffle buffer that is emptied at the end; more workers than shards, so that one has nothing."""

    def __init__(self, shards, buffer_size):
        self.shards, self.buffer_size = shards, buffer_size

    def __iter__(self):
        info = get_worker_info()
        mine = self.shards if info is None else self.shards[info.id :: info.num_workers]
        buffer = []
        for sample in itertools.chain.from_iterable(mine):
            if len(buffer) < self.buffer_size:
                buffer.append(sample)
                continue
            k = random.randrange(self.buffer_size)
            out, buffer[k] = buffer[k], sample
            yield out
        random.shuffle(buffer)
        yield from buffer


@case("", "webdataset/webdataset#65 (fewer shards than workers: the others just end), shuffle buffer as in pytorch/pytorch#45290")
def fewer_shards_than_workers():
    g = torch.Generator().manual_seed(122)
    shards = [[{"__key__": f"{k:02d}/{j:03d}", "cls": (k + j) % 4, "vec": torch.randn(5, generator=g)} for j in range(14 + k)] for k in range(3)]
    return DataLoader(ShuffledShards(shards, 6), batch_size=5, num_workers=4)


class PairedStreams(IterableDataset):
    """Two streams read in step with next(it, None); noise from torch's generator; split by worker."""

    def __init__(self, audio, text):
        self.audio, self.text = audio, text

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        audio, text = iter(self.audio), iter(self.text)
        number = 0
        while True:
            a = next(audio, None)
            t = next(text, None)
            if a is None or t is None:
                return
            if number % step == first:
                yield {"audio": a + 0.01 * torch.randn(a.shape), "text": t, "number": number}
            number += 1


@case("", "pattern, not looked up: paired streams in step, next(it, None) as the end; the split of huggingface/finetrainers#394")
def paired_streams_with_noise():
    audio = list(torch.randn(48, 9, generator=torch.Generator().manual_seed(123)))
    text = [f"transcript {i}" for i in range(48)]
    return DataLoader(PairedStreams(audio, text), batch_size=6, num_workers=2)


if __name__ == "__main__":
    for c in CASES:
        print(f"{c.name:44} {c.expected or '-':9} epochs={c.epochs}  {c.source}")
    print(len(CASES), Counter(c.expected for c in CASES))
