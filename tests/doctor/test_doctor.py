"""A visit changes nothing, ends, and says what it saw."""

import dataclasses
import faulthandler
import os
import random
import re
import signal
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

import loaderviz as lv
from loaderviz._doctor import (
    Diagnosis,
    DoctorError,
    Finding,
    batch_probe,
    examination,
)
from loaderviz._doctor.checks import CHECKS
from loaderviz._doctor.run_outcomes import kind_of
from loaderviz.course.datasets import SleepingDataset
from loaderviz.failed_part import RAISE
from loaderviz.text import PRINTED_WIDTH
from patients import (
    SPAWNED,
    NoisyStream,
    Stream,
    by_stride,
    loader,
    not_at_all,
    train_with,
)
from pitfalls import examine, undecided, visit
from probes import Deadly, Decoded
from streams import Counted, Endless, Listed, UsedUp

pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")


class Untouchable(Dataset):
    """Fails whatever is asked of it."""

    def _refuse(self, *args: Any) -> Any:
        raise AssertionError("the user's code runs")

    __len__ = __getitem__ = __getattr__ = __iter__ = __eq__ = __bool__ = __repr__ = _refuse
    __hash__ = None  # type: ignore[assignment]
    __class__ = property(_refuse)  # type: ignore[assignment]


def test_looking_only_runs_nothing_of_the_user(capsys):
    dataset: Any = TensorDataset(torch.zeros(4))
    patient = loader(dataset, worker_init_fn=Untouchable._refuse)
    patient.__dict__.update(dataset=Untouchable(), collate_fn=Untouchable._refuse)
    diagnosis = lv.doctor(patient, run=False)
    assert diagnosis.broken == ()
    assert capsys.readouterr().out == ""


def test_no_line_of_a_finding_is_so_long_that_a_notebook_breaks_it_within_a_word():
    evidence = ("seen " * 40, "in process " * 20)
    fix = "def f():\n    return " + "x" * 40 + "  # why that is so, at some length, for once"
    finding = Finding("LV101", "A title", "error", "found", evidence, fix, "04 Duplicates")
    diagnosis = Diagnosis("a loader of " + "Stream " * 20, (finding,), (), (), ())
    lines = str(diagnosis).splitlines()
    assert max(map(len, lines)) <= PRINTED_WIDTH
    assert str(diagnosis).split().count("process") == 20
    at = lines.index("        # why that is so, at some length, for once")
    assert lines[at + 1] == "        return " + "x" * 40


def generators() -> list[Any]:
    return [torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()]


class Counting(Dataset):
    """Counts how often it was read, and draws from every generator."""

    def __init__(self) -> None:
        self.n_read = 0

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        self.n_read += 1
        random.random(), np.random.random(), torch.rand(())
        return index


def codes_but_of_times(diagnosis: Diagnosis) -> list[str]:
    """A busy machine may have others."""
    return [code for code in diagnosis.codes if not code.startswith("LV3")]


