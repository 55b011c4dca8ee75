import pytest

from own_process import in_own_process


@pytest.mark.own_process
def test_it_runs_elsewhere():
    assert in_own_process()


@pytest.mark.own_process
@pytest.mark.xfail(not in_own_process(), reason="it fails there, and so here", strict=True)
def test_what_fails_there_fails_here():
    assert not in_own_process()


def test_another_runs_here():
    assert not in_own_process()
