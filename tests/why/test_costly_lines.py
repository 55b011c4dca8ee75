"""The lines of code that cost most: what half as long ones save, and which one a cause goes to."""

import math
import sys

import numpy as np
import pytest

import loaderviz as lv
from loaderviz import Costs, simulate
from loaderviz.trace.lines_of_code import HOW_TO_RECORD, Frame
from loaderviz.why.causes.costly_lines import KNOWN, costly_lines, known_cost
from pitfalls import imported_page
from traces import FETCHER, LINES, PANDAS, USERS, together, with_lines


def looped(step_s: float, *seen, num_workers: int = 2, sample_s=0.01, **costs):
    """A loop as it would be recorded: each of 60 batches takes 80 ms to read."""
    how = Costs(sample_s=sample_s, step_s=step_s, cores=8.0, **costs)
    trace = simulate(how, num_workers=num_workers, batch_size=8, n_batches=60)
    trace = together(trace, **{**trace.meta, "simulated": False})
    return with_lines(trace, *seen) if seen else trace


@pytest.mark.parametrize(
    ("step_s", "seen", "saved"),
    [
        (0.001, LINES, 0.5 * 0.75),  # of all that is looked at
        (0.2, LINES, 0.0),  # nobody waits for it
        (0.001, [LINES[0]._replace(phase=2)], math.nan),  # of a start
    ],
)
def test_half_as_long_a_line_saves_what_the_loop_waits_for_it(step_s, seen, saved):
    first, *_ = costly_lines(looped(step_s, *seen).summary())
    assert first["line"] == 41
    assert first["half_saves"] == pytest.approx(saved, rel=0.08, abs=0.005, nan_ok=True)


def evidence(summary, cause):
    causes = summary.causes.set_index("cause")
    return causes.loc[cause]["evidence"]


@pytest.mark.parametrize(("workers", "cause"), [(0, "main_process"), (2, "workers")])
def test_a_cause_names_the_line_that_it_goes_to(workers, cause):
    summary = looped(0.02, *LINES, num_workers=workers).summary()
    said = evidence(summary, cause)
    assert "77 % of reading goes to dataset.py:41  row = self.table.iloc[i]" in said
    assert "half as long, it saves" in said
    assert "of a whole epoch" in said
    if workers:
        assert summary.verdict.endswith("; 77 % of reading goes to dataset.py:41")
        causes = summary.causes.set_index("cause")  # with the cure of a known cost
        assert causes.loc["workers"]["cure"].endswith("(loaderviz explain line-iloc).")


def test_what_a_line_saves_is_not_known_where_cpus_are_full():
    how = Costs(sample_s=0.01, cpu_share=1.0, step_s=0.001, cores=2.0)
    trace = simulate(how, num_workers=4, batch_size=8, n_batches=60)
    trace = together(trace, **{**trace.meta, "simulated": False})
    first, *_ = costly_lines(with_lines(trace, *LINES).summary())
    assert math.isnan(first["half_saves"])


def test_slow_samples_go_to_the_line_that_takes_longer_in_them():
    """Each sample takes 2 ms in one line, and one in forty 3 ms in another: less in all."""
    now_and_then = [0.1 if i % 40 == 0 else 0.002 for i in range(480)]
    trace = looped(0.02, sample_s=now_and_then)
    samples = trace.samples
    slow = (samples["end_s"] - samples["start_s"] > 0.05).to_numpy()
    middle_us = ((samples["start_s"] + samples["end_s"]) * 5e5).round().astype(int)
    seen = [
        line._replace(worker=worker, seconds=seconds, moments=tuple(middle_us[of_line]))
        for worker in (0, 1)
        for own in [samples["worker"] == worker]
        for line, of_line, seconds in ((LINES[0], own, 3.0), (LINES[1], own & slow, 1.0))
    ]
    said = evidence(with_lines(trace, *seen).summary(), "slow_samples")
    assert "100 % of what slow samples take beyond others goes to dataset.py:60" in said
    assert "half as long, it saves" in said


