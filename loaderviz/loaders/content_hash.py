"""What a sample is, as one number: the hash of its content, or of its key.

The same content has the same number in every process, whatever starts it. Numbers have 64 bits
(xxHash's XXH3): among a million different samples the chance that two share one is 3 in 10^8.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import numbers
import pathlib
import uuid
from array import array
from collections.abc import Callable, Mapping, Set
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from xxhash import xxh3_64, xxh3_64_intdigest

from loaderviz.errors import LoaderVizError
from loaderviz.loaders.held_objects import attributes

_WHOLE = (
    type(None),
    int,  # and bool
    float,
    complex,
    numbers.Number,
    enum.Enum,
    pathlib.PurePath,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    uuid.UUID,
    range,
    slice,
    np.dtype,
    torch.dtype,
)  # of these, the repr tells all that they hold
_ARRAYS = (np.ndarray, np.generic)
_SCALARS = (torch.Tensor, np.ndarray, np.generic)  # where they have no dimension
_BYTES = (bytes, bytearray, memoryview)
_SEQUENCES = (list, tuple)
MIN_FOR_INT_ARRAY = 16


# Takes what is no value or container of such; None: there is no telling what that holds.
Other = Callable[[Callable[[Any], None], Any], None] | None


class SampleIdentifier:
    """Gives each sample its number. It can be pickled where ``key`` can.

    ``key`` is the user's function from a sample to what it is known by; None: by its content. With
    ``of_batches`` it is given batches that the dataset made, and returns a key for each sample.
    """

    def __init__(
        self, key: Callable[[Any], Any] | None = None, *, of_batches: bool = False
    ) -> None:
        self.key = key
        self.of_batches = of_batches

    def keys_and_numbers(self, item: Any) -> list[tuple[Any, int]]:
        """As ``key_and_number``, for each sample of what the dataset yields: one, or a batch."""
        if self.key is None or not self.of_batches:
            return [self.key_and_number(item)]
        keys = self._key_of(item)
        if isinstance(keys, _SCALARS) and keys.ndim == 1:
            keys = keys.tolist()
        return [self._numbered(key) for key in (keys if isinstance(keys, list) else [keys])]

    def key_and_number(self, sample: Any) -> tuple[Any, int]:
        """What the sample is known by, and its number, from -2**63 to 2**63 - 1.

        Raises:
            LoaderVizError: for a sample that cannot be told from others, and a key that raises.
        """
        if self.key is None:
            return sample, digest_of(sample, _shown)
        return self._numbered(self._key_of(sample))

    def _key_of(self, sample: Any) -> Any:
        assert self.key is not None
        try:
            return self.key(sample)
        except Exception as error:
            raise LoaderVizError(
                f"key={_name_of(self.key)} raised {type(error).__name__}: {error} "
                f"for {_shown(sample)}. Give a key that returns a number, a text or a tuple of "
                "them for every sample."
            ) from error

    def _numbered(self, sample_key: Any) -> tuple[Any, int]:
        if isinstance(sample_key, _SCALARS) and sample_key.ndim == 0:
            sample_key = sample_key.item()
        if type(sample_key) is int and -(2**63) <= sample_key < 2**63:
            return sample_key, sample_key  # its own number, which keeps the order of the samples
        return sample_key, digest_of(sample_key, self._shown_key)

    def _shown_key(self, sample_key: Any) -> str:
        return f"what key={_name_of(self.key)} returned, {_shown(sample_key)}"


def digest_of(content: Any, shown: Callable[[Any], str]) -> int:
    """The content's number, from -2**63 to 2**63 - 1; ``shown`` says what to call it in an error.

    Raises:
        LoaderVizError: for an object whose content cannot be told.
    """
    try:
        return _number_of(content)
    except (_NoContentError, RecursionError, TypeError, ValueError, RuntimeError) as error:
        raise LoaderVizError(
            f"{shown(content)} cannot be told from others by its content: "
            f"{str(error) or type(error).__name__}. Say what it is known by, as in "
            "audit(loader, key=lambda sample: sample.name)."
        ) from error


def plain_number(content: Any) -> int | None:
    """As ``content_number``, of Python's own kinds; None for what ``_feed`` does not know.

    For the recorder: an exception from outside, which may come at any time, goes through.
    """
    try:
        return _number_of(content)
    except _NoContentError:
        return None


def content_number(content: Any) -> int | None:
    """As ``digest_of``, but None for an object whose content cannot be told. Raises nothing.

    An object of the user's own class is known by its attributes.
    """
    try:
        return _number_of(content, _feed_attributes)
    except Exception:  # the user's classes may raise anything
        return None


def _number_of(content: Any, other: Other = None) -> int:
    kind = type(content)
    if kind is int or kind is str:
        number = xxh3_64_intdigest(f"{kind.__name__}:{content}".encode("utf-8", "surrogatepass"))
    else:
        hasher = xxh3_64()
        _feed(hasher.update, content, other)
        number = hasher.intdigest()
    return number - (number >> 63 << 64)


class _NoContentError(Exception):
    """Raised for an object of a kind that ``_feed`` does not know."""


def _feed(update: Callable[[Any], None], value: Any, other: Other) -> None:
    """Pass the value to ``update`` as bytes, with its kind and its length before it.

    So no two different contents make the same bytes.
    """
    kind = type(value)
    if isinstance(value, torch.Tensor):
        _feed_tensor(update, value)
    elif isinstance(value, _ARRAYS):
        _feed_array(update, value, other)
    elif isinstance(value, _SEQUENCES):
        update(f"{kind.__name__} {len(value)}:".encode())
        if len(value) >= MIN_FOR_INT_ARRAY and (integers := _int_array(value)) is not None:
            update(integers)  # so a list of tokens takes a hundredth of the time
            return
        for item in value:
            _feed(update, item, other)
    elif isinstance(value, _WHOLE):
        update(f"{kind.__name__}:{value!r};".encode("utf-8", "surrogatepass"))
    elif isinstance(value, str):
        text = value.encode("utf-8", "surrogatepass")
        update(b"str %d:" % len(text))
        update(text)
    elif isinstance(value, _BYTES):
        view = memoryview(value)
        update(b"bytes %d:" % view.nbytes)
        update(view if view.contiguous else view.tobytes())
    elif isinstance(value, Mapping):
        update(f"{kind.__name__} {len(value)}:".encode())
        for name, item in value.items():
            _feed(update, name, other)
            _feed(update, item, other)
    elif isinstance(value, Set):
        update(f"{kind.__name__} {len(value)}:".encode())
        # Sorted, because a set's own order differs by process.
        for number in sorted(_number_of(item, other) for item in value):
            update(b"%d;" % number)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        update(f"{kind.__qualname__}:".encode())
        for field in dataclasses.fields(value):
            update(f"{field.name}=".encode())
            _feed(update, getattr(value, field.name), other)
    elif kind.__module__.partition(".")[0] == "PIL" and hasattr(value, "tobytes"):
        update(f"image {value.mode} {value.size}:".encode())
        if value.mode in ("P", "PA"):
            _feed(update, value.getpalette(), other)
        update(value.tobytes())
    elif hasattr(value, "__array__"):  # such as a pandas Series
        _feed_array(update, np.asarray(value), other)
    elif other is not None:
        other(update, value)
    else:
        raise _NoContentError(_no_content(value))


def _no_content(value: Any) -> str:
    kind = type(value)
    return (
        f"{kind.__module__}.{kind.__qualname__} is no tensor, array, text, number, image, "
        "container or dataclass"
    )


def _feed_attributes(update: Callable[[Any], None], value: Any) -> None:
    """Those of an instance; what holds none that are known here, such as a file, has no content."""
    held = attributes(value)
    if not held:
        raise _NoContentError(_no_content(value))
    update(f"{type(value).__module__}.{type(value).__qualname__} of {len(held)}:".encode())
    for name, part in held.items():
        update(f"{name}=".encode())
        _feed(update, part, _feed_attributes)


def _int_array(items: Any) -> array[int] | None:
    """The items as 64-bit integers; None where one is no plain integer or does not fit."""
    if set(map(type, items)) != {int}:
        return None
    try:
        return array("q", items)
    except OverflowError:
        return None


def _feed_tensor(update: Callable[[Any], None], tensor: torch.Tensor) -> None:
    plain = tensor.detach()
    update(_head("tensor", tensor.dtype, tensor.shape))
    try:
        array = plain.numpy()  # of most: what follows takes thrice as long
    except (TypeError, RuntimeError):  # on a GPU, sparse, conjugated, of a type that NumPy lacks
        if plain.layout is not torch.strided:
            plain = plain.to_dense()
        plain = plain.cpu().resolve_conj().resolve_neg().contiguous()
        array = plain.reshape(-1).view(torch.uint8).numpy()
    update(np.ascontiguousarray(array))


@lru_cache(maxsize=256)
def _head(kind: str, dtype: Any, shape: tuple[int, ...]) -> bytes:
    return f"{kind} {dtype} {tuple(shape)}:".encode()


def _feed_array(update: Callable[[Any], None], value: Any, other: Other) -> None:
    array = np.asarray(value)
    update(_head("array", array.dtype, array.shape))
    if array.dtype.hasobject:
        for item in array.ravel().tolist():
            _feed(update, item, other)
    else:
        update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or _shown(function))


def _shown(sample: Any) -> str:
    try:
        text = repr(sample)
    except Exception:  # of the user's __repr__
        text = object.__repr__(sample)
    text = " ".join(text.split())
    return f"the {type(sample).__name__} {text if len(text) <= 80 else text[:77] + '...'}"
