"""A sample as a number: where the audit refuses, what only compares looks into objects."""

import threading
from typing import Any

import pytest
import torch

from loaderviz.errors import LoaderVizError
from loaderviz.loaders.content_hash import content_number, digest_of


class Sample:
    """No dataclass: nothing says which of its attributes are its content."""

    def __init__(self, name: str) -> None:
        self.name = name


def number(content: Any) -> int:
    return digest_of(content, repr)


@pytest.mark.parametrize("content", [3, "three", [torch.arange(3), {"a": b"1"}], {1, (2, 3)}])
def test_what_is_known_by_its_content_has_one_number(content):
    assert content_number(content) == number(content)


def test_an_object_that_an_audit_refuses_is_known_by_its_attributes():
    one, other = ({"sample": [Sample(name)], "x": torch.ones(2)} for name in "ab")
    for refused in (one, {Sample("a")}):
        with pytest.raises(LoaderVizError, match=r"Sample is no tensor.*Say what it is known by"):
            number(refused)
    again = {"sample": [Sample("a")], "x": torch.ones(2)}
    assert content_number(one) == content_number(again) is not None
    assert content_number(one) != content_number(other)


def test_what_holds_nothing_that_is_known_has_none():
    assert content_number([1, threading.Lock()]) is None
