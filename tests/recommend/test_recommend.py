"""``recommend``: what it chooses on costs that are known, what it says, what it leaves alone."""

import dataclasses
import math
import random
import re
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import loaderviz as lv
from frames import let_go
from loaderviz import Costs, LoaderVizError, Trace, recommend, simulate
from loaderviz._recommend import memory_budget, trial_recording
from loaderviz._recommend.candidate_settings import cheapness, default_max_workers, settings_to_try
from loaderviz.datasets import SleepingDataset, SleepingStream
from loaderviz.loader_settings import LoaderSettings
from probes import Keys, as_it_is
from streams import Shared
from traces import made, together


def trace_of(costs: Costs, *, batch_size: int = 8, n_batches: int = 120, **given: Any) -> Trace:
    return simulate(
        costs, **{"num_workers": 1, "batch_size": batch_size, "n_batches": n_batches, **given}
    )


def costs_of(**given: Any) -> Costs:
    usual = {"take_s": 2e-4, "transport_s": 3e-4, "dispatch_s": 3e-5, "startup_s": 4e-3}
    return Costs(**{**usual, "boot_s": 4e-3, "cores": 2.0, **given})


def of(found: Any, **settings: Any) -> Any:
    """The candidate with these settings."""
    table = found.candidates
    for name, value in {"in_order": True, "prefetch_factor": 2, **settings}.items():
        if name != "prefetch_factor" or settings.get("num_workers"):
            table = table[table[name] == value]
    (row,) = table.to_dict("records")
    return row


def chosen(found: Any) -> Any:
    (row,) = found.candidates[found.candidates["recommended"]].to_dict("records")
    return row


class Refused(IterableDataset[Any]):
    """Raises as soon as it is read."""

    def __iter__(self) -> Any:
        raise ValueError("this stream is broken")


class Slow(IterableDataset[Any]):
    def __iter__(self) -> Any:
        time.sleep(2)
        yield 0


pytestmark = pytest.mark.usefixtures("brief_predictions")

FEW = {"max_workers": 4}  # more need not be tried where they are not what is asked for


