"""``doctor(loader)``: looks in one DataLoader for each of the known pitfalls.

The checks are small functions in one file per family, named by their codes: ``lv1_delivery``,
``lv2_random_numbers`` and so on. ``findings_of(trace)`` asks the checks that can be decided from a
recording; ``checks_of_recordings`` holds those that only a recording of the reader's own run
decides.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from loaderviz._doctor import (  # noqa: F401  # for what they register
    checks_of_recordings,
    lv1_contents,
    lv1_delivery,
    lv1_order,
    lv1_ranks,
    lv1_resume,
    lv2_random_numbers,
    lv3_causes,
    lv3_cpus,
    lv3_items,
    lv3_speed,
    lv4_memory,
    lv5_processes,
    lv5_sending,
    lv6_datasets,
)
from loaderviz._doctor.checks import CHECKS
from loaderviz._doctor.examination import Case, examine
from loaderviz._doctor.examination_runs import EPOCHS
from loaderviz._doctor.findings import Diagnosis, DoctorError, Finding, diagnosis_of
from loaderviz._doctor.findings_of_recordings import findings_of, need_the_loader
from loaderviz._doctor.loader_setup import Setup, callers_call, names_given_to, resumable
from loaderviz._doctor.resume_trial import ResumeTrial
from loaderviz._doctor.run_epochs import MOST_BATCHES, PLAIN
from loaderviz.errors import LoaderVizError
from loaderviz.loaders.describe_loader import dataloader_behind, foreign_loader_error
from loaderviz.loaders.forked_run import may_fork
from loaderviz.text import wrapped
from loaderviz.trace import Trace

__all__ = [
    "Diagnosis",
    "DoctorError",
    "Finding",
    "doctor",
    "findings_of",
    "need_the_loader",
]

BUDGET_S = 30.0

# By kind of failure, the findings that explain it: where one was made, no error is raised.
_EXPLAINED_BY = {
    "stuck": {"LV502"},
    "files": {"LV403"},
    "shared memory": {"LV402"},
    "cuda": {"LV504"},
    "pickle": {"LV501", "LV508"},
    "died": {"LV402", "LV501", "LV504"},
    "no worker info": {"LV601"},
    "raised": {"LV601", "LV501", "LV503"},
    "shapes": {"LV602"},
    "length": {"LV601"},
    "index": set[str](),
}


def doctor(
    loader: Any,
    *,
    run: bool = True,
    budget_s: float = BUDGET_S,
    resume: bool | Mapping[str, Any] = False,
) -> Diagnosis:
    """Look for the known pitfalls of data loading in this loader.

    >>> diagnosis = doctor(loader)
    >>> print(diagnosis)
    >>> diagnosis.codes
    ('LV101',)

    It prints first what it is about to run: two epochs of the loader as it is, of at most 500
    batches each, and an iterable-style dataset by itself. On Linux they run in a copy of this
    process, and nothing that your code does outlives that copy; there it also asks the dataset for
    whole batches as ``dataset[[...]]``, weighs what workers that are not forked are sent, and tries
    whether a loader with ``state_dict()`` resumes: one process goes on, another is stopped amid the
    epoch, and new ones go on from what it has saved. On other systems, and for a loader without
    workers once CUDA is in use, they run in this process: the random generators of torch, NumPy and
    ``random`` and those that the loader holds are restored afterwards, but what a dataset or a
    sampler changes in itself stays changed.

    In a distributed run, call it on every rank, after ``init_process_group``. Each rank waits up to
    half a minute for the observations of the others; they go through the store of the process
    group, not through a collective.

    Args:
        loader: the ``torch.utils.data.DataLoader``, or an ``accelerate`` wrapper of one.
        run: False to look only at attributes: nothing of the dataset, sampler or collate_fn is
            called, not even ``len()``.
        budget_s: seconds that all runs together may take; a loader that hangs uses them up.
        resume: True to try, also for a loader without ``state_dict()``, whether it resumes: by
            skipping as many batches as the loop has had. Or a state that was saved: it must fit
            this loader. For both, Linux is needed.

    Returns:
        A frozen ``Diagnosis``: ``.findings`` with evidence and fix, ``.undecided``, ``.clear``.

    Raises:
        LoaderVizError: if ``loader`` is not a DataLoader, ``budget_s`` is not above 0, or the state
            in ``resume`` cannot be one of this loader. Also, as
            a ``DoctorError`` whose ``.partial`` is the Diagnosis so far, if the examination could
            not be completed and no finding explains why: the dataset raises, its length is broken,
            a worker dies, or the loader cannot be iterated twice.
    """
    setup = _setup(loader, budget_s, resume)
    danger = ""
    if run:
        shared_memory = CHECKS["LV402"].judge(Case(setup))
        if shared_memory is not None and shared_memory.state == "found":
            danger = f"the loader was not run, because of LV402: {shared_memory.evidence[0]}"
        else:
            _announce(setup, budget_s)
    case = examine(setup, run=run, budget_s=budget_s, danger=danger)
    diagnosis = _judge(case, danger)
    _raise_for_troubles(case, diagnosis)
    trial = case.observed(ResumeTrial)
    if trial is not None and trial.misfit:
        raise DoctorError(
            f"the state in resume= does not fit this loader: {trial.misfit}. Build the loader as "
            "it was when the state was saved: its dataset, sampler and num_workers",
            diagnosis,
        )
    return diagnosis


def _setup(loader: Any, budget_s: float, resume: bool | Mapping[str, Any]) -> Setup:
    if not isinstance(budget_s, int | float) or not 0 < budget_s < math.inf:
        raise LoaderVizError(f"budget_s={budget_s!r}: give seconds, more than 0")
    if isinstance(loader, Trace):
        raise LoaderVizError(
            "doctor() runs a DataLoader, and this is a Trace: save it, and `loaderviz doctor FILE` "
            "says what a recording alone tells"
        )
    torch_loader = dataloader_behind(loader)
    if torch_loader is None:
        raise foreign_loader_error("doctor() takes a torch DataLoader", loader)
    _check_resume(torch_loader, resume)
    frame = sys._getframe(2)
    called = callers_call("set_epoch", frame)
    return Setup(torch_loader, called, names_given_to(loader, frame), resume)


def _check_resume(loader: Any, resume: Any) -> None:
    if isinstance(resume, bool):
        return
    if not isinstance(resume, Mapping):
        raise LoaderVizError(f"resume={resume!r:.60}: give True, or a state_dict that was saved")
    if not resume:
        raise LoaderVizError("resume={}: this state is empty, and a loader would begin anew")
    if not resumable(loader):
        raise LoaderVizError(
            f"resume=...: a {type(loader).__name__} has no load_state_dict(), so it cannot load a "
            "state; resume=True tries to skip the batches that were delivered"
        )


def _announce(setup: Setup, budget_s: float) -> None:
    forks = may_fork(setup.num_workers)
    where = "a copy of this process" if forks else "this process"
    alone = " and its dataset by itself" if setup.iterable else ""
    resumes = ", stops it in mid-epoch and resumes it," if forks and setup.is_to_resume else ""
    said = (
        f"doctor: runs {EPOCHS} epochs of the {setup.name}{alone}{resumes} in {where}, "
        f"at most {MOST_BATCHES} batches each and {budget_s:g} s in all; "
        "doctor(loader, run=False) only looks."
    )
    print(wrapped(said, hanging=2))


def _judge(case: Case, danger: str) -> Diagnosis:
    troubles = [trouble.text for trouble in case.troubles]
    answers = {code: CHECKS[code].judge(case) for code in sorted(CHECKS)}
    return diagnosis_of(str(case.setup), answers, (*([danger] if danger else []), *troubles))


def _raise_for_troubles(case: Case, diagnosis: Diagnosis) -> None:
    for trouble in case.troubles:
        if trouble.run != PLAIN or trouble.kind == "ours":
            continue  # not how the user runs it; or not the loader's fault
        if not _EXPLAINED_BY[trouble.kind] & set(diagnosis.codes):
            raise DoctorError(_error_text(case, trouble.kind, trouble.text), diagnosis)
    epochs = {epoch.number: epoch for epoch in case.epochs}
    if len(epochs) == 2 and all(epoch.complete for epoch in epochs.values()):
        first, second = (len(epochs[number].notes) for number in (0, 1))
        if first and not second and not {"LV124", "LV503"} & set(diagnosis.codes):
            text = f"the first epoch delivered {first} batches, the second none"
            raise DoctorError(_error_text(case, "once", text), diagnosis)


def _error_text(case: Case, kind: str, text: str) -> str:
    dataset = type(case.setup.dataset).__name__
    iterated = dataset if case.setup.iterable else "The sampler"
    length, timeout = case.lengths.dataset, case.setup.settings["timeout"]
    longer = f"the loader's timeout={timeout:g}" if timeout else "doctor(loader, budget_s=...)"
    advice_by_kind = {
        "length": f"Correct {dataset}.__len__, or remove it if the length is not known.",
        "once": f"{iterated}.__iter__ returns the same iterator each time, and it is used up: make "
        "__iter__ return a new one each time, for example as a generator function.",
        "stuck": f"Give more time with {longer}, or look with doctor(loader, run=False).",
        "died": "A worker that dies prints the reason on stderr, unless it was killed for its "
        "memory: run the loader with num_workers=0, or look with doctor(loader, run=False).",
        "index": f"Does len() of the dataset count more samples than {dataset} can read? "
        f"It says {'nothing' if length is None else length}.",
    }
    advice = advice_by_kind.get(
        kind, "Correct that first; doctor(loader, run=False) looks without running."
    )
    return f"this loader could not be fully examined: {text.rstrip('.')}. {advice}"