class TestAVisit:
    def test_leaves_a_recorded_training_as_it_was_amid_an_epoch(self, capfd):
        """With a watchdog: where one is set, a fork that sets or cancels its own waits for ever."""
        own = torch.Generator().manual_seed(5)
        patient = loader(Counting(), shuffle=True, generator=own, persistent_workers=True)
        with lv.record(patient) as rec:
            batches = iter(patient)
            first = next(batches)
            before = generators(), own.get_state().tolist(), dict(vars(patient))
            faulthandler.dump_traceback_later(600)
            try:
                diagnosis = lv.doctor(patient)
            finally:
                faulthandler.cancel_dump_traceback_later()
            assert (generators(), own.get_state().tolist(), dict(vars(patient))) == before
            assert patient.dataset.n_read == 0
            assert sorted(torch.cat([first, *batches]).tolist()) == [*range(8)]
        assert len(rec.trace.batches) == 2
        assert codes_but_of_times(diagnosis) == []
        assert diagnosis.troubles == ()
        lines = capfd.readouterr().out.splitlines()
        assert max(map(len, lines)) <= PRINTED_WIDTH
        said = " ".join(" ".join(lines).split())
        assert "runs 2 epochs of the DataLoader in a copy of this process, " in said
        assert "doctor(loader, run=False)" in said

    @pytest.mark.parametrize("workers", [0, 1])
    def test_does_so_in_this_process_and_is_not_told_of_cuda_here(self, workers, monkeypatch):
        """What uses it here, such as the training, is no worker."""
        monkeypatch.setattr(examination, "may_fork", lambda num_workers: False)
        cuda = SimpleNamespace(is_initialized=lambda: get_worker_info() is None)
        monkeypatch.setattr(batch_probe, "torch", SimpleNamespace(cuda=cuda))
        own = torch.Generator().manual_seed(5)
        patient = loader(Counting(), workers=workers, shuffle=True, generator=own)
        before = generators(), own.get_state().tolist(), dict(vars(patient))
        diagnosis = lv.doctor(patient)
        assert (generators(), own.get_state().tolist(), dict(vars(patient))) == before
        assert codes_but_of_times(diagnosis) == []
        assert "copy of this process" in undecided(diagnosis)["LV314"]
        assert f"{len(diagnosis.undecided)} could not decide" in diagnosis.verdict

    def test_in_this_process_finds_the_same(self, monkeypatch):
        monkeypatch.setattr(examination, "may_fork", lambda num_workers: False)
        assert "LV101" in examine("LV101", cured=False).codes

    def test_of_an_endless_stream_ends(self):
        diagnosis = lv.doctor(loader(Endless()), budget_s=1)
        assert codes_but_of_times(diagnosis) == []


class Archived(Dataset):
    """Holds an archive open; where workers share it, a later sample fails, and not by chance."""

    def __init__(self, path: Path) -> None:
        zipfile.ZipFile(path, "w").close()
        self.archive = zipfile.ZipFile(path)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> int:
        if index == 40 and get_worker_info() is not None:
            raise zipfile.BadZipFile("as where another worker has moved the position")
        return index


def test_an_archive_that_workers_share_is_named_though_reading_it_fails(tmp_path):
    diagnosis = lv.doctor(loader(Archived(tmp_path / "shared.zip"), workers=2))
    (finding,) = (each for each in diagnosis.findings if each.code == "LV503")
    assert "self.archive = ...  # each worker opens its own, as __init__ did" in finding.fix


class TestALoaderThatCannotBeExamined:
    @pytest.mark.parametrize(
        ("make", "says", "budget_s"),
        [
            (
                lambda: loader(Listed("abc", OSError()), workers=0),
                ["OSError", "Listed.__len__"],
                10,
            ),
            (lambda: loader(Listed(range(8), 11), workers=0), ["IndexError", "It says 11"], 10),
            (lambda: loader(UsedUp(8), workers=0), ["second none", "__iter__"], 10),
            (
                lambda: loader(Deadly(12, 5), workers=1),
                ["DataLoader worker (pid", "num_workers=0"],
                10,
            ),
            (lambda: loader(Deadly(12, 5), workers=0), ["has died", "num_workers=0"], 10),
            (
                lambda: loader(SleepingDataset(9, 0, fail_at=7), workers=1),
                ["sample 7 is broken on pur"],
                10,
            ),
            (lambda: loader(SleepingDataset(4, 60), workers=0), ["more time with doctor("], 0.5),
            (
                lambda: loader(SleepingDataset(8, 1.0), workers=1, timeout=0.5),
                ["Give more time with the loader's timeout=0.5"],
                10,
            ),
        ],
    )
    def test_is_an_error_that_names_it_and_the_way_out(self, make, says, budget_s):
        handler = signal.getsignal(signal.SIGALRM)
        with pytest.raises(lv.LoaderVizError) as raised:
            lv.doctor(make(), budget_s=budget_s)
        assert signal.getsignal(signal.SIGALRM) == handler
        assert isinstance(raised.value, DoctorError)
        for words in says:
            assert words in str(raised.value)
        partial = raised.value.partial
        assert partial.broken == ()
        assert partial.clear
        assert partial.undecided

    def test_keeps_what_was_found_before(self):
        class Broken(Stream):
            def __iter__(self) -> Iterator[int]:
                raise ValueError("no such file")
                yield

        patient = loader(Broken(4, by_stride), workers=0)
        patient.dataset.train = False
        with pytest.raises(DoctorError, match="no such file") as raised:
            lv.doctor(patient)
        assert raised.value.partial.codes == ("LV205",)

    def test_is_no_loader_or_has_no_such_time(self):
        for given in (3, [1, 2], "loader", iter([])):
            with pytest.raises(lv.LoaderVizError, match="DataLoader"):
                lv.doctor(given)
        for budget_s in (0, -1, float("inf"), "long"):
            with pytest.raises(lv.LoaderVizError, match="budget_s="):
                lv.doctor(loader([1]), budget_s=budget_s)


