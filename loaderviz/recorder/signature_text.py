"""What a recording says of a signature: a text such as ``{'image': float32 [8, 3, 32, 32]}``.

It is made once for all batches of one signature. As in ``batch_signature.py``, no code of the
user's runs.
"""

from __future__ import annotations

import inspect
import itertools
import zlib
from collections import UserDict
from typing import Any, Final

from torch import _C, Tensor, strided

from loaderviz.own_errors import own_errors
from loaderviz.recorder.batch_signature import NAMES, array_type_of, contents_of, dispatches
from loaderviz.trace.check_trace import MOST_CHARACTERS

MOST_DEPTH: Final = 32
_NAME: Any = type.__dict__["__name__"]


def signature_text(batch: Any) -> str:
    """The signature of a batch, in ``MOST_CHARACTERS`` at most and as deep as ``MOST_DEPTH``.

    What is longer ends with a number that only equal signatures share. Empty where there is none.
    """
    try:
        with _C.DisableTorchFunction():
            text = _text(batch, MOST_DEPTH)
    except own_errors(Exception):  # of a type that is like none of these
        return ""
    if len(text) <= MOST_CHARACTERS:
        return text
    mark = f"... #{zlib.crc32(text.encode('utf-8', 'replace')):08x}"
    return text[: MOST_CHARACTERS - len(mark)] + mark


def _text(part: Any, depth: int) -> str:
    part_type = type(part)
    found = contents_of(part, part_type)
    if found is None or depth == 0:
        return _leaf(part, part_type)
    names, contents = found
    texts = [_text(each, depth - 1) for each in contents]
    kind = _NAME.__get__(part_type)
    if issubclass(part_type, dict):
        members = zip(map(_name, names), texts, strict=True)
        return _of_kind(kind, "dict", "{", ", ".join(f"{name}: {text}" for name, text in members))
    if issubclass(part_type, UserDict):
        return f"{kind}{texts[0]}"
    fields = names or _fields(part_type)
    if len(fields) == len(texts) > 0:
        members = zip(fields, texts, strict=True)
        return f"{kind}({', '.join(f'{field}={text}' for field, text in members)})"
    runs = [(text, sum(1 for _ in run)) for text, run in itertools.groupby(texts)]
    inner = ", ".join(text if n == 1 else f"{n} x {text}" for text, n in runs)
    if issubclass(part_type, tuple):
        return _of_kind(kind, "tuple", "(", inner)
    return _of_kind(kind, "list", "[", inner)


def _fields(part_type: type) -> tuple[str, ...]:
    """Those of a named tuple; nothing of another type."""
    if part_type is tuple or not issubclass(part_type, tuple):
        return ()
    fields = inspect.getattr_static(part_type, "_fields", ())
    is_named = type(fields) is tuple and all(type(field) is str for field in fields)
    return fields if is_named else ()


def _of_kind(kind: str, plain: str, opening: str, inner: str) -> str:
    closing = {"(": ")", "[": "]", "{": "}"}[opening]
    return f"{'' if kind == plain else kind}{opening}{inner}{closing}"


def _name(name: Any) -> str:
    return repr(name) if type(name) in NAMES else f"<{_NAME.__get__(name)}>"


def _leaf(part: Any, part_type: type) -> str:
    kind = str(_NAME.__get__(part_type))
    if part is None:
        return "None"
    if issubclass(part_type, Tensor) and not dispatches(part_type):
        kind = "" if part_type is Tensor else f"{kind} "
        layout = "" if part.layout is strided else f"{str(part.layout).removeprefix('torch.')} "
        dtype = str(part.dtype).removeprefix("torch.")
        return f"{kind}{layout}{dtype} {list(part.shape)}"
    if array_type := array_type_of(part_type):
        shape = array_type.shape.__get__(part)
        return f"{kind} {array_type.dtype.__get__(part)} {list(shape)}" if shape else kind
    return kind
