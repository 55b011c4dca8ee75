"""What an export to Perfetto costs: `python benchmarks/perfetto.py`.

Seconds and bytes for recordings with 64 samples a batch, beside writing the same events with
`json.dump`, and seconds until Perfetto's own trace processor has read the file (its WebAssembly
build in Node, as in a browser; see tests/support/trace_processor.py).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
import loaderviz as lv
from loaderviz.export import export_csv
from trace_processor import query
from traces import recorded


def seconds(work: Callable[[], object], rounds: int) -> float:
    took = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    n = chosen.samples
    trace: lv.Trace = recorded(n)
    print("what                       seconds   bytes a sample   seconds to read")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("run.json", "run.json.gz"):
            path = Path(folder) / name
            took = seconds(lambda path=path: trace.to_perfetto(path), chosen.rounds)
            start = time.perf_counter()
            [(found,)], lost = query(
                path,
                "select count(*) from slice where name = 'sample'",
                "select * from stats where severity in ('error', 'data_loss') and value > 0",
            )
            reading = time.perf_counter() - start
            assert found == n, found
            assert not lost, lost
            size = path.stat().st_size / n
            print(f"{name:24} {took:9.2f} {size:16.1f} {reading:17.1f}", flush=True)
        document = json.loads((Path(folder) / "run.json").read_text())

        def dump() -> None:
            with (Path(folder) / "dumped.json").open("w") as file:
                json.dump(document, file)

        took = seconds(dump, 1)
        size = (Path(folder) / "dumped.json").stat().st_size / n
        print(f"{'json.dump, same events':24} {took:9.2f} {size:16.1f}", flush=True)
        took = seconds(lambda: export_csv.write(trace, folder), chosen.rounds)
        size = sum(each.stat().st_size for each in Path(folder).glob("*.csv")) / n
        print(f"{'CSV':24} {took:9.2f} {size:16.1f}", flush=True)


if __name__ == "__main__":
    main()
