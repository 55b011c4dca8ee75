"""The trigger goes off once, before the first iterator; an interruption puts it off."""

import pytest

from loaderviz.loaders.first_iteration import Trigger


class Loader:
    def _get_iterator(self):
        return iter("ab")


class Own(Loader):
    def _get_iterator(self):
        return iter("cd")


def test_what_is_raised_from_outside_when_it_goes_off_is_heard_and_it_goes_off_at_the_next():
    went_off = []

    def go_off():
        went_off.append(vars(Loader)["_get_iterator"])
        if len(went_off) == 1:
            raise TimeoutError("of the script's own")

    original = vars(Loader)["_get_iterator"], vars(Own)["_get_iterator"]
    trigger = Trigger(on_first_iteration=go_off, on_new_class=lambda cls: None)
    trigger.arm(Loader)
    trigger._wrap(Own, "_get_iterator")
    with pytest.raises(TimeoutError, match="the script's"):
        Loader()._get_iterator()
    assert list(Own()._get_iterator()) == ["c", "d"]
    assert list(Loader()._get_iterator()) == ["a", "b"]
    assert went_off == [original[0]] * 2
    assert (vars(Loader)["_get_iterator"], vars(Own)["_get_iterator"]) == original
