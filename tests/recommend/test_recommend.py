"""``recommend`` of a loader that is run: what it says, what it leaves alone, what it refuses."""

import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psutil
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from frames import let_go
from loaderviz import LoaderVizError, recommend
from loaderviz._recommend import memory_budget
from loaderviz._recommend.measured_run import Run
from loaderviz.course.datasets import SleepingDataset, Stream
from loaderviz.loader_settings import LoaderSettings
from probes import Keys, as_it_is
from streams import Shared
from traces import made

BUDGET_S = 2.0


def quick(of: Any, **given: Any) -> Any:
    return recommend(of, **{"budget_s": BUDGET_S, "max_workers": 4, **given})


def given(of: Any, **options: Any) -> Any:
    """Where ``runs`` gives the runs: they take no time, and a first look has more than enough."""
    return quick(of, budget_s=30.0, **options)


def n_measured(found: Any) -> int:
    return int((found.candidates["samples_per_s"] > 0).sum())


def in_time(of: Any, least: int = 2, **given: Any) -> Any:
    """With more time where other processes left too little for so many settings."""
    for budget_s in (BUDGET_S, 5 * BUDGET_S):
        with suppress(LoaderVizError):  # no batch came in that time
            if n_measured(found := quick(of, budget_s=budget_s, **given)) >= least:
                return found
    return quick(of, budget_s=20 * BUDGET_S, **given)


class Computes(Keys):
    def __getitem__(self, index: int) -> int:
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        return index


def chosen(found: Any) -> Any:
    (row,) = found.candidates[found.candidates["recommended"]].to_dict("records")
    return row


@pytest.fixture
def runs(monkeypatch):
    """Runs that are given, not made: parts of one differ by as much as they say.

    ``pace_s``: seconds a batch, by the number of workers.
    """

    def give(
        pace_s: Callable[[int], float],
        parts: tuple[float, ...] = (1.0, 1.0),
        took_s: float = 0.0,
        start_s: float = 0.0,
        **shown: float,
    ) -> None:
        def run(loader: Any, setting: LoaderSettings, step: Any, **given: Any) -> Run:
            time.sleep(took_s)
            each = pace_s(setting.num_workers)
            in_parts = tuple(each * part for part in parts)
            start = start_s * setting.num_workers
            return Run(each, start, 0.001, 8, parts_s=in_parts, **shown)

        module = sys.modules["loaderviz._recommend.recommend"]  # its name is the function's
        monkeypatch.setattr(module, "run_setting", run)

    return give


