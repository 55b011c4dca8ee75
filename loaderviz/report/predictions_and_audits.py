"""What ``recommend`` and ``audit`` say of a recording, with limits that bound how long these take.

A report without one part is better than no report: where a part cannot be made, a sentence says
why.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from loaderviz._audit import Audit, Mixing, audit
from loaderviz._recommend import Recommendation, recommend
from loaderviz.errors import LoaderVizError
from loaderviz.failed_part import part
from loaderviz.trace import Trace
from loaderviz.trace.described_loaders import hands_over
from loaderviz.trace.loaders_as_one import lives
from loaderviz.trace.steps import part_with_others

TAKEN_TOGETHER = 0.1  # of the steps: with more, the loop may wait for another loader instead
TOGETHER = (
    "the loop takes batches of several loaders in turns, and may wait for another one instead: "
    "what cutting a cause saves counts that"
)
MOST_SAMPLES = 20_000_000  # that are audited
MOST_AUDITED = 64  # loaders, as many as the doctor looks at
MOST_TEXTS = 1_000_000  # keys that are no numbers and are put in order


@dataclass(frozen=True)
class Prediction:
    """Between which bounds other settings lie for one loader of one rank, or why nobody knows.

    Attributes:
        recommendation: the bounds, and the settings to begin with; None where there are none.
        why_not: why there are none; empty where there are.
        rank: whose loader it is.
        loader: the number of that loader.
        n_batches: how many batches were delivered.
    """

    recommendation: Recommendation | None = None
    why_not: str = ""
    rank: int = 0
    loader: int = 0
    n_batches: int = 0

    @property
    def present(self) -> Any:
        """The candidate with the present settings, as a dictionary; None without any."""
        return self._candidate("present")

    @property
    def chosen(self) -> Any:
        """The recommended candidate, as a dictionary; None without any."""
        return self._candidate("recommended")

    def _candidate(self, flag: str) -> Any:
        """The first candidate for which the column ``flag`` is true."""
        if self.recommendation is None:
            return None
        candidates = self.recommendation.candidates
        rows = candidates[candidates[flag]].to_dict("records")
        return rows[0] if rows else None


def predict(trace: Trace, rank: int, loader: int) -> Prediction:
    """The bounds of other settings for one loader of one rank.

    A refusal, for example as its batches were made unseen, becomes the ``why_not``.
    """
    rows = trace.batches
    rows = rows[(rows["rank"] == rank) & (rows["loader"] == loader) & rows["delivered_s"].notna()]
    fields: dict[str, Any] = {"rank": rank, "loader": loader, "n_batches": len(rows)}
    if len(rows) < 2:
        return Prediction(why_not="too few batches were delivered to tell", **fields)
    if part_with_others(trace, rank, loader) > TAKEN_TOGETHER:
        return Prediction(why_not=TOGETHER, **fields)
    try:
        return Prediction(recommend(trace.of_ranks([rank]).of_loader(loader)), **fields)
    except LoaderVizError as error:
        return Prediction(why_not=str(error), **fields)


@dataclass(frozen=True)
class LoaderAudit:
    """The audit of one loader, or why there is none.

    ``mixing`` is that of its first epoch; None where the samples come in order, or it is not known.
    """

    loader: int
    audit: Audit | None = None
    why_not: str = ""
    mixing: Mixing | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether samples came twice, or were lost."""
        return self.audit is not None and (self.audit.exactly_once is False or self.audit.loses)


def audit_loaders(trace: Trace) -> list[LoaderAudit]:
    """Audit each loader of a trace, all ranks together.

    A failure becomes the ``why_not`` of its loader.
    """
    n_samples = trace.n_sample_rows  # a run of many ranks knows this without reading them
    loaders = sorted({int(number) for number in trace.batches["loader"].unique()})
    loaders = [number for number in loaders if not hands_over(trace.meta, number)]
    if n_samples > MOST_SAMPLES:
        why_not = (
            f"{n_samples:,} samples would take minutes: "
            "loaderviz.audit(loaderviz.load(...)) counts them"
        )
        return [LoaderAudit(loader, why_not=why_not) for loader in loaders]
    counts = trace.batches["loader"].value_counts(sort=True)  # those with most batches first
    audited = {int(number) for number in counts.index[:MOST_AUDITED]}
    audits = []
    for loader in loaders:
        if loader not in audited:
            why_not = (
                f"{len(audited)} other loaders have more batches: "
                f"loaderviz.audit(trace.of_loader({loader})) audits it"
            )
            audits.append(LoaderAudit(loader, why_not=why_not))
            continue
        failed: list[str] = []
        work_out = partial(_audit_loader, trace, loader)
        made = part("its audit", work_out, LoaderAudit(loader), failed)
        audits.append(replace(made, why_not=failed[0]) if failed else made)
    return audits


def _audit_loader(trace: Trace, loader: int) -> LoaderAudit:
    try:
        loader_trace = trace.of_loader(loader)
        if loader_trace.samples.empty:
            return LoaderAudit(loader, why_not="the recording lists no samples")
        found = audit(loader_trace)
        made = LoaderAudit(loader, found, mixing=_mixing(found))
        n = lives(trace.meta, loader)
        if n > 1 and made.is_wrong and found.exactly_once is not False:
            why_not = (
                f"it was made {n:,} times, each time of other samples, as for folds: "
                f"loaderviz.audit(trace.of_loader({loader})) audits the first"
            )
            return LoaderAudit(loader, why_not=why_not)
        return made
    except LoaderVizError as error:
        return LoaderAudit(loader, why_not=str(error))


def _mixing(found: Audit) -> Mixing | None:
    if found.keys is None or bool(found.epochs["in_order"].iloc[0]):
        return None
    if found.keys.dtype == object and len(found.keys) > MOST_TEXTS:
        return None
    try:
        mixing = found.mixing()
    except LoaderVizError:  # the keys do not sort
        return None
    return None if math.isnan(mixing.score) else mixing
