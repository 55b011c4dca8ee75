"""What is learnt once about a loader and shared by all checks: its set-up, its runs, other ranks.

The loader is run in a copy of this process (a fork): whatever it does to random generators,
datasets and samplers stays there, and it can be ended if it hangs. Where a process cannot be copied
(other systems than Linux; a loader without workers, once CUDA is in use here) it runs in this
process, and the random generators are restored afterwards.
"""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from loaderviz import machine
from loaderviz._doctor.checks import LOOKS, NotLearnt
from loaderviz._doctor.examination_runs import Lengths, MovedFiles, run_all
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.rank_messages import RankMessages, with_other_ranks
from loaderviz._doctor.run_epochs import PLAIN, Epoch, Send
from loaderviz._doctor.run_outcomes import LATE, OUTPUT_FILE, Trouble, output_to_file
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.loaders.forked_run import fork_loses_cuda, may_fork, run_forked
from loaderviz.loaders.random_state import keep_random_state
from loaderviz.trace import Trace, load
from loaderviz.why.summary import Summary
from loaderviz.why.unequal_epochs import Unequal

if TYPE_CHECKING:
    import pandas as pd

_Observation = TypeVar("_Observation")
GRACE_S = 5.0  # after its time is up, a run is ended from outside


@dataclass(frozen=True)
class RecordedLoop:
    """What the recording of the reader's own loop tells, beside its epochs."""

    trace: Trace  # of one loader on one rank, without samples
    loader: int  # its number in the recording
    summary: Summary  # of the whole recording: causes are those of all ranks
    complete: bool  # whether the recording ended as it should
    cpu_allowance: float | None
    unequal_epochs: list[Unequal]  # of this loader
    read_samples: Callable[[], pd.DataFrame]  # of this rank: they may not fit into memory


@dataclass(frozen=True)
class Case:
    """One loader under examination. A check reads it and changes nothing.

    What only a run can tell raises Undecided if there was no run, or if it did not get that far.
    """

    setup: Setup
    ran: bool = False
    why_not_run: str = "it takes a run to tell: doctor(loader, run=True)"
    observations: tuple[Any, ...] = ()  # all that the runs have sent: see ``run_all``
    trace: Trace | None = None  # of the loader as it is; None if it could not be read
    ranks: RankMessages = field(default_factory=RankMessages)
    recording: RecordedLoop | None = None  # if everything comes from the user's own loop

    def observed(self, kind: type[_Observation]) -> _Observation | None:
        """The last observation of this kind, such as ``Contents``; None if there was none.

        Raises Undecided where a look was to make it, and could not.
        """
        for each in self.observations[::-1]:
            if isinstance(each, kind):
                return each
            if isinstance(each, NotLearnt) and each.learns is kind:
                if each.why:
                    raise Undecided(each.why)
                return None
        if self.ran and any(look.learns is kind for look in LOOKS):  # and it did not come to that
            if self.troubles:
                raise Undecided(f"the run ended early: {self.troubles[-1].text}")
            raise Undecided("it takes a copy of this process, which it cannot have")
        return None

    @cached_property
    def epochs(self) -> tuple[Epoch, ...]:
        """Those of the loader as it is, as far as they came."""
        return tuple(each for each in self.observations if isinstance(each, Epoch))

    @cached_property
    def troubles(self) -> tuple[Trouble, ...]:
        """Why runs ended early."""
        return tuple(each for each in self.observations if isinstance(each, Trouble))

    @property
    def lengths(self) -> Lengths:
        """What ``len()`` says of the dataset and the loader."""
        return self.observed(Lengths) or Lengths()

    def epoch(self, number: int = 0) -> Epoch:
        """Epoch 0 or 1, of which at least one batch was delivered; raises Undecided."""
        for epoch in self.epochs:
            if epoch.number == number and epoch.notes:
                return epoch
        if not self.ran:
            raise Undecided(self.why_not_run)
        for trouble in self.troubles:
            if trouble.run == PLAIN:
                raise Undecided(f"the run ended early: {trouble.text}")
        if self.recording is not None:
            raise Undecided("the recording holds too few batches")
        raise Undecided("no batch was delivered in the time given")

    def complete_epoch(self, number: int = 0) -> Epoch:
        """An epoch of the loader as it is that was delivered to its end; raises Undecided."""
        epoch = self.epoch(number)
        if not epoch.complete and self.recording is not None:
            raise Undecided("the recording holds only one epoch")
        if not epoch.complete:
            raise Undecided(f"the epoch is longer than what was run: {len(epoch.notes)} batches")
        return epoch

    def recorded(self) -> Trace:
        """``trace``, where there is one; raises Undecided."""
        if self.trace is None:
            raise Undecided("the recording was lost")
        return self.trace

    def keys_of_epoch(self, number: int) -> list[Any]:
        """What an epoch was asked for, in the order of its batches; raises Undecided."""
        self.epoch(number)
        rows = self.recorded().samples.sort_values(["epoch", "batch", "position"])
        return list(rows.loc[rows["epoch"] == number, "key"])

    def rank_messages(self) -> tuple[dict[str, Any], ...] | None:
        """What each rank observed; None where there is only one. Raises Undecided."""
        if not self.ran and machine.world_size() > 1:
            raise Undecided(self.why_not_run)
        if self.ranks.why_missing:
            raise Undecided(self.ranks.why_missing)
        return self.ranks.messages if len(self.ranks.messages) > 1 else None

    @property
    def cpus_allowed(self) -> float:
        """CPUs that the process could use in which the loader ran. Raises Undecided."""
        if self.recording is None:
            return machine.cpu_allowance()
        allowed = self.recording.cpu_allowance
        if allowed is None:
            raise Undecided("the recording does not say how many CPUs it was allowed")
        return allowed

    @cached_property
    def causes(self) -> pd.DataFrame:
        """What the loop over this loader waited for: see ``Summary.causes``. Raises Undecided."""
        if self.recording is not None:
            causes = self.recording.summary.causes
            return causes[causes["loader"] == self.recording.loader]
        return self.run_summary.causes

    @cached_property
    def run_summary(self) -> Summary:
        """Of the doctor's own run. Raises Undecided."""
        self.epoch()
        return self.recorded().summary()

    def trouble_of_kind(self, kind: str) -> Trouble | None:
        """The first trouble of this kind (see ``Trouble.kind``); None if there was none."""
        return next((trouble for trouble in self.troubles if trouble.kind == kind), None)


