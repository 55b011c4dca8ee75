"""The exercises of notebook 11: unsolved, solved, and with answers that only look right."""

import json
from pathlib import Path

import pytest
import torch

from loaderviz.course import stop_and_resume

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "11_stop_and_resume.ipynb"


def unsolved(n, seed, epoch, start):
    torch.manual_seed(seed)
    return torch.randperm(n).tolist()


def global_seed(n, seed, epoch, start):
    torch.manual_seed(seed + epoch)
    return torch.randperm(n).tolist()[start:]


def from_the_start(n, seed, epoch, start):
    generator = torch.Generator().manual_seed(seed + epoch)
    return torch.randperm(n, generator=generator).tolist()


def unseeded(n, seed, epoch, start):
    return torch.randperm(n).tolist()[start:]


def solved(n, seed, epoch, start):
    return from_the_start(n, seed, epoch, start)[start:]


@pytest.mark.parametrize(
    ("answer", "passed", "says"),
    [
        (unsolved, False, "the same order"),
        (global_seed, False, "others draw from it"),
        (from_the_start, False, "after 12 samples of epoch 1, it goes on with"),
        (unseeded, False, "it goes on with"),
        (lambda n, seed, epoch, start: [0] * n, False, "each of 32 samples once"),
        (lambda n, seed, epoch, start: 1 / 0, False, "your code raised ZeroDivisionError"),
        (solved, True, "goes on where the other one stopped"),
    ],
)
def test_resumes(answer, passed, says):
    check = stop_and_resume.resumes(answer)
    assert check.passed is passed
    assert says in check.message
    assert (check.figure is None) == ("raised" in says)


class Unsolved:
    def __init__(self, shards):
        self.shards = shards

    def __iter__(self):
        for shard in self.shards:
            yield from shard

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class Counting(Unsolved):
    """Right, but reads again what it skips."""

    n = skip = 0

    def __iter__(self):
        for number, sample in enumerate(super().__iter__()):
            if number >= self.skip:
                self.n = number + 1
                yield sample

    def state_dict(self):
        return {"n": self.n}

    def load_state_dict(self, state):
        self.n = self.skip = state["n"]


class Late(Unsolved):
    """Counts after the yield."""

    shard = place = 0

    def __iter__(self):
        while self.shard < len(self.shards):
            shard = self.shards[self.shard]
            while self.place < len(shard):
                yield shard[self.place]
                self.place += 1
            self.shard, self.place = self.shard + 1, 0

    def state_dict(self):
        return {"shard": self.shard, "place": self.place}

    def load_state_dict(self, state):
        self.shard, self.place = state["shard"], state["place"]


class Solved(Late):
    def __iter__(self):
        while self.shard < len(self.shards):
            shard = self.shards[self.shard]
            while self.place < len(shard):
                self.place += 1
                yield shard[self.place - 1]
            self.shard, self.place = self.shard + 1, 0


@pytest.mark.parametrize(
    ("answer", "passed", "says"),
    [
        (Unsolved, False, "saved after 1 sample: {}. It went on with ['a0', 'a1', 'a2']"),
        (Counting, False, "read 16 samples for 15"),
        (Late, False, "went on with ['a0'"),
        (lambda shards: None, False, "your code raised TypeError"),
        (Solved, True, "Saved after any of 16 samples"),
    ],
)
def test_goes_on(answer, passed, says):
    check = stop_and_resume.goes_on(answer)
    assert check.passed is passed
    assert says in check.message


def test_what_two_processes_were_given_is_one_epoch():
    found = stop_and_resume.seen_by([[0, 1], [2, 3]], [[0, 1]], n_samples=6)
    assert found.missing["sample"].tolist() == [4, 5]
    assert found.duplicates["sample"].tolist() == [0, 1]
    assert stop_and_resume.seen_by([[0], [1]], [[2]], n_samples=3).exactly_once


def test_the_notebooks_solutions_are_right():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    solutions = [
        text.partition("```python\n")[2].partition("```")[0]
        for text in texts
        if "<summary>Solution" in text
    ]
    names = {"torch": torch}
    for solution in solutions:
        exec(solution, names)
    assert stop_and_resume.resumes(names["order"]).passed
    assert stop_and_resume.goes_on(names["Places"]).passed
