"""Try loaderviz with several releases of torch and Python: `make matrix ARGS="2.9.1 2.15.0"`.

Each pair gets an environment of its own in a temporary folder, which is deleted before the next one
is made: a build with CUDA takes 5 GB. The table that comes out at the end goes into
benchmarks/RESULTS.md by hand.
"""

from __future__ import annotations

import argparse
import platform
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

ROOT = Path(__file__).parents[1]
# The smallest set that meets each private part of torch that loaderviz relies on.
TESTS = (
    "tests/recorder/test_record_exactly.py",  # same batches, draws, exceptions and warnings
    "tests/recorder/test_every_option.py",  # every option of a DataLoader
    "tests/recorder/test_worker_starts.py",  # fork, forkserver, spawn
    "tests/simulator/test_simulate.py::TestAgainstTorch",  # the order of torch's tasks
    "tests/doctor/test_doctor.py::TestEveryPitfall::test_is_found_where_it_is",
)
NEEDED = ("pytest", "pytest-xdist", "hypothesis", "torchdata", "pillow")


@dataclass
class Outcome:
    """What came of one pair: counts, or at which step it ended."""

    python: str
    torch: str
    passed: int = 0
    skipped: int = 0
    failed: tuple[str, ...] = ()
    problem: str = ""


def main() -> int:
    """Try each pair, go on when one fails, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("torch", nargs="+", help="releases of torch, such as 2.9.1")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters")
    arguments = parser.parse_args()
    outcomes = [try_pair(python, torch) for python in arguments.python for torch in arguments.torch]
    print(f"\n{platform.system()} {platform.machine()}: {', '.join(TESTS)}\n")
    print("| Python | torch | passed | skipped | failed |\n| --- | --- | ---: | ---: | --- |")
    for of in outcomes:
        failed = of.problem or "<br>".join(of.failed) or "none"
        print(f"| {of.python} | {of.torch} | {of.passed} | {of.skipped} | {failed} |")
    return any(outcome.problem or outcome.failed for outcome in outcomes)


def try_pair(python: str, torch: str) -> Outcome:
    """Install this release of torch for this interpreter, and run the tests with it."""
    begun, outcome = time.monotonic(), Outcome(python, torch)
    with tempfile.TemporaryDirectory(prefix="loaderviz-matrix-") as name:
        try:
            own_python = install(python, torch, Path(name))
            names = "import platform, torch; print(platform.python_version(), torch.__version__)"
            outcome.python, outcome.torch = run(own_python, "-c", names).split()
            run_tests(own_python, Path(name), outcome)
        except (subprocess.CalledProcessError, OSError) as error:
            said = getattr(error, "stderr", "") or str(error)
            outcome.problem = said.strip().splitlines()[-1][:200]
    print(f"{time.monotonic() - begun:.0f} s: {outcome}", flush=True)
    return outcome


def install(python: str, torch: str, folder: Path) -> Path:
    """Make an environment with torch, loaderviz and what the tests need; returns its Python."""
    pins = (ROOT / "constraints.txt").read_text()
    constraints = folder / "constraints.txt"
    constraints.write_text(re.sub("(?m)^torch==.*$", f"torch=={torch}", pins))
    run(python, "-m", "venv", folder / "venv")
    own_python = folder / "venv/bin/python"
    pip = (own_python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "-c", constraints)
    run(*pip, "-e", ROOT, *NEEDED)
    return own_python


def run_tests(python: Path, folder: Path, outcome: Outcome) -> None:
    """Run the tests and note how each ended.

    What fails beside other tests runs again by itself: a busy machine disturbs what is timed.
    """
    pytest = [python, "-m", "pytest", "-q", "-o", f"cache_dir={folder / 'cache'}"]
    cases = run_once([*pytest, "-n", "2", "--dist", "worksteal"], folder / "first.xml")
    bad = failed_of(cases)
    if bad:
        bad = failed_of(run_once([*pytest, "--last-failed"], folder / "again.xml"))
    # A set, as a teardown that fails is a case, too.
    names = {(case.get("classname"), case.get("name")) for case in cases}
    outcome.skipped = sum(case.find("skipped") is not None for case in cases)
    outcome.passed = len(names) - len(bad) - outcome.skipped
    outcome.failed = tuple(bad)


def run_once(pytest: list[str | Path], report: Path) -> list[Element]:
    """Run pytest with these options; returns the cases of its report."""
    subprocess.run([*pytest, f"--junitxml={report}", *TESTS], cwd=ROOT, check=False)
    return list(ElementTree.parse(report).iter("testcase"))


def failed_of(cases: list[Element]) -> list[str]:
    """The names of the cases that failed or broke."""
    bad = [case for case in cases if {part.tag for part in case} & {"failure", "error"}]
    return list(dict.fromkeys(f"`{case.get('name')}`" for case in bad))


def run(*command: str | Path) -> str:
    """Run a command; returns what it printed, and raises if it failed."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
