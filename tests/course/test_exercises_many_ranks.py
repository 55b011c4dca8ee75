"""The exercises of notebook 09: unsolved, solved, and with answers that only look right."""

import itertools

import pytest

from loaderviz.course import many_ranks


def floor(data, rank, ranks, worker, workers):
    each = len(data) // (ranks * workers)
    place = rank * workers + worker
    return data[place * each : (place + 1) * each]


@pytest.mark.parametrize(
    ("share", "passed", "says"),
    [
        (lambda data, rank, ranks, worker, workers: data[worker::workers], False, "came twice"),
        (
            lambda data, rank, ranks, worker, workers: data[
                rank + worker * ranks :: ranks * workers
            ],
            True,
            "Every sample once",
        ),
        (
            lambda data, rank, ranks, worker, workers: data[rank::ranks][worker::workers],
            True,
            "Every sample once",
        ),
        (
            lambda data, rank, ranks, worker, workers: data[rank + worker :: ranks * workers],
            False,
            "never arrived",
        ),
        (
            lambda data, rank, ranks, worker, workers: data[
                rank * workers + worker :: ranks * workers
            ],
            False,
            "6 samples, ranks=2, workers=4: every sample comes once, but rank 0 has 4 and rank 1",
        ),
        (
            lambda data, rank, ranks, worker, workers: data[rank::ranks],
            False,
            "more than once|twice",
        ),
        (floor, False, "17 samples, ranks=2, workers=2: 1 of 17 samples never arrived"),
        (lambda *place: [], False, "Nothing came"),
        (lambda *place: None, False, "share raised TypeError"),
        (lambda *place: ["a"], False, "share raised"),
    ],
)
def test_share(share, passed, says):
    check = many_ranks.share(share)
    assert any(each in check.message for each in says.split("|"))
    assert check.passed is passed


def test_the_picture_of_a_share_has_a_lane_for_each_worker_of_each_rank():
    figure = many_ranks.share(
        lambda data, rank, ranks, worker, workers: data[worker::workers]
    ).figure
    assert list(figure.layout.yaxis.ticktext) == [
        f"rank {rank} · worker {worker}" for rank in range(2) for worker in range(2)
    ]


def in_turn(parts):
    return [result for turn in zip(*parts, strict=True) for result in turn]


@pytest.mark.parametrize(
    ("unpadded", "passed", "says"),
    [
        (lambda parts, n: list(itertools.chain(*parts)), False, "17 samples, ranks=2: 18 results"),
        (lambda parts, n: list(itertools.chain(*parts))[:n], False, "sample 1 has the result 1"),
        (lambda parts, n: in_turn(parts)[:n], True, "none for the padding"),
        (lambda parts, n: in_turn(parts), False, "18 results"),
        (lambda parts, n: in_turn(parts)[:-1], False, "16 samples, ranks=2: 15 results"),
        (lambda parts, n: sorted(set(in_turn(parts))), False, "results"),
        (lambda parts, n: None, False, "unpadded raised TypeError"),
    ],
)
def test_unpadded(unpadded, passed, says):
    check = many_ranks.unpadded(unpadded)
    assert says in check.message
    assert check.passed is passed
