"""LV3xx, what an item costs: data in memory that is read one by one."""

from __future__ import annotations

from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz.text import count, duration

LEAST_FACTOR = 3.0
LEAST_SAVED_S = 1e-4  # of a batch


@check(
    "LV314",
    "Data in memory is read item by item",
    "advice",
    notebook=1,
    threads="106704 154318 4959 26957",
)
def _item_by_item(case: Case) -> Seen | None:
    if case.setup.iterable or case.setup.settings["batch_sampler"] is None:
        return None
    case.epoch()
    trial = case.slice_trial
    if trial is None or trial.factor < LEAST_FACTOR:
        return None
    if trial.items_s - trial.slice_s < LEAST_SAVED_S:
        return None
    sampler = type(case.setup.sampler.value).__name__
    of_torch = sampler in ("RandomSampler", "SequentialSampler")
    made = f"{sampler}(dataset)" if of_torch else "sampler"
    imports = f"BatchSampler, {sampler}" if of_torch else "BatchSampler"
    settings = case.setup.settings
    return seen(
        f"a batch of {trial.n_samples} takes {duration(trial.items_s)} item by item, and "
        f"{duration(trial.slice_s)} as one slice, dataset[[...]]: {trial.factor:.0f} times as long",
        f"tried on {count(trial.n_batches, 'batch', 'batches')} in one process: both ways gave the "
        "same values",
        fix=f"""
from torch.utils.data import {imports}

lists = BatchSampler({made}, batch_size={trial.n_samples}, drop_last={settings["drop_last"]})
DataLoader(dataset, sampler=lists, batch_size=None)  # each batch is one slice
""",
    )
