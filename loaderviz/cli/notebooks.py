"""``loaderviz notebooks``: copies the notebooks of this version, and opens the first one."""

from __future__ import annotations

import filecmp
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from loaderviz.errors import LoaderVizError
from loaderviz.text import count, printable

FIRST = "00_first_look.ipynb"
PACKAGE = Path(__file__).parents[1]
# A wheel brings its own copy; an editable install has the folder of the repository.
SOURCES = (PACKAGE / "_notebooks", PACKAGE.parent / "notebooks")
PARTS = ("*.ipynb", "images/*.svg", "images/*.png", "recordings/*")

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="Where to copy them to; made if it is not there.", show_default=False
    ),
]
Opens = Annotated[
    bool, typer.Option("--open/--no-open", help="Open the first one in JupyterLab afterwards.")
]


def notebooks(folder: Folder, opens: Opens = True) -> None:
    """Copy the notebooks that belong to this version, and open them in JupyterLab.

    Files that are there already are kept as they are.
    """
    copied, kept = _copy_into(folder)
    typer.echo(printable(f"Copied {count(copied, 'file')} to {folder}."))
    if kept:
        typer.echo(
            printable(
                f"Kept {count(len(kept), 'file')} that differ{'s' * (len(kept) == 1)} from this "
                f"version's: {', '.join(kept)}. For fresh copies name another folder."
            )
        )
    if not opens:
        return
    if find_spec("jupyterlab") is None or find_spec("ipywidgets") is None:
        raise LoaderVizError(
            "JupyterLab and the widgets are not installed here: pip install 'loaderviz[notebook]', "
            f"then jupyter lab {folder / FIRST}"
        )
    raise typer.Exit(subprocess.call([sys.executable, "-m", "jupyterlab", str(folder / FIRST)]))


def _copy_into(folder: Path) -> tuple[int, list[str]]:
    """How many files were copied, and the names of those that differ and are kept."""
    source = next((each for each in SOURCES if (each / FIRST).is_file()), None)
    if source is None:
        raise LoaderVizError(
            f"this installation has no notebooks ({' or '.join(map(str, SOURCES))}): install "
            "loaderviz again"
        )
    copied, kept = 0, []
    for path in sorted(path for part in PARTS for path in source.glob(part)):
        if not path.is_file():
            continue
        target = folder / path.relative_to(source)
        if target.exists():
            if not target.is_file() or not filecmp.cmp(path, target, shallow=False):
                kept.append(str(path.relative_to(source)))
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        except OSError as error:
            raise LoaderVizError(f"cannot write {target}: {error.strerror}") from None
        copied += 1
    return copied, kept
