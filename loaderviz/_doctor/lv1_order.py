"""LV108: the order of samples, by epoch and by rank."""

from __future__ import annotations

from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz.loaders.held_objects import attributes
from loaderviz.text import count


@check("LV108")
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
    if case.setup.set_epoch_is_called:
        raise Undecided(
            f"{part.path}.epoch is 0, but the code that called the doctor calls set_epoch"
        )
    return seen(
        f"two epochs in a row deliver the same {n_same} samples in the same order",
        f"{part.path} is a DistributedSampler with shuffle=True and epoch=0, and the code that "
        "called the doctor does not call set_epoch",
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
        f"{count(extra, 'sample')} of padding: {path} hands out {sampler['total_size']} to "
        f"{sampler['num_replicas']} ranks, and the dataset has {length}: some count more than once",
        fix=f"""
# In evaluation, give each rank its own part, without padding:
indices = range(rank, {length}, {sampler["num_replicas"]})
DataLoader(torch.utils.data.Subset(dataset, indices), shuffle=False)
""",
    )
