"""CPUs with a queue each, worked out on paper, and what holds whatever comes."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderviz.simulator.run_queues import (
    AT_ONCE,
    BALANCE_S,
    HOT_S,
    MOST_FAILURES,
    PULLS,
    TICK_S,
    RunQueues,
)


def ends(queues: RunQueues, until_s: float = math.inf) -> dict[int, float]:
    """Let time go on until nothing computes; when the computing of each process ends."""
    ended_s = {}
    while queues.next_s() <= until_s and queues.next_s() < math.inf:
        process = queues.go_on(queues.next_s())
        if process is not None:
            ended_s[process] = queues.now
        queues.let_go()
    if until_s < math.inf:
        queues.go_to(until_s)
    return ended_s


class TestTurns:
    def test_where_others_stand_in_line_it_goes_first_or_begins_at_a_tick(self):
        queues = RunQueues(1)
        for process in range(3):
            queues.compute(process, 100.0)
        late_s = []
        for _ in range(500):
            ends(queues, queues.now + 0.0123)
            woken_s = queues.now
            queues.compute(3, 1e-6)
            late_s.append(ends(queues, queues.now + 0.02)[3] - woken_s - 1e-6)
        at_once = [each for each in late_s if each < 1e-9]
        assert len(at_once) / len(late_s) == pytest.approx(AT_ONCE, abs=0.02)
        assert max(late_s) <= TICK_S + 1e-9

    def test_part_of_a_cpu_is_missed_only_where_all_are_busy(self):
        queues = RunQueues(1.5)
        queues.compute(0, 0.3)
        assert ends(queues) == pytest.approx({0: 0.3})
        queues.compute(0, 0.3)
        queues.compute(1, 0.6)
        # Both get three quarters of a CPU for 0.4 s, then one has a CPU for 0.3 s.
        assert ends(queues) == pytest.approx({0: 0.7, 1: 1.0})

    def test_one_that_goes_on_at_the_same_moment_keeps_its_cpu(self):
        queues = RunQueues(1)
        queues.compute(0, 0.1)
        queues.compute(1, 0.1)
        while (first := queues.go_on(queues.next_s())) is None:
            pass
        queues.compute(first, 0.2)
        queues.let_go()
        assert ends(queues) == pytest.approx({first: 0.4, 1 - first: 0.2}, abs=3 * TICK_S)


class TestWhichCpu:
    def test_one_that_idles_gets_a_process_after_some_ticks_and_is_not_looked_for_before(self):
        queues = RunQueues(2)
        queues.compute(0, 1e-3)
        ends(queues, 0.01)  # CPU 0 is its home
        for process in (100, 101):
            queues.compute(process, 1.0)
        ends(queues, queues.now + 1.0 + 1e-9)  # both have been busy
        queues.compute(100, 0.2)
        ends(queues, queues.now + 2e-3)
        queues.compute(0, 0.1)
        assert queues.n_runnable == 2
        begun_s = queues.now
        ended_s = ends(queues)
        assert max(ended_s.values()) - begun_s > 0.2 - 2e-3 + 1e-3  # with a CPU each: 0.198
        # Until then they took turns: what one lost the other has won.
        most_s = (MOST_FAILURES + 2) * TICK_S
        assert ended_s[100] - begun_s <= 0.2 - 2e-3 + most_s
        assert ended_s[0] - begun_s <= 0.1 + most_s

    def test_one_that_becomes_idle_seldom_takes_another_at_once(self):
        n_pulled, n_tries = 0, 400
        for nth in range(n_tries):
            queues = RunQueues(2, phase=nth / n_tries)
            queues.compute(0, 1.0)
            queues.compute(1, 0.1)
            ends(queues, 0.1 - 2 * HOT_S)
            queues.compute(2, 0.05)  # takes the CPU of process 0, which waits since then
            n_pulled += ends(queues)[0] < 1.0 + 2 * HOT_S + 1e-9
        assert n_pulled / n_tries == pytest.approx(PULLS, abs=0.02)

    def test_queues_are_evened_out(self):
        queues = RunQueues(2)
        for process in range(4):  # two on each CPU
            queues.compute(process, 0.01)
        ends(queues, 0.1)
        for process in (0, 2, 1, 3):
            queues.compute(process, 1.0, new=True)
        long = BALANCE_S + (MOST_FAILURES + 3) * TICK_S
        assert list(ends(queues).values()) == pytest.approx([2.1] * 4, abs=2 * long)

    def test_a_new_process_goes_where_fewest_compute(self):
        queues = RunQueues(4)
        for process in range(8):
            queues.compute(process, 1.0, new=True)
        assert list(ends(queues).values()) == pytest.approx([2.0] * 8, abs=2 * TICK_S)


@st.composite
def works(draw: Any) -> list[tuple[int, float, float]]:
    """Of processes, in order of time: which is woken, after how long, and what it computes."""
    n = draw(st.integers(1, 7))
    seconds = st.sampled_from([0.0, 1e-4, 0.003, 0.05])
    return draw(st.lists(st.tuples(st.integers(-2, n - 3), seconds, seconds), max_size=40))


@given(
    works=works(),
    cores=st.sampled_from([0.3, 1, 1.7, 2, 5]),
    phase=st.floats(0, 0.99),
)
def test_each_process_gets_what_it_computes_and_no_cpu_more_than_its_time(works, cores, phase):
    queues = RunQueues(cores, phase=phase)
    asked: dict[int, tuple[float, float]] = {}  # when, and for how long
    done = []

    def note(ended_s: dict[int, float]) -> None:
        for process, at_s in ended_s.items():
            since_s, seconds = asked.pop(process)
            done.append(seconds)
            assert at_s >= since_s + seconds - 1e-9

    for process, after_s, seconds in works:
        note(ends(queues, queues.now + after_s))
        if process not in asked:
            asked[process] = (queues.now, seconds)
            queues.compute(process, seconds)
    assert queues.n_runnable == len(asked)
    begun_s, left_s = queues.now, sum(seconds for _, seconds in asked.values())
    note(ends(queues))
    assert queues.now <= begun_s + left_s / min(cores, 1) + 2 * TICK_S
    assert not asked
    assert queues.n_runnable == 0
    assert sum(done) <= cores * queues.now + 1e-6
