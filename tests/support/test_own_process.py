import pytest

from own_process import in_own_process

FAILS = pytest.mark.xfail(not in_own_process(), reason="it fails there, and so here", strict=True)


@pytest.mark.slow
@pytest.mark.own_process
@pytest.mark.parametrize(
    "elsewhere",
    [
        True,
        pytest.param(False, marks=FAILS),
    ],
)
def test_what_it_finds_elsewhere_is_told_here(elsewhere):
    assert in_own_process() == elsewhere


def test_another_runs_here():
    assert not in_own_process()
