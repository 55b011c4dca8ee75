"""``audit``: was every sample delivered exactly once?"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader

from loaderviz._audit.audit_of_loader import audit_loader
from loaderviz._audit.audit_of_trace import audit_trace
from loaderviz._audit.audit_result import Audit
from loaderviz.argument_checks import number, whole_number
from loaderviz.errors import LoaderVizError
from loaderviz.loaders.describe_loader import FOREIGN, foreign_loader_error
from loaderviz.loaders.start_method import start_method
from loaderviz.trace import Trace
from loaderviz.trace.described_loaders import hands_over, left_out, loader_description


def audit(
    loader_or_trace: DataLoader[Any] | Trace,
    epochs: int = 1,
    key: Callable[[Any], Any] | None = None,
    *,
    n_samples: int | None = None,
    budget_s: float = 10.0,
) -> Audit:
    """Was every sample delivered exactly once? Against all that the dataset holds.

    >>> result = audit(loader)
    >>> print(result)
    >>> result.exactly_once, result.missing, result.figure()

    Runs a copy of the loader as it is configured, with workers of its own, and compares. What
    ``drop_last`` takes counts as missing. Afterwards every random generator is where it was before.

    Map-style samples are known by the key that the sampler asks for. What each held when it was
    collated, and when the loop got it, is compared with what the dataset gives for that key alone,
    in a copy of it: ``contents`` has the outcome, and the verdict says what was compared.
    Samples that differ with each read, as random augmentation makes them, cannot be.

    Iterable-style samples are known by their content, hashed in the worker before they are
    collated: tensors, arrays, texts, bytes, numbers, pictures, and containers and dataclasses of
    such. If k samples are equal, k must come.

    Given a trace, nothing is run, and the audit says what the trace can and cannot prove. The
    recordings of several ranks, opened as one trace, are audited as one: where their Subsets
    differ, by the keys of the dataset behind them. Samples that are also in the Subset of another
    loader of the recording, as of validation, are in ``notes``.

    Args:
        loader_or_trace: a ``DataLoader``, or a ``Trace`` of one.
        epochs: how many times to run the loader; a trace is audited with all of its epochs.
        key: what a sample is known by, where its content will not do (random augmentation) or is
            costly to hash: from a sample, as the dataset returns it, to a number or text. With
            ``batch_size=None``, where the dataset makes the batches, it may return a list or an
            array with a key for each sample. Where workers are started by spawn or forkserver, a
            function that can be pickled.
        n_samples: how many samples to take. On an infinite stream the audit never ends without it.
        budget_s: about how many seconds to read a map-style dataset for, to compare contents; a
            random part of the keys where that does not suffice. 0: contents are not compared.

    Returns:
        An ``Audit``: ``exactly_once`` is the verdict, ``duplicates``, ``missing``, ``extra``,
        ``per_worker`` and ``epochs`` are DataFrames; ``print`` it, or ``figure()``.
        ``mixing()`` says how well the order of delivery mixes the samples.

    Raises:
        LoaderVizError: for what is neither a loader nor a trace; a trace of several loaders; a
            sample that cannot be told from others; a ``key`` that raises; a dataset that cannot
            be read twice or whose ``__len__`` is broken; a worker that dies. ``error.partial``
            is the ``Audit`` of what came until then, where there is one.
        Exception: whatever else the loader or its dataset raises, unchanged.
    """
    if isinstance(loader_or_trace, Trace):
        if (epochs, key, n_samples) != (1, None, None):
            raise LoaderVizError(
                "a trace is audited as it is: epochs, key and n_samples are for a loader that is "
                "run; leave them out, or pass the loader"
            )
        return _audit_single_loader_trace(loader_or_trace)
    _check_arguments(loader_or_trace, epochs, key, n_samples)
    budget_s = number("budget_s", budget_s)
    return audit_loader(loader_or_trace, epochs, key, n_samples, budget_s)


def _audit_single_loader_trace(trace: Trace) -> Audit:
    """Audit a trace, which holds neither the dataset nor the content of the samples.

    Raises:
        LoaderVizError: for a trace of several loaders, or of none.
    """
    loaders = sorted({int(loader) for loader in trace.batches["loader"]})
    loaders = [loader for loader in loaders if not hands_over(trace.meta, loader)] or loaders
    if len(loaders) != 1:
        raise LoaderVizError(
            f"this trace holds {len(loaders)} loaders: audit them one by one, as with "
            f"audit(trace.of_loader({loaders[0]}))"
            if loaders
            else "this trace holds no batch: the loader was not iterated while it was recorded"
        )
    description = loader_description(trace.meta, loaders[0])
    kind = description.get("kind") or "map"
    if kind == FOREIGN:
        raise LoaderVizError(
            f"this trace is of {description.get('class')}, not a torch loader: "
            "it shows batches, and not which samples are in them. Audit its dataset in a "
            "DataLoader."
        )
    trace = trace.of_loader(loaders[0])
    n_epochs = int(trace.batches["epoch"].max()) + 1
    dropping = description.get("batch_size") if description.get("drop_last") else None
    return audit_trace(trace, kind, n_epochs, _limits_of_trace(trace, kind), dropping)


def _limits_of_trace(trace: Trace, kind: str) -> tuple[str, ...]:
    """Sentences about what this trace cannot prove."""
    batches = trace.batches
    is_delivered = batches["delivered_s"].notna()
    n_never_taken = int((~is_delivered).sum())
    n_unseen = int((is_delivered & batches["started_s"].isna()).sum())
    samples_left_out, batches_left_out = left_out(trace.meta)
    sentences = [
        "A trace of an iterable-style dataset counts samples and does not know what they were: "
        "audit(loader) finds what comes twice or never."
        if kind == "iterable"
        else "A trace does not tell how many samples the dataset holds, nor whether the loop ran "
        "to its end: audit(loader) finds what is missing."
    ]
    if n_never_taken and kind == "map":
        sentences.append(f"{n_never_taken:,} batches that were sent for were never taken.")
    if n_unseen:
        sentences.append(f"{n_unseen:,} batches were not seen in their worker.")
    if samples_left_out:
        sentences.append(
            f"{samples_left_out:,} samples past the limit are not in the trace, so that none is "
            "called missing."
        )
    if batches_left_out:
        sentences.append(
            f"{batches_left_out:,} batches are not in the trace, so that no sample of theirs is "
            "called missing."
        )
    return tuple(sentences)


def _check_arguments(loader: Any, epochs: int, key: Any, n_samples: int | None) -> None:
    if not issubclass(type(loader), DataLoader):
        raise foreign_loader_error("audit() takes a torch DataLoader or a Trace", loader)
    whole_number("epochs", epochs, at_least=1)
    if n_samples is not None:
        whole_number("n_samples", n_samples, at_least=1)
    if n_samples is not None and epochs > 1:
        raise LoaderVizError(
            f"epochs={epochs} with n_samples={n_samples}: a run cut short has one epoch only"
        )
    if key is not None and not callable(key):
        raise LoaderVizError(
            f"key={key!r}: give a function from a sample to what it is known by, such as "
            "key=lambda sample: sample['name']"
        )
    if key is not None and loader.num_workers:
        _check_that_key_pickles(loader, key)


def _check_that_key_pickles(loader: DataLoader[Any], key: Any) -> None:
    """Raise LoaderVizError for a key that cannot be sent to workers that are not forked."""
    method = start_method(loader.multiprocessing_context)
    if method == "fork":
        return
    try:
        pickle.dumps(key)
    except Exception as error:
        raise LoaderVizError(
            f"key={key!r} cannot be sent to workers that are started by {method}: define it with "
            "def in a module that they can import"
        ) from error
