"""``doctor(loader)``: the known pitfalls of a DataLoader, each looked for in this one.

The checks are small functions in files by family, named by their codes: ``lv1_delivery``,
``lv2_randomness`` and so on. ``findings_of(trace)`` asks those that a recording alone can answer,
and ``recorded_only``, which only a recording of the reader's own run can.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from loaderviz._doctor import (  # noqa: F401  # for what they register
    checks_of_recordings,
    lv1_delivery,
    lv1_order,
    lv2_randomness,
    lv3_speed,
    lv4_memory,
    lv5_lv6_processes,
)
from loaderviz._doctor.checks import CHECKS
from loaderviz._doctor.examination import Case, case_of
from loaderviz._doctor.examination_runs import EPOCHS, MOST_BATCHES
from loaderviz._doctor.findings import SEVERITIES, Diagnosis, DoctorError, Finding
from loaderviz._doctor.findings_of_recordings import findings_of, need_the_loader
from loaderviz._doctor.loader_setup import Setup, callers_of, names_of
from loaderviz.errors import LoaderVizError
from loaderviz.loaders.describe_loader import dataloader_behind
from loaderviz.loaders.forked_run import may_fork

__all__ = [
    "Diagnosis",
    "DoctorError",
    "Finding",
    "doctor",
    "findings_of",
    "need_the_loader",
]

BUDGET_S = 30.0

# A finding that explains why a run failed: then the finding is the answer, and no error.
_EXPLAINS = {
    "stuck": {"LV502"},
    "files": {"LV403"},
    "shared memory": {"LV402"},
    "cuda": {"LV504"},
    "pickle": {"LV501"},
    "died": {"LV402", "LV501", "LV504"},
    "no worker info": {"LV601"},
    "raised": {"LV601", "LV501"},
    "length": {"LV601"},
    "index": set[str](),
}


def doctor(loader: Any, *, run: bool = True, budget_s: float = BUDGET_S) -> Diagnosis:
    """Look for the known pitfalls of data loading in this loader.

    >>> diagnosis = doctor(loader)
    >>> print(diagnosis)
    >>> diagnosis.codes
    ('LV101',)

    It says first what it is about to run: two epochs of the loader as it is and one without
    workers, of at most 500 batches each, in a copy of this process on Linux, where nothing that
    your code does outlives it. Elsewhere, and for a loader without workers once CUDA is in use, it
    runs here: the random generators of torch, NumPy and ``random``, and those that the loader
    holds, are put back afterwards; what a dataset or a sampler changes in itself is not.

    In a distributed run call it on every rank, after ``init_process_group``: each waits up to
    half a minute for what the others have seen, which goes through the store of the process
    group and not by a collective.

    Args:
        loader: the ``torch.utils.data.DataLoader``; an ``accelerate`` wrapper of one is looked
            through.
        run: False to look only at attributes: nothing of the dataset, sampler or collate_fn is
            called, not even ``len()``.
        budget_s: seconds that the runs may take in all; a loader that hangs takes them in full.

    Returns:
        A frozen ``Diagnosis``: ``.findings`` with evidence and fix, ``.undecided``, ``.clear``.

    Raises:
        LoaderVizError: for what is no DataLoader, and a ``budget_s`` that is not above 0. And,
            as a ``DoctorError`` whose ``.partial`` is the Diagnosis so far, where the loader could
            not be examined to the end and no finding tells why: its dataset raises, its length is
            broken, a worker dies, it cannot be iterated twice.
    """
    setup = _setup(loader, budget_s)
    look_only = Case(setup)
    danger = ""
    if run:
        first = CHECKS["LV402"].judge(look_only)
        if first is not None and first.state == "found":
            danger = f"it was not run, because of LV402: {first.evidence[0]}"
        else:
            _announce(setup, budget_s)
    case = case_of(setup, run=run, budget_s=budget_s, danger=danger)
    diagnosis = _judge(case, danger)
    _raise_for_troubles(case, diagnosis)
    return diagnosis


def _setup(loader: Any, budget_s: float) -> Setup:
    if not isinstance(budget_s, int | float) or not 0 < budget_s < math.inf:
        raise LoaderVizError(f"budget_s={budget_s!r}: give seconds, more than 0")
    found = dataloader_behind(loader)
    if found is None:
        raise LoaderVizError(
            f"doctor() takes a torch DataLoader, but got {type(loader).__name__}: "
            "pass it the loaders that this iterates inside, one at a time"
        )
    frame = sys._getframe(2)
    return Setup(found, callers_of(frame), names_of(loader, frame))


def _announce(setup: Setup, budget_s: float) -> None:
    where = "a copy of this process" if may_fork(setup.num_workers) else "this process"
    alone = ", one without workers" if setup.num_workers else ""
    print(
        f"doctor: runs {EPOCHS} epochs of the {setup.name}{alone}, at most "
        f"{MOST_BATCHES} batches each and {budget_s:g} s in all, in {where}; "
        "doctor(loader, run=False) only looks."
    )


def _judge(case: Case, danger: str) -> Diagnosis:
    judged = {code: CHECKS[code].judge(case) for code in sorted(CHECKS)}
    said = [each for each in judged.values() if each is not None]
    found = [each for each in said if each.state == "found"]
    troubles = [
        f"{'without workers: ' if each.run == 'alone' else ''}{each.text}" for each in case.troubles
    ]
    return Diagnosis(
        loader=str(case.setup),
        findings=tuple(sorted(found, key=lambda each: SEVERITIES.index(each.severity))),
        undecided=tuple(each for each in said if each.state == "undecided"),
        broken=tuple(each for each in said if each.state == "broken"),
        clear=tuple(code for code, each in judged.items() if each is None),
        troubles=(*([danger] if danger else []), *troubles),
    )


def _raise_for_troubles(case: Case, diagnosis: Diagnosis) -> None:
    for trouble in case.troubles:
        if trouble.run != "plain" or trouble.kind == "ours":
            continue  # not how the user runs it; or no fault of the loader
        if not _EXPLAINS[trouble.kind] & set(diagnosis.codes):
            raise DoctorError(_in_words(case, trouble.kind, trouble.text), diagnosis)
    epochs = {each.number: each for each in case.epochs if each.run == "plain"}
    if len(epochs) == 2 and all(each.complete for each in epochs.values()):
        first, second = (len(epochs[number].notes) for number in (0, 1))
        if first and not second:
            text = f"the first epoch delivered {first} batches, the second none"
            raise DoctorError(_in_words(case, "once", text), diagnosis)


def _in_words(case: Case, kind: str, text: str) -> str:
    dataset = type(case.setup.dataset).__name__
    ways = {
        "length": f"Correct {dataset}.__len__, or remove it if the length is not known.",
        "once": f"{dataset} hands out one iterator that is used up: make __iter__ return a new "
        "one each time, for example as a generator function.",
        "stuck": "Give more time with doctor(loader, budget_s=...), or look with "
        "doctor(loader, run=False).",
        "died": "A worker that dies says why on stderr, or was killed for its memory: run the "
        "loader with num_workers=0, and look with doctor(loader, run=False).",
        "index": f"Does len() of the dataset count more samples than {dataset} can read? "
        f"It says {case.facts.get('len(dataset)', 'nothing')}.",
    }
    way = ways.get(kind, "Correct that first; doctor(loader, run=False) looks without running.")
    return f"this loader could not be examined to the end: {text}. {way}"
