"""Loaders that are none of torch's: what of them is recorded, and what is said of the rest."""

import gc
import pickle
import re
import sys
import threading
import time
import traceback
import types
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import loaderviz as lv
from foreign_loaders import (
    Combined,
    Generating,
    InBackground,
    Nodes,
    OwnIterator,
    OwnLoop,
    Piped,
    ReadyMade,
    Streaming,
    ThreadBacked,
    WrappedIterator,
    batch,
)
from loaderviz._doctor import findings_of
from loaderviz.recorder.batch_samples import n_samples_of, n_samples_of_item
from trace_laws import assert_lawful

FOREIGN = {
    "a generator": (Generating, 4),
    "its own iterator": (OwnIterator, 8),
    "one iterator for all epochs": (Nodes, 4),
    "a thread behind it": (lambda: InBackground(Generating()), 4),
    "a DataLoader backed by threads": (lambda: ThreadBacked([0], num_workers=2), 4),
    "a DataLoader with a loop of its own": (lambda: OwnLoop([0]), 4),
}
AROUND = {
    "stages": lambda: Piped(range(20), batch_size=4),
    "a generator": lambda: Streaming(range(20), batch_size=4, num_workers=1),
    "an iterator": lambda: WrappedIterator(range(20), batch_size=4),
    "persistent workers": lambda: Piped(
        range(20), batch_size=4, num_workers=2, persistent_workers=True
    ),
}


class OwnIterables:
    """Its iterators are neither generators nor itself."""

    def __iter__(self) -> Any:
        return map(batch, range(5))


def run(loader: Any, epochs: int = 2) -> tuple[lv.Trace, list[Any]]:
    with lv.record(loader) as rec:
        received = [list(loader) for _ in range(epochs)]
    return rec.trace, received


