"""What ``recommend`` and ``audit`` say of a recording, with limits that bound how long they take.

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
from loaderviz._recommend.candidate_settings import default_max_workers
from loaderviz.errors import LoaderVizError
from loaderviz.failed_part import part
from loaderviz.trace import Trace
from loaderviz.trace.analysis.steps import part_with_others
from loaderviz.trace.loaders_as_one import lives

TAKEN_TOGETHER = 0.1  # of the steps: with more, the loop may wait for another loader instead
TOGETHER = (
    "the loop takes batches of several loaders in turns, and may wait for another one instead: "
    "what cutting a cause saves counts that"
)
MOST_BATCHES = 20_000  # that a prediction is made from
MOST_WORKERS = 32  # that are tried, however many CPUs there are
MOST_SAMPLES = 20_000_000  # that are audited
MOST_AUDITED = 64  # loaders, as many as the doctor looks at
MOST_TEXTS = 1_000_000  # keys that are no numbers and are put in order


@dataclass(frozen=True)
class Prediction:
    """What other settings would do for one loader of one rank, or why that is not known.

    Attributes:
        recommendation: the settings to use and all candidates; None where nothing was predicted.
        why_not: why nothing was predicted; empty where something was.
        rank: whose loader it is.
        loader: the number of that loader.
        n_used: how many delivered batches the prediction was made from.
        n_batches: how many batches were delivered in all.
    """

    recommendation: Recommendation | None = None
    why_not: str = ""
    rank: int = 0
    loader: int = 0
    n_used: int = 0
    n_batches: int = 0

    @property
    def present(self) -> Any:
        """The candidate with the present settings, as a dictionary; None without a prediction."""
        return self._candidate("present")

    @property
    def chosen(self) -> Any:
        """The recommended candidate, as a dictionary; None without a prediction."""
        return self._candidate("recommended")

    @property
    def gain(self) -> float:
        """The relative gain in samples/s of the recommended over the present settings.

        0.5 means half as fast again; NaN where nothing was predicted.
        """
        if self.recommendation is None or self.present is None:
            return float("nan")
        return float(self.chosen["samples_per_s"] / self.present["samples_per_s"] - 1)

    def _candidate(self, flag: str) -> Any:
        """The first candidate for which the column ``flag`` is true."""
        if self.recommendation is None:
            return None
        candidates = self.recommendation.candidates
        rows = candidates[candidates[flag]].to_dict("records")
        return rows[0] if rows else None


def predict(trace: Trace, rank: int, loader: int) -> Prediction:
    """Predict other settings from the first batches of one loader of one rank.

    A refusal, for example as its samples cannot be read, becomes the prediction's ``why_not``.
    """
    try:
        return _predict(trace, rank, loader)
    except LoaderVizError as error:
        why_not = str(error)
    rows = trace.batches
    rows = rows[(rows["rank"] == rank) & (rows["loader"] == loader) & rows["delivered_s"].notna()]
    return Prediction(why_not=why_not, rank=rank, loader=loader, n_batches=len(rows))


def _predict(trace: Trace, rank: int, loader: int) -> Prediction:
    loader_trace = trace.of_ranks([rank]).of_loader(loader)
    delivered = loader_trace.batches[loader_trace.batches["delivered_s"].notna()]
    epochs = delivered["epoch"]
    n_batches = int((epochs == epochs.min()).sum()) if epochs.nunique() > 1 else None
    fields: dict[str, Any] = {"rank": rank, "loader": loader, "n_batches": len(delivered)}
    if len(delivered) < 2:
        return Prediction(why_not="too few batches were delivered to predict from", **fields)
    if part_with_others(trace, rank, loader) > TAKEN_TOGETHER:
        return Prediction(why_not=TOGETHER, **fields)
    used = _first_batches(loader_trace, MOST_BATCHES)
    fields["n_used"] = int(used.batches["delivered_s"].notna().sum())
    n_cpus = trace.meta.get("cpu_allowance")
    max_workers = default_max_workers(n_cpus) if n_cpus else MOST_WORKERS
    recommendation = recommend(
        used,
        epochs=max(int(epochs.nunique()) // lives(trace.meta, loader), 1),
        n_batches=n_batches,
        max_workers=min(max_workers, MOST_WORKERS),
    )
    return Prediction(recommendation, **fields)


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
        """Whether samples came twice, or were lost other than to ``drop_last``."""
        if self.audit is None or self.audit.exactly_once is False:
            return self.audit is not None
        epochs = self.audit.epochs[["missing", "dropped"]].fillna(0)
        return bool((epochs["missing"] > epochs["dropped"]).any())


def audit_loaders(trace: Trace) -> list[LoaderAudit]:
    """Audit each loader of a trace, all ranks together.

    A failure becomes the ``why_not`` of its loader.
    """
    n_samples = trace.n_sample_rows  # a run of many ranks knows this without reading them
    loaders = sorted({int(number) for number in trace.batches["loader"].unique()})
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


def _first_batches(trace: Trace, n: int) -> Trace:
    """The trace with its first ``n`` batches and their samples alone."""
    batches = trace.batches
    if len(batches) <= n:
        return trace
    batches = batches.sort_values(["epoch", "batch"], kind="stable").iloc[:n]
    last = batches.iloc[-1]
    samples = trace.samples
    epoch, batch = samples["epoch"].to_numpy(), samples["batch"].to_numpy()
    in_range = (epoch < last["epoch"]) | ((epoch == last["epoch"]) & (batch <= last["batch"]))
    return replace(trace, batches=batches, samples=samples[in_range])
