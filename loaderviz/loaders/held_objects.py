"""The objects that an object holds: found without running any of the user's code."""

from __future__ import annotations

import inspect
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
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


_NOT_OF_USER = ("builtins", "torch", "torchdata", "numpy")


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


def known_to_code(parts: Iterable[Part]) -> Iterator[Part]:
    """What the classes of these objects hold, and what their methods, or functions, have names for.

    Those are variables of the user's modules and of closures, also where a function of such a
    module is called that knows them. Classes of torch, NumPy and Python are not looked into.
    """
    seen: set[int] = set()
    queue: deque[types.FunctionType] = deque()
    for path, value in parts:
        if is_a(value, types.FunctionType):
            queue.append(value)
        for cls in type.__getattribute__(type(value), "__mro__"):
            members = type.__getattribute__(cls, "__dict__")
            if id(cls) not in seen and _is_of_user(members.get("__module__")):
                seen.add(id(cls))
                for name, held in list(members.items()):
                    function = held.__func__ if type(held) in (staticmethod, classmethod) else held
                    if is_a(function, types.FunctionType):
                        queue.append(function)
                    else:
                        yield Part(f"{path}.{name}", held)
    while queue and len(seen) < MAX_PARTS:
        function = queue.popleft()
        if id(function.__code__) in seen or not _is_of_user(function.__module__):
            continue
        seen.add(id(function.__code__))
        for known in _known_to(function):
            yield known
            if is_a(known.value, types.FunctionType):
                queue.append(known.value)


def _known_to(function: types.FunctionType) -> Iterator[Part]:
    """What a function has names for outside of it: in its module, and in those that surround it."""
    module = function.__module__.replace("__mp_main__", "__main__")  # as spawned workers name it
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield Part(f"{module}.{name}", function.__globals__[name])
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it has no value yet
            yield Part(f"{name} of {function.__qualname__}", cell.cell_contents)


def _is_of_user(module: Any) -> bool:
    """Whether a module is none of torch's, NumPy's or Python's own."""
    top = module.partition(".")[0] if type(module) is str else "builtins"
    return top not in _NOT_OF_USER and top not in sys.stdlib_module_names


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
