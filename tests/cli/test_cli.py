"""The command line as a user runs it: what it prints, how it ends."""

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from torch.utils.data import DataLoader, SubsetRandomSampler

import loaderviz as lv
from loaderviz.course.datasets import SleepingDataset, Stream
from made_loops import made_loop, noisy
from traces import made, together

USERS = """
import argparse

from torch.utils.data import DataLoader
from loaderviz.course.datasets import SleepingDataset, Stream
from made_loops import made_loop, noisy
from traces import made, together

def make_loader():
    print("making it")
    return DataLoader(SleepingDataset(60, 0.001), batch_size=4)

def shuffled():
    return DataLoader(range(32), batch_size=4, shuffle=True)

def twice():
    return DataLoader(Stream(range(20)), batch_size=4, num_workers=2)

ready = DataLoader(range(8), batch_size=4)

def broken():
    raise RuntimeError("the data is not there")

number = 42

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, required=True)
    return DataLoader(SleepingDataset(60, 0.001), batch_size=parser.parse_args().size)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the user's module in it, to run commands in."""
    (tmp_path / "users_training.py").write_text(USERS)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("users_training", None)


def saved(path, loader, epochs=1):
    with lv.record(loader) as rec:
        for _ in range(epochs):
            list(loader)
    rec.trace.save(path)
    return path


@pytest.fixture
def trace(tmp_path):
    return saved(tmp_path / "run.parquet", DataLoader(range(12), batch_size=4))


def all_but(*lost, **options):
    sampler = [each for each in range(23) if each not in lost]
    return DataLoader(range(23), sampler=sampler, **options)


def one_line(text):
    return text.startswith("loaderviz: ") and len(text.splitlines()) == 1


def test_it_names_its_commands(loaderviz):
    assert "summary" in loaderviz("--help").out


