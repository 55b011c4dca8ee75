"""The limit on samples and spans, and what each process takes of memory and CPU."""

import pytest
from torch.utils.data import DataLoader

import loaderviz as lv
from probes import Deadly, Hoarding, Keys, Stream, as_it_is, wait, work
from trace_laws import delivered


class TestALimitOnSpans:
    @pytest.mark.parametrize("num_workers", [0, 1])
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
        assert list(rec.trace.batches["state"])[:3] == ["delivered", "delivered", "lost"]

    @pytest.mark.parametrize("max_spans", [-1, 1.5, "many", None])
    def test_one_that_is_none_is_named(self, max_spans):
        with pytest.raises(lv.LoaderVizError, match=f"max_spans={max_spans!r}"):
            lv.record(DataLoader(Keys(1)), max_spans=max_spans)


MIB = 1 << 20


def size_of(folder):
    return sum(each.stat().st_size for each in folder.iterdir())


class TestABudgetOfBytes:
    """``max_bytes``: the files stay within it, however long the run; what is missing is counted."""

    def recorded(self, folder, loader, n_epochs, max_bytes=MIB):
        n_batches, sizes = 0, []
        with lv.record(loader, path=folder, max_bytes=max_bytes) as rec:
            for _ in range(n_epochs):
                n_batches += len(list(loader))
                sizes.append(size_of(folder))
        assert max(*sizes, size_of(folder)) <= max_bytes
        trace = rec.trace
        assert trace.meta["complete"]
        assert len(delivered(trace)) + trace.meta["left_out_batches"] == n_batches
        return trace, n_batches

    def test_the_latest_is_kept_and_the_windows_hold_the_rest(self, tmp_path):
        loader = DataLoader(
            Keys(24_000, make=as_it_is),
            batch_size=20,
            num_workers=2,
            persistent_workers=True,
            collate_fn=len,
        )
        trace, n_batches = self.recorded(tmp_path, loader, 3)
        assert 0 < trace.meta["left_out_batches"] < n_batches
        batches = trace.batches
        assert batches["epoch"].max() == 2
        assert batches["batch"].max() == 1199
        assert batches["n_samples"].eq(20).all()
        assert batches["started_s"].notna().all()
        assert trace.samples["key"].tolist() == [
            20 * batch + n for batch in trace.samples["batch"].unique() for n in range(20)
        ]
        assert len(trace.samples) == 20 * len(batches) > 0
        assert trace.meta["left_out"] == 0
        assert trace.windows["batches"].sum() == n_batches
        assert trace.windows["samples"].sum() == 20 * n_batches
        assert trace.incidents.empty

    def test_many_short_epochs_stay_within_it(self, tmp_path):
        loader = DataLoader(Keys(200, make=as_it_is), batch_size=100, collate_fn=len)
        trace, n_batches = self.recorded(tmp_path, loader, 600)
        assert 0 < trace.meta["left_out_batches"] < n_batches
        assert trace.batches["epoch"].max() == 599
        assert trace.batches["started_s"].notna().all()
        assert trace.windows["batches"].sum() == n_batches
        assert trace.samples["key"].isin(range(200)).all()

    def test_files_of_workers_that_have_ended_are_moved_into_one(self, tmp_path):
        loader = DataLoader(Keys(4, make=as_it_is), batch_size=2, num_workers=2)
        trace, _ = self.recorded(tmp_path, loader, 5)
        assert trace.samples["key"].tolist() == 5 * [*range(4)]
        assert trace.meta["left_out"] == trace.meta["left_out_batches"] == 0

    def test_streams_and_named_spans_stay_within_it(self, tmp_path):
        loader = DataLoader(
            Stream(12_000, make=as_it_is), batch_size=10, num_workers=1, collate_fn=len
        )
        with lv.record(loader, path=tmp_path, max_bytes=MIB) as rec:
            for _ in range(2):
                for _batch in loader:
                    with lv.span("step"):
                        pass
            assert size_of(tmp_path) <= MIB
        trace = rec.trace
        assert trace.meta["complete"]
        assert 0 < len(trace.spans) < 3600
        assert trace.meta["left_out_batches"] > 0

    def test_batches_with_keys_that_do_not_fit_are_counted(self, tmp_path):
        loader = DataLoader(
            Keys(400_000, make=as_it_is), batch_size=100_000, num_workers=1, collate_fn=len
        )
        trace, _ = self.recorded(tmp_path, loader, 2)
        assert trace.meta["left_out_batches"] == 8

    @pytest.mark.parametrize("max_bytes", [0, -1, MIB - 1, 2.5e9, "1 GB", True, 1 << 63])
    def test_one_that_is_none_is_named(self, max_bytes):
        with pytest.raises(lv.LoaderVizError, match=f"max_bytes={max_bytes!r}: give 1,048,576"):
            lv.record(DataLoader(Keys(1)), max_bytes=max_bytes)


class TestWhatAProcessTakes:
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
        assert share.between(0, 1 + 1e-6).all()
