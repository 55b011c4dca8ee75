"""``loaderviz audit``: of a loader and of a recording, with an exit code for what is wrong."""

import json
import sys

import pytest

from traces import made, together

USERS = """
import torch
from torch.utils.data import DataLoader, Dataset

class OneBuffer(Dataset):
    buffer = torch.zeros(3)
    def __len__(self):
        return 20
    def __getitem__(self, index):
        return self.buffer.fill_(index)

def overwritten():
    print("making it")
    return DataLoader(OneBuffer(), 4)

right = DataLoader(range(20), 4)
lossy = DataLoader(range(21), 4, drop_last=True)
"""


@pytest.fixture
def users(tmp_path, monkeypatch):
    """The command's target in the user's module, by the name of the loader."""
    (tmp_path / "audited_training.py").write_text(USERS)
    monkeypatch.chdir(tmp_path)
    yield "audited_training.py:{}".format
    sys.modules.pop("audited_training", None)


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("right", 0, "Every sample came exactly once."),
        ("overwritten", 1, "were overwritten when another was read"),
        ("lossy", 1, "1 of 21 samples never arrived"),
        ("absent", 2, "has no 'absent'"),
    ],
)
def test_the_exit_code_tells_what_is_wrong(loaderviz, users, name, code, says):
    done = loaderviz("audit", users(name))
    assert done.code == code
    assert says in " ".join(f"{done.out} {done.err}".split())


def test_as_json_with_the_states_of_the_samples(loaderviz, users):
    done = loaderviz("audit", users("overwritten"), "--json")
    (found,) = json.loads(done.out)
    assert found["contents"] == {"buffer": 15, "same": 5}
    assert found["exactly_once"] is True  # of keys
    assert done.code == 1


def test_a_recording_has_keys_and_no_contents(loaderviz, tmp_path):
    made().save(tmp_path / "run.parquet")
    done = loaderviz("audit", tmp_path / "run.parquet", "--json")
    assert done.code == 0
    assert json.loads(done.out)[0]["contents"] == {}


def test_each_loader_of_a_recording_is_audited(loaderviz, tmp_path):
    training, evaluation = made(), made(loader=1, batches=2)
    evaluation.samples["key"] = 0  # one sample again and again
    together(training, evaluation).save(tmp_path / "run.parquet")
    done = loaderviz("audit", tmp_path / "run.parquet")
    assert done.code == 1
    heads = [text.partition(":")[0] for text in done.out.split("\n\n")]
    assert heads == ["loader 0", "loader 1"]


def test_what_leaves_no_time_to_compare_is_said(loaderviz, users):
    done = loaderviz("audit", users("right"), "--budget", "0")
    assert done.code == 0
    assert "contents were not compared: budget_s=0" in " ".join(done.out.split())