class ReadsOnce(Dataset):
    """Fails, or ends its process, where it is asked again after an epoch in this one."""

    def __init__(self, fail: Callable[[], None]) -> None:
        self.n_read, self.fail = 0, fail

    def __len__(self) -> int:
        return 32

    def __getitem__(self, key: Any) -> Any:
        if get_worker_info() is None:
            self.n_read += 1
            if self.n_read > len(self):
                self.fail()
        return torch.zeros(len(key)) if isinstance(key, list) else torch.tensor(0.0)


def raise_at_once() -> None:
    raise ValueError("read before")


class TestALookThatIsBrokenOff:
    """Here the one for slices, of LV314."""

    @pytest.mark.parametrize(
        ("fail", "reason"),
        [
            (raise_at_once, "test_doctor.py:{line} in raise_at_once: ValueError: read before"),
            (lambda: os._exit(3), "has died"),
        ],
    )
    def test_leaves_its_check_undecided(self, fail, reason):
        diagnosis = lv.doctor(loader(ReadsOnce(fail), workers=1))
        (finding,) = (each for each in diagnosis.undecided if each.code == "LV314")
        assert reason.format(line=raise_at_once.__code__.co_firstlineno + 1) in finding.evidence[0]
        assert "LV314" not in diagnosis.clear


class TestTheResult:
    def test_of_a_check_that_fails_says_so_and_stops_no_other(self, monkeypatch):
        def fail(case: Any) -> None:
            raise KeyError("of our own")

        monkeypatch.delenv(RAISE)  # as for readers
        broken = dataclasses.replace(CHECKS["LV101"], find=fail)
        monkeypatch.setitem(CHECKS, "LV101", broken)
        diagnosis = examine("LV601", cured=False, run=False)
        assert diagnosis.codes == ("LV601",)
        (finding,) = diagnosis.broken
        assert "KeyError: 'of our own'" in finding.evidence[0]
        assert "checks that failed" in str(diagnosis)

    def test_a_length_that_is_wrong_in_one_process_too_is_what_to_correct(self):
        found = lv.doctor(DataLoader(Counted(range(20), 10), batch_size=4, num_workers=1))
        (finding,) = (each for each in found.findings if each.code == "LV102")
        assert "one process reads 20 by itself" in " ".join(finding.evidence)
        assert "def __len__" in finding.fix
        assert "shard" not in finding.fix

    def test_is_frozen(self):
        diagnosis = Diagnosis("a loader")
        with pytest.raises(dataclasses.FrozenInstanceError):
            diagnosis.findings = ()  # type: ignore[misc]

    def test_reads_well_and_its_fix_runs_as_it_stands_and_cures(self):
        diagnosis = visit("LV101", cured=False)
        text = str(diagnosis)
        assert text.startswith("1 error")  # a busy machine may have advice beside it
        assert "\nDataLoader of Lines (iterable-style)" in text
        assert "✗ LV101 Every worker delivers the whole stream (error)" in text
        assert "loaderviz.shard(" in text
        assert "https://github.com/pytorch/pytorch/issues/30599" in text
        finding = next(each for each in diagnosis.findings if each.code == "LV101")
        names: dict[str, Any] = {
            "IterableDataset": IterableDataset,
            "dataset": Stream(16, not_at_all),
            "DataLoader": lambda dataset, _: loader(dataset),
        }
        exec(finding.fix, names)
        assert lv.audit(names["loader"]).exactly_once

    def test_puts_the_gravest_first(self):
        val_loader = loader([1], workers=1, collate_fn=lambda x: x, **SPAWNED)
        found = lv.doctor(val_loader, run=False)
        assert found.codes == ("LV501", "LV205")
        assert [each.severity for each in found] == ["error", "warning"]

    def test_escapes_what_is_the_users_in_a_notebook(self):
        bad = "<script>alert(1)</script>"
        finding = Finding("LV101", bad, "error", "found", (bad,), bad, bad, (f"https://{bad}",))
        grey = dataclasses.replace(finding, state="undecided")
        shown = Diagnosis(bad, (finding,), (grey,), (grey,), (), (bad,))._repr_html_()
        assert "<script" not in shown
        assert shown.count("&lt;script&gt;") >= 8


