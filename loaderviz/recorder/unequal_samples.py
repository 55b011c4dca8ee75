"""Why samples could not be put together: which two have different shapes, and where.

torch says only the shapes ("stack expects each tensor to be equal size"), or not even these. It is
looked for once making a batch has failed, among its samples, which the traceback still holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final

from torch import _C, Tensor

from loaderviz.own_errors import own_errors
from loaderviz.record_layout import key_value
from loaderviz.recorder.batch_signature import (
    MOST_LEAVES,
    NAMES,
    array_type_of,
    contents_of,
    dispatches,
)
from loaderviz.sample_keys import from_json
from loaderviz.trace.check_trace import MOST_CHARACTERS

MOST_SAMPLES: Final = 10_000  # that are looked at
LONGEST_KEY: Final = 60
# What torch/utils/data/_utils/collate.py and torch.stack say of samples of different shapes.
_STACK = re.compile(r"stack expects each .* got \[(.*)\] at entry 0 and \[(.*)\] at entry (\d+)")
_NO_SHAPES: Final = (
    "Trying to resize storage that is not resizable",  # in a worker, which prepares the memory
    "each element in list of batch should be of equal size",
)
_OURS: Final = __name__.partition(".")[0] + "."
_FETCH, _COLLATE = (f"torch.utils.data._utils.{name}" for name in ("fetch", "collate"))

# A part of a sample, such as "['image']", and its shape; of a list or a tuple how many items.
Part = tuple[str, tuple[int, ...] | int]


def why_not_collated(error: BaseException) -> str:
    """Such as ``batch['image']: (3, 8, 8) in sample 17, (1, 8, 8) in sample 21``.

    Empty for an error that says something else, and where it cannot be told which part is meant.
    """
    try:
        args = BaseException.args.__get__(error)  # type: ignore[attr-defined]
        if type(error) is not RuntimeError or len(args) != 1 or type(args[0]) is not str:
            return ""
        said = _STACK.search(args[0])
        if said is None and not args[0].startswith(_NO_SHAPES):
            return ""
        with _C.DisableTorchFunction():
            return _difference(error.__traceback__, said)
    except own_errors(Exception):  # of a type that is like none that is known
        return ""


def _difference(step: TracebackType | None, said: re.Match[str] | None) -> str:
    while step is not None and step.tb_frame.f_globals.get("__name__") != _FETCH:
        step = step.tb_next
    if step is None or step.tb_next is None:
        return ""
    by_torch = _module_below(step) == _COLLATE
    names = step.tb_frame.f_locals
    samples, index = names.get("data"), names.get("possibly_batched_index")
    if type(names) is dict:
        names.clear()  # a copy, which up to Python 3.12 stays with the frame
    if type(samples) is not list:
        return ""
    found = _first_difference(samples) if by_torch else None
    if said is not None:
        entries = 0, int(said[3])
        shapes = [tuple(map(int, re.findall(r"\d+", text))) for text in said.groups()[:2]]
        meant = [
            (part, entries)
            for part, shape in shapes_in(samples[0])
            if shape == shapes[0] and dict(shapes_in(samples[entries[1]])).get(part) == shapes[1]
        ]
        found = next((each for each in meant if each == found), None) if by_torch else None
        if not by_torch and len(meant) == 1:
            found = meant[0]
    return _text(samples, index, *found) if found else ""


def _module_below(fetch: TracebackType) -> str:
    """The module of what the fetcher called, past a ``collate_fn`` of ours that hands on."""
    step: TracebackType | None = fetch.tb_next
    name = ""
    while step is not None and (not name or name.startswith(_OURS)):
        name = str(step.tb_frame.f_globals.get("__name__"))
        step = step.tb_next
    return name


def _first_difference(samples: list[Any]) -> tuple[str, tuple[int, int]] | None:
    """The part that torch's own collate meets first, and the first two samples that differ."""
    others = [dict(shapes_in(sample)) for sample in samples[1:MOST_SAMPLES]]
    for part, shape in shapes_in(samples[0]):
        for place, other in enumerate(others, 1):
            if part in other and other[part] != shape:
                return part, (0, place)
    return None


def shapes_in(sample: Any, path: str = "") -> Iterator[Part]:
    """The shape of each part, in the order in which torch's collate goes through a sample."""
    kind = type(sample)
    found = contents_of(sample, kind)
    if found is None:
        shape = _shape(sample, kind)
        if shape is not None:
            yield path, shape
        return
    names, contents = found
    if issubclass(kind, list | tuple):
        yield path, len(contents)
        names = tuple(range(len(contents)))
    is_wrapper = not names and len(contents) == 1  # a UserDict, which holds a dict
    if len(contents) > MOST_LEAVES:
        return
    for name, part in zip(names or ("",), contents, strict=False):
        if type(name) in NAMES:
            yield from shapes_in(part, path if is_wrapper else f"{path}[{name!r}]")


def _shape(part: Any, kind: type) -> tuple[int, ...] | None:
    if issubclass(kind, Tensor):
        return None if dispatches(kind) else tuple(part.shape)
    array_type = array_type_of(kind)
    return tuple(array_type.shape.__get__(part)) if array_type else None


def _text(samples: list[Any], index: Any, part: str, places: tuple[int, int]) -> str:
    told = []
    for place in places:
        size = dict(shapes_in(samples[place]))[part]
        shape = f"{size} items" if isinstance(size, int) else str(size)
        told.append(f"{shape} in {_sample_name(index, place)}")
    return f"batch{part}: {', '.join(told)}"[:MOST_CHARACTERS]


def _sample_name(index: Any, place: int) -> str:
    keys: Sequence[Any] = getattr(index, "keys", index)
    key = keys[place] if type(keys) in (list, tuple) and place < len(keys) else None
    if key is None:  # of a stream
        return f"the sample at place {place}"
    value = key_value(key)
    text = repr(from_json(value) if isinstance(value, dict | list) else value)
    return f"sample {text[:LONGEST_KEY]}"
