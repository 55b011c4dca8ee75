"""Proofs of notebook 12; see tests/notebooks/proven.py."""

# %% after workers-on-a-timeline-88: the second is begun once the first has booted and has its words
first, second = (row for _, row in sent.workers.sort_values("worker").iterrows())
pickled_s = second["started_s"] - second["pickle_s"]
assert pickled_s > first["started_s"] + 0.9 * first["boot_s"]
assert pickled_s < first["first_task_s"]
assert first["pickle_bytes"] > 18 * 2**20

# %% after workers-on-a-timeline-36: four processes, or two that stay
assert (len(anew.workers), len(kept.workers)) == (4, 2)


# %% after workers-on-a-timeline-29: booting shares CPUs; persistent workers boot once, and wait
def waits_s(*values):
    """From asking until the first batch of each epoch is there."""
    batches = start_up(*values).batches
    first = batches[batches["batch"] == 0].sort_values("epoch")
    ends = batches.groupby("epoch")["released_s"].max()
    return first["delivered_s"].iloc[0], first["delivered_s"].iloc[1] - ends.iloc[0]


assert waits_s("spawn", 8, 2, False)[0] > 3 * waits_s("spawn", 8, 16, False)[0]
assert waits_s("spawn", 2, 2, False)[1] > 2
assert 0.35 < waits_s("spawn", 2, 2, True)[1] < 0.6

# %% after workers-on-a-timeline-60b: quick samples come slower, slow ones up to twice as fast
assert np.interp(0.1, ms, times[2]) < 0.8
assert 0.1 < even_ms < 1
assert 1.5 < times[2][-1] <= 2.05 < times[8][-1]
assert abs(times[8][0] - times[2][0]) < 0.1 * times[2][0]

# %% after workers-on-a-timeline-56: without workers a batch of free samples takes less
assert ms_a_batch[0] < ms_a_batch[1]

# %% after 1c40aa17: two workers fit into 64 MiB, three do not
assert (2 * 2 + 2) * each < 64 < (3 * 2 + 1) * each

# %% after how-many-workers-55: the list's pages are copied, the array's are not
assert grown["list"][-1] > 20 > 2 > grown["array"][-1]

# %% after how-many-workers-54: here, too
if sys.platform == "linux":
    assert growth_mib(WordList(300_000)) > 8 > 3 * growth_mib(WordArray(300_000))