class TestSummary:
    def test_is_that_of_the_trace_in_words_and_as_json(self, loaderviz, trace):
        done = loaderviz("summary", trace)
        assert done.code == 0
        summary = lv.load(trace).summary()
        assert done.out.startswith(f"{summary}\n")
        (row, *_) = summary.causes.to_dict("records")
        said = " ".join(done.out.split())
        assert all(words in said for words in ("main process", "cutting it saves", row["cure"]))
        found = json.loads(loaderviz("summary", trace, "--json").out)
        assert found["n_batches"] == 3
        assert found["verdict"] == summary.verdict
        assert [row["cause"] for row in found["causes"]] == list(summary.causes["cause"])

    def test_it_fits_into_80_columns(self, loaderviz, tmp_path, monkeypatch):
        loaders = [{"dataset": "[red]Images\x1b[31m" * 9}, {"dataset": "Validation"}]
        both = together(made(), made(workers=0, loader=1), loaders=loaders)
        both.save(tmp_path / "two.parquet")
        monkeypatch.setenv("COLUMNS", "80")
        lines = loaderviz("summary", tmp_path / "two.parquet").out.splitlines()
        table = lines[lines.index(next(line for line in lines if "Where the wait" in line)) :]
        assert max(map(len, table)) <= 80
        assert any("Validation" in line and "main process" in line for line in table)
        assert "\x1b" not in "".join(lines)
        assert "[red]" in "".join(lines)

    @pytest.mark.parametrize("n_loaders", [1, 4])
    def test_the_first_screen_has_24_lines_and_the_rest_comes_with_all(
        self, n_loaders, loaderviz, tmp_path, monkeypatch
    ):
        loops = [
            made_loop([noisy([0.01] * 12, 0.2)] * 2, 0.03, workers=1, loader=i, clock_s=2.0 * i)
            for i in range(n_loaders)
        ]
        told_s = {"problems": [f"{'long ' * 30}{i}" for i in range(9)]}
        loaders = [{"dataset": f"Images{i}"} for i in range(n_loaders)]
        together(*loops, loaders=loaders, **told_s).save(tmp_path / "run.parquet")
        monkeypatch.setenv("COLUMNS", "80")
        first = loaderviz("summary", tmp_path / "run.parquet").out.splitlines()
        assert sum(max(1, -(-len(line) // 80)) for line in first) <= 24
        assert "The model waits" in first[0]
        assert "--all lists" in " ".join(first)
        assert sum(" workers " in line for line in first) <= 3
        assert "recommend(loader) measures it" in " ".join(first)  # what to change comes first
        everything = loaderviz("summary", tmp_path / "run.parquet", "--all").out
        causes = lv.load(tmp_path / "run.parquet").summary().causes
        assert sum("│" in line for line in everything.splitlines()) >= len(causes)
        assert all(f"Images{i} " in everything for i in range(n_loaders) if n_loaders > 1)

    def test_without_any_wait_there_is_no_table(self, loaderviz, tmp_path):
        lv.Trace.from_columns().save(tmp_path / "empty.parquet")
        done = loaderviz("summary", tmp_path / "empty.parquet")
        assert done.out.strip() == str(lv.Trace.from_columns().summary())

    def test_of_what_is_no_trace_is_one_line(self, loaderviz, tmp_path):
        done = loaderviz("summary", tmp_path / "nothing")
        assert done.code == 2
        assert done.out == ""
        assert one_line(done.err)


class TestDoctor:
    def test_what_is_wrong_is_printed_and_is_the_exit_code(self, loaderviz, project):
        done = loaderviz("doctor", "users_training:twice")
        assert done.code == 1
        assert "LV101" in done.out

    @pytest.mark.parametrize("command", [("doctor", "--look"), ("recommend", "--budget=1")])
    def test_the_script_s_own_arguments_come_after_two_dashes(self, loaderviz, project, command):
        name, option = command
        target = "users_training.py:main"
        done = loaderviz(name, target, option, "--json", "--", "--size", "5")
        assert done.code == 0
        assert json.loads(done.out)
        done = loaderviz(name, target, option)
        assert done.code == 2
        assert "users_training.py: error: the following arguments are required" in done.err

    @pytest.mark.slow
    def test_whether_training_resumes_is_tried_where_that_is_asked_for(self, loaderviz, project):
        target = "users_training:shuffled"
        found = [
            {each["code"] for each in json.loads(loaderviz(*command).out)["findings"]}
            for command in (
                ("doctor", target, "--json"),
                ("doctor", target, "--resume", "--json"),
            )
        ]
        assert ["LV110" in codes for codes in found] == [False, True]

    def test_as_json_nothing_else_is_on_stdout(self, loaderviz, project):
        done = loaderviz("doctor", "users_training.py:make_loader", "--look", "--json")
        assert done.code == 0
        assert "findings" in json.loads(done.out)
        assert "making it" in done.err

    @pytest.mark.parametrize(
        ("target", "says"),
        [
            ("users_training:make_loadr", "did you mean 'make_loader'?"),
            ("users_training:number", "is a int: give a DataLoader"),
            ("users_training:DataLoader", "without arguments (missing a required argument: 'data"),
            ("users_training", "give MODULE:NAME, such as train:make_loader\n"),
            (".", "of a recording, loaderviz report . has the findings"),
            ("nowhere.at_all:loader", "there is no module 'nowhere'"),
            ("nowhere.py:loader", "is not a file"),
        ],
    )
    def test_what_names_no_loader_is_one_line(self, loaderviz, project, target, says):
        done = loaderviz("doctor", target)
        assert done.code == 2
        assert says in done.err
        assert one_line(done.err)


class TestRecommend:
    def test_from_a_loader(self, loaderviz, project):
        command = ("recommend", "users_training:ready", "--step", "0.01", "--budget", "1.5")
        done = loaderviz(*command, "--json")
        assert done.code == 0
        assert "several settings, a step of 10 ms" in " ".join(done.err.split())
        found = json.loads(done.out)
        assert "num_workers" in found["settings"]
        assert found["measured"]
        assert any(row["runs"] for row in found["candidates"])

    def test_from_a_recording(self, loaderviz, trace):
        done = loaderviz("recommend", trace, "--max-workers", "2")
        assert done.code == 0
        verdict = str(lv.recommend(lv.load(trace), max_workers=2).verdict)
        assert verdict in " ".join(done.out.split())  # on one line or on several
        assert "→ use" in done.out

    def test_a_number_that_is_none_is_one_line(self, loaderviz, trace):
        done = loaderviz("recommend", trace, "--epochs", "0")
        assert done.code == 2
        assert one_line(done.err)

    def test_of_several_loaders_one_is_named(self, loaderviz, tmp_path):
        train, test = DataLoader(range(12), batch_size=4), DataLoader(range(12), batch_size=2)
        with lv.record(train, test) as rec:
            for each in (train, test):
                list(each)
        rec.trace.save(tmp_path / "two.parquet")
        done = loaderviz("recommend", tmp_path / "two.parquet")
        assert done.code == 0
        assert "--loader NUMBER" in " ".join(done.out.split())
        done = loaderviz("recommend", tmp_path / "two.parquet", "--loader", "1")
        assert done.code == 0
        assert "batch_size=2" in done.out
        assert done.err == ""


class TestCheck:
    def test_what_is_kept_and_what_waits_too_long(self, loaderviz, trace):
        done = loaderviz("check", trace, "--max-wait", "1", "--exactly-once")
        assert done.code == 0
        assert [line.split()[0] for line in done.out.splitlines()] == ["ok", "ok"]
        done = loaderviz("check", trace, "--max-wait", "0")
        assert done.code == 1
        assert "failed max-wait: the loop waits" in done.out
        found = json.loads(loaderviz("check", trace, "--max-wait", "0", "--json").out)
        assert [(each["check"], each["kept"]) for each in found] == [("max-wait", False)]

    def test_of_several_ranks_the_one_that_waits_the_most_counts(self, loaderviz, tmp_path):
        patient, late = (made(rank=rank) for rank in range(2))
        late.batches["requested_s"] -= 3.0
        together(patient, late).save(tmp_path / "ranks.parquet")
        done = loaderviz("check", tmp_path / "ranks.parquet", "--max-wait", "0.7")
        assert done.code == 1
        assert "rank 1 waits" in done.out

    @pytest.mark.parametrize(
        ("loader", "epochs", "code", "says"),
        [
            (DataLoader(range(4), sampler=[0, 1, 2, 3, 3, 2, 1, 0]), 1, 1, "twice"),
            (all_but(3), 1, 1, "1 of the keys 0 to 22 are not in the trace"),
            (
                DataLoader(range(23), batch_size=4, drop_last=True, sampler=[*range(22, -1, -1)]),
                2,
                0,
                "3 of the keys 0 to 22 were left out by drop_last in each of 2 epochs",
            ),
            (all_but(3, 4, 5, 6, batch_size=4, drop_last=True), 1, 1, "are not in the trace"),
            (
                DataLoader(range(23), sampler=SubsetRandomSampler([1, 22])),
                1,
                0,
                "Each of the 2 keys",
            ),
            (DataLoader(Stream(range(6))), 1, 2, "audit(loader) knows those of streams"),
        ],
        ids=["twice", "never", "drop_last", "hidden by drop_last", "of a subset", "not known"],
    )
    def test_what_comes_exactly_once(self, loader, epochs, code, says, loaderviz, tmp_path):
        """What ``drop_last`` leaves out is ordinary, and hides no real loss."""
        done = loaderviz("check", saved(tmp_path / "run", loader, epochs), "--exactly-once")
        assert done.code == code
        assert says in " ".join((done.out + done.err).split())

    def test_what_a_loop_left_is_not_lost(self, loaderviz, tmp_path):
        loader = DataLoader(range(40), batch_size=4, shuffle=True)
        with lv.record(loader) as rec:
            list(loader)
            next(iter(loader))
        rec.trace.save(tmp_path / "left.parquet")
        done = loaderviz("check", tmp_path / "left.parquet", "--exactly-once")
        assert done.code == 0
        assert "only a part of the epoch came" in " ".join(done.out.split())

    def test_what_comes_twice_in_one_of_two_loaders(self, loaderviz, tmp_path):
        train, val = DataLoader(range(4)), DataLoader(range(2), sampler=[1, 1])
        with lv.record(train, val) as rec:
            list(train), list(val)
        rec.trace.save(tmp_path / "both.parquet")
        assert loaderviz("check", tmp_path / "both.parquet", "--exactly-once").code == 1

    def test_a_rank_that_cannot_be_read_is_not_passed_over(self, loaderviz, tmp_path):
        made().save(tmp_path / "rank-00000.parquet")
        (tmp_path / "rank-00001.parquet").write_bytes(b"PAR1")
        done = loaderviz("check", tmp_path, "--max-wait", "1")
        assert done.code == 2
        assert "rank-00001.parquet" in done.err
        assert loaderviz("check", tmp_path, "--max-wait", "0").code == 1

    @pytest.mark.parametrize("options", [(), ("--max-wait", "5")])
    def test_nothing_to_check_or_no_share_is_one_line(self, loaderviz, trace, options):
        done = loaderviz("check", trace, *options)
        assert done.code == 2
        assert one_line(done.err)


class TestCompare:
    def test_two_runs_in_words_and_as_json(self, loaderviz, tmp_path, trace):
        other = saved(tmp_path / "other.parquet", DataLoader(range(12), batch_size=2))
        done = loaderviz("compare", trace, other)
        assert done.code == 0
        assert "batch_size" in done.out
        assert "samples a second" in done.out
        found = json.loads(loaderviz("compare", trace, trace, "--json").out)
        assert found["settings"] == {}
        assert {each["ratio"] for each in found["measures"]} <= {1, None}

    def test_slower_for_sure_can_be_the_exit_code(self, loaderviz, tmp_path):
        quick = SleepingDataset(120, 0.0)
        saved(tmp_path / "a.parquet", DataLoader(quick))
        saved(tmp_path / "b.parquet", DataLoader(SleepingDataset(120, 0.002)))
        paths = tmp_path / "a.parquet", tmp_path / "b.parquet"
        assert loaderviz("compare", *paths, "--fail-if-slower").code == 1
        assert loaderviz("compare", *reversed(paths), "--fail-if-slower").code == 0

    def test_of_one_loader_and_several_the_common_one_is_compared(self, loaderviz, tmp_path):
        for name, n in (("one", 1), ("two", 2)):
            about = [{"kind": "map", "num_workers": 2}] * n
            replace(made(), meta={"loaders": about}).save(tmp_path / name)
        done = loaderviz("compare", tmp_path / "one", tmp_path / "two", "--json")
        assert json.loads(done.out)["settings"] == {
            "loaders": [1, 2],
            "kind of loader 1": [None, "map"],
            "num_workers of loader 1": [None, 2],
        }

    def test_a_closed_pipe_is_no_finding(self, trace):
        reads, writes = os.pipe()
        os.close(reads)
        try:
            command = [sys.executable, "-m", "loaderviz", "compare", trace, trace]
            done = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, check=False)
        finally:
            os.close(writes)
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_full_disk_under_what_is_printed_is_one_line(loaderviz, trace, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("loaderviz.cli.summary.typer.echo", full)
    done = loaderviz("summary", trace)
    assert done.code == 2
    assert one_line(done.err)
    assert "No space left" in done.err
