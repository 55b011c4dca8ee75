"""Starts the script in place of the command, in a process that records what it does.

This process becomes the script's Python, so that its process id, terminal, signals and exit code
are those of the script.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from loaderviz._run.script_process import FIRST_PROCESS_VARIABLE, SETTINGS_VARIABLE
from loaderviz.errors import LoaderVizError

SITE = Path(__file__).with_name("site")


def start(
    target: str,
    args: Sequence[str],
    *,
    module: bool = False,
    folder: Path | None = None,
    join: bool = False,
    limits: dict[str, int],
) -> NoReturn:
    """Run a script, or a module, in place of this process; does not return.

    Args:
        target: the script's file, or with ``module`` the module's name.
        args: the arguments of the script.
        module: whether to run a module, as ``python -m`` does.
        folder: where to record. It must be new or empty, except that ranks which were started
            together share it. None: a new one in the current folder.
        join: whether the folder may hold recordings of this run already.
        limits: the arguments of ``record`` that limit it in each process, by name, where they are
            not the default.

    Raises:
        LoaderVizError: for a script that does not exist, a folder that is not empty or cannot be
            made, and a Python that was told to ignore its environment. Nothing was started then.
    """
    if sys.flags.ignore_environment or sys.flags.no_site:
        raise LoaderVizError(
            "a Python with -E, -I or -S cannot record a script: start loaderviz without them"
        )
    if not module and not Path(target).exists():
        raise LoaderVizError(_no_script_message(target))
    path = _prepare_folder(folder, join=join).absolute()
    python_path = os.environ.get("PYTHONPATH")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{SITE}{os.pathsep}{python_path}" if python_path else str(SITE),
        SETTINGS_VARIABLE: json.dumps({"folder": str(path), "limits": limits}),
        FIRST_PROCESS_VARIABLE: "1",
    }
    command = [sys.executable, *_interpreter_options(), *(["-m"] if module else []), target, *args]
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if sys.platform == "win32":  # after exec the shell would not wait for the script
        raise SystemExit(subprocess.call(command, env=environment))
    os.execve(sys.executable, command, environment)


def _interpreter_options() -> list[str]:
    """The options of this Python, such as -u, with which torchrun starts its processes."""
    options: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [*options, *(["-u"] if getattr(sys.stdout, "write_through", False) else [])]


def _no_script_message(target: str) -> str:
    python_folder = Path(sys.executable).parent
    if shutil.which(target, path=f"{python_folder}{os.pathsep}{os.environ.get('PATH', '')}"):
        return (
            f"{target!r} is a command, not a Python file. Name its module: for torchrun, "
            "loaderviz run -m torch.distributed.run ..."
        )
    return f"the script {target!r} does not exist (to run a module: loaderviz run -m NAME)"


def _prepare_folder(folder: Path | None, *, join: bool) -> Path:
    """Make the folder if need be, and return it; raise LoaderVizError where it cannot be used."""
    ranks_share = os.environ.get("WORLD_SIZE", "1") != "1"
    if folder is None and (ranks_share or join):
        raise LoaderVizError("several commands record one run: give all of them the same --out DIR")
    try:
        if folder is None:
            return _make_new_folder()
        folder.mkdir(parents=True, exist_ok=True)
        names = [path.name for path in folder.iterdir()]
    except OSError as error:
        raise LoaderVizError(
            f"cannot make the folder {folder or ''} for the recording: {error}"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise LoaderVizError(f"cannot write into the folder {folder}")
    if ranks_share and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        prefix = f"rank-{os.environ.get('RANK', ''):0>5}"
        names = [name for name in names if name.startswith(prefix)]
    elif ranks_share:
        names = []
    if names and not join:
        raise LoaderVizError(
            f"the folder {folder} holds {min(names)!r} already: each run needs a new or empty one "
            "(--join: it holds recordings of this same run)"
        )
    return folder


def _make_new_folder() -> Path:
    """A new folder in the current one, named by the time."""
    name = f"loaderviz-run-{datetime.now():%Y%m%d-%H%M%S}"
    for number in itertools.count():  # several runs may begin in one second
        folder = Path(f"{name}-{number}" if number else name)
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError
