"""Whether files from anybody break or exhaust a reader: `python benchmarks/fuzz.py`.

Recordings, saved traces and profiles are damaged at random in three layers: their bytes; fields of
well-formed files; well-formed values that make no sense. Each case gives one of them to one reader,
in a process of its own. Counts what ended otherwise than well or with a LoaderVizError, what took
more than 20 s of CPU time, and the most memory (Linux only).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from consumers import ALLOWED, CONSUMERS, LAYERS, export_beside
from damage import damage, damage_profile, make_originals
from loaderviz.errors import LoaderVizError

MOST_CPU_S = 20.0
MOST_REAL_S = 120
MOST_BYTES = 1 << 30  # more than the process had before the case


@dataclass(frozen=True)
class Outcome:
    """What became of one case: ``fault`` is empty where it went well or was refused."""

    seed: int
    layer: str
    consumer: str
    fault: str
    grown_bytes: int
    detail: str


def warm_up(originals: Path) -> None:
    """Let every reader import what it needs, once for all cases."""
    with contextlib.redirect_stdout(io.StringIO()):
        for name, consume in CONSUMERS.items():
            with contextlib.suppress(*ALLOWED):
                consume(originals / ("recording" if name == "top" else "saved.parquet"))
        export_beside(originals / "profile.json", originals)


def outcome_of(seed: int, originals: Path, folder: Path) -> Outcome:
    """Run the case of this number; ``folder`` is for its files."""
    noise = random.Random(seed)
    layer = LAYERS[seed % len(LAYERS)]
    consumer = [*CONSUMERS, "profile"][seed // len(LAYERS) % (len(CONSUMERS) + 1)]
    path = folder / str(seed)
    if consumer == "profile":
        damaged = damage_profile(originals, path, noise)
    else:
        damaged = damage(layer, originals, path, noise)
    output = folder / f"{seed}.txt"
    pid = os.fork()
    if not pid:
        _run(consumer, damaged, originals, output)
    _, status, usage = os.wait4(pid, 0)
    grown = max(1024 * usage.ru_maxrss - _rss_bytes(), 0)
    detail = output.read_text(errors="replace") if output.exists() else ""
    fault = ""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        fault = "hang" if number in (signal.SIGALRM, signal.SIGPROF) else f"signal {number}"
    elif os.WEXITSTATUS(status):
        fault = detail.strip().splitlines()[-1].split(":")[0] if detail else "exit"
    elif grown > MOST_BYTES:
        fault = "memory"
    return Outcome(seed, layer, consumer, fault, grown, detail)


def _run(consumer: str, path: Path, originals: Path, output: Path) -> None:
    """In a child: never returns."""
    code = 1
    try:
        signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
        signal.alarm(MOST_REAL_S)
        with open("/proc/self/statm") as file:  # noqa: PTH123
            now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + 2 * MOST_BYTES, -1))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                if consumer == "profile":
                    export_beside(path, originals)
                else:
                    CONSUMERS[consumer](path)
            except ALLOWED as error:
                print(error if isinstance(error, LoaderVizError) else "")
        assert not set(printed.getvalue()) & set("\x1b\x07\x08"), "control characters"
        code = 0
    except BaseException:
        output.write_text(traceback.format_exc())
    finally:
        os._exit(code)


def _rss_bytes() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * resource.getpagesize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--details", type=Path, help="a folder for the tracebacks")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        originals = Path(folder) / "originals"
        originals.mkdir()
        make_originals(originals)
        run = partial(_one, originals=originals, folder=Path(folder), details=chosen.details)
        outcomes: list[Outcome] = []
        with ProcessPoolExecutor(chosen.processes, None, warm_up, (originals,)) as pool:
            seeds = range(chosen.first, chosen.first + chosen.cases)
            for outcome in pool.map(run, seeds, chunksize=20):
                outcomes.append(outcome)
                if outcome.fault:
                    print(outcome.seed, outcome.layer, outcome.consumer, outcome.fault, flush=True)
    print()
    print("layer     cases   tracebacks   hangs   memory   most MiB")
    for layer in LAYERS:
        those = [outcome for outcome in outcomes if outcome.layer == layer]
        faults = Counter(
            outcome.fault if outcome.fault in ("", "hang", "memory") else "error"
            for outcome in those
        )
        most = max((outcome.grown_bytes for outcome in those), default=0) / 2**20
        print(
            f"{layer:8} {len(those):6,} {faults['error']:12,} {faults['hang']:7,} "
            f"{faults['memory']:8,} {most:10,.0f}"
        )


def _one(seed: int, originals: Path, folder: Path, details: Path | None) -> Outcome:
    outcome = outcome_of(seed, originals, folder)
    shutil.rmtree(folder / str(seed), ignore_errors=True)
    (folder / f"{seed}.txt").unlink(missing_ok=True)
    if outcome.fault and details is not None:
        details.mkdir(exist_ok=True)
        (details / f"{seed}.txt").write_text(outcome.detail or outcome.fault)
    return outcome


if __name__ == "__main__":
    main()
