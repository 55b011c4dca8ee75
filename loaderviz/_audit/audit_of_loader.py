"""The audit of a loader: what a run of it delivered against all that its dataset holds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain
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

from loaderviz._audit.audit_of_trace import audit_trace, draws_again
from loaderviz._audit.audit_result import Audit, AuditError
from loaderviz._audit.conclude_audit import Evidence, conclude
from loaderviz._audit.count_deliveries import (
    Expected,
    compare_with_expected,
    count_passed_by_all,
    keys_of_deliveries,
)
from loaderviz._audit.delivered_and_expected import (
    dataset_length,
    delivered_by_number,
    expected_by_key,
    read_dataset,
)
from loaderviz._audit.run_copy import (
    CopyRun,
    raise_failure,
    run_copy,
)
from loaderviz._audit.watching_copy import is_iterable
from loaderviz._contents.compared_contents import ComparedContents, compare_contents
from loaderviz._contents.contents_in_words import (
    BUFFER,
    ONE_BUFFER,
    WORDS,
    names_of,
    on_fewer_rows,
)
from loaderviz._contents.deliveries import Delivered, delivered_by_key, lacking_rows
from loaderviz._contents.pristine_copy import PristineCopy, collates
from loaderviz._contents.read_stream import StreamRead
from loaderviz.errors import LoaderVizError
from loaderviz.loaders.content_hash import SampleIdentifier
from loaderviz.loaders.describe_loader import describe
from loaderviz.loaders.random_state import keep_random_state
from loaderviz.sharding import ranks
from loaderviz.text import count

_NOT_JUDGED = "whether any is missing is not known"
_AS_ITS_WORKER = (
    "Without workers the dataset raises: {}. So it was read as its only worker reads it, with "
    "get_worker_info() of worker 0 of 1."
)
MIN_UNLIKE = 7  # of fewer samples all may be others by some fault
MOSTLY = 0.75  # of what came: where more differs, content tells no sample
OF_SHARES = ("Remedy: share", "Workers that")  # begin the notes on them
_SHUFFLING = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


def audit_loader(
    loader: DataLoader[Any],
    epochs: int,
    key: Callable[[Any], Any] | None,
    n_samples: int | None,
    budget_s: float,
) -> Audit:
    """Run a copy of the loader, and compare what it delivers with what its dataset holds.

    The arguments are those of ``audit``, checked already.

    Raises:
        AuditError: for any failure with a known cause, with the audit of what came until then.
        Exception: whatever else the loader or its dataset raises, unchanged.
    """
    by_key = key is None and not is_iterable(loader)
    identifier = SampleIdentifier(key, of_batches=loader.batch_sampler is None)
    with (
        keep_random_state(loader),
        PristineCopy(loader.dataset, collates(loader)) if by_key else nullcontext() as pristine,
    ):
        run = run_copy(loader, epochs, None if by_key else identifier, n_samples)
        evidence = _evidence_before_run(loader, by_content=key is None and is_iterable(loader))
        try:
            raise_failure(loader, run)
            if pristine is not None:
                compare = partial(
                    compare_contents, loader, run.trace, run.noted, pristine, budget_s, n_samples
                )
                return _audit_by_key(loader, run, evidence, epochs, n_samples, compare)
            fewer = _fewer_rows(loader, run)
            evidence = evidence.noting(fewer)
            audit = _audit_by_number(loader, run, evidence, identifier, epochs, n_samples)
            made = ", before collate_fn made fewer rows of them" if fewer else ""
            return replace(audit, verdict=audit.verdict + made)
        except LoaderVizError as error:
            partial_audit = _partial_audit(run, evidence, by_key=by_key)
            raise AuditError(str(error), partial_audit) from error.__cause__


def _fewer_rows(loader: DataLoader[Any], run: CopyRun) -> str:
    """A sentence about samples without a row; empty where none is seen."""
    batches = chain.from_iterable(run.noted if loader.batch_sampler is not None else [])
    names = names_of(collate_fn=loader.collate_fn)
    return next(on_fewer_rows(sum(lacking_rows(batches)) if names else 0, names), "")


def _evidence_before_run(loader: DataLoader[Any], *, by_content: bool) -> Evidence:
    """What the loader's configuration tells."""
    iterable = is_iterable(loader)
    sampler: Any = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    if type(sampler) is BatchSampler:
        sampler = sampler.sampler
    is_distributed = isinstance(sampler, DistributedSampler)
    rank, n_ranks = (sampler.rank, sampler.num_replicas) if is_distributed else ranks()
    remark = (
        f"This is rank {rank} of {n_ranks}, and what the others deliver is not seen here: record "
        "each rank, and audit the traces as one."
    )
    return Evidence(
        kind="iterable" if iterable else "map",
        proves_missing=n_ranks == 1 or iterable,
        n_workers=loader.num_workers,
        by_content=by_content,
        sampler="" if iterable else type(sampler).__name__,
        shuffles=isinstance(sampler, _SHUFFLING) or (is_distributed and sampler.shuffle),
        as_told=draws_again(describe(loader)),
        remarks=(remark,) if n_ranks > 1 else (),
    )


