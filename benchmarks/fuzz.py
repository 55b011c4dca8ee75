"""Whether files from anybody break or exhaust a reader: `python benchmarks/fuzz.py`.

Recordings, saved traces and profiles are damaged at random in three layers: their bytes; fields of
well-formed files; well-formed values that make no sense. Each case gives one of them to one reader,
in a process of its own. Counts what ended otherwise than well or with a LoaderVizError, what took
more than 20 s of CPU time, and the most memory (Linux only).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from consumers import LAYERS, Outcome, outcome_of, warm_up
from damage import make_originals


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
