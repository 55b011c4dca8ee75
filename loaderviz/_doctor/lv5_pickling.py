"""LV5xx, what cannot be pickled and so not be sent to a worker."""

from __future__ import annotations

from loaderviz._doctor.checks import CHECKS, Seen, check, seen
from loaderviz._doctor.examination import Case


@check(
    "LV508",
    "What workers are sent cannot be pickled",
    "error",
    notebook=2,
    threads="87802",
)
def _cannot_be_pickled(case: Case) -> Seen | None:
    setup, part = case.setup, case.unpicklable
    if not setup.num_workers or setup.forks:
        return None
    if part is None:
        if case.trouble_of_kind("pickle") is None:
            case.epoch()  # raises Undecided where it did not run
        return None
    not_importable = CHECKS["LV501"].judge(case)
    if not_importable is not None and not_importable.state == "found":
        return None
    holder, _, name = part.path.rpartition(".")
    return seen(
        f"{part.path} ({part.kind}) cannot be pickled: {part.error}",
        f"workers are started by {setup.start_method}: each is sent the dataset, pickled",
        fix=f"""
def __getstate__(self):  # of {holder or part.path}: what workers are sent
    return {{**self.__dict__, "{name}": None}}
def __getitem__(self, index):
    if self.{name} is None:  # in a worker, once
        self.{name} = ...  # as __init__ does
    ...
""",
    )
