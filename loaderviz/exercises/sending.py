"""What of a dataset can be sent to a worker: tried on a fresh Python process, and on a real one."""

from __future__ import annotations

import base64
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# Each line is a pickle in base 64; so is each answer one line.
_RECEIVER = """
import base64, json, pickle, sys
sys.path[:] = json.loads(sys.stdin.readline())
for line in sys.stdin:
    try:
        pickle.loads(base64.b64decode(line))
        print("yes")
    except Exception as error:
        print(f"no: {type(error).__name__}")
"""


def arrives(**things: Any) -> pd.DataFrame:
    """Pickle each thing, by name, and load it in a Python process that has just been started.

    That is what happens to a dataset, its ``collate_fn`` and its ``worker_init_fn`` where workers
    are started by spawn or forkserver. Columns: ``pickled`` (size, or the exception's name) and
    ``arrives`` (whether the other process could load it).
    """
    import pandas as pd

    table = pd.DataFrame("", index=list(things), columns=["pickled", "arrives"])
    sent = {}
    for name, thing in things.items():
        try:
            sent[name] = pickle.dumps(thing)
            table.loc[name, "pickled"] = f"{len(sent[name]):,} bytes"
        except Exception as error:
            table.loc[name, "pickled"] = f"no: {type(error).__name__}"
    lines = [json.dumps(sys.path), *(base64.b64encode(each).decode() for each in sent.values())]
    done = subprocess.run(
        [sys.executable, "-c", _RECEIVER],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    table.loc[list(sent), "arrives"] = done.stdout.split("\n")[: len(sent)]
    return table


@contextmanager
def stderr_of_workers() -> Iterator[Path]:
    """What this process, and those it starts inside, write to stderr goes to this file instead."""
    with tempfile.TemporaryDirectory(prefix="loaderviz-sending-") as folder:
        path = Path(folder, "stderr.txt")
        kept = os.dup(2)
        try:
            with path.open("wb") as file:
                os.dup2(file.fileno(), 2)
            yield path
        finally:
            os.dup2(kept, 2)
            os.close(kept)
