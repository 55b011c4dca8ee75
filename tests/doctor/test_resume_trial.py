"""Whether a resumed loader goes on with the same batches: how it differs, and what does not fit."""

import random
import time
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, RandomSampler
from torchdata.stateful_dataloader import StatefulDataLoader

import loaderviz as lv
from loaderviz._doctor.batch_probe import Note
from loaderviz._doctor.checks import CHECKS
from loaderviz._doctor.examination import Case
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.lv1_resume import SEED_BY_EPOCH, SavedState, save_a_state
from loaderviz._doctor.resume_runs import first_difference
from loaderviz._doctor.resume_trial import (
    Difference,
    ResumeTrial,
    SeenBatch,
    compare,
    pristine_copy,
    try_to_resume,
)
from loaderviz._doctor.run_epochs import Epoch
from loaderviz.course.datasets import SleepingDataset
from patients import GloballyNoisy, NaiveResume, NoisyByKey, loader

pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")


def keyed(*numbers: int, draw: int = 0) -> list[SeenBatch]:
    """A batch of two samples for each number."""
    return [SeenBatch(10 * n + draw, (2 * n, 2 * n + 1)) for n in numbers]


def of_stream(*numbers: int) -> list[SeenBatch]:
    return [SeenBatch(n) for n in numbers]


def difference(resumed: list[SeenBatch], *, complete: bool = True) -> Difference:
    found = compare(keyed(0, 1, 2), keyed(3, 4, 5, 6), resumed, complete=complete)
    assert found is not None
    return found


class TestComparing:
    @pytest.mark.parametrize("batches", [keyed, of_stream])
    def test_the_same_batches_differ_in_nothing(self, batches):
        assert compare(batches(0, 1), batches(2, 3), batches(2, 3), complete=True) is None

    @pytest.mark.parametrize(
        ("resumed", "kind", "at", "says"),
        [
            (keyed(0, 1, 2, 3, 4, 5, 6), "anew", 0, "comes a second time"),
            (keyed(2, 3, 4, 5, 6), "counts", 0, "of 14 samples of the epoch, 2 come again and 0"),
            (keyed(6), "counts", 0, "0 come again and 6 never"),
            ([], "counts", 0, "8 never"),
            (keyed(3, 4, 5, 6, 0), "counts", 4, "2 come again and 0 never"),
            (keyed(3, 5, 4, 6), "order", 1, "the same samples in another order"),
            (keyed(3, 0, 1, 6), "counts", 1, "4 come again and 4 never"),
            (of_stream(30, 30, 50), "counts", 1, "1 come again and 2 never"),
            (of_stream(30, 1, 2, 3), "others", 1, "other contents"),
            (keyed(3, 4, draw=1) + keyed(5, 6), "draws", 0, "other random draws"),
        ],
    )
    def test_others_are_said_to_be_what_they_are(self, resumed, kind, at, says):
        found = difference(resumed)
        assert (found.kind, found.at) == (kind, at)
        assert says in found.text

    def test_a_part_of_an_epoch_says_nothing_of_its_end(self):
        assert compare(keyed(0), keyed(1, 2, 3), keyed(1, 2), complete=False) is None
        assert difference(keyed(3, 5), complete=False).text == "the batches are others"

    def test_where_keys_of_one_run_are_not_known_contents_tell(self):
        unkeyed = [SeenBatch(batch.digest) for batch in keyed(3, 4)]
        assert compare(keyed(0), keyed(3, 4), unkeyed, complete=True) is None
        assert compare(keyed(0), unkeyed, keyed(3, 5), complete=True).at == 1

    @given(st.permutations(range(8)), st.integers(1, 7))
    def test_what_comes_again_and_what_never_comes_are_as_many(self, order, n_before):
        expected = keyed(*range(n_before, 8))
        found = compare(keyed(*range(n_before)), expected, keyed(*order[n_before:]), complete=True)
        lost = {*range(n_before, 8)} - {*order[n_before:]}
        if found is not None and found.kind == "counts":
            assert f"{2 * len(lost)} come again and {2 * len(lost)} never" in found.text
        assert (found is None) == (order[n_before:] == [*range(n_before, 8)])


