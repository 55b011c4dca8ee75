"""How long ``loaderviz stuck`` takes where many workers hang, and what it costs to be askable.

The aim: an answer within 2 s on a run of 64 workers.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from torch.utils.data import DataLoader, Dataset

import loaderviz as lv
from loaderviz.recorder.stack_on_signal import StackOnSignal

N_WORKERS, N_BATCHES, ROUNDS = 64, 20_000, 7


class HangsAtTheEnd(Dataset):
    def __len__(self):
        return 8 * (N_BATCHES + N_WORKERS)

    def __getitem__(self, i):
        if i >= 8 * N_BATCHES:
            time.sleep(1000)
        return i


def hang(folder: str) -> None:
    loader = DataLoader(HangsAtTheEnd(), batch_size=8, num_workers=N_WORKERS)
    with lv.record(loader, path=folder):
        for _ in loader:
            pass


def seconds(command: list[str]) -> tuple[float, float, str]:
    """Wall time, CPU time and output of a command."""
    begun, before = time.perf_counter(), os.times()
    said = subprocess.run(command, capture_output=True, text=True)
    after = os.times()
    cpu_s = after.children_user + after.children_system
    cpu_s -= before.children_user + before.children_system
    return time.perf_counter() - begun, cpu_s, said.stdout


def measure_answers(folder: Path) -> None:
    with subprocess.Popen([sys.executable, __file__, str(folder)]) as run:
        command = [sys.executable, "-m", "loaderviz", "stuck", str(folder)]
        try:
            while "stuck: sleep" not in seconds(command)[-1]:
                time.sleep(1)
            answers = [seconds(command)[:2] for _ in range(ROUNDS)]
            helps = [seconds([*command[:-1], "--help"])[:2] for _ in range(ROUNDS)]
        finally:
            for process in psutil.Process(run.pid).children(recursive=True):
                process.kill()
            run.kill()
    print(f"{N_WORKERS} workers, {N_BATCHES:,} batches; medians of wall time and CPU time:")
    for name, times in (("an answer", answers), ("to start the command", helps)):
        wall_s, cpu_s = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"  {name}: {wall_s:.2f} s, {cpu_s:.2f} s of CPU time")


def measure_registering(folder: Path) -> None:
    times = []
    for _ in range(200):
        begun = time.perf_counter()
        stack = StackOnSignal.register(folder)
        times.append(time.perf_counter() - begun)
        stack.close()
    print(f"to be askable costs a process {1e6 * statistics.median(times):.0f} µs at its start")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        hang(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as name:
            measure_registering(Path(name))
            measure_answers(Path(name) / "run")