class TestWhatItChooses:
    def test_as_many_workers_as_a_step_needs_and_not_one_more(self):
        trace = trace_of(costs_of(sample_s=0.005, step_s=0.011))
        found = recommend(trace, n_batches=5000, max_workers=8)
        assert found.settings["num_workers"] == 4  # 40 ms a batch, 11 ms a step
        assert of(found, num_workers=3)["samples_per_s"] < 0.95 * chosen(found)["samples_per_s"]
        eight = of(found, num_workers=8)["samples_per_s"]
        assert chosen(found)["samples_per_s"] > 0.98 * eight
        assert any("4 workers are more than the 2 CPUs" in note for note in found.notes)
        assert any("mostly wait" in note for note in found.notes)

    def test_one_worker_is_enough_for_a_slow_step(self):
        found = recommend(trace_of(costs_of(sample_s=0.005, step_s=0.1)), n_batches=500, **FEW)
        assert found.settings["num_workers"] == 1
        assert found.verdict.startswith("1 worker would keep the model busy: ")
        assert found.limits.startswith("step: ")

    def test_no_workers_where_bringing_a_batch_costs_more_than_making_it(self):
        found = recommend(trace_of(costs_of(sample_s=1e-6, cpu_share=1.0, share_s=1e-4)), **FEW)
        assert found.settings["num_workers"] == 0
        assert found.verdict.startswith("num_workers=0")
        assert found.memory_bytes == found.shm_bytes == 0

    def test_no_more_workers_than_cpus_where_they_only_compute(self):
        trace = trace_of(costs_of(sample_s=0.005, cpu_share=1.0, cores=4.0))
        found = recommend(trace, max_workers=6)
        assert found.settings["num_workers"] in (3, 4)
        assert found.limits.startswith("sample CPU: ")
        assert "more than" not in str(found)

    def test_an_epoch_too_short_for_workers_to_start_is_read_without(self):
        trace = trace_of(costs_of(sample_s=0.002, startup_s=1.0, boot_s=2.0, start_method="spawn"))
        short, long = (recommend(trace, n_batches=n, **FEW) for n in (20, 20_000))
        assert short.settings["num_workers"] == 0
        assert long.settings["num_workers"] > 0

    def test_workers_stay_from_epoch_to_epoch_where_that_saves_time(self):
        slow = trace_of(costs_of(sample_s=0.005, step_s=0.01, startup_s=0.5, boot_s=1.0))
        once, often = (recommend(slow, n_batches=100, epochs=n, **FEW) for n in (1, 20))
        assert not once.settings["persistent_workers"]
        assert often.settings["persistent_workers"]
        assert "persistent_workers=True" in often.code
        assert any("from epoch to epoch" in note for note in often.notes)
        even = trace_of(costs_of(sample_s=0.005, step_s=0.01))
        quick = recommend(even, n_batches=9999, epochs=9, **FEW)
        assert not quick.settings["persistent_workers"]

    def test_more_prefetch_where_samples_are_spiky(self):
        spiky = np.where(np.random.default_rng(0).random(960) < 0.1, 0.1, 0.002)
        found = recommend(trace_of(costs_of(sample_s=spiky, step_s=0.02), batch_size=4), **FEW)
        assert found.settings["prefetch_factor"] > 2
        assert f"prefetch_factor={found.settings['prefetch_factor']}" in found.code
        assert any("slow ones are waited for less" in note for note in found.notes)

    def test_the_order_is_given_up_for_a_large_gain_only_and_what_it_would_be_is_said(self):
        spiky = np.where(np.random.default_rng(0).random(960) < 0.02, 1.0, 0.001)
        much = recommend(trace_of(costs_of(sample_s=spiky), batch_size=1, n_batches=960), **FEW)
        assert not much.settings["in_order"]
        assert any("in_order=False delivers batches as they come" in note for note in much.notes)
        even = recommend(trace_of(costs_of(sample_s=0.01)), **FEW)
        assert even.settings["in_order"]

    @settings(max_examples=6)
    @given(
        sample_s=st.sampled_from([1e-5, 1e-3, 0.01]),
        cpu_share=st.sampled_from([0.0, 0.5, 1.0]),
        step_s=st.sampled_from([0.0, 0.01, 0.1]),
        cores=st.sampled_from([1.0, 2.0, 8.0]),
    )
    def test_nothing_cheaper_is_as_fast_and_nothing_in_order_much_faster(
        self, sample_s, cpu_share, step_s, cores
    ):
        costs = costs_of(sample_s=sample_s, cpu_share=cpu_share, step_s=step_s, cores=cores)
        found = recommend(trace_of(costs, n_batches=40), n_batches=100, **FEW)
        own, table = chosen(found), found.candidates
        in_order = table[table["in_order"]]
        assert own["samples_per_s"] >= 0.97 * in_order["samples_per_s"].max()
        fewer = in_order[in_order["num_workers"] < own["num_workers"]]
        assert not (fewer["samples_per_s"] > own["samples_per_s"]).any()
        assert found.settings == {name: own[name] for name in found.settings} or (
            own["num_workers"] == 0
        )

    def test_all_that_is_asked_for_is_tried(self):
        most = {
            each.num_workers for each in settings_to_try(6, 1, LoaderSettings(9, 3, in_order=False))
        }
        assert most == {0, 1, 2, 3, 4, 5, 6, 9}
        assert default_max_workers(2.0) == 16
        assert default_max_workers(64.0) == 128
        assert len(settings_to_try(128, 1, LoaderSettings(0))) < 150
        plain = sorted(settings_to_try(3, 2, LoaderSettings(0)), key=cheapness)
        assert plain[:2] == [LoaderSettings(0), LoaderSettings(1, 2)]


class TestEpochs:
    def test_a_trace_is_taken_to_be_as_many_as_it_has(self):
        costs = costs_of(sample_s=1e-3, step_s=0.01, startup_s=0.1, boot_s=0.3)
        trace = trace_of(costs, n_batches=10, epochs=5)
        found = recommend(trace, max_workers=2)
        assert found.settings["persistent_workers"]
        present = found.candidates[found.candidates["present"]].iloc[0]
        took_s = trace.workers["ended_s"].max()
        assert present["run_s"] == pytest.approx(took_s, rel=0.1)
        once = recommend(trace, epochs=1, max_workers=2)
        assert not once.settings["persistent_workers"]
        assert once.candidates["run_s"].max() < took_s / 3


