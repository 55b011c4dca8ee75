"""Feeding a device: the simulated loop's rules, the real one's order of calls, what is pinned."""

import contextlib
import itertools
import math
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import loaderviz as lv
from fake_cuda import FakeCuda
from loaderviz.course import on_a_gpu, pinning
from loaderviz.course.simulated_device import WAYS, feed, side_by_side
from trace_laws import assert_lawful

RECORD = Path(__file__).parents[2] / "notebooks" / "recordings" / "record.py"

ms = st.floats(0, 50)
speeds = st.fixed_dictionaries(
    {
        "batch_mb": st.floats(1, 200),
        "step_ms": ms,
        "load_ms": ms,
        "python_ms": ms,
        "workers": st.integers(1, 4),
    }
)


@st.composite
def runs(draw):
    way, n_batches, item = st.sampled_from(WAYS), st.integers(2, 12), st.booleans()
    return feed(draw(way), n_batches=draw(n_batches), item=draw(item), **draw(speeds))


class TestTheSimulatedLoop:
    @settings(max_examples=10)
    @given(runs())
    def test_is_a_trace_as_a_recording_has_it(self, fed):
        assert_lawful(fed.trace)
        assert fed.trace.meta["simulated"]
        batches = fed.trace.batches
        assert (batches["device_start_s"] >= batches["delivered_s"]).all()
        assert (batches["device_end_s"] >= batches["device_start_s"]).all()

    @settings(max_examples=12)
    @given(runs())
    def test_each_batch_is_copied_once_and_then_stepped_on_once_one_after_the_other(self, fed):
        copied = {batch: end for batch, _, end in fed.copies}
        stepped = {batch: start for batch, start, _ in fed.steps}
        assert list(copied) == list(stepped) == list(range(len(fed.trace.batches)))
        assert all(stepped[batch] >= copied[batch] for batch in copied)
        for lane in (fed.copies, fed.steps, fed.waits, fed.held):
            assert all(a[2] <= b[1] + 1e-9 for a, b in itertools.pairwise(lane))

    @settings(max_examples=12)
    @given(speeds)
    def test_no_way_is_slower_than_the_one_before_it(self, speeds):
        ends = [feed(way, n_batches=8, **speeds).steps[-1][2] for way in WAYS[1:]]
        # Copying ahead, the last two steps are queued when the last batch has come.
        late_s = (speeds["step_ms"] + speeds["python_ms"]) / 1000
        assert ends[1] <= ends[0] + 1e-9
        assert ends[2] <= ends[1] + late_s + 1e-9

    def test_copies_and_steps_overlap_when_they_are_copied_ahead_and_only_then(self):
        for way in WAYS:
            fed = feed(way)
            assert fed.overlaps == (way == "copied ahead")

    def test_where_copies_and_loading_are_fast_the_step_sets_the_pace(self):
        fed = feed("copied ahead", step_ms=20, load_ms=5, batch_mb=10)
        assert fed.batch_s == pytest.approx(0.020)
        assert fed.step_share == pytest.approx(1)

    def test_a_blocking_copy_adds_up_with_the_step(self):
        fed = feed("pageable", batch_mb=40, pageable_gb_per_s=4, step_ms=20, load_ms=1, python_ms=0)
        assert fed.batch_s == pytest.approx(0.030)
        assert fed.step_share == pytest.approx(20 / 30, abs=0.02)  # after the last step is nothing

    def test_loading_that_is_too_slow_leaves_gaps_on_the_device(self):
        starving = feed("copied ahead", load_ms=100).trace.summary()
        fed = feed("copied ahead", load_ms=10).trace.summary()
        assert starving.device_idle_share > 0.5 > 0.1 > fed.device_idle_share
        assert "is idle" in starving.verdict

    def test_longer_steps_are_in_the_numbers_although_the_loop_only_queues_them(self):
        short, long = (
            feed("pinned, non_blocking", step_ms=ms).trace.summary().numbers for ms in (20, 60)
        )
        assert short.split(" · device: ")[0] == long.split(" · device: ")[0]
        assert "device: 360 ms busy" in short
        assert "device: 960 ms busy" in long

    def test_asking_for_the_loss_holds_the_loop_until_the_step_is_done(self):
        held, free = (feed("copied ahead", item=item) for item in (True, False))
        assert len(held.held) == 16
        assert not free.held
        assert held.batch_s > free.batch_s

    @pytest.mark.parametrize(
        ("given", "says"),
        [
            ({"way": "by post"}, "by post"),
            ({"n_batches": 1}, "n_batches=1"),
            ({"workers": 1.5}, "workers=1.5"),
            ({"pinned_gb_per_s": 0}, "pinned_gb_per_s=0"),
            ({"batch_mb": math.inf}, "batch_mb=inf"),
            ({"step_ms": -1}, "step_ms=-1"),
        ],
    )
    def test_what_cannot_be_is_told(self, given, says):
        with pytest.raises(lv.LoaderVizError, match=says):
            feed(**{"way": "pinned", **given})

    def test_ways_side_by_side_share_an_axis_and_each_has_lanes_of_its_own(self):
        feds = [feed(way) for way in WAYS]
        figure = side_by_side(feds)
        assert list(figure.layout.yaxis.ticktext) == 4 * ["the loop", "copies", "steps"]
        assert "simulated" in figure.layout.title.subtitle.text
        _, held, work = figure.data
        assert len(held.x) == sum(len(fed.held) for fed in feds)
        for number, fed in enumerate(feds):
            head, lanes = 4 * number, (4 * number + 2, 4 * number + 3)
            assert figure.layout.annotations[number].text.startswith(fed.verdict)
            assert round(figure.layout.annotations[number].y) == head
            boxes = [start for start, lane in zip(work.base, work.y, strict=True) if lane in lanes]
            assert boxes == [start for _, start, _ in (*fed.copies, *fed.steps)]
        assert figure.layout.xaxis.range[1] > feds[0].steps[-1][2]
        assert "copied ahead: a step every 20 ms" in figure.layout.title.text
        assert "pageable: every 39 ms" in figure.layout.title.text

    def test_what_is_cut_off_is_told(self):
        feds = [feed(way) for way in WAYS]
        told = [
            "the first" in side_by_side(feds, seconds=seconds).layout.title.subtitle.text
            for seconds in (None, 0.7, 0.6)
        ]
        assert told == [False, False, True]


