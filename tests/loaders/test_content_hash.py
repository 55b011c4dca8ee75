"""A sample as a number: where the audit refuses, what only compares is content with a pickle."""

import threading
from typing import Any

import pytest
import torch

from loaderviz.errors import LoaderVizError
from loaderviz.loaders.content_hash import digest_of, digest_or_none


class Sample:
    """No dataclass: nothing says which of its attributes are its content."""

    def __init__(self, name: str) -> None:
        self.name = name


def number(content: Any) -> int:
    return digest_of(content, repr)


@pytest.mark.parametrize("content", [3, "three", [torch.arange(3), {"a": b"1"}], {1, (2, 3)}])
def test_what_is_known_by_its_content_has_one_number(content):
    assert digest_or_none(content) == number(content)


def test_an_object_that_an_audit_refuses_is_known_by_its_pickle():
    one, other = ({"sample": [Sample(name)], "x": torch.ones(2)} for name in "ab")
    for refused in (one, {Sample("a")}):
        with pytest.raises(LoaderVizError, match=r"Sample is no tensor.*Say what it is known by"):
            number(refused)
    again = {"sample": [Sample("a")], "x": torch.ones(2)}
    assert digest_or_none(one) == digest_or_none(again) is not None
    assert digest_or_none(one) != digest_or_none(other)


def test_what_cannot_be_pickled_has_none():
    assert digest_or_none([1, threading.Lock()]) is None
