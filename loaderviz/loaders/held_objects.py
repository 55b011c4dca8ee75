"""What an object holds: found by its attributes, read so that no code of the user runs."""

from __future__ import annotations

import inspect
import types
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

MOST_PARTS = 2000
DEEPEST = 5
_FIRST = 8  # items of a container that are looked into

_LEAVES: tuple[type, ...] = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
)


class Part(NamedTuple):
    """Something that a loader holds, and the expression that leads to it."""

    path: str  # such as "dataset.transform.rng"
    value: Any


def is_a(value: Any, *classes: type) -> bool:
    """As isinstance, but without asking the value's own ``__class__``, which may be user code."""
    return issubclass(type(value), classes)


def attributes(value: Any) -> dict[str, Any]:
    """The instance's own attributes, by name; empty where it has none or computes them."""
    if is_a(inspect.getattr_static(value, "__dict__", None), types.GetSetDescriptorType):
        found = object.__getattribute__(value, "__dict__")
        if type(found) is dict:
            return {key: each for key, each in found.items() if type(key) is str}
    return {}


def walk(name: str, root: Any) -> Iterator[Part]:
    """``root`` and what it holds, nearest first, at most ``MOST_PARTS`` things."""
    seen: set[int] = set()
    queue = deque([(Part(name, root), 0)])
    while queue and len(seen) < MOST_PARTS:
        part, depth = queue.popleft()
        if id(part.value) in seen and not is_a(part.value, *_LEAVES):
            continue
        seen.add(id(part.value))
        yield part
        if depth < DEEPEST:
            queue.extend((each, depth + 1) for each in _inside(part))


def _inside(part: Part) -> Iterator[Part]:
    path, value = part
    if is_a(value, *_LEAVES):
        return
    if type(value) in (list, tuple):
        yield from (Part(f"{path}[{i}]", each) for i, each in enumerate(value[:_FIRST]))
    elif type(value) is dict:
        for key in list(value)[:_FIRST]:
            if type(key) in (str, int):
                yield Part(f"{path}[{key!r}]", value[key])
    elif type(value) is partial:
        yield Part(f"{path}.func", value.func)
        yield from (Part(f"{path}.args[{i}]", each) for i, each in enumerate(value.args))
    elif type(value) is types.MethodType:
        yield Part(f"{path}.__self__", value.__self__)
    else:
        for key, each in attributes(value).items():
            yield Part(f"{path}.{key}", each)