class TestALoaderThatIsNoneOfTorchs:
    @pytest.mark.parametrize("name", FOREIGN)
    def test_each_batch_that_the_loop_got_is_there(self, name):
        make, size = FOREIGN[name]
        loader, plain = make(), make()
        before = dict(vars(type(loader)))
        trace, received = run(loader)
        assert dict(vars(type(loader))) == before
        assert [len(epoch) for epoch in received] == [5, 5]
        assert repr(received) == repr([list(plain) for _ in range(2)])
        assert trace.batches["epoch"].tolist() == [0] * 5 + [1] * 5
        assert trace.batches["batch"].tolist() == [*range(5)] * 2
        assert set(trace.batches["n_samples"]) == {size}
        assert trace.samples.empty
        assert (trace.meta["left_out"], trace.meta["problems"]) == (0, [])

    def test_a_wait_is_the_time_in_next_and_a_step_the_time_to_the_following_one(self):
        trace, _ = run(Generating())
        rows = trace.batches.sort_values("delivered_s")
        assert (rows["delivered_s"] - rows["requested_s"] >= 0.002).all()
        within = rows["epoch"].diff().shift(-1) == 0
        assert (rows["released_s"] == rows["requested_s"].shift(-1))[within].all()

    def test_the_verdict_does_not_guess_what_the_loader_did(self, tmp_path):
        trace, _ = run(Generating())
        summary = trace.summary()
        trace.save(tmp_path / "run.parquet")
        loaded = lv.load(tmp_path / "run.parquet")
        assert str(loaded.summary()) == str(summary)
        assert "main process" not in " ".join(lv.timeline(loaded).layout.yaxis.ticktext)
        assert "the loader's own work is not seen" in str(summary.causes["evidence"].iloc[0])
        assert set(summary.causes["cause"]) == {"unknown"}
        assert "Generating" in summary.causes["cure"].iloc[0]
        assert "workers not seen" in summary.numbers
        waited = re.search(r"([\d.]+) ms waiting", summary.numbers)
        assert float(waited[1]) == pytest.approx(1000 * summary.wait_s, rel=0.1)

    def test_an_error_is_the_loaders_own_and_ends_no_recording(self):
        class Failing:
            def __iter__(self):
                yield torch.zeros(2, 2)
                raise ValueError("the third is broken")

        loader = Failing()
        with lv.record(loader) as rec:
            with pytest.raises(ValueError, match="the third is broken") as raised:
                list(loader)
            frames = traceback.extract_tb(raised.value.__traceback__)
            with pytest.raises(ValueError, match="the third is broken"):
                list(loader)
        assert [frame.name for frame in frames][1:] == ["__iter__"]
        assert rec.trace.batches["state"].tolist() == ["delivered", "failed"] * 2
        assert "failed" in rec.trace.summary().verdict

    def test_a_generator_stays_one_hears_what_it_is_sent_and_is_closed(self):
        heard: list[Any] = []

        class Hearing:
            def __iter__(self):
                try:
                    heard.append((yield 0))
                    yield heard[0]
                except KeyError as error:
                    yield error
                finally:
                    heard.append("closed")

        loader = Hearing()
        gc.disable()
        try:
            with lv.record(loader) as rec:
                generator = iter(loader)
                assert type(generator) is types.GeneratorType
                error = KeyError("thrown")
                assert [next(generator), generator.send(7), generator.throw(error)] == [0, 7, error]
                assert list(generator) == []
                assert heard == [7, "closed"]
                for _ in loader:
                    break
                assert heard == [7, "closed", "closed"]
        finally:
            gc.enable()
        assert len(rec.trace.batches) == 4
        assert rec.trace.batches["released_s"].notna().all()

    def test_others_of_its_class_are_not_recorded(self):
        loader, other = Generating(), Generating()
        with lv.record(loader) as rec:
            assert type(iter(other)) is types.GeneratorType
            list(other)
        assert rec.trace.batches.empty

    def test_its_iterator_answers_as_the_one_behind_it(self):
        loader = Nodes()
        with lv.record(loader):
            iterator = iter(loader)
            assert isinstance(iterator, type(loader.iterator))
            iterator.n = 7
            assert loader.iterator.n == 7
            assert iter(iterator) is iterator
            pickle.loads(pickle.dumps(loader))

    def test_an_iterator_that_goes_runs_no_code_of_ours(self):
        loader = OwnIterables()
        with lv.record(loader) as rec:
            one, other = iter(loader), iter(loader)
            next(one)
            next(other)
            called: list[str] = []
            sys.setprofile(lambda frame, event, arg: called.append(event))
            try:
                del one
                del other
            finally:
                sys.setprofile(None)
            time.sleep(0.05)
            next(iter(loader))
        assert "call" not in called
        rows = rec.trace.batches
        assert len(rows) == 3
        assert (rows["released_s"][:2] < rows["requested_s"][2] - 0.04).all()

    def test_it_ends_when_its_user_is_done_with_it(self):
        loader = Generating()
        alive = weakref.ref(loader)
        with lv.record(loader):
            list(loader)
            del loader
            assert alive() is None

    def test_two_recordings_see_it_at_once(self):
        loader = Generating()
        with lv.record(loader) as outer, lv.record(loader) as inner:
            list(loader)
        assert len(outer.trace.batches) == len(inner.trace.batches) == 5

    def test_beside_a_dataloader_each_has_its_number(self):
        foreign, loader = Generating(), DataLoader(range(20), batch_size=4)
        with lv.record(loader, foreign) as rec:
            for _ in zip(loader, foreign, strict=True):
                pass
        trace = rec.trace
        assert [each["kind"] for each in trace.meta["loaders"]] == ["map", "foreign"]
        assert trace.batches["loader"].tolist() == [0] * 5 + [1] * 5

    def test_a_loop_that_goes_on_after_the_recording_is_left_alone(self):
        loader = Generating()
        with lv.record(loader) as rec:
            iterator = iter(loader)
            next(iterator)
        assert len(list(iterator)) == 4
        assert len(rec.trace.batches) == 1


class TestALoaderAroundDataLoaders:
    @pytest.mark.parametrize("name", AROUND)
    def test_the_one_inside_is_recorded_and_no_batch_counts_twice(self, name):
        trace, received = run(AROUND[name]())
        assert [len(epoch) for epoch in received] == [5, 5]
        assert_lawful(trace)
        assert len(trace.batches) == 10
        assert trace.batches["started_s"].notna().all()
        assert [each["kind"] for each in trace.meta["loaders"]] == ["map"]

    def test_of_several_inside_each_is(self):
        loaders = [DataLoader(range(20), batch_size=4) for _ in range(2)]
        trace, _ = run(Combined(*loaders))
        assert trace.batches["loader"].tolist() == [0] * 10 + [1] * 10

    def test_one_in_another_thread_does_not_silence_it(self):
        """Only what the loader itself begins in another thread is inside it."""
        other = DataLoader(range(200), batch_size=1)
        go_on = threading.Event()

        def validate():
            for _ in other:
                go_on.wait()

        loader = Generating()
        with lv.record(loader, other) as rec:
            thread = threading.Thread(target=validate)
            thread.start()
            while not len(rec.snapshot().batches):
                pass
            list(loader)
            go_on.set()
            thread.join()
        assert (rec.trace.batches["loader"] == 1).sum() == 5


