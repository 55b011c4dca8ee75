"""Pictures to decode: JPEG files that are made once and kept in a cache folder.

`cached_folder` keeps those of all datasets. `jpeg_folder` makes a few hundred files, `JpegImages`
reads them. Pillow is imported only when one of these is called. A picture is drawn from its number:
soft colour fields with a few shapes on them.
"""

import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset

from loaderviz.argument_checks import position, whole_number
from loaderviz.errors import LoaderVizError


def cached_folder(name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache; made now if it does not exist yet.

    The folder is complete or absent: several processes may call this at the same time, and an
    interrupted call leaves nothing that a later one would take for a complete set.

    make: called with an empty folder, to fill it.

    Raises LoaderVizError if Pillow is not installed or the folder cannot be written.
    """
    pillow()  # here, in the main process, rather than first in a worker
    try:
        folder = _cache_folder() / name
        if not folder.is_dir():
            _fill(folder, make)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        raise LoaderVizError(
            f"cannot keep the pictures {name} ({error}): "
            "set the environment variable LOADERVIZ_CACHE to a folder that can be written"
        ) from error
    return folder


def _fill(folder: Path, make: Callable[[Path], None]) -> None:
    # The name is unique, even among threads and hosts. It is beside the final one, since a rename
    # within one folder never copies. Not tempfile.mkdtemp: only the owner can read its folders.
    unfinished = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
    unfinished.mkdir(parents=True)
    try:
        make(unfinished)
        unfinished.rename(folder)
    except OSError:
        # Another process may have been faster, and has made the same pictures.
        if not folder.is_dir():
            raise
    finally:
        # Runs on KeyboardInterrupt, too. After the rename there is nothing left to remove.
        shutil.rmtree(unfinished, ignore_errors=True)


def _cache_folder() -> Path:
    """`$LOADERVIZ_CACHE`, or else `$XDG_CACHE_HOME/loaderviz`, or else `~/.cache/loaderviz`."""
    if chosen := os.environ.get("LOADERVIZ_CACHE"):
        return Path(chosen).expanduser().absolute()
    xdg_cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG base directory specification ignores a relative path.
    return (xdg_cache if xdg_cache.is_absolute() else Path.home() / ".cache") / "loaderviz"


def pillow() -> Any:
    """Pillow's module `PIL.Image`; raises LoaderVizError if Pillow is not installed."""
    try:
        from PIL import Image
    except ImportError:
        raise LoaderVizError(
            "the pictures need Pillow, which is not installed: pip install 'loaderviz[notebook]'"
        ) from None
    return Image


# Part of the cache folder's name: add 1 with any change to what is drawn or how it is saved.
VERSION = 1
HEIGHT, WIDTH = 600, 800  # of a picture, in pixels

Floats = npt.NDArray[np.float32]


class JpegImages(Dataset[torch.Tensor]):
    """Map-style: `ds[i]` reads, decodes and resizes picture i, as image training code does.

    A sample is a float32 tensor of shape (3, height, width), RGB in [0, 1].

    n: number of pictures. The first use of an n makes them (see `jpeg_folder`).
    size: (height, width) in pixels of a sample. The files themselves are 600 x 800.

    `ds.paths` are the files, in order.

    Raises LoaderVizError if n or a side is below 1, Pillow is not installed, or the cache folder
    cannot be used; `ds[i]` raises IndexError out of range, as a list does.
    """

    def __init__(self, n: int = 300, size: tuple[int, int] = (224, 224)) -> None:
        height, width = size
        self.size = (
            whole_number("height", height, at_least=1),
            whole_number("width", width, at_least=1),
        )
        folder = jpeg_folder(n)
        self.paths = tuple(folder / f"{i:05d}.jpg" for i in range(n))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        image = pillow()
        height, width = self.size
        with image.open(self.paths[position(index, len(self.paths))]) as file:
            picture = file.convert("RGB").resize((width, height), image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(picture))  # (height, width, 3), uint8
        return pixels.permute(2, 0, 1).contiguous().float().div_(255)


def jpeg_folder(n: int = 300) -> Path:
    """The folder with n pictures from `00000.jpg`; made now if it does not exist yet.

    Each is 600 x 800 pixels (height x width); picture i is the same whatever n is. Each n has its
    own folder in `$LOADERVIZ_CACHE`, or else `$XDG_CACHE_HOME/loaderviz`, or else
    `~/.cache/loaderviz`. The folder is complete or absent: several processes may call this at the
    same time, and an interrupted call leaves nothing that a later one would take for a complete
    set. The cache folder can be deleted whenever nothing reads from it.

    Raises LoaderVizError if n is below 1, Pillow is not installed or the folder cannot be written.
    """
    n = whole_number("n", n, at_least=1)
    return cached_folder(f"jpeg-v{VERSION}-{n}", lambda folder: _make(folder, n))


def _make(folder: Path, n: int) -> None:
    for i in range(n):
        pillow().fromarray(_draw(i)).save(folder / f"{i:05d}.jpg", quality=90)


def _draw(index: int) -> npt.NDArray[np.uint8]:
    """Picture number `index`, shape (HEIGHT, WIDTH, 3), RGB. It depends on the index alone.

    The canvas that is drawn on has shape (3, HEIGHT, WIDTH) and colours from 0 to 1.
    """
    random = np.random.default_rng([VERSION, index])
    # A short stretch of the colour circle is a palette whose colours go together.
    turn, stretch = random.uniform(0, 1), random.uniform(0.25, 0.6)
    canvas = _colour_field(random, turn, stretch)
    for _ in range(random.integers(4, 10)):
        _add_shape(canvas, random, _colour(turn + random.uniform(0, 1.3) * stretch, 0.45))
    # A little grain, the same in all channels: without it the JPEG files would be far smaller than
    # those of photographs, and far cheaper to decode.
    canvas += 0.06 * random.random((HEIGHT, WIDTH), dtype=np.float32) - 0.03
    canvas *= 255
    pixels = canvas.clip(0, 255, out=canvas).astype(np.uint8)
    return np.ascontiguousarray(pixels.transpose(1, 2, 0))


def _colour(turns: npt.ArrayLike, strength: float) -> Floats:
    """Colours, shape (3, ...), at these places on the colour circle (1.0 is once around)."""
    phases = np.stack([np.asarray(turns) + shift for shift in (0.0, 0.33, 0.67)])
    return (0.55 + strength * np.cos(2 * np.pi * phases)).astype(np.float32)


def _colour_field(random: np.random.Generator, turn: float, stretch: float) -> Floats:
    """A canvas: random colours at 3 x 4 points, blended smoothly between them."""
    grid = _colour(turn + stretch * random.uniform(0, 1, (3, 4)), 0.3)
    grid *= random.uniform(0.6, 1.1, (3, 4)).astype(np.float32)
    field: Floats = np.matmul(_blend(HEIGHT, 3) @ grid, _blend(WIDTH, 4).T, dtype=np.float32)
    return field


def _blend(length: int, points: int) -> Floats:
    """Weights, shape (length, points), of evenly spaced points: only the nearest two count."""
    distance = np.abs(np.linspace(0, points - 1, length)[:, None] - np.arange(points))
    return ((1 + np.cos(np.pi * distance.clip(0, 1))) / 2).astype(np.float32)


def _add_shape(canvas: Floats, random: np.random.Generator, colour: Floats) -> None:
    """Paint a diamond, a disc or a rounded square, half transparent, on the canvas in place."""
    x, y = int(random.integers(0, WIDTH)), int(random.integers(0, HEIGHT))
    radius = int(random.integers(40, 160))
    # |x|^p + |y|^p = 1 is a diamond for p=1, a disc for 2, a rounded square for 4.
    power = int(random.choice([1, 2, 2, 4]))
    top, left = max(y - radius, 0), max(x - radius, 0)
    box = canvas[:, top : y + radius, left : x + radius]
    down = np.abs(np.arange(top, top + box.shape[1], dtype=np.float32) - y) / radius
    across = np.abs(np.arange(left, left + box.shape[2], dtype=np.float32) - x) / radius
    distance = (down[:, None] ** power + across**power) ** (1 / power)
    # The edge is one pixel soft, so that the outline is not a staircase.
    inside = (radius * (1 - distance)).clip(0, 1)
    opacity = inside * np.float32(random.uniform(0.5, 0.9))
    box += opacity * (colour[:, None, None] - box)
