"""Proofs of notebook 03; see tests/notebooks/proven.py."""

# %% after workers-on-a-timeline-07: no batch is shared by two workers, and more are made than taken
two = classic(2)
assert set(two.samples.groupby("batch")["worker"].nunique()) == {1}
assert len(two.batches) > (two.batches["state"] == "delivered").sum() == 4
real = plot_timings(
    DataLoader(SleepingDataset(32, 0.02), batch_size=4, num_workers=2), 0.02, n_batches=4
).trace
assert set(real.samples.groupby("batch")["worker"].nunique()) == {1}
assert len(real.batches) > (real.batches["state"] == "delivered").sum() == 4
first_s = two.batches["delivered_s"].min()
assert 0.4 <= first_s < 0.5
assert abs(classic(0).batches["released_s"].max() - 2.6) < 0.01

# %% after workers-on-a-timeline-14: the second worker is the last that gains; both kinds alike
assert seconds[0] > 1.2 * seconds[1] > 1.2 * 1.2 * seconds[2]
assert max(seconds[n] for n in range(2, 9)) < 1.05 * seconds[2]
for n in range(9):
    times = [classic(n, kind).batches["delivered_s"].dropna() for kind in ("map", "iterable")]
    assert abs(times[0].max() - times[1].max()) < 0.02
keys = {kind: classic(2, kind).samples.groupby("worker")["key"].min() for kind in datasets}
assert list(keys["map"]) == [0, 4]
assert list(keys["iterable"]) == [0, 0]

# %% after workers-on-a-timeline-39: eight are sent, and batch k + 8 when the loop gets batch k
assert n_sent == 8
sent, before = ahead[8:].reset_index(), ahead[: len(ahead) - 8].reset_index()
assert (sent["dispatched_s"] > before["ready_s"]).all()
assert (sent["dispatched_s"] <= before["delivered_s"]).all()

# %% after workers-on-a-timeline-46: worker 1 makes two batches while sample 8 is read
samples = in_order.samples
slow = samples[samples["key"] == 8].iloc[0]
batches = in_order.batches
meanwhile = batches["started_s"].between(slow["start_s"] - 1e-6, slow["end_s"])
assert list(batches[meanwhile & (batches["worker"] == 1)]["batch"]) == [3, 5]
waits = batches[batches["batch"] == 2].iloc[0]
sent_s = batches["dispatched_s"]
assert not ((sent_s > waits["requested_s"]) & (sent_s < waits["ready_s"])).any()

# %% after workers-on-a-timeline-50: all come, each once; a slow worker's queue comes behind it
assert list(came) == [0, 1, 3, 5, 6, 7, 8, 9, 10, 11, 2, 4]
slept = SleepingDataset(48, [0.5 if i == 8 else 0.0 for i in range(48)])
loader = DataLoader(slept, batch_size=4, num_workers=2, in_order=False)
real = plot_timings(loader).trace.batches
assert sorted(real["batch"]) == list(range(12))
slow = real[real["batch"] == 2].iloc[0]
behind = real[(real["batch"] > 2) & (real["worker"] == slow["worker"])]
assert (behind["delivered_s"] > slow["delivered_s"]).all()
assert any_order.summary().wait_s < in_order.summary().wait_s


# %% after workers-on-a-timeline-54: a stock rides it out where the model is slow; else workers help
def waited_s(*values):
    summary = blocking(*values, True).summary()
    return summary.wait_s - summary.first_wait_s


assert waited_s(2, 1, 0.1) > 0.2
assert waited_s(2, 3, 0.1) < 0.01
assert waited_s(2, 8, 0.05) > 0.9 * waited_s(2, 2, 0.05) > 0.2
assert waited_s(8, 2, 0.05) < 0.01

# %% after workers-on-a-timeline-72: most of the waiting is one sample's; the seconds add up
summary = in_order.summary()
assert causes["cause"].iloc[0] == "slow_samples"
assert 0.8 < share < 1
assert abs(causes["seconds"].sum() - summary.wait_s - summary.startup_s) < 0.01
