"""Four real ranks under torchrun with gloo: what they leave, also where one of them is killed."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import dying_ranks
import loaderviz as lv
from dying_ranks import DIES, ITS_WORKER_DIES

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
WHOLE = [f"rank-0000{rank}.parquet" for rank in range(4)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of one launch for all tests."""
    folder = tmp_path_factory.mktemp("ranks")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"]
    with subprocess.Popen(
        [sys.executable, *launch, dying_ranks.__file__, folder],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as launcher:
        try:
            said, _ = launcher.communicate(timeout=240)
        finally:
            if launcher.poll() is None:
                for each in psutil.Process(launcher.pid).children(recursive=True):
                    each.kill()
                launcher.kill()
    assert f"rank {ITS_WORKER_DIES}: DataLoader worker" in said, said
    assert "Signal 9 (SIGKILL)" in said, said
    yield folder
    for row in lv.load(folder / "deadly" / f"rank-0000{DIES}").workers.itertuples():
        if row.exit == "running":  # it looks for its parent every few seconds
            psutil.Process(row.pid).kill()


def test_each_rank_of_a_run_leaves_one_file(folder):
    assert sorted(each.name for each in (folder / "whole").iterdir()) == WHOLE
    traces = [lv.load(folder / "whole" / name) for name in WHOLE]
    assert all(trace.meta["complete"] for trace in traces)
    assert [trace.meta["rank"] for trace in traces] == [0, 1, 2, 3]
    keys = sorted(key for trace in traces for key in trace.samples["key"])
    assert keys == [*range(dying_ranks.N)]
    assert len({trace.meta["clock_domain"] for trace in traces}) == 1


def test_a_rank_that_was_killed_leaves_what_it_had_done(folder):
    left = sorted(each.name for each in (folder / "deadly").iterdir())
    assert left == sorted({*WHOLE, f"rank-0000{DIES}"} - {WHOLE[DIES]})
    trace = lv.load(folder / "deadly" / f"rank-0000{DIES}")
    assert not trace.meta["complete"]
    assert trace.meta["rank"] == DIES
    delivered = trace.batches[trace.batches["delivered_s"].notna()]
    assert delivered["batch"].tolist() == [0, 1]
    assert trace.samples["key"].tolist()[:4] == [DIES, 4 + DIES, 8 + DIES, 12 + DIES]


def test_a_rank_whose_worker_was_killed_names_the_sample(folder):
    trace = lv.load(folder / "deadly" / WHOLE[ITS_WORKER_DIES])
    assert trace.workers["exit"].tolist() == ["killed"]
    assert trace.workers["last_key"].tolist() == [4 * 4 + ITS_WORKER_DIES]
    assert trace.batches["delivered_s"].notna().sum() <= 2


def test_all_ranks_are_one_trace_also_where_one_was_killed(folder):
    trace = lv.load(folder / "deadly")
    about = {each["rank"]: each for each in trace.meta["ranks"]}
    assert sorted(about) == sorted(trace.batches["rank"].unique()) == [0, 1, 2, 3]
    assert [rank for rank in about if not about[rank]["complete"]] == [DIES]
    assert about[DIES]["file"] == f"rank-0000{DIES}"
    assert about[DIES]["n_batches"] == 2
    assert trace.meta["unread"] == []
    assert {each["uncertainty_s"] for each in about.values()} == {0}
    assert trace.summary().verdict.startswith(
        f"Batches differ in epoch 0: rank {ITS_WORKER_DIES} has {about[1]['n_batches']}, ranks 0"
    )


def test_every_sample_of_four_ranks_came_once(folder):
    trace = lv.load(folder / "whole")
    assert sorted(trace.samples["key"]) == [*range(dying_ranks.N)]
    assert lv.audit(trace).duplicates.empty
    assert trace.summary().unequal == ()
