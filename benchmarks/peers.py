"""What other tools say of one slow loop, and what they cost: `python benchmarks/peers.py`.

The loop is slowed in a known way: of 320 samples every fortieth takes 0.2 s to read, the others
2 ms, and two workers read them; a step takes some 5 ms. The script times its own waits. Each tool
runs it as its documentation says, all in turns, in processes of their own. To install the peers:
`pip install viztracer py-spy traceml-ai`; a tool that is not installed is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

TRAIN = """
import contextlib, json, os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 320
    def __getitem__(self, index):
        return self.read_slowly(index) if index % 40 == 7 else self.read(index)
    def read(self, index):
        time.sleep(0.002)
        return torch.ones(64)
    def read_slowly(self, index):
        time.sleep(0.2)
        return torch.ones(64)

def step(model, optimizer, batch):
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.005)

def main(around_step):
    torch.set_num_threads(1)
    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    loader = DataLoader(Rows(), batch_size=8, num_workers=2)
    begun, waited = time.perf_counter(), 0.0
    for _ in range(3):
        batches = iter(loader)
        while True:
            asked = time.perf_counter()
            batch = next(batches, None)
            waited += time.perf_counter() - asked
            if batch is None:
                break
            with around_step(model):
                step(model, optimizer, batch)
    took = time.perf_counter() - begun
    print(json.dumps({"took_s": took, "waited_s": waited}), flush=True)

if __name__ == "__main__":
    tool = os.environ.get("TOOL", "")
    around_step = lambda model: contextlib.nullcontext()
    if tool == "traceml":
        import traceml_ai
        traceml_ai.init(mode="auto")
        around_step = traceml_ai.trace_step
    if tool == "torch.profiler":
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            main(around_step)
        print(profile.key_averages().table(sort_by="cpu_time_total", row_limit=4))
        profile.export_chrome_trace(sys.argv[1])
    else:
        main(around_step)
"""


@dataclass(frozen=True)
class Tool:
    """How a tool runs the script, and how to read what it wrote. ``OUT`` stands for its file."""

    command: tuple[str, ...]
    says: Callable[[Path, str], str] = lambda out, printed: ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    tools = {name: tool for name, tool in TOOLS.items() if installed(tool)}
    costs: dict[str, list[tuple[float, float, int]]] = {name: [] for name in tools}
    waits, said = [], {}
    for _ in range(rounds):
        for name, tool in tools.items():
            with TemporaryDirectory() as folder:
                loop, whole_s, printed = run(name, tool, Path(folder))
                out = Path(folder, "out")
                costs[name].append((loop["took_s"], whole_s, bytes_written(Path(folder))))
                said[name] = tool.says(out, printed)
                waits += [loop["waited_s"] / loop["took_s"]] * (name == "none")
    print(f"The script itself waited {statistics.median(waits):.0%} of its loop.\n")
    print("| tool | the loop | the whole process | MB written |\n| --- | ---: | ---: | ---: |")
    for name, each in costs.items():
        pairs = list(zip(each, costs["none"], strict=True))
        loop, whole = (ratios([tool[i] / plain[i] for tool, plain in pairs]) for i in (0, 1))
        print(f"| {name} | {loop} | {whole} | {each[-1][2] / 1e6:.2f} |")
    for name, text in said.items():
        print(f"\n== {name}\n{text}")


def ratios(each: list[float]) -> str:
    return f"{statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})"


def installed(tool: Tool) -> bool:
    return tool.command[0] == "python" or shutil.which(tool.command[0], path=PATH) is not None


def run(name: str, tool: Tool, folder: Path) -> tuple[dict[str, float], float, str]:
    """Run the script under the tool; returns its own times, the seconds in all, and the output."""
    (folder / "train.py").write_text(TRAIN)
    words = [sys.executable if word == "python" else word for word in tool.command]
    begun = time.perf_counter()
    done = subprocess.run(
        [word.replace("OUT", str(folder / "out")) for word in words],
        env=os.environ | {"TOOL": name, "PATH": PATH, "COLUMNS": "120"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    whole_s = time.perf_counter() - begun
    own = [line for line in done.stdout.splitlines() if '"took_s"' in line]
    if not own:
        raise SystemExit(f"{name} did not run the script:\n{done.stdout}\n{done.stderr}")
    return json.loads(own[0][own[0].index("{") :]), whole_s, done.stdout + done.stderr


def bytes_written(folder: Path) -> int:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "train.py"]
    return sum(path.stat().st_size for path in files)


def loaderviz_says(out: Path, printed: str) -> str:
    command = [sys.executable, "-m", "loaderviz", "summary", str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def table_of(out: Path, printed: str) -> str:
    """The rows of the profiler's table."""
    rows = [line for line in printed.splitlines() if "  " in line and "%" in line]
    return "\n".join(rows)


def stacks_of(out: Path, printed: str) -> str:
    """Of the samples of each process, how many are in the wait, in a read, and in a slow read."""
    counts: dict[str, dict[str, int]] = {}
    for line in out.read_text().splitlines():
        stack, _, n = line.rpartition(" ")
        kind = "worker" if "_worker_loop" in stack else "main"
        inside = counts.setdefault(kind, dict.fromkeys(("all", *FUNCTIONS), 0))
        names = {frame.split(" (")[0].split(".")[-1] for frame in stack.split(";")}
        for name in ("all", *(each for each in FUNCTIONS if each in names)):
            inside[name] += int(n)
    return json.dumps(counts)


def calls_of(out: Path, printed: str) -> str:
    """Seconds in the wait, in a read, and in a slow read, over all processes."""
    events = json.loads(out.with_suffix(".json").read_text())["traceEvents"]
    seconds = dict.fromkeys(FUNCTIONS, 0.0)
    for event in events:
        for name in FUNCTIONS:
            if event.get("ph") == "X" and event["name"].split(" (")[0].endswith(f".{name}"):
                seconds[name] += event["dur"] / 1e6
    return json.dumps(seconds)


def report_of(out: Path, printed: str) -> str:
    wanted = ("Verdict", "Why", "Next", "Step Time", "Input Wait", "DataLoader fetch", "Residual")
    lines = (line.strip("| ") for line in printed.splitlines())
    return "\n".join(line for line in lines if any(word in line for word in wanted))


FUNCTIONS = ("_next_data", "read", "read_slowly")
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
SCRIPT = ("--", "python", "train.py")
TOOLS = {
    "none": Tool(("python", "train.py")),
    "loaderviz": Tool(
        ("python", "-m", "loaderviz", "run", "--out", "OUT", "train.py"), loaderviz_says
    ),
    "torch.profiler": Tool(("python", "train.py", "OUT"), table_of),
    "py-spy": Tool(
        ("py-spy", "record", "--subprocesses", "--idle", "--format", "raw", "-o", "OUT", *SCRIPT),
        stacks_of,
    ),
    "viztracer": Tool(
        ("viztracer", "--ignore_c_function", "--output_file", "OUT.json", "train.py"), calls_of
    ),
    "traceml": Tool(("traceml", "run", "train.py", "--logs-dir", "OUT"), report_of),
}

if __name__ == "__main__":
    main()