class TestWhatLimits:
    @pytest.mark.parametrize(
        ("part", "costs"),
        [
            ("sample CPU", {"sample_s": 0.01, "cpu_share": 1.0}),
            ("collate", {"sample_s": 1e-6, "collate_s": 0.02}),
            ("unpickling", {"sample_s": 0.01, "take_s": 0.05, "step_s": 0.2}),
            ("step", {"sample_s": 1e-4, "step_s": 0.1}),
            ("sampler", {"sample_s": 1e-4, "sampler_s": 0.004}),
            ("sampler", {"sample_s": 1e-4, "first_key_s": 2.0}),
        ],
    )
    def test_the_part_is_named(self, part, costs):
        step_s = 0.0 if part == "unpickling" else None
        trace = trace_of(costs_of(**costs))
        found = recommend(trace, step_s=step_s, max_workers=4)
        assert found.limits.startswith(f"{part}: ")

    def test_reading_from_a_disk_is_waiting(self):
        found = recommend(trace_of(costs_of(sample_s=0.01)), max_workers=4)
        assert found.limits.startswith("sample I/O: ")
        assert found.settings["num_workers"] == 4
        assert any("max_workers" in note for note in found.notes)


class TestATrace:
    def test_its_steps_are_those_recorded_unless_others_are_given(self):
        trace = trace_of(costs_of(sample_s=0.005, step_s=0.02))
        recorded, given = recommend(trace, **FEW), recommend(trace, step_s=0.04, **FEW)
        assert recorded.settings["num_workers"] == 2
        assert given.settings["num_workers"] == 1

    def test_a_recording_of_a_real_loader(self):
        loader = DataLoader(SleepingDataset(60, 0.002), batch_size=4, num_workers=2)
        with lv.record(loader) as rec:
            for _ in loader:
                pass
        found = recommend(rec.trace, **FEW)
        present = found.candidates[found.candidates["present"]].iloc[0]
        assert (present["num_workers"], present["prefetch_factor"]) == (2, 2)
        assert found.memory_bytes > 0
        assert found.shm_bytes == LoaderSettings(**found.settings).in_flight * 4 * 8
        assert any("counting in each" in note for note in found.notes)
        assert found.trace is rec.trace

    def test_an_epoch_is_as_long_as_the_first_of_several(self):
        trace = trace_of(costs_of(sample_s=0.001), n_batches=30, epochs=2)
        assert not math.isnan(chosen(recommend(trace, **FEW))["run_s"])
        once = recommend(trace_of(costs_of(sample_s=0.001), n_batches=30), **FEW)
        assert math.isnan(chosen(once)["run_s"])
        assert any("The length of an epoch is" in note for note in once.notes)

    def test_without_workers_what_they_would_add_is_assumed_and_that_is_said(self):
        found = recommend(trace_of(costs_of(sample_s=0.005), num_workers=0), **FEW)
        assert any("of the main process alone" in note for note in found.notes)

    def test_epochs_that_are_unlike_are_told(self):
        kept: dict[int, Any] = {}

        class Keeping(SleepingDataset):
            def __getitem__(self, index: int) -> Any:
                if index not in kept:
                    kept[index] = super().__getitem__(index)
                return kept[index]

        loader = DataLoader(Keeping(16, 0.01), batch_size=4)
        with lv.record(loader) as rec:
            for _ in range(3):
                list(loader)
        (note,) = (note for note in recommend(rec.trace, **FEW).notes if "unlike" in note)
        assert re.match(r"Epochs are unlike: to read a sample took [\d.]+ ms in epoch 1 and", note)
        alike = recommend(trace_of(costs_of(sample_s=0.005), num_workers=0), **FEW)
        assert not any("unlike" in note for note in alike.notes)

    def test_the_code_can_be_copied_as_it_is_printed(self):
        found = recommend(made(workers=2, batches=12), **FEW)  # which says nothing of its loader
        assert found.candidates["present"].sum() == 1
        assert found.code.startswith("DataLoader(dataset, num_workers=")
        for more in ("", ", prefetch_factor=8", ", persistent_workers=True" * 3):
            code = f"DataLoader(dataset, num_workers=3{more})  # the rest as you have it"
            lines = str(replace(found, code=code)).splitlines()
            first = next(i for i, line in enumerate(lines) if line.startswith("DataLoader("))
            last = next(i for i, line in enumerate(lines) if line.endswith("as you have it"))
            call = re.sub(r"\s+", " ", re.sub("#.*", "", "\n".join(lines[first : last + 1])))
            assert call.strip() == code.partition("  #")[0]
            assert max(map(len, lines)) <= 72

    def test_few_batches_are_uncertain(self):
        few, many = (recommend(made(batches=n), **FEW) for n in (1, 20))
        assert any(note.startswith("Uncertain: 1 batch was recorded") for note in few.notes)
        assert few.uncertainty > many.uncertainty
        assert not any(note.startswith("Uncertain") for note in many.notes)
        assert (few.candidates["high_per_s"] > few.candidates["samples_per_s"]).all()

    def test_ranks_of_one_machine_share_its_cpus(self, monkeypatch):
        trace = trace_of(costs_of(sample_s=0.005, cpu_share=1.0, cores=8.0))
        alone = recommend(trace, **FEW)
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
        shared = recommend(trace, **FEW)
        assert (alone.cpu_allowance, shared.cpu_allowance) == (8, 2)
        assert shared.settings["num_workers"] < alone.settings["num_workers"]
        assert any("4 ranks share this machine" in note for note in shared.notes)

    @pytest.mark.parametrize("workers", [2, 6])
    def test_workers_that_waited_for_a_cpu_do_not_wait_for_a_disk(self, workers):
        costs = costs_of(sample_s=0.005, cpu_share=1.0, cores=0.5)  # others have the other 1.5
        trace = trace_of(costs, num_workers=workers)
        batches = trace.batches
        queued_s = batches["ready_s"] - batches["started_s"] - batches["cpu_s"]
        meta = {**trace.meta, "cpu_allowance": 2.0}
        crowded = dataclasses.replace(trace, batches=batches.assign(queued_s=queued_s), meta=meta)
        found = recommend(crowded, **FEW)
        assert "a disk" not in found.limits
        assert any("left them about 0.5 of 2 CPUs" in each for each in found.notes)
        # Processes that can run share the CPUs evenly, so one alone gets less than the workers did.
        others = workers * 1.5 / 0.5
        alone, two = (of(found, num_workers=n) for n in (0, 2))
        assert alone["samples_per_s"] == pytest.approx(2 / (1 + others) / 0.005, rel=0.1)
        assert two["samples_per_s"] == pytest.approx(2 * 2 / (2 + others) / 0.005, rel=0.1)
        assert alone["high_per_s"] > 1.5 * alone["samples_per_s"]

    def test_workers_that_hardly_ran_may_seem_to_wait_longer_than_they_took(self):
        trace = trace_of(costs_of(sample_s=0.001, collate_s=0.001, cpu_share=1.0), num_workers=2)
        batches = trace.batches
        queued_s = 1.01 * (batches["ready_s"] - batches["started_s"])
        crowded = dataclasses.replace(trace, batches=batches.assign(queued_s=queued_s))
        assert of(recommend(crowded, **FEW), num_workers=2)["samples_per_s"] > 0

    def test_a_loop_over_several_loaders_is_said_to_be_one(self):
        own = made(workers=2, batches=8)
        times = own.batches.filter(like="_s").columns.difference(["cpu_s", "process_cpu_s"])
        later = own.batches.assign(loader=1)
        later["requested_s"] = own.batches["delivered_s"] + 1e-6
        both = pd.concat([own.batches, later], ignore_index=True)
        notes = recommend(replace(own, batches=both), loader=0, **FEW).notes
        assert any("alone: in 100 % of its steps" in note for note in notes)
        apart = later.assign(**{name: later[name] + 1000 for name in times})
        both = pd.concat([own.batches, apart], ignore_index=True)
        notes = recommend(replace(own, batches=both), loader=0, **FEW).notes
        assert not any("as if this loader were alone" in note for note in notes)

    def test_of_several_loaders_one_is_chosen(self):
        one, other = (trace_of(costs_of(sample_s=s, step_s=0.01)) for s in (0.001, 0.01))
        other.batches["loader"] = other.samples["loader"] = other.workers["loader"] = 1
        loaders = [*one.meta["loaders"], *other.meta["loaders"]]
        both = together(one, other, **{**one.meta, "loaders": loaders})
        few, many, most = (recommend(both, loader=n, **FEW) for n in (0, 1, None))
        assert few.settings["num_workers"] < many.settings["num_workers"]
        assert most.settings == many.settings  # the one that is waited for longest
        assert "of 2 loaders that is waited for most" in most.notes[0]
        assert "loader=0 is" in most.notes[0]
        assert not any("waited for most" in note for note in [*few.notes, *many.notes])


