"""The limit on samples and spans, and what each process takes of memory and CPU."""

import pytest
from torch.utils.data import DataLoader

import loaderviz as lv
from probes import Deadly, Hoarding, Keys, Stream, as_it_is, wait, work
from test_trace import delivered


class TestALimitOnSpans:
    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_batches_go_on_and_what_is_left_out_is_counted(self, num_workers):
        loader = DataLoader(Keys(100), batch_size=5, num_workers=num_workers)
        with lv.record(loader, max_spans=42) as rec:
            for _ in range(2):
                received = list(loader)
        trace = rec.trace
        assert len(delivered(trace)) == 2 * len(received)
        assert (trace.batches["n_samples"] == 5).all()
        assert len(trace.samples) <= 42
        assert len(trace.samples) + trace.meta["left_out"] == 200
        assert trace.meta["complete"]
        assert f"{trace.meta['left_out']} samples" in lv.timeline(trace).layout.title.subtitle.text
        first = trace.samples[trace.samples["epoch"] == 0]
        assert set(first["key"]) <= set(range(100))

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_streams_are_counted_to_their_end(self, num_workers):
        loader = DataLoader(Stream(23), batch_size=5, num_workers=num_workers)
        with lv.record(loader, max_spans=0) as rec:
            list(loader)
        assert list(rec.trace.batches["n_samples"]) == [5, 5, 5, 5, 3]
        assert rec.trace.samples.empty
        assert rec.trace.meta["left_out"] == 23

    def test_named_spans_count_too(self):
        with lv.record(DataLoader(Keys(1)), max_spans=3) as rec:
            for _ in range(5):
                with lv.span("step"):
                    pass
        assert len(rec.trace.spans) == 3
        assert rec.trace.meta["left_out"] == 2

    def test_what_a_worker_died_of_is_known_past_it(self):
        loader = DataLoader(Deadly(8, 5), batch_size=2, num_workers=1)
        with lv.record(loader, max_spans=1) as rec, pytest.raises(RuntimeError, match="worker"):
            list(loader)
        assert rec.trace.samples.empty
        assert list(rec.trace.workers["last_key"]) == [5]
        assert list(rec.trace.batches["state"])[:3] == ["delivered", "delivered", "started"]

    @pytest.mark.parametrize("max_spans", [-1, 1.5, "many", None])
    def test_one_that_is_none_is_named(self, max_spans):
        with pytest.raises(lv.LoaderVizError, match=f"max_spans={max_spans!r}"):
            lv.record(DataLoader(Keys(1)), max_spans=max_spans)


class TestWhatAProcessTakes:
    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_its_memory_is_looked_at_with_its_batches(self, num_workers):
        loader = DataLoader(Keys(20), batch_size=2, num_workers=num_workers)
        with lv.record(loader) as rec:
            list(loader)
        assert (rec.trace.batches["rss_bytes"] > 1 << 20).all()
        assert (rec.trace.workers["rss_peak_bytes"] > 1 << 20).all()

    def test_a_worker_that_grows_is_seen_to_grow(self):
        loader = DataLoader(Hoarding(6, 8 << 20), batch_size=1, num_workers=1, prefetch_factor=1)
        with lv.record(loader) as rec:
            list(loader)
        rss = rec.trace.batches["rss_bytes"]
        assert rss.iloc[-1] - rss.iloc[0] > 3 * (8 << 20)
        assert rec.trace.workers["rss_peak_bytes"].iloc[0] >= rss.iloc[-1]

    def test_cpu_time_tells_work_from_waiting(self):
        waiting, working = DataLoader(Keys(3, make=wait)), DataLoader(Keys(3, make=work))
        with lv.record(waiting, working) as rec:
            list(waiting)
            list(working)
        batches = rec.trace.batches
        share = batches["cpu_s"] / (batches["ready_s"] - batches["started_s"])
        assert share[batches["loader"] == 0].max() < 0.5
        assert share[batches["loader"] == 1].max() > share[batches["loader"] == 0].max()

    def test_cpu_time_is_never_more_than_the_time_it_took(self):
        loader = DataLoader(Keys(2000, make=int), batch_size=2, collate_fn=as_it_is)
        with lv.record(loader) as rec:
            list(loader)
        batches = rec.trace.batches
        took = batches["ready_s"] - batches["started_s"]
        assert batches["cpu_s"].between(0, took + 1e-9).all()
