"""LV3xx, the start of workers: what is pickled for each of them, and cheaper starts, as measured.

``measured_starts`` and ``cheaper_methods`` are what a ``StartTrial`` showed, for any check.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.costly_causes import costly_cause
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.start_trial import MUCH_S, SHORTER, StartTrial, longest_start, sending_s
from loaderviz.text import count, duration, size
from loaderviz.why.worker_starts import one_after_another, took_s

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz._doctor.pickle_trial import Pickled

_FILE_TYPES = ("ndarray", "memmap")


@check(
    "LV315",
    "Each worker is sent a large dataset when it starts",
    "advice",
    notebook=3,
    threads="139792 131931 161492 87802",
    recorded=True,
)
def _sent_to_each(case: Case) -> Seen | None:
    if not case.setup.num_workers or case.setup.forks:
        return None
    case.epoch()
    if case.trace is None:
        raise Undecided("the recording was lost")
    workers, trial = longest_start(case.trace), case.start_trial
    if workers is None or sending_s(workers) < MUCH_S:
        return None
    if case.recording is not None:
        cause = costly_cause(case, "start") or costly_cause(case, "restart")
        if cause is None:
            return None
        return seen(*cause.evidence, _sent(workers), fix=_left_out(None))
    if trial is None or trial.heaviest is None:
        return seen(_sent(workers), fix=_left_out(None))
    part = trial.heaviest
    in_vain = not math.isnan(trial.without_s) and not trial.gains_without
    if in_vain and sending_s(workers) < (1 - SHORTER) * took_s(workers):
        return None
    return seen(
        _sent(workers),
        f"{part.path} ({part.kind}) is {size(part.n_bytes)} of it, pickled in "
        f"{duration(part.seconds)} by itself",
        *measured_starts(trial, case),
        *([f"a start without {part.path} was not measured"] if math.isnan(trial.without_s) else []),
        *([f"without {part.path} it was no shorter here: is the machine busy?"] if in_vain else []),
        fix="\n".join([_left_out(part), *_kept(trial, case), *cheaper_methods(trial, case)]),
    )


def _sent(workers: pd.DataFrame) -> str:
    medians = workers[["pickle_bytes", "pickle_s", "unpickle_s"]].median()
    text = (
        f"each of {count(len(workers), 'worker')} is sent {size(medians['pickle_bytes'])}, pickled "
        f"in {duration(medians['pickle_s'])} and unpickled in {duration(medians['unpickle_s'])}"
    )
    if one_after_another(workers):
        text += "; the next is begun only when the one before has booted and reads what it is sent"
    return text


def _left_out(part: Pickled | None) -> str:
    """The code that does not send it."""
    if part is not None and not part.path.startswith("dataset."):
        return f"# make {part.path} smaller, or in the worker, on first use"
    holder, _, name = ("", "", "items") if part is None else part.path.rpartition(".")
    whose = "the dataset" if holder in ("", "dataset") else holder
    again = f"self.{name} = ...  # as __init__ does"
    if part is not None and part.kind.startswith(_FILE_TYPES):
        again = f'self.{name} = np.load("{name}.npy", mmap_mode="r")  # workers share its pages'
    hint = "# doctor(loader) names the largest attribute\n" if part is None else ""
    return f"""{hint}def __getstate__(self):  # of {whose}: what workers are sent
    return {{**self.__dict__, "{name}": None}}
def __getitem__(self, index):
    if self.{name} is None:  # in a worker, once
        {again}
    ..."""


def _kept(trial: StartTrial, case: Case) -> list[str]:
    """The code that starts workers once, where that was measured to be shorter."""
    if case.setup.persistent or not trial.gains(trial.second_epoch_s):
        return []
    return ["DataLoader(dataset, persistent_workers=True)  # starts them once"]


def measured_starts(trial: StartTrial | None, case: Case) -> tuple[str, ...]:
    """One line for the starts that were tried; none without a trial."""
    if trial is None:
        return ()
    ways = {
        f"without {trial.heaviest.path}" if trial.heaviest else "": trial.without_s,
        "forked": trial.forked_s,
        f"by a fork server that has imported {', '.join(trial.preload[1:])}": trial.preloaded_s,
    }
    tried = [f"{duration(s)} {way}" for way, s in ways.items() if not math.isnan(s)]
    if tried and not math.isnan(trial.server_s):
        tried[-1] += f" (the first time {duration(trial.server_s)}, with the server's own start)"
    method = case.setup.start_method
    lines = [
        f"measured, until {count(case.setup.num_workers, 'worker')} could read: "
        + ", ".join([f"{duration(trial.as_it_is_s)} as it is ({method})", *tried])
    ]
    if not math.isnan(trial.second_epoch_s) and not case.setup.persistent:
        lines.append(
            "with persistent_workers=True they could read again after "
            f"{duration(trial.second_epoch_s)}: measured, for a second epoch"
        )
    return tuple(lines)


def cheaper_methods(trial: StartTrial | None, case: Case) -> list[str]:
    """Code for each start method with which starts were measured to be shorter."""
    if trial is None:
        return []
    lines = []
    if trial.gains(trial.preloaded_s):
        lines.append(
            f"multiprocessing.set_forkserver_preload({list(trial.preload)})  # before any worker\n"
            'DataLoader(dataset, multiprocessing_context="forkserver")'
        )
    safe = not case.setup.other_threads and not torch.cuda.is_initialized()
    if safe and trial.gains(trial.forked_s):
        lines.append(
            'DataLoader(dataset, multiprocessing_context="fork")  # sends nothing; not for CUDA'
        )
    return lines
