"""The audit of a loader: what a run of it delivered against all that its dataset holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from loaderviz._audit import delivered_samples, failed_runs
from loaderviz._audit import expected_samples as holds
from loaderviz._audit.audit_result import Audit, AuditError
from loaderviz._audit.conclude_audit import conclude
from loaderviz._audit.count_deliveries import Delivered, Expected, compare, frontier
from loaderviz._audit.run_copy import Run, lacks_rows, run
from loaderviz._audit.verdict_text import Setting
from loaderviz._audit.watching_copy import is_iterable
from loaderviz.errors import LoaderVizError
from loaderviz.loaders.content_hash import Identify
from loaderviz.loaders.random_state import keep_random_state
from loaderviz.sharding import ranks
from loaderviz.trace import Trace

_NOT_JUDGED = "whether any is missing is not known"
_SHUFFLING = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


def audit_loader(
    loader: DataLoader[Any],
    epochs: int,
    key: Callable[[Any], Any] | None,
    n_samples: int | None,
) -> Audit:
    identify = Identify(key) if key is not None or is_iterable(loader) else None
    with keep_random_state(loader), TemporaryDirectory(prefix="loaderviz-audit-") as folder:
        done = run(loader, epochs, identify, n_samples, Path(folder))
        setting = _setting(loader, by_content=key is None and is_iterable(loader))
        try:
            failed_runs.check(loader, done)
            if lacking := lacks_rows(done, loader):
                setting = replace(setting, remarks=(*setting.remarks, lacking))
            if identify is None:
                return _by_key(loader, done, setting, epochs, n_samples)
            return _by_sample(loader, done, setting, identify, epochs, n_samples)
        except LoaderVizError as error:
            partial = _partial(done, setting, by_key=identify is None)
            raise AuditError(str(error), partial) from error.__cause__


def _setting(loader: DataLoader[Any], *, by_content: bool) -> Setting:
    """What can be said before the comparison."""
    iterable = is_iterable(loader)
    sampler: Any = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    if type(sampler) is BatchSampler:
        sampler = sampler.sampler
    is_distributed = isinstance(sampler, DistributedSampler)
    rank, n_ranks = (sampler.rank, sampler.num_replicas) if is_distributed else ranks()
    others = (
        f"This is rank {rank} of {n_ranks}, and what the others deliver is not seen here: record "
        "each rank, and audit the traces as one."
    )
    return Setting(
        kind="iterable" if iterable else "map",
        proves_missing=n_ranks == 1 or iterable,
        n_workers=loader.num_workers,
        by_content=by_content,
        sampler="" if iterable else type(sampler).__name__,
        shuffles=isinstance(sampler, _SHUFFLING) or (is_distributed and sampler.shuffle),
        remarks=(others,) if n_ranks > 1 else (),
    )


def _unproven(setting: Setting, why: str) -> Setting:
    return replace(setting, proves_missing=False, remarks=(*setting.remarks, why))


def _by_key(
    loader: DataLoader[Any], done: Run, setting: Setting, epochs: int, n_samples: int | None
) -> Audit:
    delivered, keys = delivered_samples.by_key(done.trace)
    expected, numbers, left = holds.by_key(loader, keys, done.left)
    delivered = replace(delivered, number=numbers).first(n_samples)
    if n_samples is not None:
        setting = _unproven(setting, f"Only {n_samples:,} samples were taken: {_NOT_JUDGED}.")
    elif len(expected) and not expected.judged:
        n = holds.length_of(loader)
        lists = f"{len(expected):,} different keys came, and the dataset, which holds {n:,} samples"
        setting = _unproven(setting, f"{lists}, has no keys() that lists its own: {_NOT_JUDGED}.")
    if not setting.proves_missing:
        expected, left = replace(expected, judged=0), []
    setting = replace(setting, n_known=len(expected))
    found = compare(delivered, expected, epochs, dict(enumerate(left)))
    return conclude(found, setting, done.trace)


def _by_sample(
    loader: DataLoader[Any],
    done: Run,
    setting: Setting,
    identify: Identify,
    epochs: int,
    n_samples: int | None,
) -> Audit:
    """Samples are known by their content, or by the user's key."""
    iterable = is_iterable(loader)
    full = loader.batch_size if iterable and loader.drop_last else None
    delivered, dropped = delivered_samples.by_number(done.trace, done.blocks, full)
    delivered = delivered.first(n_samples)
    dataset: Any = loader.dataset
    if iterable:
        # Beyond the samples that came, as far as workers that take turns may have got.
        ahead = (loader.batch_size or 1) * max(loader.num_workers, 1)
        expected = holds.read(dataset, identify, n_samples and n_samples + ahead)
    else:
        n = holds.length_of(loader)
        expected = holds.read((dataset[index] for index in range(n)), identify)
        if setting.proves_missing:
            dropped = {e: expected.numbers[np.array(keys, int)] for e, keys in enumerate(done.left)}
        else:
            expected = replace(expected, judged=0)
    if not loader.num_workers:
        _check_that_it_was_read(expected, delivered)
    if n_samples is not None:
        expected, setting = _of_the_first(delivered, expected, setting)
    setting = replace(setting, n_known=setting.n_known or len(expected))
    found = compare(delivered, expected, epochs, dropped)
    if setting.by_content and (found.deliveries["sample"] < 0).any():
        again = holds.read(dataset, identify, n_samples and len(expected))
        if not np.array_equal(np.sort(again.numbers), np.sort(expected.numbers)):
            return _unknowable(delivered, expected, setting, done)
    return conclude(found, _with_length(loader, expected, setting), done.trace)