def tried(patient: Any, tmp_path: Any) -> ResumeTrial:
    """The trial, which must draw none of our numbers."""
    setup = Setup(patient, resume=True)
    before = torch.get_rng_state().tolist(), random.getstate()
    trial = try_to_resume(setup, pristine_copy(setup), tmp_path, time.monotonic() + 60)
    assert (torch.get_rng_state().tolist(), random.getstate()) == before
    return trial


class TestTryingItOut:
    @pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
    def test_a_stateful_loader_goes_on_exactly_from_between_snapshots(self, tmp_path, workers):
        patient = StatefulDataLoader(
            SleepingDataset(30, 0),
            batch_size=2,
            shuffle=True,
            num_workers=workers,
            snapshot_every_n_steps=4,
        )
        trial = tried(patient, tmp_path)
        assert trial.undecided == ""
        assert [attempt.exact for attempt in trial.attempts] == [True]
        assert trial.n_before + len(trial.attempts[0].run.batches) == 15
        assert trial.n_after_end == 15

    @pytest.mark.parametrize(
        "make", [pytest.param(StatefulDataLoader, marks=pytest.mark.slow), DataLoader]
    )
    def test_workers_that_stay_are_seen_from_their_first_epoch_on(self, tmp_path, make):
        shuffle = make is StatefulDataLoader
        patient = make(
            NoisyByKey(), batch_size=2, shuffle=shuffle, num_workers=1, persistent_workers=True
        )
        trial = tried(patient, tmp_path)
        assert trial.undecided == ""
        assert all(batch.keys for batch in trial.whole.batches)
        assert (make is StatefulDataLoader) or trial.attempts[0].exact

    def test_a_plain_loader_needs_the_generators_at_the_start_of_its_epoch(self, tmp_path):
        generator = torch.Generator().manual_seed(3)
        shuffled = loader(NoisyByKey(), workers=0, batch_size=2, shuffle=True, generator=generator)
        alone, restored = tried(shuffled, tmp_path).attempts
        assert not alone.exact
        assert alone.difference.kind == "counts"
        assert restored.exact

    def test_reading_what_was_skipped_brings_the_draws_back(self, tmp_path):
        patient = loader(GloballyNoisy(), workers=1, batch_size=2)
        alone, restored = tried(patient, tmp_path).attempts
        assert alone.difference.kind == "draws"
        assert restored.exact

    @pytest.mark.parametrize(
        ("patient", "says"),
        [
            (loader(SleepingDataset(3, 0), workers=0), "too short"),
            (loader(SleepingDataset(32, 0, fail_at=1), workers=0), "sample 1 is broken"),
        ],
    )
    def test_where_it_cannot_be_tried_the_reason_is_said(self, tmp_path, patient, says):
        assert says in tried(patient, tmp_path).undecided

    def test_a_loader_that_is_being_iterated_is_tried_from_its_beginning(self, tmp_path):
        patient = StatefulDataLoader(SleepingDataset(16, 0), batch_size=2)
        batches = iter(patient)
        next(batches)
        trial = tried(patient, tmp_path)
        assert trial.attempts[0].exact
        assert len(trial.whole.batches) == 8
        assert len(list(batches)) == 7

    def test_a_loader_that_cannot_be_copied_is_not_tried(self, tmp_path):
        patient = loader(SleepingDataset(8, 0), workers=0)
        patient.dataset.opened = (number for number in range(3))
        assert "copy" in tried(patient, tmp_path).undecided


