"""LV108 and LV109: the order of samples, by epoch, by rank and after an interruption."""

from __future__ import annotations

from collections import Counter

from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.resume_trial import resumable
from loaderviz.loaders.held_objects import attributes

MOST_DIFFER = 0.5  # of the batches: if more differ, contents may vary by themselves


@check(
    "LV108",
    "DistributedSampler: the same order each epoch, or repeats in evaluation",
    "warning",
    notebook=9,
    threads="31771",
)
def _distributed_sampler(case: Case) -> Seen | None:
    part = case.setup.distributed_sampler
    if part is None:
        return None
    sampler = attributes(part.value)
    if not sampler["shuffle"]:
        return _padded(case, part.path)
    if sampler["epoch"] != 0:
        return None
    n_same = _n_in_same_order(case)
    if not n_same:
        return None
    if "set_epoch" in case.setup.names_in_callers:
        raise Undecided(
            f"{part.path}.epoch is 0, but the code that called the doctor mentions set_epoch"
        )
    return seen(
        f"two epochs in a row deliver the same {n_same} samples in the same order",
        f"{part.path} is a DistributedSampler with shuffle=True and epoch=0, and the code that "
        "called the doctor does not mention set_epoch",
        fix=f"""
for epoch in range(n_epochs):
    loader.{part.path}.set_epoch(epoch)
    for batch in loader: ...
""",
    )


def _n_in_same_order(case: Case) -> int:
    """How many samples two epochs deliver in the same order; 0 where the order differs."""
    n_samples = min(case.epoch(0).n_samples, case.epoch(1).n_samples)
    trace = case.trace
    if trace is None or n_samples < 2:
        raise Undecided("too little was delivered to compare the order of two epochs")
    rows = trace.samples.sort_values(["epoch", "batch", "position"])
    orders = [rows.loc[rows["epoch"] == epoch, "key"].tolist()[:n_samples] for epoch in (0, 1)]
    return n_samples if orders[0] == orders[1] else 0


def _padded(case: Case, path: str) -> Seen | None:
    sampler = attributes(case.setup.sampler.value)
    case.epoch()
    length = case.lengths.dataset
    if length is None:
        raise Undecided("the length of the dataset is not known")
    extra = sampler["total_size"] - length
    if extra <= 0:
        return None
    return seen(
        f"{extra} samples are counted twice: {path} hands out {sampler['total_size']} to "
        f"{sampler['num_replicas']} ranks, and the dataset has {length}",
        fix=f"""
# In evaluation, give each rank its own part, without padding:
indices = range(rank, {length}, {sampler["num_replicas"]})
DataLoader(torch.utils.data.Subset(dataset, indices), shuffle=False)
""",
    )


@check(
    "LV109",
    "Resuming in mid-epoch skips or repeats batches",
    "error",
    notebook=6,
    threads="meta-pytorch/data#1437",
)
def _resumes_elsewhere(case: Case) -> Seen | None:
    if not resumable(case.setup.loader):
        return None  # it does not promise to resume
    case.epoch()
    trial = case.resume_trial
    if trial is None:
        raise Undecided("the epoch is too short or too long to be interrupted and resumed")
    if trial.failure:
        raise Undecided(f"it could not be resumed here: {trial.failure}")
    expected, resumed = trial.expected, trial.resumed
    if None in expected or None in resumed:
        raise Undecided("batches cannot be compared by their contents")
    if expected == resumed:
        return None
    n_missing = (Counter(expected) - Counter(resumed)).total()
    n_extra = (Counter(resumed) - Counter(expected)).total()
    may_vary = n_missing > MOST_DIFFER * len(expected) and len(expected) == len(resumed)
    if may_vary and not _is_steady(case):
        raise Undecided("contents differ at every reading, so they say nothing about the order")
    return seen(
        f"interrupted after {trial.n_before} batches and resumed from state_dict(): of the "
        f"{len(expected)} batches that should follow, {n_missing} are missing, and {n_extra} come "
        "that should not",
        fix="""
from torchdata.stateful_dataloader import StatefulDataLoader

loader = StatefulDataLoader(dataset, ...)  # and state_dict()/load_state_dict() of the dataset
""",
    )


def _is_steady(case: Case) -> bool:
    """Whether nothing was drawn from a generator between two batches: contents do not vary."""
    notes = [note for note in case.epoch().notes if note.states]
    first_two = [note for note in notes if note.worker == notes[0].worker][:2]
    return len(first_two) == 2 and first_two[0].states == first_two[1].states
