"""What is learnt once of a loader and shared by all checks: its set-up, its runs, other ranks.

The loader is run in a copy of this process (a fork), so that whatever it does to random generators,
datasets and samplers stays there, and so that it can be ended if it hangs. Where a process cannot
be copied (other systems than Linux; a loader without workers, once CUDA is in use here) it runs in
this process, and the random generators are put back afterwards.
"""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from loaderviz import machine
from loaderviz._doctor import rank_messages
from loaderviz._doctor.batch_contents import Contents
from loaderviz._doctor.examination_runs import Epoch, Send, run_all
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.run_outcomes import Fact, Trouble, in_silence
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.loaders.forked_run import fork_loses_cuda, may_fork, run_forked
from loaderviz.loaders.random_state import keep_random_state
from loaderviz.trace import Trace, load

_WHICH = {"plain": "", "alone": " without workers"}
GRACE_S = 5.0  # past its time, before a run is ended from outside


@dataclass(frozen=True)
class Case:
    """One loader under examination. A check reads it, and changes nothing.

    What a run has to tell raises Undecided where there was none, or where it did not come so far.
    """

    setup: Setup
    ran: bool = False
    why_not: str = "it takes a run to tell: doctor(loader, run=True)"
    epochs: tuple[Epoch, ...] = ()
    contents: Contents | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    troubles: tuple[Trouble, ...] = ()
    traces: dict[str, Trace] = field(default_factory=dict)
    stacks: tuple[str, ...] = ()  # where workers that were stuck stood
    ranks: rank_messages.Ranks = field(default_factory=rank_messages.Ranks)
    recorded: bool = False  # all is taken from a recording of the user's own loop

    def epoch(self, number: int = 0, run: str = "plain") -> Epoch:
        """An epoch of which at least one batch was delivered."""
        for each in self.epochs:
            if (each.run, each.number) == (run, number) and each.notes:
                return each
        if not self.ran:
            raise Undecided(self.why_not)
        for trouble in self.troubles:
            if trouble.run in ("plain", run):
                raise Undecided(f"the run{_WHICH[trouble.run]} ended early: {trouble.text}")
        if self.recorded:
            raise Undecided("the recording holds too few batches")
        raise Undecided("no batch was delivered in the time that was given")

    def whole(self, number: int = 0, run: str = "plain") -> Epoch:
        """An epoch that was delivered to its end."""
        found = self.epoch(number, run)
        if not found.complete and self.recorded:
            raise Undecided("the recording holds one epoch only")
        if not found.complete:
            raise Undecided(f"the epoch is longer than what was run: {len(found.notes)} batches")
        return found

    def alone(self) -> Epoch:
        """An epoch read by one process, without workers."""
        return self.epoch(0, "alone" if self.setup.num_workers else "plain")

    def told(self) -> tuple[dict[str, Any], ...] | None:
        """What each rank has seen; None where there is but one."""
        if not self.ran and machine.world_size() > 1:
            raise Undecided(self.why_not)
        return self.ranks.all()

    @property
    def cpus_allowed(self) -> float:
        """Where the loader ran."""
        if not self.recorded:
            return machine.cpu_allowance()
        allowed = self.facts.get("cpu_allowance")
        if not isinstance(allowed, int | float) or not allowed > 0:
            raise Undecided("the recording does not tell how many CPUs it was allowed")
        return float(allowed)

    def trouble(self, *kinds: str) -> Trouble | None:
        return next((each for each in self.troubles if each.kind in kinds), None)


def case_of(setup: Setup, *, run: bool, budget_s: float, danger: str = "") -> Case:
    """Look at the loader; unless ``danger`` says why not, run it."""
    if not run:
        return Case(setup)
    if danger:
        return Case(setup, why_not=danger)
    with tempfile.TemporaryDirectory(prefix="loaderviz-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        sent = _run_copied(setup, folder, budget_s) if may_fork(setup.num_workers) else None
        if sent is None:
            sent = _run_here(setup, folder, budget_s)
        case = _case(setup, sent, folder)
    return rank_messages.join(case)


def _run_copied(setup: Setup, folder: Path, budget_s: float) -> list[Any]:
    to_run = setup
    if fork_loses_cuda():  # and pinning needs it
        to_run = replace(setup, loader=copy_loader(setup.loader, pin_memory=False))
    most_s = budget_s + GRACE_S
    run = run_forked(_in_copy, to_run, folder, budget_s, timeout_s=most_s)
    sent = list(run.sent)
    if not run.in_time:
        runs = [each.value for each in sent if isinstance(each, Fact) and each.name == "run"]
        text = f"nothing came for {most_s:g} s (in a copy of this process)"
        sent.append(Trouble(runs[-1] if runs else "plain", 0, "stuck", text))
    elif run.exit_code and not any(isinstance(each, Trouble) for each in sent):
        text = f"the process that iterates it has died (exit code {run.exit_code})"
        sent.append(Trouble("plain", 0, "died", text))
    return sent


def _in_copy(setup: Setup, folder: Path, budget_s: float, send: Send) -> None:
    with in_silence(folder):
        run_all(setup, folder, budget_s, send, copied=True)


def _run_here(setup: Setup, folder: Path, budget_s: float) -> list[Any]:
    sent: list[Any] = []
    with keep_random_state(setup.loader), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_all(setup, folder, budget_s, sent.append, copied=False)
    return sent


def _explained(trouble: Trouble, said: list[str]) -> Trouble:
    """With what a worker has said about it on stderr."""
    if trouble.kind not in ("stuck", "died"):
        return trouble
    for line in reversed(said):
        if "Too many open files" in line or "ancdata" in line:
            return replace(trouble, kind="files", text=f"{trouble.text}; a worker says: {line}")
    errors = [line for line in said if line[:1].isalpha() and "Error" in line.partition(":")[0]]
    if errors:
        return replace(trouble, text=f"{trouble.text}; on stderr: {errors[-1]}")
    return trouble


def _case(setup: Setup, sent: list[Any], folder: Path) -> Case:
    traces = {}
    for run in ("plain", "alone"):
        with contextlib.suppress(Exception):  # what it lacks, checks do without
            traces[run] = load(folder / run)
    said = folder / "said"
    lines = said.read_text(errors="replace").splitlines() if said.exists() else []
    stacks = [path.read_text() for path in sorted(folder.glob("stack-*"))]
    return Case(
        setup,
        ran=True,
        epochs=tuple(each for each in sent if isinstance(each, Epoch)),
        contents=next((each for each in sent if isinstance(each, Contents)), None),
        facts={each.name: each.value for each in sent if isinstance(each, Fact)},
        troubles=tuple(_explained(each, lines) for each in sent if isinstance(each, Trouble)),
        traces=traces,
        stacks=tuple(each for each in stacks if each),
    )
