"""LV108 and LV109: in which order samples come: by epoch, by rank, and after a break."""

from __future__ import annotations

from collections import Counter

from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.resume_trial import resumable
from loaderviz.loaders.held_objects import attributes

MOST = 0.5  # of the batches: where more differ, contents may vary by themselves


@check(
    "LV108",
    "DistributedSampler: the same order each epoch, or repeats in evaluation",
    "warning",
    notebook=9,
    threads="31771",
)
def distributed_sampler(case: Case) -> Seen | None:
    found = case.setup.distributed_sampler
    if found is None:
        return None
    own = attributes(found.value)
    if not own["shuffle"]:
        return _padded(case, found.path)
    if own["epoch"] != 0:
        return None
    same = _same_order(case)
    if not same:
        return None
    if "set_epoch" in case.setup.callers:
        raise Undecided(f"{found.path}.epoch is 0; set_epoch is named in the code that called")
    return seen(
        f"two epochs in a row bring the same {same} samples in the same order",
        f"{found.path} is a DistributedSampler with shuffle=True and epoch=0, and the code that "
        "called the doctor names no set_epoch",
        fix=f"""
for epoch in range(n_epochs):
    loader.{found.path}.set_epoch(epoch)
    for batch in loader: ...
""",
    )


def _same_order(case: Case) -> int:
    """How many samples two epochs bring in the same order; 0 where they differ."""
    n = min(case.epoch(0).n_samples, case.epoch(1).n_samples)
    trace = case.traces.get("plain")
    if trace is None or n < 2:
        raise Undecided("too little was delivered to compare the order of two epochs")
    rows = trace.samples.sort_values(["epoch", "batch", "position"])
    orders = [rows.loc[rows["epoch"] == epoch, "key"].tolist()[:n] for epoch in (0, 1)]
    return n if orders[0] == orders[1] else 0


def _padded(case: Case, path: str) -> Seen | None:
    own = attributes(case.setup.sampler.value)
    case.epoch()
    length = case.facts.get("len(dataset)")
    if length is None:
        raise Undecided("the length of the dataset is not known")
    extra = own["total_size"] - length
    if extra <= 0:
        return None
    return seen(
        f"{path} hands out {own['total_size']} samples of {length} to {own['num_replicas']} "
        f"ranks: {extra} are counted twice",
        fix=f"""
# In evaluation, give each rank its own part, without padding:
indices = range(rank, {length}, {own["num_replicas"]})
DataLoader(torch.utils.data.Subset(dataset, indices), shuffle=False)
""",
    )


@check(
    "LV109",
    "Resuming in mid-epoch skips or repeats",
    "error",
    notebook=6,
    threads="meta-pytorch/data#1437",
)
def resumes_elsewhere(case: Case) -> Seen | None:
    if not resumable(case.setup.loader):
        return None  # it promises no such thing
    case.epoch()
    failed = case.facts.get("resume failed")
    if failed is not None:
        raise Undecided(f"it could not be resumed here: {failed}")
    if "resumed" not in case.facts:
        raise Undecided("the epoch is too short or too long to be interrupted and resumed")
    at, rest, again = case.facts["resumed"]
    if None in rest or None in again:
        raise Undecided("batches cannot be compared by their contents")
    if rest == again:
        return None
    missing, extra = Counter(rest) - Counter(again), Counter(again) - Counter(rest)
    if missing.total() > MOST * len(rest) and len(rest) == len(again) and not _is_steady(case):
        raise Undecided("contents differ at every reading, and so say nothing of the order")
    return seen(
        f"interrupted after {at} batches and resumed from state_dict(): of the {len(rest)} "
        f"batches that should follow {missing.total()} do not come, and {extra.total()} come "
        "that should not",
        fix="""
from torchdata.stateful_dataloader import StatefulDataLoader

loader = StatefulDataLoader(dataset, ...)  # and state_dict()/load_state_dict() of the dataset
""",
    )


def _is_steady(case: Case) -> bool:
    """Whether no generator was drawn from between two batches: contents do not vary."""
    notes = [note for note in case.epoch().notes if note.states]
    pairs = [note for note in notes if note.worker == notes[0].worker][:2]
    return len(pairs) == 2 and pairs[0].states == pairs[1].states