class TestALoader:
    def test_it_says_what_runs_and_measures_what_it_recommends(self, capsys):
        loader = DataLoader(SleepingDataset(100_000, 0.01), batch_size=4, num_workers=1)
        found = in_time(loader, step_s=0.02)
        said = " ".join(capsys.readouterr().out.split())  # in lines
        assert said.startswith(
            "recommend: runs copies of the DataLoader with several settings, a step of 20 ms after "
            "each batch, for 2 s at most."
        )
        assert found.settings["num_workers"] in (1, 2, 3, 4)  # 2, on a machine of its own
        unsettled = found.verdict.startswith("Too noisy")  # beside other work
        now = r"(, | \([\d.]+ )as it is now"
        assert re.search(" samples/s measured" + ("" if unsettled else now), found.verdict)
        assert re.match(r"\d+ settings measured in \d+ s · .*step 20 ms · ", found.numbers)
        assert found.measured
        assert found.demand_per_s == 200
        assert found.memory_bytes > 0
        assert found.shm_bytes == (2 * found.settings["num_workers"] + 2) * 4 * 8
        assert len(found.notes) <= 3
        best_per_s = found.candidates["samples_per_s"].max()
        assert unsettled or chosen(found)["samples_per_s"] > 0.9 * best_per_s
        per_s = found.candidates.set_index("num_workers")["samples_per_s"]
        assert (per_s <= 1.25 * 200).all()  # nothing makes it faster than it sleeps
        assert per_s[1] < 1.25 * 100  # what was read ahead of the first counts

    def test_where_workers_only_cost_there_are_none(self, runs):
        runs(lambda n: 0.01 if n else 0.001)
        found = given(DataLoader(Keys(100), batch_size=1, num_workers=2))
        assert found.settings == LoaderSettings(0).options()
        assert found.memory_bytes == found.shm_bytes == 0
        assert any("No step was given" in note for note in found.notes)

    @pytest.mark.parametrize("others", [1.0, 0.0])
    def test_where_others_have_the_cpus_it_says_so_and_blames_no_sample(self, others, monkeypatch):
        n, times = psutil.cpu_count(), psutil.cpu_times()

        def of_the_machine():
            """Others keep all of its CPUs busy, or none."""
            return times._replace(user=others * n * time.monotonic(), system=0, nice=0)

        monkeypatch.setattr(psutil, "cpu_times", of_the_machine)
        found = in_time(DataLoader(Computes(100_000), 4, num_workers=1), least=1, max_workers=1)
        assert ("other processes keep" in found.limits) == (others > 0)
        if others:
            assert found.limits.startswith("CPU: other processes keep")
            assert found.verdict.endswith("CPUs that other processes use, too")

    def test_the_users_own_step_is_run_and_the_loader_and_every_generator_are_as_before(self):
        batches = []

        def step(batch: Any) -> None:
            batches.append(len(batch))
            time.sleep(0.02)

        data, generator = SleepingDataset(100_000, 0.001), torch.Generator()
        loader = DataLoader(data, batch_size=4, shuffle=True, generator=generator)
        before = dict(vars(loader))
        states = [generator.get_state(), torch.get_rng_state(), random.getstate()]
        found = quick(loader, step=step)
        assert vars(loader) == before
        after = [generator.get_state(), torch.get_rng_state(), random.getstate()]
        for one, other in zip(states, after, strict=True):
            assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
        assert set(batches) == {4}
        assert 0 < found.demand_per_s <= 1.05 * 4 / 0.02  # other work makes a step slower
        assert found.settings["num_workers"] <= 2

    def test_what_it_recommends_can_be_passed_on(self, runs):
        runs(lambda n: 0.01)
        data = TensorDataset(torch.zeros(1000, 3))
        found = given(DataLoader(data, batch_size=10, drop_last=True))
        assert len(list(DataLoader(data, batch_size=10, **found.settings))) == 100
        assert eval(found.code, {"DataLoader": DataLoader, "dataset": data}).batch_size == 10
        sampler = [[3 * i, 3 * i + 1, 3 * i + 2] for i in range(30)]
        found = given(DataLoader(Keys(90, as_it_is), batch_sampler=sampler, collate_fn=as_it_is))
        assert "batch_size" not in found.code

    def test_workers_are_kept_where_epochs_are_short_and_several(self, runs):
        runs(lambda n: 0.1 / n if n else 0.5, start_s=0.05)
        loader = DataLoader(Keys(24), batch_size=4, num_workers=2)
        once, often = (given(loader, step_s=0.01, epochs=epochs) for epochs in (1, 50))
        assert not once.settings["persistent_workers"]
        assert often.settings["persistent_workers"]
        assert not any("persistent_workers=True" in note for note in once.notes)
        assert any("persistent_workers=True" in note for note in often.notes)
        kept = DataLoader(Keys(400), batch_size=None, num_workers=1, persistent_workers=True)
        assert given(kept, step_s=0.005).settings["persistent_workers"]
        assert kept._iterator is None

    @pytest.mark.parametrize("n_workers", [0, pytest.param(2, marks=pytest.mark.slow)])
    def test_a_naive_stream_is_found_and_not_rewarded(self, runs, n_workers):
        runs(lambda n: 0.008 / max(n, 1))
        found = given(DataLoader(Stream(range(500)), batch_size=4, num_workers=n_workers))
        assert found.settings["num_workers"] == 0
        assert "loaderviz.shard(" in found.notes[0]
        assert found.candidates["samples_per_s"].max() == pytest.approx(500)
        shared = given(DataLoader(Shared(range(400)), batch_size=4, num_workers=2))
        assert not any("loaderviz.shard(" in note for note in shared.notes)
        assert shared.settings["num_workers"] == 4

    @pytest.mark.parametrize(("n_fit", "most"), [(4, 1), (2, 0)])
    def test_what_does_not_fit_into_shared_memory_is_not_run(self, runs, monkeypatch, n_fit, most):
        runs(lambda n: 0.01 / max(n, 1))
        free_bytes = memory_budget.FreeBytes(memory=1 << 40, shm=n_fit * 80_000)
        monkeypatch.setattr(memory_budget.FreeBytes, "now", classmethod(lambda cls: free_bytes))
        found = given(DataLoader(TensorDataset(torch.zeros(100, 20_000)), batch_size=1))
        run = found.candidates[found.candidates["runs"] > 0]
        assert run["num_workers"].max() == most
        assert run["fits"].all()
        assert found.settings["num_workers"] <= most
        if not most:
            assert any("more of /dev/shm, than is free" in note for note in found.notes)

    def test_where_noise_hides_what_a_setting_gains_todays_stays(self, runs):
        runs(lambda n: 0.010 - 0.0005 * n, (0.2, 0.4, 1.0, 2.4), took_s=0.2)
        found = quick(DataLoader(Keys(1000), 4, num_workers=1), budget_s=1.0)
        assert found.settings["num_workers"] == 1
        assert found.verdict.startswith("Too noisy to say what is better than today's 1 worker: ")
        assert found.notes[0].startswith("Runs of one setting differ too much to tell: measure")

    @pytest.mark.parametrize(
        ("ready_share", "limit"), [(1.0, "main process: batches lie ready"), (0.0, "shared: ")]
    )
    def test_batches_that_lie_ready_are_not_said_to_wait_for_one_another(
        self, runs, ready_share, limit
    ):
        quiet = {"cpus": 0.1, "main_cpus": 0.1, "other_cpus": 0.0}
        slower = {0: 0.2, 1: 0.1}  # and two are no quicker than half of one alone
        runs(lambda n: slower.get(n, 0.06), ready_share=ready_share, **quiet)
        found = quick(DataLoader(SleepingDataset(1000, 0.01), 4, num_workers=4), max_workers=4)
        assert found.limits.startswith(limit)

    def test_of_an_answer_that_only_more_workers_were_run_for_it_says_fewer_may_do(self, runs):
        runs(lambda n: 0.5 if n == 0 else 0.1 / n, (0.2, 0.4, 1.0, 2.4), took_s=0.4)
        for budget_s in (2.0, 3.0, 4.0, 6.0):  # a first look takes longer beside other work
            found = quick(DataLoader(SleepingDataset(1000, 0.02), 4), budget_s=budget_s)
            if n_measured(found) > 1:
                break
        assert re.match(
            r"\d workers \(fewer may do\): \d+ samples/s measured \(8 as it", found.verdict
        )
        assert "measure again when the machine is idle" in found.notes[0]


