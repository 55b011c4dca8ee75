"""Text files that come with every Python: the source of its standard library.

A sample is real work: a file is read from disk and tokenised. Files differ in size, so samples
differ in cost, as they do in real life.
"""

import contextlib
import io
import keyword
import os
import sysconfig
import tokenize
from collections import Counter
from pathlib import Path

import torch
from torch.utils.data import Dataset

from loaderviz.argument_checks import position, whole_number
from loaderviz.errors import LoaderVizError

# Installed packages and tests differ between installations; the codec tables are not prose.
_SKIPPED_FOLDERS = frozenset(
    {"__pycache__", "dist-packages", "encodings", "idle_test", "site-packages", "test", "tests"}
)


class SourceFiles(Dataset[torch.Tensor]):
    """Map-style: `ds[i]` is how often each Python keyword occurs in file i.

    A sample is an int64 tensor of shape (K,), one count for each of the K words of `ds.keywords`
    (K = 35 in Python 3.11 to 3.13). Words in strings and comments do not count. If the tokeniser
    cannot finish a file, the part before the error is counted.

    limit: the most files to use, the first in order of path.

    `ds.paths` are the files, in order. They are the same on every run of one Python
    installation, and may differ on another.

    Raises LoaderVizError if limit is below 1 or there is no source file to read (some Pythons ship
    their library as a zip file or compiled); `ds[i]` raises IndexError out of range.
    """

    keywords = tuple(keyword.kwlist)

    def __init__(self, limit: int | None = None) -> None:
        root = Path(sysconfig.get_paths()["stdlib"])
        paths = _source_files(root)
        if not paths:
            raise LoaderVizError(
                f"no .py file below {root}: this Python came without the source of its library; "
                "use one that has it"
            )
        if limit is not None:
            paths = paths[: whole_number("limit", limit, at_least=1)]
        self.paths = tuple(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        counts = _name_counts(self.paths[position(index, len(self.paths))].read_bytes())
        return torch.tensor([counts[word] for word in self.keywords])


def _source_files(root: Path) -> list[Path]:
    paths = []
    for folder, subfolders, files in os.walk(root):
        # Changed in place: os.walk does not enter the folders that are removed here.
        subfolders[:] = [name for name in subfolders if name not in _SKIPPED_FOLDERS]
        paths += [Path(folder, name) for name in files if name.endswith(".py")]
    return sorted(paths, key=lambda path: path.relative_to(root).parts)


def _name_counts(source: bytes) -> Counter[str]:
    """How often each name or keyword occurs in Python source."""
    counts: Counter[str] = Counter()
    # Python 3.12 and 3.13 raise SystemError for some broken syntax (cpython issue #140576).
    with contextlib.suppress(tokenize.TokenError, SyntaxError, SystemError):
        for token in tokenize.tokenize(io.BytesIO(source).readline):
            if token.type == tokenize.NAME:
                counts[token.string] += 1
    return counts
