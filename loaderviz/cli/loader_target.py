"""``pkg.module:make_loader`` on the command line, and the DataLoader that it stands for."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from torch.utils.data import DataLoader

from loaderviz.errors import LoaderVizError

Target = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:NAME",
        help="A DataLoader of a module that can be imported from here, or a function without "
        "arguments that makes one: pkg.module:make_loader, or train.py:make_loader.",
        show_default=False,
    ),
]


def loader_of(target: str) -> DataLoader[Any]:
    """Import the module, call the function.

    Raises:
        LoaderVizError: for what names no module or nothing in it, and for what is no DataLoader.
        Exception: whatever the module or the function raises, unchanged.
    """
    place, _, name = target.partition(":")
    if not place or not name:
        raise LoaderVizError(
            f"{target!r} does not name a loader: give MODULE:NAME, such as train:make_loader"
        )
    found = getattr(_module(place), name, None)
    if found is None:
        raise LoaderVizError(f"{place} has no {name!r}{_instead(_module(place), name)}")
    if not isinstance(found, DataLoader) and callable(found):
        found = found()
    if not isinstance(found, DataLoader):
        raise LoaderVizError(
            f"{target} is a {type(found).__name__}: give a DataLoader, or a function without "
            "arguments that returns one"
        )
    return found


@contextlib.contextmanager
def chatter_to_stderr() -> Iterator[None]:
    """What is printed inside is not the result."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def _module(place: str) -> Any:
    path = Path(place)
    if path.suffix == ".py":
        if not path.is_file():
            raise LoaderVizError(f"{place!r} is no file")
        home, name = path.resolve().parent, path.stem
    else:
        home, name = Path.cwd(), place
    # Workers that are started by spawn get this path too, and import the module under its name.
    if str(home) not in sys.path:
        sys.path.insert(0, str(home))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Another module that is missing is the user's error, and is told as such.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise LoaderVizError(
            f"there is no module {error.name!r} to import from {home}: "
            "run this where your script is run, or give the path of the file: train.py:make_loader"
        ) from None


def _instead(module: Any, name: str) -> str:
    near = get_close_matches(name, [each for each in vars(module) if each[0] != "_"], 1)
    return f"; did you mean {near[0]!r}?" if near else ""
