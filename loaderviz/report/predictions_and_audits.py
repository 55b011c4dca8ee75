"""What the other rooms say of a recording, within bounds of time: predictions and audits.

A report is better with a part less than not at all: what cannot be said is a sentence instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from loaderviz._audit import Audit, audit
from loaderviz._recommend import Recommendation, recommend
from loaderviz._recommend.candidate_settings import default_max_workers
from loaderviz.errors import LoaderVizError
from loaderviz.trace import Trace

MOST_BATCHES = 20_000  # to predict from
MOST_WORKERS = 32  # that are tried, however many CPUs there are
MOST_SAMPLES = 20_000_000  # to audit


@dataclass(frozen=True)
class Prediction:
    """What other settings would do: of which loader and rank, or why that is not known."""

    found: Recommendation | None = None
    why_not: str = ""
    rank: int = 0
    loader: int = 0
    n_used: int = 0  # batches that it was predicted from
    n_batches: int = 0  # of them all

    @property
    def present(self) -> Any:
        return self._row("present")

    @property
    def chosen(self) -> Any:
        return self._row("recommended")

    @property
    def gain(self) -> float:
        """How much faster the recommended settings are, as a part of the present pace."""
        if self.found is None or self.present is None:
            return float("nan")
        return float(self.chosen["samples_per_s"] / self.present["samples_per_s"] - 1)

    def _row(self, name: str) -> Any:
        if self.found is None:
            return None
        rows = self.found.candidates[self.found.candidates[name]].to_dict("records")
        return rows[0] if rows else None


def prediction(trace: Trace, rank: int, loader: int) -> Prediction:
    """From the first batches of one loader of one rank."""
    try:
        return _predicted(trace, rank, loader)
    except LoaderVizError as error:  # its samples cannot be read, say
        why_not = str(error)
    except Exception as error:
        why_not = f"{type(error).__name__}: {error}"
    rows = trace.batches
    rows = rows[(rows["rank"] == rank) & (rows["loader"] == loader) & rows["delivered_s"].notna()]
    return Prediction(why_not=why_not, rank=rank, loader=loader, n_batches=len(rows))


def _predicted(trace: Trace, rank: int, loader: int) -> Prediction:
    own = trace.of_ranks([rank]).of_loader(loader)
    delivered = own.batches[own.batches["delivered_s"].notna()]
    epochs = delivered["epoch"]
    n_batches = int((epochs == epochs.min()).sum()) if epochs.nunique() > 1 else None
    known: dict[str, Any] = {"rank": rank, "loader": loader, "n_batches": len(delivered)}
    if len(delivered) < 2:
        return Prediction(why_not="too few batches were delivered to predict from", **known)
    used = _first(own, MOST_BATCHES)
    known["n_used"] = int(used.batches["delivered_s"].notna().sum())
    allowed = trace.meta.get("cpu_allowance")
    most = default_max_workers(float(allowed)) if isinstance(allowed, int | float) else MOST_WORKERS
    found = recommend(
        used,
        epochs=max(int(epochs.nunique()), 1),
        n_batches=n_batches,
        max_workers=min(most, MOST_WORKERS),
    )
    return Prediction(found, **known)


@dataclass(frozen=True)
class Counted:
    """The audit of one loader, or why there is none."""

    loader: int
    found: Audit | None = None
    why_not: str = ""


def audits(trace: Trace) -> list[Counted]:
    n = trace.n_sample_rows  # which a run of many ranks knows without reading them
    loaders = sorted({int(each) for each in trace.batches["loader"].unique()})
    if n > MOST_SAMPLES:
        why = f"{n:,} samples would take minutes: loaderviz.audit(loaderviz.load(...)) counts them"
        return [Counted(loader, why_not=why) for loader in loaders]
    return [_audit(trace, loader) for loader in loaders]


def _audit(trace: Trace, loader: int) -> Counted:
    try:
        own = trace.of_loader(loader)
        if own.samples.empty:
            return Counted(loader, why_not="the recording lists no samples")
        return Counted(loader, audit(own))
    except LoaderVizError as error:
        return Counted(loader, why_not=str(error))
    except Exception as error:
        return Counted(loader, why_not=f"{type(error).__name__}: {error}")


def _first(trace: Trace, most: int) -> Trace:
    """Of a long recording the first batches, with their samples."""
    batches = trace.batches
    if len(batches) <= most:
        return trace
    columns = ["epoch", "batch"]
    batches = batches.sort_values([*columns], kind="stable").iloc[:most]
    last = batches.iloc[-1]
    samples = trace.samples
    epoch, batch = samples["epoch"].to_numpy(), samples["batch"].to_numpy()
    kept = (epoch < last["epoch"]) | ((epoch == last["epoch"]) & (batch <= last["batch"]))
    return replace(trace, batches=batches, samples=samples[kept])
