"""How the doctor takes what a loader raises: by torch's own words."""

import pickle

import pytest

from loaderviz._doctor.run_outcomes import kind_of

CUDA = "Cannot re-initialize CUDA in forked subprocess."


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("DataLoader timed out after 5 seconds"), "stuck"),
        (RuntimeError("received 0 items of ancdata"), "files"),
        (RuntimeError(f"Caught RuntimeError in DataLoader worker process 0.\n{CUDA}"), "cuda"),
        (RuntimeError(CUDA), "raised"),
        (RuntimeError("DataLoader worker (pid(s) 7) exited unexpectedly"), "died"),
        (RuntimeError("stack expects each tensor to be equal size"), "shapes"),
        (AttributeError("'NoneType' object has no attribute 'num_workers'"), "no worker info"),
        (AttributeError("Can't pickle local object 'f.<locals>.<lambda>'"), "pickle"),
        (pickle.PicklingError("not the same object"), "pickle"),
        (IndexError("list index out of range"), "index"),
        (KeyError("worker 3"), "raised"),
    ],
)
def test_a_failure_is_known_by_its_message(error, kind):
    assert kind_of(error) == kind
