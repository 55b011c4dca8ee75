"""Faces with landmarks: JPEG files and a CSV of points, made once and kept in a cache folder.

It has what such a dataset needs in real life: a table to read, pictures of several sizes to decode,
transforms that change a picture together with its points, and batches that do not simply stack.
`CopiedCrops` and `LazyCrops` cut random squares out of one picture.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad
from torch.utils.data import Dataset

from loaderviz.argument_checks import position, whole_number
from loaderviz.course.datasets import drawn_faces
from loaderviz.course.datasets.images import cached_folder, pillow
from loaderviz.errors import LoaderVizError

Sample = dict[str, Any]
TABLE = "faces.csv"


class FaceLandmarks(Dataset[Sample]):
    """Map-style: `ds[i]` reads and decodes picture i, and passes it through the transforms.

    A sample is a dict of `image`, a uint8 tensor of shape (3, height, width), RGB, and
    `landmarks`, a float32 tensor of shape (34, 2), x and y in pixels. Pictures differ in size.

    n: number of faces. The first use of an n makes them (see `faces_folder`).
    transforms: called one after another; each takes a sample and returns one.

    `ds.table` is the CSV as a pandas DataFrame: the file's name, then x0, y0, x1, y1 and so on.

    Raises LoaderVizError if n is below 1, Pillow is not installed, or the cache folder cannot be
    used; `ds[i]` raises IndexError out of range, as a list does.
    """

    def __init__(self, n: int = 96, transforms: Iterable[Callable[[Sample], Sample]] = ()) -> None:
        import pandas as pd

        self.folder = faces_folder(n)
        self.transforms = tuple(transforms)
        self.table = pd.read_csv(self.folder / TABLE)
        # Arrays, not lists: to read a Python object is to write its reference count, which makes
        # a forked worker copy the memory page.
        self.names = np.array(self.table["file"].tolist(), dtype="S")
        points = self.table.drop(columns="file").to_numpy(np.float32)
        self.landmarks = torch.from_numpy(points.reshape(n, -1, 2))

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Sample:
        index = position(index, len(self))
        with pillow().open(self.folder / self.names[index].decode()) as file:
            pixels = np.array(file.convert("RGB"))  # (height, width, 3)
        image = torch.from_numpy(pixels).permute(2, 0, 1)
        sample: Sample = {"image": image, "landmarks": self.landmarks[index].clone()}
        for transform in self.transforms:
            sample = transform(sample)
        return sample


class Rescale:
    """A transform: scales the shorter side to `side` pixels, and the landmarks with it.

    Raises LoaderVizError if `side` is below 1.
    """

    def __init__(self, side: int) -> None:
        self.side = whole_number("side", side, at_least=1)

    def __call__(self, sample: Sample) -> Sample:
        """A scaled copy of the sample; the image stays uint8, of shape (3, height, width)."""
        height, width = sample["image"].shape[1:]
        scale = self.side / min(height, width)
        size = (round(width * scale), round(height * scale))
        image = pillow()
        picture = image.fromarray(sample["image"].permute(1, 2, 0).numpy())
        pixels = np.array(picture.resize(size, image.Resampling.BILINEAR))
        return {
            "image": torch.from_numpy(pixels).permute(2, 0, 1),
            "landmarks": sample["landmarks"] * torch.tensor([size[0] / width, size[1] / height]),
        }


class RandomCrop:
    """A transform: cuts out a square of `side` pixels at a random place, and moves the landmarks.

    The place is drawn from torch's global generator, whose seed differs in each worker
    (`torch/utils/data/_utils/worker.py`, `_worker_loop`). Landmarks may end up outside the square.

    Raises LoaderVizError if `side` is below 1; the call raises it if the picture is smaller.
    """

    def __init__(self, side: int) -> None:
        self.side = whole_number("side", side, at_least=1)

    def __call__(self, sample: Sample) -> Sample:
        """The square, uint8 of shape (3, side, side), and landmarks counted from its corner."""
        height, width = sample["image"].shape[1:]
        if min(height, width) < self.side:
            raise LoaderVizError(
                f"RandomCrop({self.side}): a picture of {height} x {width} pixels is smaller; "
                f"rescale it first, Rescale({self.side}) or more"
            )
        top = int(torch.randint(height - self.side + 1, ()))
        left = int(torch.randint(width - self.side + 1, ()))
        square = sample["image"][:, top : top + self.side, left : left + self.side]
        return {
            "image": square.contiguous(),
            "landmarks": sample["landmarks"] - torch.tensor([left, top]),
        }


def pad_faces(samples: Sequence[Sample]) -> Sample:
    """A `collate_fn`: pictures of several sizes in one batch, padded with black right and below.

    A batch is a dict of `image`, shape (batch, 3, height, width), with the height of the highest
    picture and the width of the widest; `landmarks`, shape (batch, 34, 2); and `size`, int64 of
    shape (batch, 2): the height and width of each picture before padding.
    """
    sizes = torch.tensor([sample["image"].shape[1:] for sample in samples])
    height, width = sizes.amax(dim=0).tolist()
    return {
        "image": torch.stack(
            [
                pad(image, (0, width - image.shape[2], 0, height - image.shape[1]))
                for image in (sample["image"] for sample in samples)
            ]
        ),
        "landmarks": torch.stack([sample["landmarks"] for sample in samples]),
        "size": sizes,
    }


def with_landmarks(sample: Sample) -> Any:
    """The sample's image as a Pillow picture, with a dot at each landmark."""
    image = pillow()
    from PIL import ImageDraw

    picture = image.fromarray(sample["image"].permute(1, 2, 0).numpy())
    pen, radius = ImageDraw.Draw(picture), 1 + min(picture.size) // 110
    for x, y in sample["landmarks"].tolist():
        box = [x - radius, y - radius, x + radius, y + radius]
        pen.ellipse(box, fill="#e69f00", outline="black")
    return picture


