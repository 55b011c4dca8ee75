"""What the ranks of a distributed run tell each other: one small message each, and no collective.

A collective would hang the training if only one rank called the doctor. The messages go through
the store of the default process group, with a time limit.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler

from loaderviz import machine
from loaderviz._contents.compared_contents import ComparedContents
from loaderviz._contents.contents_in_words import SAME
from loaderviz.loaders.content_hash import content_number
from loaderviz.loaders.held_objects import attributes, is_a
from loaderviz.loaders.process_group import default_store
from loaderviz.loaders.underlying_samples import underlying_samples
from loaderviz.sample_keys import unpack

if TYPE_CHECKING:
    from loaderviz._doctor.examination import Case

WAIT_S = 30.0
MOST_DIGESTS = 20_000
MOST_SAMPLES = 5_000  # those with the lowest keys: what two ranks both have is among both
MOST_CONTENTS = 500  # those of the lowest keys, and the lowest hashes
OF_SAMPLER = ("rank", "num_replicas", "seed", "epoch", "shuffle")  # attributes that ranks compare
_visits = itertools.count()  # the doctor's n-th visit is the n-th on every rank


@dataclass(frozen=True)
class RankMessages:
    """What each rank observed; a single message where nothing is distributed."""

    messages: tuple[dict[str, Any], ...] = ()  # in order of rank; see ``_message``
    why_missing: str = ""  # why messages are missing; empty where none is


def with_other_ranks(case: Case) -> Case:
    """The case, together with what every rank observed of its own loader."""
    return replace(case, ranks=_exchange(_message(case)))


def _message(case: Case) -> dict[str, Any]:
    epoch = next((epoch for epoch in case.epochs if not epoch.number), None)
    if epoch is None or not epoch.notes:
        return {"trouble": case.troubles[0].text if case.troubles else "no batch"}
    first_note = epoch.notes[0]
    first_two = [note for note in epoch.notes if note.worker == first_note.worker][:2]
    drawn = [
        name
        for name in (first_two[0].states if len(first_two) == 2 else {})
        if first_two[0].states[name] != first_two[1].states.get(name)
    ]
    noted = epoch.notes if case.setup.iterable else ()
    digests = [digest for note in noted for digest in note.digests if digest is not None]
    return {
        "n_batches": len(epoch.notes),
        "complete": epoch.complete,
        "workers": case.setup.num_workers,
        "seed": first_note.seed - first_note.worker if first_note.worker >= 0 else None,
        "states": first_note.started or first_note.states,
        "drawn": drawn,  # the generators that were drawn from between two batches
        "digests": digests[:MOST_DIGESTS],
        "samples": _samples(case),
        "sampler": _sampler(case),
    }


def _sampler(case: Case) -> dict[str, Any]:
    """What a DistributedSampler was given; empty for any other."""
    sampler = case.setup.sampler.value
    if not is_a(sampler, DistributedSampler):
        return {}
    held = attributes(sampler)
    return {name: held[name] for name in OF_SAMPLER if type(held.get(name)) in (int, bool)}


def _samples(case: Case) -> dict[str, Any]:
    """The samples of the first epoch of a map-style dataset, by key, looked through Subsets."""
    if case.setup.iterable or case.trace is None:
        return {}
    batches = case.trace.batches
    batches = batches[batches["delivered_s"].notna() & (batches["epoch"] == 0)]
    rows = case.trace.samples.merge(batches[["epoch", "batch"]], on=["epoch", "batch"])
    asked = _as_names(rows.sort_values(["batch", "position"])["key"].tolist())
    underlying = underlying_samples(case.setup.dataset)
    are_int = all(type(key) is int for key in asked)
    behind = unpack(underlying["keys"]) if are_int and "keys" in underlying else None
    keys: dict[Any, Any] = {key: key for key in asked}
    if behind is not None:
        keys = {key: int(behind[key]) for key in keys}
    lowest = sorted({*keys.values()})[:MOST_SAMPLES]
    contents = _contents(case, keys)
    some = {str(key) for key in lowest[:MOST_CONTENTS]}
    return {
        "datasets": underlying["datasets"],
        "behind": content_number(underlying.get("keys")),
        "keys": lowest,
        "with_repeats": len(keys) < len(asked),
        "in_order": are_int and asked == sorted(asked),
        "largest_batch": int(batches["n_samples"].max()),
        "contents": {key: held for key, held in contents.items() if key in some},
        "held": sorted({*contents.values()})[:MOST_CONTENTS],
        "has_twins": len({*contents.values()}) < len(contents),
    }


def _as_names(asked: list[Any]) -> list[int | str]:
    """What was asked for, sample by sample: numbers, or texts where one is no number."""
    keys = [part for key in asked for part in (key if type(key) is list else [key])]
    return keys if all(type(key) is int for key in keys) else [*map(repr, keys)]


def _contents(case: Case, keys: dict[Any, Any]) -> dict[str, int]:
    """By key, the hash of what a sample holds; without those that differ with each read."""
    compared = case.observed(ComparedContents)
    if compared is None:
        return {}
    held = {}
    for key in compared.of_state(SAME)["key"].tolist():
        number = compared.reference.numbers.get(key)
        if number is not None:
            held[str(keys.get(key, keys.get(repr(key))))] = number
    return held


def _exchange(message: dict[str, Any]) -> RankMessages:
    if not (dist.is_available() and dist.is_initialized()):
        if machine.world_size() > 1:
            return RankMessages(
                why_missing="call the doctor after torch.distributed.init_process_group()"
            )
        return RankMessages((message,))
    rank, n_ranks, visit = dist.get_rank(), dist.get_world_size(), next(_visits)
    try:
        shared = default_store()
        names = [f"loaderviz/_doctor/{visit}/{number}" for number in range(n_ranks)]
        shared.set(names[rank], json.dumps(message))
        shared.wait(names, timedelta(seconds=WAIT_S))
        return RankMessages(tuple(json.loads(shared.get(name)) for name in names))
    except Exception as error:
        return RankMessages(
            why_missing=f"not all {n_ranks} ranks reported within {WAIT_S:g} s: "
            f"call doctor(loader) on every rank ({type(error).__name__})",
        )
