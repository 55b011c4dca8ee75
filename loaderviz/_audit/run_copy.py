"""Runs a copy of a loader for an audit, and keeps what it delivered."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, default_collate, default_convert

from loaderviz._audit.count_deliveries import Words
from loaderviz._audit.progress_bar import Progress
from loaderviz._audit.watching_copy import Blocks, is_iterable, note_samples, note_tail
from loaderviz.loaders.content_hash import Identify
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.recorder import record
from loaderviz.trace import Trace

ALL_SAMPLES = 2**62  # none is left out of the recording


@dataclass
class Run:
    """What a loader did, epoch by epoch."""

    trace: Trace
    blocks: list[dict[int, list[Words]]] = field(default_factory=list)  # where samples are noted
    left: list[list[Any]] = field(default_factory=list)  # keys that drop_last took
    rows: list[list[int]] = field(default_factory=list)  # of each batch, at most
    error: Exception | None = None  # that ended it


def run(
    loader: DataLoader[Any],
    epochs: int,
    identify: Identify | None,
    n_samples: int | None,
    folder: Path,
) -> Run:
    """Iterate the copy; ``identify`` None: samples are known by what the sampler asks for."""
    copied = copy_loader(loader)
    noting = None if identify is None else note_samples(copied, identify, folder)
    tail = None if is_iterable(loader) else note_tail(copied)
    recording = record(copied, max_spans=ALL_SAMPLES if noting is None else 0)
    done = Run(Trace.from_columns())
    blocks = Blocks(folder)
    with closing(noting) if noting is not None else nullcontext():
        try:
            with recording:
                for epoch in range(epochs):
                    done.rows.append([])
                    try:
                        _iterate(copied, epoch, epochs, n_samples, done.rows[-1])
                    finally:
                        done.blocks.append(blocks.take())
                        done.left.append([] if tail is None else tail.left)
        except Exception as error:
            done.error = error
    done.trace = recording.trace
    return done


def _iterate(
    loader: DataLoader[Any], epoch: int, epochs: int, n_samples: int | None, rows: list[int]
) -> None:
    n_batches = None if is_iterable(loader) or n_samples else _length(loader)
    named = f"epoch {epoch} of {epochs}" if epochs > 1 else "running the loader"
    taken = 0
    with Progress(named, "batches", n_batches) as progress:
        for batch in loader:
            rows.append(most_rows(batch))
            progress.advance()
            taken += loader.batch_size or 1
            if n_samples is not None and taken >= n_samples:
                break


def _length(loader: DataLoader[Any]) -> int | None:
    try:
        return len(loader)
    except Exception:  # of the user's own
        return None


def lacks_rows(run: Run, loader: DataLoader[Any]) -> str:
    """What ``collate_fn`` may have left out of batches, in words; empty where nothing is seen."""
    own = getattr(loader.collate_fn, "__name__", type(loader.collate_fn).__name__)
    if loader.collate_fn in (default_collate, default_convert) or loader.batch_sampler is None:
        return ""
    short = []
    delivered = run.trace.batches[run.trace.batches["delivered_s"].notna()]
    delivered = delivered.sort_values("delivered_s")
    for epoch, most in enumerate(run.rows):
        sizes = delivered.loc[delivered["epoch"] == epoch, "n_samples"]
        for rows, n in zip(most, sizes, strict=False):
            if rows < n:
                short.append((rows, int(n)))
    if not short:
        return ""
    rows, n = short[0]
    return (
        f"collate_fn={own} returned fewer rows than it was given samples in {len(short):,} "
        f"batches ({rows} for {n}, say). Samples that it leaves out count as delivered here."
    )


def most_rows(batch: Any) -> int:
    """How many samples a batch may hold at most, as far as its shape tells."""
    if isinstance(batch, torch.Tensor):
        return batch.shape[0] if batch.ndim else 1
    if isinstance(batch, Mapping):
        return max((most_rows(each) for each in itertools.islice(batch.values(), 8)), default=0)
    if isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        parts = [most_rows(each) for each in batch[:8] if isinstance(each, torch.Tensor)]
        return max([len(batch), *parts])
    return ALL_SAMPLES