def _unproven(evidence: Evidence, reason: str) -> Evidence:
    """The evidence where, for this reason, no sample can be called missing."""
    return replace(evidence.noting(reason), proves_missing=False)


def _audit_by_key(
    loader: DataLoader[Any],
    run: CopyRun,
    evidence: Evidence,
    epochs: int,
    n_samples: int | None,
    compare: Callable[[], ComparedContents],
) -> Audit:
    """Samples are known by the keys that the sampler asks for."""
    delivered, keys = delivered_by_key(run.trace)
    expected, numbers, dropped = expected_by_key(loader, keys, run.leftover)
    delivered = replace(delivered, number=numbers).first(n_samples)
    if n_samples is not None:
        evidence = _unproven(evidence, f"Only {n_samples:,} samples were taken: {_NOT_JUDGED}.")
    elif len(expected) and not expected.n_judged:
        n = dataset_length(loader)
        reason = (
            f"{len(expected):,} different keys came, and the dataset, which holds {n:,} samples, "
            f"has no keys() that lists its own: {_NOT_JUDGED}."
        )
        evidence = _unproven(evidence, reason)
    if not evidence.proves_missing:
        expected, dropped = replace(expected, n_judged=0), []
    evidence = replace(evidence, n_known=len(expected))
    tables = compare_with_expected(delivered, expected, epochs, dict(enumerate(dropped)))
    keys = keys_of_deliveries(delivered, expected, tables)
    return conclude(tables, evidence, run.trace, keys, compare())


def _audit_by_number(
    loader: DataLoader[Any],
    run: CopyRun,
    evidence: Evidence,
    identifier: SampleIdentifier,
    epochs: int,
    n_samples: int | None,
) -> Audit:
    """Samples are known by their content, or by the user's key."""
    iterable = is_iterable(loader)
    full_size = loader.batch_size if iterable and loader.drop_last else None
    delivered, dropped = delivered_by_number(run.trace, run.noted, full_size)
    delivered = delivered.first(n_samples)
    dataset: Any = loader.dataset
    if iterable:
        # Beyond the samples that came, as far as workers that take turns may have got.
        n_ahead = (loader.batch_size or 1) * max(loader.num_workers, 1)
        expected = read_dataset(dataset, identifier, n_samples and n_samples + n_ahead)
        if expected.stream.fails_alone is not None:
            evidence = evidence.noting(_AS_ITS_WORKER.format(expected.stream.fails_alone))
    else:
        n = dataset_length(loader)
        expected = read_dataset((dataset[index] for index in range(n)), identifier)
        if evidence.proves_missing:
            dropped = {
                epoch: expected.numbers[np.array(keys, int)]
                for epoch, keys in enumerate(run.leftover)
            }
        else:
            expected = replace(expected, n_judged=0)
    if len(delivered) and not len(expected):
        evidence = _of_nothing_read(loader, delivered, evidence)
    if n_samples is not None:
        expected, evidence = _limit_to_passed(delivered, expected, evidence)
    evidence = replace(evidence, n_known=evidence.n_known or len(expected))
    tables = compare_with_expected(delivered, expected, epochs, dropped)
    n_unlike = int((tables.deliveries["sample"] < 0).sum())
    n_buffer = _n_overwritten(delivered, expected) if expected.stream.overwritten is not None else 0
    if evidence.by_content and n_unlike and not n_buffer:
        second = read_dataset(dataset, identifier, n_samples and len(expected))
        by_chance = not np.array_equal(np.sort(second.numbers), np.sort(expected.numbers))
        n_about = 0 if by_chance else evidence.n_workers
        if by_chance or _depends_on_share(
            n_unlike / epochs, len(delivered) / epochs, expected, n_about
        ):
            return _audit_by_count(delivered, expected, evidence, run, n_about)
    keys = keys_of_deliveries(delivered, expected, tables) if identifier.key is not None else None
    evidence = _check_dataset_length(loader, expected, evidence)
    audit = conclude(tables, evidence, run.trace, keys)
    if n_buffer:
        return _audit_of_one_buffer(audit, n_buffer)
    return _audit_of_replaced(audit, expected.stream)


def _depends_on_share(
    n_unlike: float, n_in_epoch: float, expected: Expected, n_workers: int
) -> bool:
    """Whether, in an epoch, nearly as many came as one process reads, and most are others."""
    as_many = abs(n_in_epoch - len(expected)) <= n_workers
    return as_many and n_unlike > max(MIN_UNLIKE, MOSTLY * len(expected))


def _n_overwritten(delivered: Delivered, expected: Expected) -> int:
    """How many samples held, when they were collated, what the last of their batch did.

    Or what no sample does: parts of it, beside what is its own.
    """
    assert delivered.number is not None
    batch = np.stack([delivered.epoch, delivered.batch])
    is_last = np.append((batch[:, 1:] != batch[:, :-1]).any(axis=0), True)
    last = np.flatnonzero(is_last)[np.cumsum(is_last) - is_last]
    unlike = ~np.isin(delivered.number, expected.numbers)
    return int((~is_last & (unlike | (delivered.number == delivered.number[last]))).sum())