class Refused(IterableDataset[Any]):
    """Raises as soon as it is read."""

    def __iter__(self) -> Iterator[Any]:
        raise ValueError("this stream is broken")


class Several:
    """Iterates loaders of its own inside."""

    def __iter__(self) -> Iterator[Any]:
        yield from DataLoader(Keys(3))


class TestBadInput:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"step_s": -0.1}, r"step_s=-0.1: give a finite number, 0 or more"),
            ({"step_s": float("nan")}, "step_s=nan"),
            ({"step_s": "fast"}, "step_s='fast'"),
            ({"budget_s": 0}, "budget_s=0: give seconds to measure in"),
            ({"budget_s": 5}, r"budget_s=5 is for a loader that can be run: pass the loader"),
            ({"step": 3}, "step=3: give a function that takes a batch"),
            ({"step": print, "step_s": 1}, "step_s=1 beside a step: give one of them"),
            ({"step": print}, "step is for a loader that can be run"),
            ({"epochs": 0}, "epochs=0: give a whole number, 1 or more"),
            ({"n_batches": 1.5}, "n_batches=1.5"),
            ({"max_workers": True}, "max_workers=True"),
            ({"loader": 4}, r"loader=4: this recording has no such loader. It has\n  0  "),
        ],
    )
    def test_bad_options_are_named(self, given, said):
        with pytest.raises(LoaderVizError, match=said):
            recommend(made(), **given)

    def test_what_is_no_loader_is_named(self):
        for wrong in ([1, 2], 3, None, iter(())):
            with pytest.raises(LoaderVizError, match="takes a"):
                recommend(wrong)
        with pytest.raises(LoaderVizError, match=r"record\(loader\)"):
            recommend(Several())

    def test_a_loader_that_delivers_nothing(self):
        with pytest.raises(LoaderVizError, match="smaller than batch_size=8 with drop_last=True"):
            quick(DataLoader(Keys(3), batch_size=8, drop_last=True))
        with pytest.raises(LoaderVizError, match="dataset is empty"):
            quick(DataLoader(Shared([])))
        with pytest.raises(LoaderVizError, match="loader=1 chooses among those of a trace"):
            quick(DataLoader(Keys(3)), loader=1)

    def test_a_loader_that_is_too_slow_says_what_would_do(self):
        with pytest.raises(LoaderVizError, match=r"no batch came in 0.3 s.*budget_s=1.2"):
            quick(DataLoader(SleepingDataset(3, 2.0), batch_size=1), budget_s=0.3)

    def test_what_the_dataset_raises_passes_unchanged(self):
        with pytest.raises(ValueError, match="this stream is broken") as caught:
            quick(DataLoader(Refused()))
        let_go(caught.value)


def test_the_code_can_be_copied_as_it_is_printed():
    found = recommend(made(workers=2, batches=12))
    for more in ("", ", prefetch_factor=8", ", persistent_workers=True" * 3):
        code = f"DataLoader(dataset, num_workers=3{more})  # the rest as you have it"
        lines = str(replace(found, code=code)).splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith("DataLoader("))
        last = next(i for i, line in enumerate(lines) if line.endswith("as you have it"))
        call = re.sub(r"\s+", " ", re.sub("#.*", "", "\n".join(lines[first : last + 1])))
        assert call.strip() == code.partition("  #")[0]
        assert max(map(len, lines)) <= 72
