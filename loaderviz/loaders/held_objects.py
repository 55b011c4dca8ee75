"""The objects that an object holds: found without running any of the user's code."""

from __future__ import annotations

import inspect
import types
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

MAX_PARTS = 2000
MAX_DEPTH = 5
_MAX_ITEMS = 8  # of a container that are looked into

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
    """An object that a loader holds, and the expression that leads to it."""

    path: str  # such as "dataset.transform.rng"
    value: Any


def is_a(value: Any, *classes: type) -> bool:
    """As isinstance, but without asking the value's ``__class__``, which may run user code."""
    return issubclass(type(value), classes)


def attributes(value: Any) -> dict[str, Any]:
    """The instance's own attributes, by name; empty where it has none or computes them."""
    if is_a(inspect.getattr_static(value, "__dict__", None), types.GetSetDescriptorType):
        instance_dict = object.__getattribute__(value, "__dict__")
        if type(instance_dict) is dict:
            return {name: held for name, held in instance_dict.items() if type(name) is str}
    return {}


def walk(name: str, root: Any) -> Iterator[Part]:
    """``root``, called ``name``, and what it holds: nearest first, at most ``MAX_PARTS``."""
    seen: set[int] = set()
    queue = deque([(Part(name, root), 0)])
    while queue and len(seen) < MAX_PARTS:
        part, depth = queue.popleft()
        if id(part.value) in seen and not is_a(part.value, *_LEAVES):
            continue
        seen.add(id(part.value))
        yield part
        if depth < MAX_DEPTH:
            queue.extend((inner, depth + 1) for inner in _parts_of(part))


def _parts_of(part: Part) -> Iterator[Part]:
    """The parts that this part holds itself."""
    path, value = part
    if is_a(value, *_LEAVES):
        return
    if type(value) in (list, tuple):
        yield from (Part(f"{path}[{i}]", item) for i, item in enumerate(value[:_MAX_ITEMS]))
    elif type(value) is dict:
        for key in list(value)[:_MAX_ITEMS]:
            if type(key) in (str, int):
                yield Part(f"{path}[{key!r}]", value[key])
    elif type(value) is partial:
        yield Part(f"{path}.func", value.func)
        yield from (Part(f"{path}.args[{i}]", argument) for i, argument in enumerate(value.args))
    elif type(value) is types.MethodType:
        yield Part(f"{path}.__self__", value.__self__)
    else:
        for name, held in attributes(value).items():
            yield Part(f"{path}.{name}", held)