def _audit_of_one_buffer(audit: Audit, n_overwritten: int) -> Audit:
    """Where a stream yields one buffer for all: that, and not what is twice or missing then."""
    verdict = (
        f"{n_overwritten:,} of {count(len(audit.deliveries), 'sample')} "
        f"{WORDS[BUFFER]}, as they waited for their batch to be full"
    )
    notes = (ONE_BUFFER, "Until then it is not known which samples come twice, or never.")
    return replace(audit, verdict=verdict, notes=notes, is_changed=True)


def _audit_of_replaced(audit: Audit, seen: StreamRead) -> Audit:
    """The same where a stream yields something else in place of a sample that raised an error."""
    met = seen.replaced
    if met is None:
        return audit
    replaces = f"the stream replaces some: {met.line} meets {met.name}"
    whole = audit.verdict.replace("very sample", "very sample that one process reads")
    verdict = f"{whole}, but {replaces}" if audit.exactly_once else f"{audit.verdict}; {replaces}"
    note = (
        f"{met.line} met {met.name}: {met.message}, and {seen.by_what} was yielded then. Let it "
        "raise, or leave such samples out, and say how many."
    )
    notes = audit.notes
    if audit.n_samples is None or len(audit.duplicates) < audit.n_samples:
        # What comes again may be what replaces others, and no overlap of shares.
        notes = tuple(each for each in notes if not each.startswith(OF_SHARES))
    return replace(audit, verdict=verdict, notes=(note, *notes), is_changed=True)


def _partial_audit(run: CopyRun, evidence: Evidence, *, by_key: bool) -> Audit:
    """The audit of what came before a failure."""
    n_epochs = len(run.noted)
    if by_key:
        return audit_trace(run.trace, "map", n_epochs, evidence.remarks)
    delivered, _ = delivered_by_number(run.trace, run.noted, None)
    tables = compare_with_expected(replace(delivered, number=None), None, n_epochs, {})
    return conclude(tables, evidence, run.trace)


def _of_nothing_read(loader: DataLoader[Any], delivered: Delivered, evidence: Evidence) -> Evidence:
    """Where samples came, and this process then reads none.

    Raises:
        LoaderVizError: without workers: then the run has used the dataset up.
    """
    used_up = (
        "it holds an iterator, or an open file, that is at its end. Make that anew in each "
        "__iter__; or record the loader and audit the trace."
    )
    if loader.num_workers:
        remark = f"This process reads none: the dataset yields in workers alone, or {used_up}"
        return replace(evidence.noting(remark), by_content=False)
    raise LoaderVizError(
        f"the loader delivered {len(delivered):,} samples, and then this process read none: "
        f"the dataset cannot be iterated twice, because {used_up}"
    )


def _limit_to_passed(
    delivered: Delivered, expected: Expected, evidence: Evidence
) -> tuple[Expected, Evidence]:
    """For a stream that was cut off: judge only the samples that all workers have passed."""
    if not expected.has_more:
        return expected, evidence
    n_passed = count_passed_by_all(delivered, expected, evidence.n_workers)
    if not n_passed:
        return expected, _unproven(evidence, f"Too few samples were taken: {_NOT_JUDGED}.")
    return replace(expected, n_judged=n_passed), replace(
        evidence, n_known=n_passed, which_samples=f" of the first {n_passed:,}"
    )


def _audit_by_count(
    delivered: Delivered, expected: Expected, evidence: Evidence, run: CopyRun, n_about: int
) -> Audit:
    """Where the samples differ each time they are read: they can be counted, and no more.

    ``n_about``: so many more or fewer may be right.
    """
    remark = (
        "What comes differs from what one process reads, by chance, as with random augmentation, "
        "or since it depends on a worker's share, as where samples are packed: content does not "
        "tell which sample is which. Say what one is known by, "
        "audit(loader, key=lambda sample: ...)."
    )
    remarks = (remark, *evidence.remarks)
    evidence = replace(evidence, n_known=0, proves_missing=False, remarks=remarks)
    unnumbered = replace(delivered, number=None)
    tables = compare_with_expected(unnumbered, None, len(run.noted), {})
    audit = conclude(tables, evidence, run.trace)
    n = len(expected)
    if expected.has_more or ((audit.epochs["delivered"] - n).abs() <= n_about).all():
        return audit
    verdict = f"{audit.verdict.partition(',')[0]}, where one process reads {n:,}"
    return replace(audit, exactly_once=False, verdict=verdict)


def _check_dataset_length(
    loader: DataLoader[Any], expected: Expected, evidence: Evidence
) -> Evidence:
    """Add a remark where an iterable-style dataset is wrong about its own length."""
    dataset: Any = loader.dataset
    if not is_iterable(loader) or expected.has_more or not hasattr(dataset, "__len__"):
        return evidence
    try:
        claim = f"len(dataset) is {len(dataset):,}"
        if len(dataset) == len(expected):
            return evidence
    except Exception as error:
        claim = f"len(dataset) raises {type(error).__name__}"
    remark = f"{claim}, and one process reads {len(expected):,} samples."
    return replace(evidence, remarks=(*evidence.remarks, remark))
