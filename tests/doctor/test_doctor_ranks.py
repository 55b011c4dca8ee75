"""Pitfalls that show only where several ranks are compared: real ones, which talk by gloo.

One is a fork of the other, in the environment that torchrun gives: torch is imported once.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"

pytestmark = pytest.mark.slow

SCRIPT = """
import json, os, sys, torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler
import loaderviz as lv
from loaderviz.course.datasets import SleepingDataset
from patients import GloballyNoisy, Stream, by_stride, loader

os.environ.update(WORLD_SIZE="2", LOCAL_WORLD_SIZE="2")
other = os.fork()
rank = 0 if other else 1
os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
dist.init_process_group(
    "gloo", init_method=f"file://{sys.argv[1]}.ranks", rank=rank, world_size=2
)

def sampled(n):
    data = SleepingDataset(n, 0)
    return loader(data, workers=0, sampler=DistributedSampler(data))

def seeded(seed, workers):
    torch.manual_seed(seed)
    return loader(GloballyNoisy(), workers=workers)

LOADERS = {
    "LV202 sick": lambda: seeded(1, 1),
    "LV202 cured": lambda: seeded(1 + rank, 1),
    "LV202 sick, no workers": lambda: seeded(1, 0),
    "LV505 sick": lambda: loader(SleepingDataset(8 + 8 * rank, 0), workers=0),
    "LV505 cured": lambda: loader(SleepingDataset(8, 0), workers=0),
    "LV101 sick": lambda: loader(Stream(16, by_stride), workers=1),
    "LV101 cured": lambda: loader(Stream(16, lambda data, *_: data[rank::2]), workers=1),
    "LV125 sick": lambda: DataLoader(range(32), 4, shuffle=True),
    "LV125 cured": lambda: sampled(32),
}
found = {}
for name, make in LOADERS.items():
    diagnosis = lv.doctor(make(), budget_s=20)
    assert not diagnosis.broken, str(diagnosis)
    found[name] = {each.code: each.evidence for each in diagnosis.findings}
if rank == 0:  # the other does not come
    from loaderviz._doctor import rank_messages
    rank_messages.WAIT_S = 0.5
    alone = lv.doctor(loader([1], workers=0))
    found["alone"] = {each.code: each.evidence for each in alone.undecided}
    json.dump(found, open(sys.argv[1], "w"))
dist.barrier()
dist.destroy_process_group()
if other:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("ranks")
    script, result = folder / "visit.py", folder / "found.json"
    script.write_text(SCRIPT)
    path = os.pathsep.join([str(SUPPORT), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(script), str(result)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(result.read_text())


@pytest.mark.parametrize("code", ["LV101", "LV125", "LV202", "LV505"])
def test_is_found_where_it_is_and_not_once_it_is_cured(found, code):
    for name in (each for each in found if each.startswith(code)):
        assert (code in found[name]) == ("sick" in name), (name, found[name])


def test_evidence_names_every_rank(found):
    assert found["LV505 sick"]["LV505"][0] == "batches in an epoch, by rank: [2, 4]"
    assert "all 2 ranks" in found["LV202 sick"]["LV202"][0]


def test_a_rank_that_is_alone_does_not_wait_for_ever(found):
    assert "call doctor(loader) on every rank" in found["alone"]["LV505"][0]
