# %% after 4c0e7d12: the second batch is worker 1's, and the same as the first
came = found.deliveries.sort_values(["batch", "position"])
assert came["worker"].tolist() == ([0] * 4 + [1] * 4) * 4
assert came["sample"].tolist()[:8] == [0, 1, 2, 3] * 2

# %% after duplicates-20: the simulation says what the run has shown, a sample from each worker
assert copies(2, 16).verdict == found.verdict
assert set(copies(3, 16).duplicates["times"]) == {3}
assert copies(1, 16).exactly_once

# %% after duplicates-18: a sample that comes more than once may come from one worker
assert repeated.duplicates.size
assert repeated.missing.size
came = repeated.deliveries
shared = came.groupby("sample").agg(times=("worker", "size"), workers=("worker", "nunique"))
assert len(shared.query("times > 1 and workers == 1"))

# %% after duplicates-25: the order of those that share is that of workers in turn
assert [*orders.values()] == [
    [3, 4, 5, 6],
    [3, 3, 4, 4, 5, 5, 6, 6],
    [3, 5, 4, 6],
    [3, 4, 5, 6],
]

# %% after 5b93ad60: every sample comes once, and in the main process nothing was cut
assert shares.deliveries.query("batch == 1")["sample"].tolist() == [8, 9, 10, 11]
assert shares.exactly_once
assert stream.data == range(16)

# %% after duplicates-30: persistent workers call worker_init_fn once
kept = DataLoader(
    Stream(range(16)), num_workers=2, worker_init_fn=splits.cut_data, persistent_workers=True
)
assert [sorted(numbers(kept)) for _ in range(3)] == [list(range(16))] * 3

# %% after duplicates-41: each of the two splits is whole, remainder included
for samples in range(1, 41):
    assert split_up("by_ceil", samples, 3).exactly_once
    assert split_up("by_stride", samples, 3).exactly_once