def of_trace(trace: Trace, kind: str, n_epochs: int, remarks: tuple[str, ...]) -> Audit:
    """What a trace alone proves."""
    delivered, keys = delivered_samples.by_key(trace)
    expected = None
    setting = Setting(
        kind=kind,
        n_workers=trace.workers["worker"].nunique(),
        known_as=" in the trace",
        remarks=remarks,
    )
    if kind == "map":
        expected, numbers = holds.by_itself(keys)
        delivered = replace(delivered, number=numbers)
        counts_up = expected.judged > 0
        setting = replace(setting, n_known=len(expected), keys_count_up=counts_up)
    return conclude(compare(delivered, expected, n_epochs, {}), setting, trace)


def _partial(done: Run, setting: Setting, *, by_key: bool) -> Audit:
    """What came before a failure."""
    kind = "map" if by_key else "iterable"
    if by_key:
        return of_trace(done.trace, kind, len(done.rows), setting.remarks)
    delivered, _ = delivered_samples.by_number(done.trace, done.blocks, None)
    unknown = replace(delivered, number=None)
    return conclude(compare(unknown, None, len(done.rows), {}), setting, done.trace)


def _check_that_it_was_read(expected: Expected, delivered: Delivered) -> None:
    if len(delivered) and not len(expected):
        raise LoaderVizError(
            f"the loader delivered {len(delivered):,} samples, and then this process read none: "
            "the dataset cannot be iterated twice, because it holds an iterator that is used up. "
            "Make the iterator anew in each __iter__; or record the loader and audit the trace."
        )


def _of_the_first(
    delivered: Delivered, expected: Expected, setting: Setting
) -> tuple[Expected, Setting]:
    """Of a stream that was cut off: what all workers have passed, and what came twice."""
    if not expected.goes_on:
        return expected, setting
    passed = frontier(delivered, expected, setting.n_workers)
    if not passed:
        return expected, _unproven(setting, f"Only so many samples were taken: {_NOT_JUDGED}.")
    return replace(expected, judged=passed), replace(
        setting, n_known=passed, known_as=f" of the first {passed:,}"
    )


def _unknowable(delivered: Delivered, expected: Expected, setting: Setting, done: Run) -> Audit:
    """Where the samples differ each time they are read: they can be counted, and no more."""
    remark = (
        "The samples differ each time they are read, as random augmentation makes them: their "
        "content does not tell which is which. Say what a sample is known by, "
        "audit(loader, key=lambda sample: ...)."
    )
    setting = replace(setting, n_known=0, proves_missing=False, remarks=(remark, *setting.remarks))
    tables = compare(replace(delivered, number=None), None, len(done.rows), {})
    found = conclude(tables, setting, done.trace)
    n = len(expected)
    if expected.goes_on or (found.epochs["delivered"] == n).all():
        return found
    verdict = f"{found.verdict.partition(',')[0]}, where one process reads {n:,}"
    return replace(found, exactly_once=False, verdict=verdict)


def _with_length(loader: DataLoader[Any], expected: Expected, setting: Setting) -> Setting:
    """Says where an iterable-style dataset is wrong about its own length."""
    dataset: Any = loader.dataset
    if not is_iterable(loader) or expected.goes_on or not hasattr(dataset, "__len__"):
        return setting
    try:
        said = f"len(dataset) is {len(dataset):,}"
        if len(dataset) == len(expected):
            return setting
    except Exception as error:
        said = f"len(dataset) raises {type(error).__name__}"
    remark = f"{said}, and one process reads {len(expected):,} samples."
    return replace(setting, remarks=(*setting.remarks, remark))
