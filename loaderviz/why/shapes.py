"""What the batches of a run are made of: how many shapes the model sees, and how often each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from loaderviz.text import count, percent, printable, wrapped
from loaderviz.trace.described_loaders import handed_over
from loaderviz.why.loader_share import short_names
from loaderviz.why.predicted_padding import PredictedPadding, predict_padding

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.trace import Trace

MOST_SHOWN = 5
LONGEST = 100  # characters of a signature that are shown
# torch/_dynamo/config.py: automatic_dynamic_shapes, recompile_limit.
COMPILED = (
    "torch.compile compiles anew for the first size that changes, and takes it for dynamic from "
    "then on; with dynamic=False for each shape, 8 times at most, and then runs uncompiled. CUDA "
    "graphs are captured for each shape."
)


@dataclass(frozen=True, eq=False, repr=False)
class Shapes:
    """What the delivered batches of a trace are made of; ``print(shapes)`` says it in words.

    Attributes:
        table: a row for each loader and signature, the most common first: ``loader, shapes,
            batches, samples, share, first_epoch, first_batch``; ``share`` is that of the loader's
            batches.
        n_unknown: batches of which it was not measured.
        n_smaller: shapes that only batches of fewer samples have, such as the last of an epoch.
        padding: of each loader of which it can be predicted, see ``PredictedPadding``.
        loader_names: a short name for each loader, by number.
    """

    table: pd.DataFrame
    n_unknown: int
    n_smaller: int
    padding: tuple[PredictedPadding, ...]
    loader_names: dict[int, str]

    @property
    def n_shapes(self) -> int:
        """How many shapes the model sees."""
        return int(self.table["shapes"].nunique())

    @property
    def verdict(self) -> str:
        """The main thing, in one line without its full stop."""
        n_batches = count(int(self.table["batches"].sum()), "batch", "batches")
        if not len(self.table):
            return "What the batches are made of was not measured"
        if self.n_shapes == 1:
            return f"The model sees one shape, in {n_batches}"
        return f"The model sees {self.n_shapes:,} shapes, in {n_batches}"

    @property
    def notes(self) -> list[str]:
        """What else a reader has to know, a sentence or two each."""
        told = []
        if self.n_smaller:
            smaller = count(self.n_smaller, "shape is", "shapes are")
            told.append(f"{smaller} of smaller batches alone: drop_last=True leaves them out.")
        if self.n_shapes > 1:
            told.append(COMPILED)
        if self.n_unknown and len(self.table):
            unknown = count(self.n_unknown, "more batch", "more batches")
            told.append(f"Of {unknown} it was not measured.")
        several = self.table["loader"].nunique() > 1
        for each in self.padding:
            whose = f" of {self.loader_names[each.loader]}" if several else ""
            told.append(
                f"Predicted, if each batch{whose} is padded to its longest sample: at least "
                f"{percent(each.share)} is padding, and batches of similar lengths would send at "
                f"least {percent(each.saved)} less. The shapes alone do not tell: doctor(loader) "
                "measures it (LV604)."
            )
        return told

    @property
    def lines(self) -> list[str]:
        """The most common signatures, a line each."""
        several = self.table["loader"].nunique() > 1
        lines = []
        for row in self.table.head(MOST_SHOWN).to_dict("records"):
            whose = f"{self.loader_names[row['loader']]}: " if several else ""
            n = count(row["batches"], "batch", "batches")
            lines.append(f"{percent(row['share'])}  {whose}{short(row['shapes'])}  ({n})")
        if more := len(self.table) - len(lines):
            lines.append(f"and {more:,} more")
        return lines

    def __str__(self) -> str:
        return printable("\n".join([f"{self.verdict}.", *self.lines, *map(wrapped, self.notes)]))

    __repr__ = __str__


def short(signature: str) -> str:
    """A signature as it is shown in a line."""
    return signature if len(signature) <= LONGEST else f"{signature[: LONGEST - 3]}..."


def shapes_of(trace: Trace) -> Shapes:
    """What the delivered batches are made of, all ranks together."""
    batches = trace.batches[trace.batches["delivered_s"].notna()]
    batches = batches[~batches["loader"].isin(handed_over(trace))]  # what the loop got counts once
    known = batches[batches["shapes"].notna()].sort_values(["epoch", "batch"], kind="stable")
    groups = known.groupby(["loader", "shapes"], sort=False)
    table = groups.agg(
        batches=("batch", "size"),
        samples=("n_samples", "sum"),
        largest=("n_samples", "max"),
        first_epoch=("epoch", "first"),
        first_batch=("batch", "first"),
    ).reset_index()
    of_loader = table.groupby("loader")
    full = of_loader["largest"].transform("max")
    table.insert(4, "share", table["batches"] / of_loader["batches"].transform("sum"))
    order = ["batches", "first_epoch", "first_batch"]
    n_smaller = int((table["largest"] < full).sum())
    table = table.drop(columns="largest").sort_values(order, ascending=[False, True, True])
    padding = [predict_padding(trace, int(loader)) for loader in sorted(set(known["loader"]))]
    return Shapes(
        table.reset_index(drop=True),
        n_unknown=len(batches) - len(known),
        n_smaller=n_smaller,
        padding=tuple(each for each in padding if each is not None),
        loader_names=short_names(trace),
    )
