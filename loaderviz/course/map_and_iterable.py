"""Notebook 01: what can be asked of a dataset; an exercise, a stream that works in every epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader, IterableDataset

from loaderviz._audit import Audit, audit
from loaderviz.course.datasets import SleepingDataset
from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.errors import LoaderVizError

if TYPE_CHECKING:
    import pandas as pd

PATIENCE = 1000  # samples after which a `for` is taken to have no end

SAMPLES, BATCH_SIZE = [7, 2, 10, 5, 0, 9, 4, 11, 6, 1, 8, 3], 4  # no set has this order
N_SAMPLES = len(SAMPLES)

epoch_hint = Hints(
    "an iterator is used up after one pass. When is yours created?",
    "__init__ runs once, __iter__ once for each epoch.",
    "keep the samples in __init__; make a new iterator in __iter__.",
)


def try_out(**datasets: Any) -> pd.DataFrame:
    """A table of what each dataset can do: a row for each attempt, a column for each dataset.

    A "no" is followed by the name of the exception. No workers are started. An iterable dataset
    that can be read only once is used up.
    """
    import pandas as pd

    return pd.DataFrame(
        {
            name: {label: _answer(attempt, dataset) for label, attempt in _ATTEMPTS.items()}
            for name, dataset in datasets.items()
        }
    )


def _answer(attempt: Callable[[Any], Any], dataset: Any) -> str:
    try:
        return str(attempt(dataset))
    except Exception as error:
        return f"no: {type(error).__name__}"


def _where_a_loop_ends(dataset: Any) -> str:
    n = sum(1 for _ in islice(iter(dataset), PATIENCE + 1))
    return "no end" if n > PATIENCE else f"after {n}"


def _a_second_loop(dataset: Any) -> str:
    first, second = (list(map(str, islice(iter(dataset), 8))) for _ in range(2))
    if not second:
        return "no: used up"
    return "the same" if first == second else "others"


def _is_read(sample: Any) -> str:
    return "yes"


_ATTEMPTS: dict[str, Callable[[Any], Any]] = {
    "len(dataset)": len,
    "dataset[2]": lambda dataset: _is_read(dataset[2]),
    "a for loop ends after": _where_a_loop_ends,
    "a second for loop": _a_second_loop,
    "shuffle=True": lambda dataset: _is_read(next(iter(DataLoader(dataset, shuffle=True)))),
    "sampler=[2, 0]": lambda dataset: _is_read(next(iter(DataLoader(dataset, sampler=[2, 0])))),
    "dataset + dataset": lambda dataset: type(dataset + dataset).__name__,
}


@explains_errors
def every_epoch(dataset_class: Callable[[Iterable[int]], IterableDataset[int]]) -> Check:
    """Whether a stream of this class delivers all samples in two epochs, and to two loops at once.

    ``dataset_class(samples)`` returns the dataset.
    """
    _refuse_what_is_no_iterator(dataset_class([*SAMPLES]).__iter__())
    loader = DataLoader(dataset_class([*SAMPLES]), batch_size=BATCH_SIZE)
    for epoch in ("first", "second"):
        samples: list[int] = []
        for batch in islice(loader, N_SAMPLES):  # more batches than there should be, but an end
            samples += batch.tolist()
        if samples != SAMPLES:
            message = f"Not yet: the {epoch} epoch delivers "
            if sorted(samples) == sorted(SAMPLES):
                message += f"the samples in another order: {samples} instead of {SAMPLES}."
            else:
                message += f"{len(samples)} samples" if samples else "nothing"
                message += f" instead of the {N_SAMPLES} that are there."
            return Check(False, message, _audit_of(samples).figure())
    dataset = dataset_class([*SAMPLES])
    pairs = list(islice(zip(dataset, dataset, strict=False), N_SAMPLES))
    figure = _audit_of([first for first, _ in pairs]).figure()
    if pairs != list(zip(SAMPLES, SAMPLES, strict=True)):
        message = "Two epochs are right, but two loops at once take each other's samples."
        return Check(False, message, figure)
    return Check(True, "Every epoch, and every loop, begins at the first sample.", figure)


def _refuse_what_is_no_iterator(made: object) -> None:
    if not isinstance(made, Iterator):
        what = "nothing" if made is None else f"{type(made).__name__}, not an iterator"
        raise LoaderVizError(
            f"Not yet: __iter__ returned {what}. It has to yield, or to return an iterator, such "
            "as iter(...)."
        )


def _audit_of(samples: list[int]) -> Audit:
    """The audit of a loader that delivers these samples, in this order."""
    known = [sample for sample in samples if sample in SAMPLES]
    return audit(DataLoader(SleepingDataset(N_SAMPLES, 0), batch_size=BATCH_SIZE, sampler=known))
