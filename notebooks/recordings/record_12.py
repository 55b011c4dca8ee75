"""Makes what notebook 12 shows: how two workers start that are sent a long list, and memory.

    python notebooks/recordings/record_12.py

It takes half a minute, needs Linux (the workers of the second part are forked), and writes two
small Parquet files beside itself. Those that ship were made on 2 CPUs in November 2026.
"""

import sys
from pathlib import Path

import pandas as pd
from torch.utils.data import DataLoader

from loaderviz import Trace, record
from loaderviz.course.datasets import WordArray, WordList
from loaderviz.course.in_a_worker import own_mib

HERE = Path(__file__).parent
N_WORDS, BATCH = 300_000, 10_000


def start_of_list() -> Trace:
    """Two spawned workers, each of which is sent a list of a million words."""
    spawn = {"multiprocessing_context": "spawn"}
    loader = DataLoader(WordList(1_000_000), 4, sampler=range(8), num_workers=2, **spawn)
    with record(loader) as rec:
        list(loader)
    return rec.trace


def own_memory(dataset: WordList | WordArray) -> list[float]:
    """MiB that a forked worker has of its own, after each batch of words that it reads."""
    fork = {"multiprocessing_context": "fork"}
    loader = DataLoader(dataset, BATCH, num_workers=1, collate_fn=own_mib, **fork)
    return list(loader)


def main() -> int:
    memory = {name: own_memory(each(N_WORDS)) for name, each in KINDS.items()}
    words_read = range(BATCH, N_WORDS + 1, BATCH)
    pd.DataFrame({"words_read": words_read, **memory}).to_parquet(HERE / "own_memory.parquet")
    trace = start_of_list()
    trace.save(HERE / "start_of_list.parquet")
    print(trace.workers[["pickle_s", "boot_s", "unpickle_s"]].round(2))
    return 0


KINDS = {"list": WordList, "array": WordArray}

if __name__ == "__main__":
    sys.exit(main())