def quick(of: Any, **given: Any) -> Any:
    return recommend(of, **{"seconds": 0.3, "max_workers": 4, "verify": False, **given})


class TestALoader:
    def test_it_says_what_runs_and_recommends_what_sleeping_samples_need(self, capsys):
        loader = DataLoader(SleepingDataset(400, 0.01), batch_size=4)
        found = quick(loader, step_s=0.02)
        said = " ".join(capsys.readouterr().out.split())  # in lines
        assert "recommend: records the DataLoader with 1 worker for 0.3 s" in said
        assert "without workers for 0.075 s" in said
        assert found.settings["num_workers"] in (2, 3, 4)
        assert found.memory_bytes > 0
        assert found.shm_bytes == (2 * found.settings["num_workers"] + 1) * 4 * 8
        assert "no workers" in found.notes[-1]

    def test_the_loader_and_every_generator_are_as_before(self):
        generator = torch.Generator()
        loader = DataLoader(
            Keys(100), batch_size=4, shuffle=True, generator=generator, collate_fn=as_it_is
        )
        before = dict(vars(loader))
        states = [generator.get_state(), torch.get_rng_state(), random.getstate()]
        quick(loader, step_s=0.001, verify=True)
        assert vars(loader) == before
        after = [generator.get_state(), torch.get_rng_state(), random.getstate()]
        for one, other in zip(states, after, strict=True):
            assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other

    def test_a_device_is_reason_to_try_to_pin(self, monkeypatch):
        loader = DataLoader(Keys(400, as_it_is), batch_size=4)
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
        assert not any("pin_memory" in note for note in quick(loader).notes)
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
        assert any("try pin_memory=True" in note for note in quick(loader).notes)

    def test_what_it_recommends_can_be_passed_on(self):
        data = TensorDataset(torch.zeros(1000, 3))
        found = quick(DataLoader(data, batch_size=10, drop_last=True))
        loader = DataLoader(data, batch_size=10, **found.settings)
        assert len(list(loader)) == 100
        assert eval(found.code, {"DataLoader": DataLoader, "dataset": data}).batch_size == 10
        assert any("No step was given" in note for note in found.notes)

    def test_workers_that_persist_now_do_so_later(self):
        data = SleepingDataset(400, 0.005)
        loader = DataLoader(data, batch_size=4, num_workers=1, persistent_workers=True)
        found = quick(loader, step_s=0.005)
        assert found.settings["persistent_workers"]
        assert loader._iterator is None

    @pytest.mark.parametrize("n_workers", [0, 2])
    def test_a_naive_stream_is_found_and_gets_no_second_worker(self, n_workers):
        loader = DataLoader(SleepingStream(500, 0.002), batch_size=4, num_workers=n_workers)
        found = quick(loader)
        assert found.settings["num_workers"] <= 1
        assert any("loaderviz.shard(" in note for note in found.notes)

    def test_a_stream_that_shares_itself_out_is_assumed_to_do_so_always(self):
        found = quick(DataLoader(Shared(range(4000)), batch_size=4))
        assert any("even shares are assumed" in note for note in found.notes)
        assert not any("loaderviz.shard(" in note for note in found.notes)

    def test_batches_of_a_sampler_and_samples_that_are_batches(self):
        sampler = [[3 * i, 3 * i + 1, 3 * i + 2] for i in range(30)]
        found = quick(DataLoader(Keys(90, as_it_is), batch_sampler=sampler, collate_fn=as_it_is))
        assert "batch_size" not in found.code
        assert chosen(found)["run_s"] > 0
        quick(DataLoader(Keys(20), batch_size=None))

    def test_a_dataset_smaller_than_a_batch_is_one_batch_without_overlap(self):
        found = quick(DataLoader(SleepingDataset(3, 0.001), batch_size=8), step_s=0.01)
        assert found.settings["num_workers"] == 0
        assert any("An epoch is one batch" in note for note in found.notes)
        assert any(note.startswith("Uncertain: 1 batch") for note in found.notes)

    def test_the_memory_there_is_is_that_of_the_container(self, monkeypatch):
        monkeypatch.setattr(memory_budget.machine, "memory_available_bytes", lambda: 12345)
        assert memory_budget.FreeBytes.now().memory == 12345

    def test_what_does_not_fit_into_shared_memory_is_not_recommended(self, monkeypatch):
        free_bytes = memory_budget.FreeBytes(memory=1 << 40, shm=4 * 80_000)
        monkeypatch.setattr(memory_budget.FreeBytes, "now", classmethod(lambda cls: free_bytes))
        data = TensorDataset(torch.zeros(100, 20_000))
        found = quick(DataLoader(data, batch_size=1))
        assert found.settings["num_workers"] == 0
        assert any("of the main process alone" in note for note in found.notes)
        fits = found.candidates[found.candidates["fits"]]
        assert (fits["shm_bytes"].fillna(0) <= free_bytes.shm).all()
        assert len(fits) < len(found.candidates)


