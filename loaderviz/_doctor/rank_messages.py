"""What the ranks of a distributed run tell each other: one small message each, and no collective.

A collective would hang the training where only one rank calls the doctor. The messages go through
the store of the default process group, with a time limit.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from loaderviz import machine
from loaderviz._doctor.findings import Undecided
from loaderviz.loaders.process_group import default_store

if TYPE_CHECKING:
    from loaderviz._doctor.examination import Case

WAIT_S = 30.0
MOST_KEYS = 20_000
_visits = itertools.count()  # the doctor's n-th visit is the n-th on every rank


@dataclass(frozen=True)
class Ranks:
    """What each rank saw; one alone where nothing is distributed."""

    own: int = 0
    told: tuple[dict[str, Any], ...] = ()
    missing: str = ""  # why there is less than there should be

    def all(self) -> tuple[dict[str, Any], ...] | None:
        """One message of each rank; None where there is but one.

        Raises Undecided where there are others, and they have told nothing.
        """
        if self.missing:
            raise Undecided(self.missing)
        return self.told if len(self.told) > 1 else None


def join(case: Case) -> Case:
    """The case, with what the other ranks have seen of theirs."""
    return replace(case, ranks=_gather(_message(case)))


def _message(case: Case) -> dict[str, Any]:
    first = next((each for each in case.epochs if each.run == "plain" and not each.number), None)
    if first is None or not first.notes:
        return {"trouble": case.troubles[0].text if case.troubles else "no batch"}
    note = first.notes[0]
    trace = case.traces.get("plain")
    keys: list[Any] = []
    if trace is not None and not case.setup.iterable:
        samples = trace.samples[trace.samples["epoch"] == 0]
        keys = [key for key in samples["key"].tolist()[:MOST_KEYS] if isinstance(key, int | str)]
    used = [each for each in first.notes if each.worker == note.worker][:2]
    drawn = [
        name
        for name in (used[0].states if len(used) == 2 else {})
        if used[0].states[name] != used[1].states.get(name)
    ]
    return {
        "n_batches": len(first.notes),
        "complete": first.complete,
        "workers": case.setup.num_workers,
        "seed": note.seed - note.worker if note.worker >= 0 else None,
        "states": note.started or note.states,
        "drawn": drawn,  # the generators that were drawn from between two batches
        "keys": keys,
        "digests": [each for one in first.notes for each in one.digests if each is not None][
            :MOST_KEYS
        ],
    }


def _gather(message: dict[str, Any]) -> Ranks:
    if not (dist.is_available() and dist.is_initialized()):
        if machine.world_size() > 1:
            return Ranks(missing="call it after torch.distributed.init_process_group()")
        return Ranks(told=(message,))
    rank, n, visit = dist.get_rank(), dist.get_world_size(), next(_visits)
    try:
        shared = default_store()
        names = [f"loaderviz/_doctor/{visit}/{each}" for each in range(n)]
        shared.set(names[rank], json.dumps(message))
        shared.wait(names, timedelta(seconds=WAIT_S))
        told = tuple(json.loads(shared.get(name)) for name in names)
    except Exception as error:
        return Ranks(
            own=rank,
            missing=f"not all {n} ranks have told what they saw within {WAIT_S:g} s: "
            f"call doctor(loader) on every rank ({type(error).__name__})",
        )
    return Ranks(rank, told)
