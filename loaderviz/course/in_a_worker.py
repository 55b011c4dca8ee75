"""What can be sent to a worker, what workers print, and functions that notebooks run in them.

The functions live in a module, so that workers of every start method can import them.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    import pandas as pd


def own_mib(_samples: Any) -> float:
    """A ``collate_fn`` that drops the samples and returns the process's own memory, in MiB.

    Own memory is shared with no other process; psutil calls it USS. A page that is shared after a
    fork counts from the moment it is written to.
    """
    return int(psutil.Process().memory_full_info().uss) / 2**20


# Reads a list of pickles, and prints of each whether it could be loaded.
_RECEIVER = """
import pickle, sys
sys.path[:], pickles = pickle.load(sys.stdin.buffer)
for each in pickles:
    try:
        pickle.loads(each)
        print("yes")
    except Exception as error:
        print(f"no: {type(error).__name__}")
"""


def arrives(**objects: Any) -> pd.DataFrame:
    """Pickle each object, and load it in a Python process that has just been started.

    That is what happens to a dataset, its ``collate_fn`` and its ``worker_init_fn`` if workers are
    started by spawn or forkserver. A row for each object, by name. Columns: ``pickled`` (size, or
    the exception's name) and ``arrives`` (whether the other process could load it; empty if it was
    not pickled).
    """
    import pandas as pd

    table = pd.DataFrame("", index=list(objects), columns=["pickled", "arrives"])
    pickles = {}
    for name, value in objects.items():
        try:
            pickles[name] = pickle.dumps(value)
            table.loc[name, "pickled"] = f"{len(pickles[name]):,} bytes"
        except Exception as error:
            table.loc[name, "pickled"] = f"no: {type(error).__name__}"
    sent = pickle.dumps((sys.path, list(pickles.values())))
    receiver = [sys.executable, "-c", _RECEIVER]
    told = subprocess.run(receiver, input=sent, capture_output=True, check=True).stdout
    table.loc[list(pickles), "arrives"] = told.decode().splitlines()
    return table


@contextmanager
def stderr_of_workers() -> Iterator[Path]:
    """Inside the block, stderr of this process and of those it starts goes to the yielded file."""
    with tempfile.TemporaryDirectory(prefix="loaderviz-sending-") as folder:
        path = Path(folder, "stderr.txt")
        saved_stderr = os.dup(2)
        try:
            with path.open("wb") as file:
                os.dup2(file.fileno(), 2)
            yield path
        finally:
            os.dup2(saved_stderr, 2)
            os.close(saved_stderr)
