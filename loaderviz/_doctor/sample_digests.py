"""A sample's content in eight bytes: the same whichever process has made it."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from loaderviz._doctor.loader_setup import is_a


def digest(sample: Any) -> bytes | None:
    """The same for samples of the same content, whichever process made them; None: cannot tell."""
    total = hashlib.blake2b(digest_size=8)
    try:
        _feed(total.update, sample)
    except Exception:
        return None
    return total.digest()


def _feed(update: Callable[[bytes], None], value: Any) -> None:
    if type(value) in (int, float, bool, str, type(None), complex):
        update(f"{type(value).__name__} {value!r};".encode("utf-8", "surrogatepass"))
    elif type(value) is bytes:
        update(b"bytes %d;" % len(value) + value)
    elif is_a(value, torch.Tensor):
        plain = value.detach().cpu().contiguous()
        update(f"tensor {plain.dtype} {tuple(plain.shape)};".encode())
        update(plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    elif is_a(value, np.ndarray) and value.dtype != object:
        update(f"array {value.dtype} {value.shape};".encode() + value.tobytes())
    elif isinstance(value, Mapping):
        update(b"dict %d;" % len(value))
        for key, each in value.items():
            _feed(update, key)
            _feed(update, each)
    elif type(value) in (list, tuple):
        update(f"{type(value).__name__} {len(value)};".encode())
        for each in value:
            _feed(update, each)
    else:
        update(pickle.dumps(value, protocol=4))