class Recorder:
    """Streams that write down what is queued in them, and batches that can be copied."""

    def __init__(self, monkeypatch):
        self.log = []
        self.current = "main"
        monkeypatch.setattr(torch.cuda, "Stream", lambda: Stream(self, "side"))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: Stream(self, self.current))
        monkeypatch.setattr(torch.cuda, "stream", self.stream)

    @contextlib.contextmanager
    def stream(self, stream):
        self.current = stream.name
        yield
        self.current = "main"


class Stream:
    device_index = 0

    def __init__(self, recorder, name):
        self.recorder, self.name = recorder, name

    def wait_stream(self, other):
        self.recorder.log.append(("wait", self.name, other.name))


class Batch:
    def __init__(self, recorder, number, blocking=None):
        self.recorder, self.number, self.blocking = recorder, number, blocking

    def to(self, device, non_blocking=False):
        self.recorder.log.append(("copy", self.number, self.recorder.current))
        return Batch(self.recorder, self.number, not non_blocking)

    def record_stream(self, stream):
        self.recorder.log.append(("in use", self.number, stream.name))


class TestTheRealLoop:
    """Its order of calls: what it does with a device needs one."""

    def run(self, monkeypatch, way, n):
        recorder = Recorder(monkeypatch)
        came = []
        for batch in on_a_gpu.batches_of(way, (Batch(recorder, k) for k in range(n))):
            came.append(batch)
            recorder.log.append(("step", batch.number, recorder.current))
        return recorder.log, came

    @pytest.mark.parametrize("n", [0, 1, 2, 5])
    @pytest.mark.parametrize("way", WAYS)
    def test_brings_every_batch_in_order(self, monkeypatch, way, n):
        _, came = self.run(monkeypatch, way, n)
        assert [batch.number for batch in came] == list(range(n))
        blocking = way in ("pageable", "pinned")
        assert all(batch.blocking is blocking for batch in came)

    def test_a_step_has_the_next_copy_queued_before_it_and_waits_for_its_own_only(
        self, monkeypatch
    ):
        log, _ = self.run(monkeypatch, "copied ahead", 4)
        wait = ("wait", "main", "side")
        for k in range(4):
            step = log.index(("step", k, "main"))
            waited = [at for at, each in enumerate(log[:step]) if each == wait][-1]
            assert log.index(("copy", k, "side")) < waited
            if k < 3:
                assert waited < log.index(("copy", k + 1, "side")) < step
            assert log.index(("in use", k, "main")) < step

    def test_without_a_stream_of_its_own_a_copy_is_in_the_steps_stream(self, monkeypatch):
        log, _ = self.run(monkeypatch, "pinned, non_blocking", 3)
        assert [each[2] for each in log] == ["main"] * 6
        assert "wait" not in {each[0] for each in log}