def faces_folder(n: int = 96) -> Path:
    """The folder with `faces.csv` and n pictures from `00000.jpg`; made if it does not exist yet.

    It is kept as the folder of `jpeg_folder` is, and raises the same errors.
    """
    n = whole_number("n", n, at_least=1)
    return cached_folder(f"faces-v{drawn_faces.VERSION}-{n}", lambda folder: _make(folder, n))


def _make(folder: Path, n: int) -> None:
    import pandas as pd

    rows = {}
    for index in range(n):
        picture, points = drawn_faces.draw(index)
        picture.save(folder / f"{index:05d}.jpg", quality=90)
        rows[f"{index:05d}.jpg"] = points.round(1).reshape(-1)
    columns = [f"{axis}{point}" for point in range(drawn_faces.LANDMARKS) for axis in "xy"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    table.to_csv(folder / TABLE, index_label="file")


class CopiedCrops(Dataset[torch.Tensor]):
    """Map-style: a sample is a crop of one picture, uint8 of shape (3, side, side).

    Crops are placed by a generator that the dataset keeps.
    """

    def __init__(self, n: int, side: int = 240) -> None:
        self.n, self.side = n, side
        self.picture: torch.Tensor = FaceLandmarks(1)[0]["image"]
        self.rng: Any = np.random.default_rng(0)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> torch.Tensor:
        _, height, width = self.picture.shape
        top, left = self.rng.integers(0, (height - self.side, width - self.side))
        return self.picture[:, top : top + self.side, left : left + self.side]


class LazyCrops(CopiedCrops):
    """The same, but the generator is made at a process's first crop, from torch's seed there."""

    def __init__(self, n: int, side: int = 240) -> None:
        super().__init__(n, side)
        self.rng = None

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.rng is None:
            self.rng = np.random.default_rng(torch.initial_seed())
        return super().__getitem__(index)
