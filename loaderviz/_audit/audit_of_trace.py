"""An audit of a recording: what its batches and the description of their loader prove, alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from loaderviz._audit.audit_result import Audit
from loaderviz._audit.conclude_audit import SAME_BATCH, Evidence, conclude
from loaderviz._audit.count_deliveries import (
    Expected,
    Tables,
    compare_with_expected,
    keys_of_deliveries,
)
from loaderviz._audit.delivered_and_expected import (
    dropped_by_trace,
    epochs_in_part,
    expected_by_trace,
    rounds,
)
from loaderviz._audit.keys_of_ranks import (
    PADDED,
    keys_of_ranks,
    remark_on_ranks,
    shared_with_other_loaders,
)
from loaderviz._contents.deliveries import Delivered, delivered_by_key
from loaderviz.array_types import Ints
from loaderviz.trace import Trace
from loaderviz.trace.described_loaders import left_out, loader_description

_BY_ROUND = (
    "The sampler begins anew within the epoch, which the loop left: each time through all samples "
    "counts as an epoch here."
)
_BEGINS_ANEW = (
    "next(iter(loader)) begins an epoch each time. Where the loop is to go on, keep the iterator, "
    "batches = iter(loader), and ask it for the next one."
)
MIN_SAME = 3  # epochs: of two, one may be a look at what a batch is


def audit_trace(
    trace: Trace,
    kind: str,
    n_epochs: int,
    remarks: tuple[str, ...],
    dropping_batch_size: int | None = None,
) -> Audit:
    """The audit of what a trace alone proves, with these remarks among its notes.

    ``kind`` is that of the dataset: ``map`` or ``iterable``; ``dropping_batch_size`` the batch size
    of a loader with ``drop_last``.
    """
    delivered, keys = delivered_by_key(trace)
    loader = int(trace.batches["loader"].max()) if len(trace.batches) else 0
    about = loader_description(trace.meta, loader)
    evidence = Evidence(
        kind=kind,
        n_workers=trace.workers["worker"].nunique(),
        which_samples=" in the trace",
        left_early=bool(trace.batches["delivered_s"].isna().any()),
        sampler=about.get("sampler") or "",
        shuffles=bool(about.get("sampler")) and about.get("shuffled") is True,
        as_told=draws_again(about),
        is_part=any(left_out(trace.meta)),
        remarks=remarks,
    )
    in_part = epochs_in_part(trace, about)
    if kind != "map":
        tables = compare_with_expected(delivered, None, n_epochs, {}, in_part)
        return conclude(tables, evidence, trace)
    behind = keys_of_ranks(trace.meta, loader, delivered, keys)
    if behind is None:
        expected, numbers = expected_by_trace(keys)
        judged = f"the keys 0 to {len(expected) - 1:,}"
    else:
        expected, numbers = behind.expected, behind.numbers
        judged = f"the {len(expected):,} samples of the Subsets"
        evidence = replace(evidence, remarks=(behind.remark, *remarks))
        if not behind.together:
            evidence = replace(evidence, which_samples=" of a single rank in the trace")
    if about.get("draws"):
        expected = _as_drawn(expected, numbers, to_judge=about["draws"] == "subset")
        judged = f"the {len(expected):,} keys of the {about['sampler']}"
    if evidence.is_part:  # what is not here may have come all the same
        expected = replace(expected, n_judged=0)
    delivered = replace(delivered, number=numbers)
    shared = shared_with_other_loaders(trace.meta, loader, delivered, keys)
    evidence = replace(
        evidence,
        n_known=len(expected),
        judged=judged if expected.n_judged else "",
        remarks=(*evidence.remarks, *shared),
    )
    if n_epochs == 1 and in_part and "n_batches" in about:
        round_of = rounds(delivered, about["n_batches"])  # as of a sampler that never ends
        if round_of is not None:
            delivered, n_epochs = replace(delivered, epoch=round_of), int(round_of.max()) + 1
            in_part = {n_epochs - 1}
            evidence = evidence.noting(_BY_ROUND)
    dropped = {}
    if dropping_batch_size is not None:
        dropped = dropped_by_trace(delivered, expected, n_epochs, dropping_batch_size)
    tables = compare_with_expected(delivered, expected, n_epochs, dropped, in_part)
    if n_epochs >= MIN_SAME and len(in_part) == n_epochs and _one_batch_each(delivered, tables):
        evidence = evidence.noting(f"{SAME_BATCH}: {_BEGINS_ANEW}")
    if behind is None:
        remark = remark_on_ranks(trace.meta, loader, delivered, tables)
        pads = remark == PADDED and evidence.shuffles and evidence.sampler == "DistributedSampler"
        evidence = replace(evidence, as_told=PADDED) if pads else evidence.noting(remark)
    return conclude(tables, evidence, trace, keys_of_deliveries(delivered, expected, tables))


def draws_again(about: Mapping[str, Any]) -> str:
    """A sentence about a sampler that draws with replacement; empty for others."""
    if about.get("draws") != "again":
        return ""
    return (
        f"{about['sampler']} draws with replacement, as it was told: some samples come again in an "
        "epoch, and others do not come."
    )


def _as_drawn(expected: Expected, numbers: Ints, *, to_judge: bool) -> Expected:
    """Only what came of it: keys that never did were not meant to."""
    came = np.isin(expected.numbers, numbers)
    held = {"numbers": expected.numbers[came], "keys": expected.keys[came]}
    return replace(expected, **held, n_judged=int(came.sum()) if to_judge else 0)


def _one_batch_each(delivered: Delivered, tables: Tables) -> bool:
    """Whether each epoch delivered its first batch alone, with the same samples in each."""
    return bool((delivered.batch == 0).all() and tables.epochs["same_order"].iloc[1:].all())
