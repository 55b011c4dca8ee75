"""Pictures to decode: a few hundred JPEG files, made once and kept in a cache folder.

`jpeg_folder` makes the files, `JpegImages` reads them. Both need Pillow, which is imported only
when one of them is called.
"""

from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

from loaderviz.argument_checks import position, whole_number
from loaderviz.course.datasets._cache import cached_folder, pillow
from loaderviz.course.datasets._drawing import VERSION, draw
from loaderviz.errors import LoaderVizError


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
        try:
            height, width = size
        except (TypeError, ValueError):
            raise LoaderVizError(f"size={size!r}: give (height, width) in pixels") from None
        self.size = (
            whole_number("height", height, at_least=1),
            whole_number("width", width, at_least=1),
        )
        folder = jpeg_folder(n)
        self.paths = tuple(folder / _file_name(i) for i in range(n))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        image = pillow()
        height, width = self.size
        with image.open(self.paths[position(index, len(self.paths))]) as file:
            picture = file.convert("RGB").resize((width, height), image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(picture))  # (height, width, 3), uint8
        return pixels.permute(2, 0, 1).contiguous().float().div_(255)

    def __repr__(self) -> str:
        return f"JpegImages({len(self.paths)}, size={self.size})"


def jpeg_folder(n: int = 300) -> Path:
    """The folder with n pictures from `00000.jpg`; made now if it does not exist yet.

    Each is 600 x 800 pixels (height x width); picture i is the same whatever n is. Each n has its
    own folder in `$LOADERVIZ_CACHE`, or else `$XDG_CACHE_HOME/loaderviz`, or else
    `~/.cache/loaderviz`. The folder is complete or absent: several processes may call this at the
    same time, and an interrupted call leaves nothing that a later one would take for a complete
    set. The cache folder can be deleted whenever nothing reads from it.

    Raises LoaderVizError if n is below 1, Pillow is not installed, the folder cannot be written, or
    files are missing from it.
    """
    n = whole_number("n", n, at_least=1)
    return cached_folder(f"jpeg-v{VERSION}-{n}", n, lambda folder: _make(folder, n))


def _make(folder: Path, n: int) -> None:
    image = pillow()
    for i in range(n):
        image.fromarray(draw(i)).save(folder / _file_name(i), quality=90)


def _file_name(index: int) -> str:
    return f"{index:05d}.jpg"