def seen_of(trace, worker, line, frame_of_samples, seconds):
    """Looks at a line, every 5 ms of these samples of a worker, which are in order."""
    own = trace.samples[(trace.samples["worker"] == worker) & frame_of_samples]
    moments = [
        round(1e6 * at)
        for start, end in zip(own["start_s"], own["end_s"], strict=True)
        for at in np.arange(start + 0.001, end, 0.005)
    ]
    return line._replace(worker=worker, seconds=seconds, looks=len(moments), moments=tuple(moments))


def test_a_line_of_few_samples_is_cut_where_these_are():
    """All slow samples are one worker's: the loop waits for that one, whatever others read."""
    sample_s = [0.2 if i % 64 == 20 else 0.01 for i in range(480)]  # of batches 2, 10, 18, ...
    trace = looped(0.001, sample_s=sample_s)
    took_s = (trace.samples["end_s"] - trace.samples["start_s"]).to_numpy()
    slow = took_s > 0.1
    seen = [
        seen_of(trace, worker, line, own, float(took_s[own & at].sum()))
        for worker in (0, 1)
        for at in [(trace.samples["worker"] == worker).to_numpy()]
        for line, own in ((LINES[0], ~slow), (LINES[1], slow))
        if (own & at).any()
    ]
    lines = {row["line"]: row for row in costly_lines(with_lines(trace, *seen).summary())}
    loop_s = trace.batches["released_s"].max()
    saved = {line: row["half_saves"] * loop_s for line, row in lines.items()}
    # Worker 0 reads 240 samples of 10 ms, but for eight of 0.2 s; by shares 60 would save half.
    assert saved[60] == pytest.approx(8 * 0.1, rel=0.15)
    assert saved[41] == pytest.approx(232 * 0.005, rel=0.15)


def test_collating_goes_to_a_line_of_collate_fn():
    collate = Frame("dataset.py", 7, "pad", "", "torch.stack(rows)")
    looked = LINES[0]._replace(phase=1, stack=(FETCHER, collate))
    trace = looped(0.02, LINES[0], looked, collate_s=0.05)
    assert "collating goes to dataset.py:7" in evidence(trace.summary(), "collate")


def test_without_lines_one_cure_says_how_to_have_them_named():
    summary = looped(0.02).summary()
    assert summary.causes["cure"].str.contains(HOW_TO_RECORD, regex=False).sum() == 1
    assert "goes to" not in summary.verdict


def test_few_looks_name_no_line():
    assert "goes to" not in evidence(looped(0.02, LINES[0]._replace(looks=2)).summary(), "workers")


def test_a_known_cost_is_told_where_the_line_goes_there_and_more_than_once():
    row = {"source": USERS.source, "looks": 60, "calls": [PANDAS.file]}
    assert known_cost(row).startswith("A DataFrame makes a Series")
    assert "loaderviz explain line-iloc" in known_cost(row)
    unlike = {"calls": ["polars/frame.py"]}, {"looks": 1}, {"source": "return x + 1"}
    assert [known_cost({**row, **other}) for other in unlike] == ["", "", ""]
    row = {"source": "return torch.tensor(self.rows[i])", "looks": 60, "calls": []}
    assert "line-tensor" in known_cost(row)
    assert known_cost({**row, "calls": [PANDAS.file]}) == ""  # no list


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a timer for a thread")
@pytest.mark.parametrize("cured", [False, True])
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page == "line-iloc" else pytest.mark.slow)
        for page in sorted({page for page, *_ in KNOWN})
    ],
)
def test_each_known_cost_is_told_of_the_code_on_its_page_and_not_once_it_is_cured(page, cured):
    if page == "line-draft":
        pytest.importorskip("PIL")
    with imported_page(page, cured=cured) as module:
        with lv.record(module.loader, lines=True) as rec:
            list(module.loader)
        told = [known_cost(row) for row in costly_lines(rec.trace.summary())]
    assert [page in each for each in told if each] == [True] * (not cured)