def test_set_epoch_in_the_calling_code_leaves_it_open():
    assert "the code that called" in undecided(train_with(lv.doctor))["LV108"]


def test_repeats_of_samples_that_are_never_the_same_cannot_be_told():
    diagnosis = lv.doctor(loader(NoisyStream(16, not_at_all)))
    assert codes_but_of_times(diagnosis) == []
    assert "32 samples came and one process reads 16" in undecided(diagnosis)["LV101"]


def test_a_loader_that_is_called_validation_is_for_evaluation():
    val_loader = loader(SleepingDataset(4, 0))
    (finding,) = lv.doctor(val_loader, run=False)
    assert "the loader is called val_loader" in finding.evidence[0]


@pytest.mark.parametrize(("split", "found"), [("Val", ["LV205"]), ("train", [])])
def test_a_dataset_may_say_that_it_is_for_evaluation(split, found):
    dataset = SleepingDataset(4, 0)
    dataset.split = split
    assert [finding.code for finding in lv.doctor(loader(dataset), run=False)] == found


@pytest.mark.parametrize(
    ("where", "kind"),
    [("", "raised"), ("Caught RuntimeError in DataLoader worker process 0.", "cuda")],
)
def test_cuda_is_to_blame_in_a_worker_alone(where, kind):
    assert (
        kind_of(RuntimeError(f"{where}\nCannot re-initialize CUDA in forked subprocess.")) == kind
    )


@pytest.mark.slow
def test_a_worker_that_starts_late_is_no_slow_batch_that_others_wait_behind():
    def second_begins_late(worker: int) -> None:
        time.sleep(0.4 * worker)

    dataset = SleepingDataset(16, [0.001] * 15 + [0.008])
    diagnosis = lv.doctor(loader(dataset, batch_size=1, worker_init_fn=second_begins_late))
    assert "LV303" in diagnosis.clear, str(diagnosis)


@pytest.mark.slow
def test_child_processes_that_compute_keep_cpus_busy_too():
    """Else eight workers would be predicted to be eight times as fast, on any machine."""
    diagnosis = lv.doctor(DataLoader(Decoded(24), batch_size=2))
    (finding,) = [each for each in diagnosis.findings if each.code == "LV301"]
    (busy,) = re.findall(r"keeps (\d+) % of one CPU busy", " ".join(finding.evidence))
    assert int(busy) > 15  # of a child that waits for a CPU less; without children, next to nothing


def test_evaluating_really_changes_the_training_unless_it_has_a_generator():
    def second_epoch(*evaluated: DataLoader) -> list[int]:
        torch.manual_seed(0)
        training = loader(SleepingDataset(64, 0), workers=0, shuffle=True)
        for each in (training, *evaluated):
            for _ in each:
                pass
        return torch.cat([*training]).tolist()

    sick = loader(SleepingDataset(12, 0), workers=0)
    cured = loader(SleepingDataset(12, 0), workers=0, generator=torch.Generator())
    assert second_epoch(sick) != second_epoch()
    assert second_epoch(cured) == second_epoch()


@pytest.mark.own_process
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_tensor_on_the_device_is_seen_without_running():
    held = DataLoader(TensorDataset(torch.zeros(4, device="cuda")), num_workers=1)
    assert "LV504" in lv.doctor(held, run=False).codes
