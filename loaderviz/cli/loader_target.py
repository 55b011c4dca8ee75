"""From ``pkg.module:make_loader`` on the command line to the DataLoader that it names."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
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
        help="A DataLoader in a module that can be imported from here, or a function without "
        "arguments that makes one: pkg.module:make_loader, or train.py:make_loader.",
        show_default=False,
    ),
]
ScriptArgs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="-- ARGS",
        help="The script's own arguments, which it finds in sys.argv.",
        show_default=False,
    ),
]


def import_loader(target: str) -> DataLoader[Any]:
    """Import the DataLoader that ``target`` names, or call the function that makes it.

    Raises:
        LoaderVizError: for a ``target`` that names no module, nothing in it, or no DataLoader.
        Exception: whatever the module or the function raises, unchanged.
    """
    module_or_file, _, name = target.partition(":")
    if not module_or_file or not name:
        recorded = Path(target).is_dir() or Path(target).suffix == ".parquet"
        of_it = f"; of a recording, loaderviz report {target} has the findings" * recorded
        raise LoaderVizError(
            f"{target!r} does not name a loader: give MODULE:NAME, such as train:make_loader{of_it}"
        )
    module = _import_module(module_or_file)
    loader = getattr(module, name, None)
    if loader is None:
        raise LoaderVizError(f"{module_or_file} has no {name!r}{_suggestion(module, name)}")
    if not isinstance(loader, DataLoader) and callable(loader):
        _check_without_arguments(loader, target)
        loader = loader()
    if not isinstance(loader, DataLoader):
        raise LoaderVizError(
            f"{target} is a {type(loader).__name__}: give a DataLoader, or a function without "
            "arguments that returns one"
        )
    return loader


def _check_without_arguments(function: Callable[..., Any], target: str) -> None:
    with contextlib.suppress(ValueError):  # some of C have no signature
        try:
            inspect.signature(function).bind()
        except TypeError as error:
            raise LoaderVizError(
                f"{target} is called without arguments ({error}): give defaults, or "
                "name a function that calls it"
            ) from None


@contextlib.contextmanager
def script_arguments(target: str, args: list[str] | None) -> Iterator[None]:
    """Put the script's own name and arguments into ``sys.argv``, as if it had been started.

    Workers that are started by spawn get them too. What it prints goes to stderr: stdout is for the
    result.
    """
    ours = sys.argv
    sys.argv = [target.partition(":")[0], *(args or ())]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.argv = ours


def _import_module(module_or_file: str) -> Any:
    path = Path(module_or_file)
    if path.suffix == ".py":
        if not path.is_file():
            raise LoaderVizError(f"{module_or_file!r} is not a file")
        folder, name = path.resolve().parent, path.stem
    else:
        folder, name = Path.cwd(), module_or_file
    # Workers that are started by spawn get this path too, and import the module by its name.
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Another module that is missing is an error in the user's code, and is shown as it is.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise LoaderVizError(
            f"there is no module {error.name!r} to import from {folder}: "
            "run this where your script is run, or give the path of the file: train.py:make_loader"
        ) from None


def _suggestion(module: Any, name: str) -> str:
    public = [attribute for attribute in vars(module) if attribute[0] != "_"]
    nearest = get_close_matches(name, public, 1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""