class Saving(SleepingDataset):
    def state_dict(self) -> dict[str, Any]:
        time.sleep(0.002)
        return {"at": bytes(1000)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class TestAStateWithEveryBatch:
    def test_is_timed_where_workers_save_one(self):
        patient = StatefulDataLoader(Saving(64, 0), batch_size=4, num_workers=2)
        state = save_a_state(Setup(patient), time.monotonic() + 9)
        assert state.seconds > 0.002
        assert state.n_bytes > 1000

    @pytest.mark.parametrize(
        "patient",
        [
            loader(Saving(64, 0)),
            StatefulDataLoader(Saving(64, 0), batch_size=4),
            StatefulDataLoader(SleepingDataset(64, 0), batch_size=4, num_workers=2),
        ],
    )
    def test_is_none_where_no_worker_saves_any(self, patient):
        assert save_a_state(Setup(patient), time.monotonic() + 9) is None

    @pytest.mark.parametrize(
        ("batch_s", "state_s", "every", "dear"),
        [
            (0.001, 0.0001, 1, False),  # a tenth, where next to nothing is read
            (0.001, 0.001, 1, True),
            (0.001, 0.001, 1000, False),
            (0.1, 0.001, 1, False),  # a hundredth
        ],
    )
    def test_is_dear_if_fewer_would_be_felt(self, batch_s, state_s, every, dear):
        patient = StatefulDataLoader(
            Saving(64, 0), batch_size=4, num_workers=1, snapshot_every_n_steps=every
        )
        delivered_s = tuple(batch_s * i for i in range(9))
        epoch = Epoch(0, (Note(),) * 9, True, delivered_s=delivered_s)
        observations = epoch, SavedState(state_s, 100)
        case = Case(Setup(patient), ran=True, observations=observations)
        assert (CHECKS["LV113"].judge(case) is not None) == dear


def state_of(patient: Any, n: int = 3) -> dict[str, Any]:
    batches = iter(patient)
    for _ in range(n):
        next(batches)
    state: dict[str, Any] = patient.state_dict()
    return state


def stateful(n: int = 32, workers: int = 0) -> Any:
    return StatefulDataLoader(
        SleepingDataset(n, 0), batch_size=4, num_workers=workers, shuffle=True
    )


class TestAStateThatWasSaved:
    def test_that_fits_is_no_error(self):
        diagnosis = lv.doctor(stateful(), resume=state_of(stateful()))
        assert not set(diagnosis.codes) & {"LV109", "LV110", "LV111"}

    @pytest.mark.parametrize(
        ("given", "patient", "says"),
        [
            pytest.param(
                lambda: state_of(stateful(workers=1)),
                stateful(),
                "the state lacks '_Iterable",
                marks=pytest.mark.slow,
            ),
            (lambda: state_of(stateful(64), 9), stateful(32), "its dataset was longer"),
        ],
    )
    def test_of_another_loader_is_an_error_that_says_so(self, given, patient, says):
        with pytest.raises(lv.LoaderVizError, match="does not fit this loader") as raised:
            lv.doctor(patient, resume=given())
        assert says in str(raised.value).split("What could be examined")[0]

    @pytest.mark.parametrize(
        ("patient", "given", "why"),
        [
            *((stateful(), given, "give True, or a state") for given in ("state.pt", 3, None, [1])),
            (stateful(), {}, "empty"),  # a loader would begin anew
            (DataLoader(range(8)), {"at": 3}, "no load_state_dict"),
        ],
    )
    def test_that_cannot_be_loaded_is_refused(self, patient, given, why):
        with pytest.raises(lv.LoaderVizError, match=f"resume=.*{why}"):
            lv.doctor(patient, resume=given)

    def test_is_compared_by_its_keys_at_any_depth(self):
        assert first_difference({"a": {"b": 1}}, {"a": {"b": 2}}) == ""
        assert "the state['a'] lacks 'c'" in first_difference({"a": {}}, {"a": {"c": 2}})
        workers = [{"snapshot": {"num_workers": n}} for n in (1, 2)]
        assert "num_workers=1, not 2" in first_difference(*workers)


def test_a_broken_loader_is_undecided_and_says_why():
    class Refusing(NaiveResume):
        def load_state_dict(self, state: dict[str, int]) -> None:
            raise ValueError("no such epoch")

    patient = Refusing(SleepingDataset(16, 0), batch_size=2, sampler=RandomSampler(range(16)))
    reasons = {each.code: each.evidence[0] for each in lv.doctor(patient).undecided}
    assert "no such epoch" in reasons["LV109"]


def test_the_fix_of_an_order_that_is_drawn_anew_runs_as_it_stands_and_cures_it(tmp_path):
    names: dict[str, Any] = {"torch": torch}
    exec(SEED_BY_EPOCH, names)
    dataset = SleepingDataset(32, 0)
    sampler = names["EpochSampler"](dataset)
    assert tried(loader(dataset, workers=0, sampler=sampler), tmp_path).attempts[0].exact
    orders = []
    for sampler.epoch in (0, 1):
        orders.append(list(sampler))
    assert orders[0] != orders[1]
    sampler.start = 5
    assert (len(sampler), list(sampler), len(sampler)) == (27, orders[1][5:], 32)