class TestWhatCannotBeWatched:
    @pytest.mark.parametrize(
        ("given", "way_out"),
        [
            ((each for each in [1]), "Pass the loader that it comes from"),
            (iter(DataLoader([1])), "Pass the loader that it comes from"),
            ({1: 2}.keys(), r"loaderviz\.watch"),
        ],
    )
    def test_is_refused_with_the_way_out(self, given, way_out):
        with pytest.raises(lv.LoaderVizError, match=way_out):
            lv.record(given)

    @pytest.mark.parametrize("verb", [lv.audit, lv.doctor, lv.recommend])
    def test_who_has_to_run_a_loader_says_what_does_work(self, verb):
        with pytest.raises(lv.LoaderVizError, match=r"Generating.*print\(rec.trace.summary\(\)\)"):
            verb(Generating())
        with pytest.raises(lv.LoaderVizError, match=r"Piped.*pass loader.pipeline\[0\]"):
            verb(Piped([1]))

    def test_who_judges_a_trace_says_what_it_does_not_show(self):
        trace, _ = run(Generating())
        for verb in (lv.recommend, lv.Costs.from_trace):
            with pytest.raises(lv.LoaderVizError, match="not one of torch's"):
                verb(trace)
        with pytest.raises(lv.LoaderVizError, match="Generating, not a torch loader"):
            lv.audit(trace)
        diagnosis = findings_of(trace)
        assert not diagnosis.clear
        assert diagnosis.troubles == (
            "Generating (20 samples) was not examined: its own work is not seen",
        )


class TestHowManySamplesABatchHolds:
    @pytest.mark.parametrize(
        ("batch", "n"),
        [
            (torch.zeros(4, 3), 4),
            (np.zeros((4, 3)), 4),
            (torch.tensor(3.0), 1),
            ([torch.zeros(4, 3), torch.zeros(4)], 4),
            ({"ids": torch.zeros(4, 9), "mask": torch.zeros(4, 9)}, 4),
            ({"text": ["a", "b", "c"], "label": [0, 1, 0]}, 3),
            ({"text": "a", "label": 0}, 1),
            ({"text": ["a", "b"], "ids": [[1, 2, 3], [4]]}, 2),
            ({"text": "a", "ids": [1, 2, 3]}, 1),
            ((torch.zeros(3, 8, 8), 7), 1),
            ([(torch.zeros(3, 8, 8), 7)] * 6, 6),
            ([{"text": "a", "label": 0}] * 100, 100),
            ([{"data": torch.zeros(4, 3), "label": torch.zeros(4, 1)}] * 2, 8),
            ([1, 2, 3], 3),
            ((torch.zeros(4, 3), torch.zeros(5)), None),
            ([[1, 2, 3], [4, 5, 6]], None),
            (object(), None),
            ([], 0),
        ],
    )
    def test_as_its_form_tells(self, batch, n):
        assert n_samples_of(batch) == n

    @pytest.mark.parametrize(
        ("item", "n"),
        [
            ((torch.zeros(4, 3, 8, 8), torch.zeros(4)), 4),
            ([torch.zeros(4, 3), ["a", "b", "c", "d"]], 4),
            ({"text": ["a", "b"], "ids": [[1, 2, 3], [4]]}, 2),
            ({"words": ["a", "b"], "tags": [1, 2]}, 1),
            (torch.zeros(3, 8, 8), 1),
            ((torch.zeros(3, 8, 8), 7), 1),
            ({"ids": torch.zeros(9), "mask": torch.zeros(9)}, 1),
            ((torch.zeros(8, 8, 3), torch.zeros(8, 8)), 1),
        ],
    )
    def test_an_item_of_a_stream_is_a_batch_only_where_that_is_plain(self, item, n):
        assert n_samples_of_item(item) == n

    @pytest.mark.parametrize("num_workers", [0, 2])
    @pytest.mark.parametrize("most", [10_000_000, 5])
    def test_a_ready_made_batch_has_its_samples(self, num_workers, most):
        loader = DataLoader(ReadyMade(), batch_size=None, num_workers=num_workers)
        with lv.record(loader, max_spans=most) as rec:
            n_batches = len(list(loader))
        trace = rec.trace
        assert trace.batches["n_samples"].tolist() == [4] * n_batches
        assert len(trace.samples) + trace.meta["left_out"] == 4 * n_batches
        if most > 5:
            assert_lawful(trace)
        else:
            assert trace.meta["left_out"] > 0