class TestTheRecordingOfAWay:
    """On the CPU, with CUDA's functions replaced: that all of it fits together."""

    @pytest.fixture
    def no_gpu_needed(self, monkeypatch):
        fake = FakeCuda()
        main = Stream(Recorder(monkeypatch), "main")
        fake.stand_in(monkeypatch)
        for name, replacement in {
            "Stream": lambda: main,
            "current_stream": lambda: main,
            "stream": lambda stream: contextlib.nullcontext(),
            "synchronize": lambda: None,
            "get_device_name": lambda: "a fake",
        }.items():
            monkeypatch.setattr(torch.cuda, name, replacement)
        monkeypatch.setattr(torch.Tensor, "record_stream", lambda *_: None)
        # As the real one, a copy: but of pages that nothing has locked.
        monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor, *_: tensor.clone())
        monkeypatch.setattr(on_a_gpu, "Steps", lambda *_, **__: lambda batch: fake.run(0.002))
        with pinning.as_with_a_gpu():
            yield

    @pytest.mark.usefixtures("no_gpu_needed")
    @pytest.mark.parametrize("way", WAYS)
    def test_holds_each_batch_its_copy_and_its_step(self, way):
        trace = on_a_gpu.record_way(way, batch_mb=0.01, n_batches=5, device="cpu")
        assert_lawful(trace)
        assert trace.meta["label"] == "a fake"
        assert trace.batches["device_end_s"].notna().all()
        assert (trace.batches["pinned_s"].notna() == (way != "pageable")).all()
        assert trace.spans["name"].value_counts().to_dict() == {"copy": 5, "step": 5}
        assert (trace.spans.query("name == 'step'")["device_s"] > 0.0019).all()

    def test_steps_take_as_long_as_asked_for(self, monkeypatch):
        monkeypatch.setattr(on_a_gpu, "on_device_s", lambda work: 0.004)  # for 20 products
        step = on_a_gpu.Steps(0.02, size=8, device="cpu")
        assert step.times == 100
        assert step(torch.ones(4)).ndim == 0


class TestTheRecordings:
    def test_that_the_notebook_has_are_of_a_gpu(self):
        found = on_a_gpu.recordings(RECORD.parent)
        assert list(found) == list(WAYS)
        assert {trace.meta["label"] for trace in found.values()} == {"NVIDIA H200"}
        assert not any(trace.meta.get("simulated") for trace in found.values())

    def test_the_script_that_makes_recordings_says_that_it_needs_a_gpu(self, monkeypatch, capsys):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(RECORD), run_name="__main__")
        assert ended.value.code == 1
        assert "needs a GPU" in capsys.readouterr().err


def test_torch_pins_tensors_in_collections_and_what_can_pin_itself():
    pinned = pinning.what_is_pinned()
    assert [kind for kind, is_pinned in pinned.items() if not is_pinned] == [
        "a set",
        "a class of your own",
    ]
    part = pinning.Part([1])
    assert not part.is_pinned()
    assert part.pin_memory().is_pinned()


class TestTheVerdictOfADevice:
    def verdict(self, starts, ends, **more):
        n = len(starts)
        asked = np.arange(n) * 1.0
        return lv.Trace.from_columns(
            batches={
                "batch": range(n),
                "requested_s": asked,
                "delivered_s": asked + 0.9,
                "released_s": asked + 1,
                "n_samples": 1,
                "device_start_s": starts,
                "device_end_s": ends,
                "state": "delivered",
                **more,
            }
        ).summary()

    def test_a_device_that_is_never_idle_has_a_loop_that_may_wait(self):
        summary = self.verdict([0.9, 2, 3, 4], [2, 3, 4, 5])
        assert summary.wait_share > 0.8
        assert summary.verdict.startswith("After its first step the device always has work")

    def test_gaps_between_steps_count_and_what_is_before_the_first_does_not(self):
        summary = self.verdict([0.9, 2, 3], [1.5, 2.5, 3.5])
        assert summary.device_idle_share == pytest.approx(0.5)
        assert "idle 50 % of the time" in summary.verdict

    def test_the_time_between_two_epochs_is_none_of_it(self):
        summary = self.verdict([0, 1, 10, 11], [1, 2, 11, 12], epoch=[0, 0, 1, 1])
        assert summary.device_idle_s == 0

    def test_a_device_that_does_hardly_anything_says_nothing(self):
        summary = self.verdict([0.9, 1.9, 2.9], [0.901, 1.901, 2.901])
        assert "device" not in summary.verdict
