"""The exceptions that a dataset meets while it reads a sample, and does not raise."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.utils.data import Dataset
from torch.utils.data import dataset as torch_dataset

from loaderviz.loaders.held_objects import is_a, walk

Tracer = Callable[[types.FrameType, str, Any], Any]


@dataclass(frozen=True)
class Swallowed:
    """An exception that the code of a dataset met, and did not raise."""

    name: str  # of its class
    message: str
    line: str  # "file.py:12"
    of_lookup: bool = False  # a word that is not in a table, say: what comes then is meant so


def noting_exceptions(dataset: Any, met: list[Swallowed]) -> Tracer:
    """A trace function that notes the exceptions in the code that reads a sample, in no other."""
    files = _files_of(dataset)

    def inside(frame: types.FrameType, event: str, arg: Any) -> Any:
        frame.f_trace_lines = False
        if event == "exception" and not issubclass(arg[0], StopIteration):
            line = f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
            of_lookup = issubclass(arg[0], LookupError | AttributeError)
            met.append(Swallowed(arg[0].__name__, str(arg[1])[:100], line, of_lookup))
        return inside

    def entered(frame: types.FrameType, event: str, arg: Any) -> Any:
        return inside if frame.f_code.co_filename in files else None

    return entered


def _files_of(dataset: Any) -> set[str]:
    """Those of the code that reads a sample, of the dataset and of those that it wraps."""
    held = [part.value for part in walk("dataset", dataset) if is_a(part.value, Dataset)]
    functions = [
        vars(cls).get(name)
        for each in (dataset, *held)
        for cls in type(each).__mro__
        for name in ("__getitem__", "__getitems__", "__iter__", "__next__")
    ]
    files = {
        each.__code__.co_filename for each in functions if isinstance(each, types.FunctionType)
    }
    return files - {torch_dataset.__file__}