class TestBadInput:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"step_s": -0.1}, r"step_s=-0.1: give a number, 0 or more"),
            ({"step_s": float("nan")}, "step_s=nan"),
            ({"step_s": "fast"}, "step_s='fast'"),
            ({"step_cpu_share": 1.5}, "step_cpu_share=1.5: a share is 0 to 1"),
            ({"seconds": 0}, "seconds=0: give seconds, more than 0"),
            ({"epochs": 0}, "epochs=0: give a whole number, 1 or more"),
            ({"epochs": 1.5}, "epochs=1.5"),
            ({"n_batches": 0}, "n_batches=0"),
            ({"max_workers": 0}, "max_workers=0"),
            ({"max_workers": True}, "max_workers=True"),
            ({"seconds": 5}, r"seconds=5.*pass the loader"),
            ({"loader": 4}, r"loader=4: this recording has no such loader. It has\n  0  "),
        ],
    )
    def test_bad_options_are_named(self, given, said):
        with pytest.raises(LoaderVizError, match=said):
            recommend(made(), **given)

    def test_a_trace_without_a_batch_or_with_too_many_ahead_is_refused(self):
        with pytest.raises(LoaderVizError, match="holds no batch"):
            recommend(Trace.from_columns())
        ahead = {"loaders": [{"num_workers": 1000, "prefetch_factor": 50}], "cpu_allowance": 2.0}
        with pytest.raises(LoaderVizError, match="50,000 batches ahead"):
            recommend(replace(made(batches=6), meta=ahead))

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

    def test_a_loader_that_is_too_slow_to_be_recorded(self, monkeypatch):
        monkeypatch.setattr(trial_recording, "PATIENCE", 1)
        with pytest.raises(LoaderVizError, match=r"no batch came in 0.3 s.*seconds=1.2"):
            quick(DataLoader(Slow(), batch_size=1))

    def test_what_the_dataset_raises_passes_unchanged(self):
        with pytest.raises(ValueError, match="this stream is broken") as caught:
            quick(DataLoader(Refused()))
        let_go(caught.value)


class Several:
    """Iterates loaders of its own inside."""

    def __iter__(self) -> Any:
        yield from DataLoader(Keys(3))