def examine(setup: Setup, *, run: bool, budget_s: float, danger: str = "") -> Case:
    """Everything that the checks need to know about the loader.

    Args:
        setup: the loader.
        run: False to run nothing.
        budget_s: seconds for all runs together.
        danger: why the loader must not be run; empty if it may.
    """
    if not run:
        return Case(setup)
    if danger:
        return Case(setup, why_not_run=danger)
    with tempfile.TemporaryDirectory(prefix="loaderviz-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        run_loader = _run_in_fork if may_fork(setup.num_workers) else _run_here
        case = _case(setup, run_loader(setup, folder, budget_s), folder)
    return with_other_ranks(case)


def _run_in_fork(setup: Setup, folder: Path, budget_s: float) -> list[Any]:
    setup_to_run = setup
    if fork_loses_cuda():  # and pinning needs it
        setup_to_run = replace(setup, loader=copy_loader(setup.loader, pin_memory=False))
    most_s = budget_s + GRACE_S
    run = run_forked(_run_silently, setup_to_run, folder, budget_s, timeout_s=most_s)
    sent = list(run.sent)
    last = "later" if any(isinstance(message, MovedFiles) for message in sent) else PLAIN
    if not run.in_time:
        text = f"nothing came for {most_s:g} s (in a copy of this process)"
        sent.append(Trouble(last, "stuck", text))
    elif run.exit_code and not any(isinstance(message, Trouble) for message in sent):
        text = f"the process that iterates the loader has died (exit code {run.exit_code})"
        sent.append(Trouble(last, "died", text))
    return sent


def _run_silently(setup: Setup, folder: Path, budget_s: float, send: Send) -> None:
    with output_to_file(folder):
        run_all(setup, folder, budget_s, send, copied=True)


def _run_here(setup: Setup, folder: Path, budget_s: float) -> list[Any]:
    sent: list[Any] = []
    with keep_random_state(setup.loader), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_all(setup, folder, budget_s, sent.append, copied=False)
    return sent


def _with_stderr(trouble: Trouble, output_lines: list[str]) -> Trouble:
    """The trouble, with what a worker has written about it on stderr."""
    if trouble.kind not in ("stuck", "died"):
        return trouble
    for line in reversed(output_lines):
        if "Too many open files" in line or "ancdata" in line:
            return replace(trouble, kind="files", text=f"{trouble.text}; a worker says: {line}")
    errors = [
        line
        for line in output_lines
        if line[:1].isalpha() and "Error" in line.partition(":")[0] and LATE not in line
    ]
    if errors:
        return replace(trouble, text=f"{trouble.text}; on stderr: {errors[-1]}")
    return trouble


def _case(setup: Setup, sent: list[Any], folder: Path) -> Case:
    trace = None
    with contextlib.suppress(Exception):  # the checks can do without it
        trace = load(folder / PLAIN)
    output = folder / OUTPUT_FILE
    output_lines = output.read_text(errors="replace").splitlines() if output.exists() else []

    observations = (
        _with_stderr(each, output_lines) if isinstance(each, Trouble) else each for each in sent
    )
    return Case(setup, ran=True, observations=tuple(observations), trace=trace)
