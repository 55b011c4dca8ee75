"""Loader by loader: what each delivered and was waited for, under a name that tells them apart."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.text import count, duration
from loaderviz.trace.around_epochs import around_epochs
from loaderviz.trace.columns_of_rows import Table, arrays, where
from loaderviz.trace.described_loaders import HANDED_OVER_BY, is_read_ahead, loader_description
from loaderviz.trace.loaders_as_one import lives
from loaderviz.trace.steps import groups

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from loaderviz.trace.trace import Trace

MOST_CHARACTERS = 60  # of a dataset's class
SHORT = 24  # characters of it in a short name


@dataclass(frozen=True)
class LoaderShare:
    """One loader of a trace, in all ranks.

    Attributes:
        loader: its number in the tables.
        name: its dataset's class, or its own where that is a range of keys, how many samples an
            epoch delivered at most, whether shuffled, how often it was made if not once; where two
            have the same, the line of code that iterates it, or its number.
        n_batches, n_samples: delivered.
        n_workers: of all ranks; 0 where the main process loads.
        waited_s: seconds in ``next()``, and in ``iter()`` while workers started.
        seen: whether any of its batches was seen where it was made. Those of a foreign loader, one
            that is none of torch's, never are.
        read_ahead: by a thread that asks it in place of the loop, so that nothing is waited for:
            what says so, as in "read ahead by a thread of Prefetcher"; empty where the loop asks.
    """

    loader: int
    name: str
    n_batches: int
    n_samples: int
    n_workers: int
    waited_s: float
    seen: bool = True
    read_ahead: str = ""

    def __str__(self) -> str:
        batches = count(self.n_batches, "batch", "batches")
        workers = count(self.n_workers, "worker") if self.seen else "its own work not seen"
        waits = self.read_ahead or f"{duration(self.waited_s)} waited for"
        return f"{self.name}: {batches}, {workers}, {waits}"


def loader_shares(trace: Trace) -> tuple[LoaderShare, ...]:
    """Of each loader that delivered something or had workers, by number."""
    names = ["rank", "loader", "epoch", "worker", "n_samples"]
    names += ["started_s", "requested_s", "delivered_s"]
    rows = arrays(trace.batches[names])
    rows = where(rows, ~np.isnan(rows["delivered_s"]))
    wait_s = np.nan_to_num(rows["delivered_s"] - rows["requested_s"])
    workers = arrays(trace.workers[["rank", "loader", "worker"]])
    if not len(workers["rank"]):
        workers = where(rows, rows["worker"] >= 0)
    first = np.unique(groups(*(workers[name] for name in ("rank", "loader", "worker"))), True)[1]
    starting = around_epochs(trace)
    shares = []
    for loader in np.union1d(rows["loader"], workers["loader"]).tolist():
        own = where(rows, rows["loader"] == loader)
        starting_s = sum(end - start for _, whose, start, end in starting if whose == loader)
        shares.append(
            LoaderShare(
                loader=loader,
                name=_name(trace, loader, own),
                n_batches=len(own["rank"]),
                n_samples=int(own["n_samples"].sum()),
                n_workers=int((workers["loader"][first] == loader).sum()),
                waited_s=float(wait_s[rows["loader"] == loader].sum()) + starting_s,
                seen=not len(own["rank"]) or not is_unseen(own),
                read_ahead=_who_reads_ahead(trace.meta, loader),
            )
        )
    names = [share.name for share in shares]
    lines = [_line(trace, share.loader) for share in shares]
    placed = [line and f"{name}, {line}" for name, line in zip(names, lines, strict=True)]
    numbered = [f"{share.name}, loader {share.loader}" for share in shares]
    unlike = _first_unlike(names, placed, numbered)
    return tuple(replace(share, name=name) for share, name in zip(shares, unlike, strict=True))


def _who_reads_ahead(meta: Mapping[str, Any], loader: int) -> str:
    if not is_read_ahead(meta, loader):
        return ""
    hands_over = loader_description(meta, loader).get(HANDED_OVER_BY)
    return f"read ahead by a thread{f' of {hands_over}' if hands_over else ''}"


def short_names(trace: Trace) -> dict[int, str]:
    """A short name for each loader of a trace, by number: for lanes, tables and messages.

    Its dataset's class; with the samples of an epoch where two loaders have the same class, as in
    "Images (200)", or else with the line of code that iterates it, as in "Images (train.py:42)";
    "loader 0" where the trace tells no difference.
    """
    rows = arrays(trace.batches[["rank", "loader", "epoch", "n_samples", "delivered_s"]])
    rows = where(rows, ~np.isnan(rows["delivered_s"]))
    loaders = [*trace.batches["loader"].unique(), *trace.workers["loader"].unique()]
    numbers = sorted({int(number) for number in loaders})
    classes, sized = {}, {}
    for loader in numbers:
        name = _what(loader_description(trace.meta, loader))
        classes[loader] = name[:SHORT] if name else f"loader {loader}"
        most = _most_samples(where(rows, rows["loader"] == loader))
        sized[loader] = f"{classes[loader]} ({most:,})" if most else classes[loader]
    lines = {loader: _line(trace, loader) for loader in numbers}
    placed = [line and f"{classes[loader]} ({line})" for loader, line in lines.items()]
    numbered = [f"loader {loader}" for loader in numbers]
    names = _first_unlike([*classes.values()], [*sized.values()], placed, numbered)
    return dict(zip(numbers, names, strict=True))


def _first_unlike(*choices: list[str]) -> list[str]:
    """For each loader the first of its names, given by kind, that no other has; "" is none."""
    uses = [Counter(names) for names in choices]
    return [
        next(name for name, used in zip(own, uses, strict=True) if name and used[name] == 1)
        for own in zip(*choices, strict=True)
    ]


def _line(trace: Trace, loader: int) -> str:
    """Where the loop over it begins, as in "train.py:42"; empty where that is not known."""
    return (loader_description(trace.meta, loader).get("iterated_at") or "")[:MOST_CHARACTERS]


def is_cycled(trace: Trace, loader: int) -> bool:
    """Whether ``itertools.cycle`` keeps the batches of its first epoch, and replays them."""
    return loader_description(trace.meta, loader).get("cycled") is True


def is_unseen(batches: Mapping[str, Any] | pd.DataFrame) -> bool:
    """Whether no worker is known of any of these batches, nor when it was made."""
    return bool(np.all((batches["worker"] < 0) & np.isnan(batches["started_s"])))


def _what(about: Mapping[str, Any]) -> str | None:
    """What it loads: its dataset's class; of mere keys, as in graph libraries, the loader's."""
    dataset, loader = about.get("dataset"), about.get("class")
    return loader if dataset == "range" and loader not in (None, "DataLoader") else dataset


def _name(trace: Trace, loader: int, delivered: Table) -> str:
    """As in "Images (1,000 samples, shuffled, made 25 times)": what of it the trace tells."""
    about = loader_description(trace.meta, loader)
    dataset = (_what(about) or f"loader {loader}")[:MOST_CHARACTERS]
    most, made = _most_samples(delivered), lives(trace.meta, loader)
    if trace.meta.get("begins_s") and trace.meta.get("windows"):  # it holds a part of each epoch
        windows = arrays(trace.windows)
        windows = where(windows, windows["loader"] == loader)
        most = _most_samples({**windows, "n_samples": windows["samples"]})
    told = [count(most, "sample")] if most else []
    told += ["shuffled"] if most and about.get("shuffled") is True else []
    told += [f"made {made:,} times"] if made > 1 else []
    return f"{dataset} ({', '.join(told)})" if told else dataset


def _most_samples(delivered: Table) -> int:
    """Of one loader's epochs, the most samples; 0 where nobody knows, as of a foreign loader."""
    if not len(delivered["rank"]):
        return 0
    epoch = groups(delivered["rank"], delivered["epoch"])
    return int(np.bincount(epoch, delivered["n_samples"]).max())
