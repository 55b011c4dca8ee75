"""What the tests catch: small changes of the package, each against the tests that reach it.

First `python benchmarks/mutants.py --coverage` runs the unit tests that are not slow under
coverage.py, which says which tests reach which line, what each costs, and how much of the package
they cover; where it was interrupted, it goes on. Then `python benchmarks/mutants.py` runs the
mutants of `mutants.jsonl`, which were drawn at random, and prints by room how many were killed, and
which survived. To see what a change of the tests does to that, run both again with another folder
for `--data`. A mutant whose lines are no longer there is "gone", and `--redraw` draws another in
its room; `--draw 300` draws all anew.

`--times` instead of `--coverage` runs them without coverage.py, and is far quicker: then all tests
of a mutant's room are taken to reach it, and no others.

Of the tests that reach a mutant, those of its room come first, then the quickest, until they cost
`--cap-s` of CPU time; then, where there is time left, the other tests of the same files, since what
one test leaves in a cache another may assert. A mutant is killed where a test fails with it, passes
without it, and fails with it again; a test that does not end has failed. Other programs may run
beside: nothing rests on how long a test takes, but the limit after which it is taken to hang.

RESULTS.md has the numbers of a whole run.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from queue import SimpleQueue

import coverage
from mutant_slot import Slot
from mutations import PACKAGE, ROOT, Mutation, Name, files, folder_of_tests, mutations, room_of
from reach import CONTEXT, FOLDER, Reach, Test, note_what_is_measured

KILLED, SURVIVED, NOT_REACHED, GONE = "killed", "survived", "not reached", "gone"
MOST_FAILURES_OF_OTHERS = 4  # tests that fail without the mutant, too, in one mutant's run
COMPLETE = "complete"  # the file that says so of a run of the tests
LEAST_LIMIT_S, TIMES_AS_LONG = 30.0, 5.0  # a test that takes longer hangs
SETTINGS = f"""
[run]
branch = true
parallel = true
data_file = {{folder}}/coverage
include = {PACKAGE}/*
context = ${{{{{CONTEXT}-}}}}
disable_warnings = no-data-collected,module-not-measured,module-not-imported,couldnt-parse
[report]
exclude_also =
    if TYPE_CHECKING:
    @overload
"""


@dataclass(frozen=True)
class Result:
    """What became of a mutant."""

    name: Name
    status: str
    killed_by: str | None = None
    hung: bool = False
    n_tests: int = 0
    capped: bool = False  # tests that reach it were left out
    cpu_s: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--coverage", action="store_true", help="measure what the tests reach")
    parser.add_argument("--times", action="store_true", help="measure only what the tests cost")
    parser.add_argument("--draw", type=int, metavar="N", help="draw this many mutants anew")
    parser.add_argument("--redraw", action="store_true", help="draw others for those that are gone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", type=Path, default=ROOT / "benchmarks" / "mutants.jsonl")
    parser.add_argument("--data", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--cap-s", type=float, default=60.0, help="of tests, for each mutant")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    folder = chosen.data.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if chosen.coverage or chosen.times:
        measure(folder, chosen.processes, with_coverage=chosen.coverage)
        if chosen.coverage:
            print_coverage(folder)
        return
    possible = {mutation.name: mutation for file in files() for mutation in mutations(file)}
    if chosen.draw:
        write_list(chosen.list, draw(list(possible.values()), chosen.draw, chosen.seed))
        return
    names = [Name(**json.loads(line)) for line in chosen.list.read_text().splitlines()]
    mutants = found(names, possible)
    if chosen.redraw:
        mutants = redrawn(mutants, list(possible.values()), chosen.seed)
        write_list(chosen.list, [mutant for mutant in mutants.values() if mutant])
    print_results(run(mutants, folder, chosen.cap_s, chosen.processes), mutants)


# What the tests reach


def measure(folder: Path, processes: int, *, with_coverage: bool) -> None:
    complete = folder / COMPLETE
    complete.unlink(missing_ok=True)
    settings = folder / "coveragerc"
    settings.write_text(SETTINGS.format(folder=folder))
    note_what_is_measured(folder)
    options = f"-q -p reach -p no:nbval -n {processes} --dist worksteal"
    stuck = "-o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options.split(), "-m", "not slow", *stuck.split()],
        cwd=ROOT,
        env={
            **os.environ,
            **({"COVERAGE_PROCESS_START": str(settings)} if with_coverage else {}),
            "PYTHONPATH": str(Path(__file__).parent),
            FOLDER: str(folder),
        },
        check=False,  # what fails under coverage.py is left out, and counted
    )
    if done.returncode not in (0, 1):  # passed, or some failed
        sys.exit("The tests were interrupted: run this again, and it goes on.")
    complete.touch()
    if not with_coverage:
        return
    measured = coverage.Coverage(config_file=str(settings), context="")
    measured.load()
    measured.combine(strict=False)
    measured.save()


def print_coverage(folder: Path) -> None:
    settings = str(folder / "coveragerc")
    measured = coverage.Coverage(data_file=str(folder / "coverage"), config_file=settings)
    measured.load()
    measured.get_data().touch_files(map(str, files()))  # those that no test imports count as well
    measured.json_report(outfile=str(folder / "coverage.json"))
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    for file, entry in json.loads((folder / "coverage.json").read_text())["files"].items():
        room = room_of(str((ROOT / file).relative_to(ROOT)))
        rooms[room].update({k: v for k, v in entry["summary"].items() if isinstance(v, int)})
        rooms["total"].update({k: v for k, v in entry["summary"].items() if isinstance(v, int)})
    reach = Reach(folder)
    print(f"{len(reach.tests):,} tests pass; {len(reach.left_out)} do not, or are skipped here:")
    print("".join(f"  {test}\n" for test in reach.left_out))
    print(f"{'room':14} {'lines':>15} {'branches':>15}")
    for room in sorted(rooms, key=lambda room: (room == "total", room)):
        lines = share(rooms[room], "covered_lines", "num_statements")
        branches = share(rooms[room], "covered_branches", "num_branches")
        print(f"{room:14} {lines:>15} {branches:>15}")


def share(counts: Counter[str], part: str, whole: str) -> str:
    of_all = 100 * counts[part] / counts[whole] if counts[whole] else 100
    return f"{of_all:.1f} % of {counts[whole]:,}"


# Which mutants


def draw(possible: list[Mutation], n: int, seed: int) -> list[Mutation]:
    """A share from each room, by its lines; at most one of a line."""
    n_lines = Counter[str]()
    for file in files():
        n_lines[room_of(str(file.relative_to(ROOT)))] += len(file.read_text().splitlines())
    shares = {room: n * n_lines[room] / n_lines.total() for room in n_lines}
    counts = {room: int(share) for room, share in shares.items()}
    by_rest = sorted(shares, key=lambda room: (counts[room] - shares[room], room))
    for room in by_rest[: n - sum(counts.values())]:
        counts[room] += 1
    drawn = []
    for room in sorted(counts):
        drawn += draw_of_room(possible, room, counts[room], f"{seed} {room}")
    return drawn


def draw_of_room(possible: list[Mutation], room: str, n: int, seed: str) -> list[Mutation]:
    by_line = defaultdict(list)
    for mutation in possible:
        if mutation.room == room:
            by_line[mutation.name.file, mutation.line].append(mutation)
    chance = random.Random(seed)
    lines = chance.sample(sorted(by_line), min(n, len(by_line)))
    return [chance.choice(by_line[line]) for line in lines]


def write_list(path: Path, mutants: list[Mutation]) -> None:
    names = sorted(mutant.name for mutant in mutants)
    path.write_text("".join(json.dumps(asdict(name)) + "\n" for name in names))


def found(names: list[Name], possible: dict[Name, Mutation]) -> dict[Name, Mutation | None]:
    """Where the mutants are now: their file may have another name, or None where they are gone."""
    elsewhere = {replace(name, file=""): mutation for name, mutation in possible.items()}
    return {
        name: possible.get(name)
        or (None if (ROOT / name.file).exists() else elsewhere.get(replace(name, file="")))
        for name in names
    }


def redrawn(
    mutants: dict[Name, Mutation | None], possible: list[Mutation], seed: int
) -> dict[Name, Mutation | None]:
    taken = {mutant.name for mutant in mutants.values() if mutant}
    free = [mutation for mutation in possible if mutation.name not in taken]
    gone = Counter(room_of(name.file) for name, mutant in mutants.items() if mutant is None)
    result = {name: mutant for name, mutant in mutants.items() if mutant}
    for room, n in sorted(gone.items()):
        result |= {m.name: m for m in draw_of_room(free, room, n, f"{seed} {room} again")}
    return result


# Against which tests


@cache
def lines_in_functions(file: Path) -> dict[int, str]:
    """The lines of a file that run when a function is called."""
    source = file.read_text()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, functions)]
    inside = {n for node in nodes for n in range(node.body[0].lineno, node.end_lineno + 1)}
    return {n: line for n, line in enumerate(source.splitlines(), 1) if n in inside}


def tests_that_reach(mutant: Mutation, reach: Reach) -> set[Test]:
    """What runs at import is reached by the tests that reach a use of the name that it defines."""
    file = ROOT / mutant.name.file
    if not mutant.at_import:
        return reach.tests_of(file, range(mutant.statement_line, mutant.last_line + 1))
    if mutant.body != (0, 0):
        return reach.tests_of(file, range(mutant.body[0], mutant.body[1] + 1))
    if not mutant.names:
        return reach.tests_of(file, lines_in_functions(file))
    used = re.compile(rf"\b({'|'.join(map(re.escape, mutant.names))})\b")
    tests = set()
    for other in files():
        lines = [n for n, line in lines_in_functions(other).items() if used.search(line)]
        tests |= reach.tests_of(other, lines)
    return tests


def chosen_tests(mutant: Mutation, reach: Reach, cap_s: float) -> tuple[list[Test], bool]:
    """The tests for a mutant, in order, and whether some that reach it are left out."""
    folder = folder_of_tests(mutant.room)

    def is_elsewhere(test: Test) -> bool:
        return test.folder != folder

    reaching = tests_that_reach(mutant, reach)
    files_reaching = {test.file for test in reaching}
    beside = {test for test in reach.tests.values() if test.file in files_reaching} - reaching
    chosen: list[Test] = []
    spent_s, capped = 0.0, False
    for some in (reaching, beside):
        for test in sorted(some, key=lambda test: (is_elsewhere(test), test.cpu_s, test.name)):
            if chosen and spent_s + test.cpu_s > cap_s:
                capped = capped or some is reaching
                break
            chosen.append(test)
            spent_s += test.cpu_s
    # File by file, since what the tests of a file share is made once, then.
    costs = Counter[tuple[bool, str]]()
    for test in chosen:
        costs[test in beside, test.file] += test.cpu_s

    def order(test: Test) -> tuple[object, ...]:
        late = test in beside
        return late, is_elsewhere(test), costs[late, test.file], test.file, test.cpu_s, test.name

    return sorted(chosen, key=order), capped


# What becomes of them


def run(
    mutants: dict[Name, Mutation | None], folder: Path, cap_s: float, processes: int
) -> list[Result]:
    """Run the mutants, but those that an earlier run, which was interrupted, did with this data."""
    noted = folder / "results.jsonl"
    known = {}
    for line in noted.read_text().splitlines() if noted.exists() else ():
        entry = json.loads(line)
        result = Result(**{**entry, "name": Name(**entry["name"])})
        known[result.name] = result
    if not (folder / COMPLETE).exists():
        sys.exit(f"{folder} holds no whole run of the tests: first --coverage, or --times.")
    reach = Reach(folder)
    passed: set[str] = set()
    slots: SimpleQueue[Slot] = SimpleQueue()

    def one(name: Name) -> Result:
        if name in known:
            return known[name]
        result = Result(name, GONE)
        if mutant := mutants[name]:
            tests, capped = chosen_tests(mutant, reach, cap_s)
            result = Result(name, NOT_REACHED)
            if tests:
                slot = slots.get()
                result = replace(against(tests, mutant, name, slot, passed), capped=capped)
                slots.put(slot)
        with noted.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")
        print(f"{result.status:12} {result.cpu_s:6.1f} s  {name.file} {name.where}", flush=True)
        return result

    with tempfile.TemporaryDirectory(prefix="lvm-", ignore_cleanup_errors=True) as temporary:
        opened = [Slot(ROOT, Path(temporary) / str(i)) for i in range(processes)]
        for slot in opened:
            slots.put(slot)
        with ThreadPoolExecutor(processes) as pool:
            results = list(pool.map(one, mutants))
        for slot in opened:
            slot.close()
    return results


def against(
    tests: list[Test], mutant: Mutation, name: Name, slot: Slot, passed: set[str]
) -> Result:
    left, cpu_s = tests, 0.0
    limits_s = {test.name: LEAST_LIMIT_S + TIMES_AS_LONG * test.wall_s for test in tests}

    def outcome(some: Iterable[str]):
        nonlocal cpu_s
        outcome = slot.test(list(some), [limits_s[test] for test in some])
        cpu_s += outcome.cpu_s
        return outcome

    slot.change(mutant.name.file, mutant.text)
    try:
        for _ in range(MOST_FAILURES_OF_OTHERS):
            first = outcome([test.name for test in left])
            if first.failed is None:
                break
            # An import may fail, and no test with it: then of the first test.
            at = next((i for i, test in enumerate(left) if test.name == first.failed), 0)
            suspect = left[at].name
            if suspect not in passed:
                slot.restore()
                if outcome([suspect]).failed is None:
                    passed.add(suspect)
                slot.change(mutant.name.file, mutant.text)
            if suspect in passed and outcome([suspect]).failed is not None:
                return Result(name, KILLED, suspect, first.hung, at + 1, cpu_s=cpu_s)
            left = left[at + 1 :]
            if not left:
                break
    finally:
        slot.restore()
    return Result(name, SURVIVED, n_tests=len(tests), cpu_s=cpu_s)


def print_results(results: list[Result], mutants: dict[Name, Mutation | None]) -> None:
    statuses = (KILLED, SURVIVED, NOT_REACHED, GONE)
    print(f"\n{'room':14} {'mutants':>8}" + "".join(f"{status:>13}" for status in statuses))
    rooms = sorted({room_of(result.name.file) for result in results})
    for room in [*rooms, "total"]:
        those = [r for r in results if room in (room_of(r.name.file), "total")]
        counts = Counter(result.status for result in those)
        print(f"{room:14} {len(those):8}" + "".join(f"{counts[status]:13}" for status in statuses))
    capped = sum(result.capped for result in results if result.status == SURVIVED)
    hung = sum(result.hung for result in results)
    cpu_s = sum(result.cpu_s for result in results)
    print(f"{capped} survived though not all tests that reach them were run; {hung} were killed")
    print(f"by a test that hung. CPU time of the tests: {cpu_s / 60:.0f} min.\n")
    for status in (SURVIVED, NOT_REACHED, GONE):
        for result in results:
            if result.status == status:
                mutant, name = mutants[result.name], result.name
                line = f":{mutant.line}" if mutant else ""
                print(f"{status}: {name.file}{line} {name.where}")
                print("  - " + name.before.replace("\n", "\n    "))
                print("  + " + name.after.replace("\n", "\n    "))


if __name__ == "__main__":
    main()
