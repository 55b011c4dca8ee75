"""`try_out`: try what can be asked of a dataset."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader

if TYPE_CHECKING:
    import pandas as pd

PATIENCE = 1000  # samples after which a `for` is taken to have no end


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


def _answer(attempt: Callable[[Any], str], dataset: Any) -> str:
    try:
        return attempt(dataset)
    except Exception as error:
        return f"no: {type(error).__name__}"


def _a_sample(dataset: Any) -> str:
    dataset[2]
    return "yes"


def _where_a_loop_ends(dataset: Any) -> str:
    n = len(_first_samples(dataset, PATIENCE + 1))
    return "no end" if n > PATIENCE else f"after {n}"


def _a_second_loop(dataset: Any) -> str:
    first, second = _first_samples(dataset, 8), _first_samples(dataset, 8)
    if not second:
        return "no: used up"
    return "the same" if str(first) == str(second) else "others"


def _first_samples(dataset: Any, n: int) -> list[Any]:
    return list(islice(iter(dataset), n))


def _a_batch(dataset: Any, **options: Any) -> str:
    next(iter(DataLoader(dataset, **options)))
    return "yes"


_ATTEMPTS: dict[str, Callable[[Any], str]] = {
    "len(dataset)": lambda dataset: str(len(dataset)),
    "dataset[2]": _a_sample,
    "a for ends": _where_a_loop_ends,
    "a second for": _a_second_loop,
    "shuffle=True": lambda dataset: _a_batch(dataset, shuffle=True),
    "sampler=[2, 0]": lambda dataset: _a_batch(dataset, sampler=[2, 0]),
    "dataset + dataset": lambda dataset: type(dataset + dataset).__name__,
}
