"""LV202, LV204, LV205: draws and epochs that ranks, workers or an evaluation share, or should."""

from __future__ import annotations

from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.process_state import epoch_of
from loaderviz._doctor.run_epochs import EpochSet
from loaderviz.loaders.held_objects import attributes

EVALUATION = ("val", "valid", "validation", "eval", "evaluation", "test", "dev", "holdout")


@check("LV202")
def _same_on_every_rank(case: Case) -> Seen | None:
    messages = case.rank_messages()
    if messages is None:
        return None
    if any("states" not in message for message in messages):
        raise Undecided("not every rank has delivered a batch")
    first = messages[0]
    for name in first["drawn"]:
        if all(
            name in message["drawn"] and message["states"].get(name) == first["states"].get(name)
            for message in messages
        ):
            seed = first["seed"]
            where = "worker 0" if first["workers"] else "the main process"
            return seen(
                f"{name} is in the same state on all {len(messages)} ranks, and each draws from it "
                f"(in {where})",
                *([f"their workers have the same base seed: {seed}"] if seed is not None else []),
                fix="""
torch.manual_seed(seed + torch.distributed.get_rank())  # before the loader is iterated
# or: DataLoader(..., generator=torch.Generator().manual_seed(seed + rank))
""",
            )
    return None


@check("LV204")
def _stale_epoch(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or not setup.persistent or epoch_of(setup.dataset) is None:
        return None
    if not case.ran:
        raise Undecided(
            f"the dataset has an epoch, and persistent_workers=True; {case.why_not_run}"
        )
    notes = (*case.epoch(0).notes, *case.epoch(1).notes)
    seen_by_workers = [
        note.values["dataset.epoch"] for note in notes if "dataset.epoch" in note.values
    ]
    set_to = [each.value for each in case.observations if isinstance(each, EpochSet)]
    if len(set_to) < 2 or None in set_to:
        raise Undecided("dataset.epoch could not be set from outside")
    if set_to[1] in seen_by_workers or len(set(seen_by_workers)) > 1:
        return None
    return seen(
        f"dataset.epoch was set to {set_to[0]}, then to {set_to[1]}, but the workers saw "
        f"{seen_by_workers[0]} both times: they keep the copy that they began with",
        fix="""
self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # in __init__
dataset.epoch.fill_(epoch)  # in the loop, before the loader is iterated
# or put the epoch into the sampler, which stays in the main process
""",
    )


@check("LV205")
def _draws_from_global(case: Case) -> Seen | None:
    setup = case.setup
    if setup.settings["generator"] is not None:
        return None
    reason = _why_for_evaluation(case)
    if not reason:
        if type(setup.sampler.value).__name__ != "SequentialSampler":
            return None  # shuffled: for training
        raise Undecided(
            "generator is None, so iter(loader) draws from torch's global generator: this matters "
            "if the loader is for evaluation between epochs of training"
        )
    return seen(
        f"generator is None, and the loader is for evaluation: {reason}",
        "iter(loader) draws a seed from torch's global generator (torch/utils/data/dataloader.py, "
        "_BaseDataLoaderIter.__init__), which changes the epochs of training after it",
        fix="DataLoader(..., generator=torch.Generator())",
    )


def _why_for_evaluation(case: Case) -> str:
    """Why the loader seems to be for evaluation; empty if it does not."""
    dataset = attributes(case.setup.dataset)
    for name in ("split", "mode", "subset", "phase"):
        value = dataset.get(name)
        if type(value) is str and value.lower() in EVALUATION:
            return f"dataset.{name} is {value!r}"
    if dataset.get("train") is False:
        return "dataset.train is False"
    for name in sorted(case.setup.loader_names):
        if name.lower().split("_")[0] in EVALUATION:
            return f"the loader is called {name}"
    return ""
