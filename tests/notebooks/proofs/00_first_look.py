# %% after first-look-22: with three workers only the first batch is waited for
explorer.set(num_workers=3)
assert explorer.predicted.summary().later_wait_share < 0.05
explorer.set(step_s=0.0)
assert "sets the pace" in explorer.predicted.summary().verdict
explorer.set(num_workers=0, step_s=0.05)

# %% after 3a6c1e52: the rest of the reading is waited for, and without workers all of it
alone = loaderviz.simulate(costs, num_workers=0, batch_size=4, n_batches=12)
for trace, wait_s in ((one, 0.04), (alone, 0.12)):
    waits = (trace.batches["delivered_s"] - trace.batches["requested_s"])[1:]
    assert waits.between(wait_s - 1e-6, wait_s + 1e-6).all()

# %% after first-look-10: two workers take turns, and the loop gets the batches in order
assert list(rec.trace.batches["worker"]) == [0, 1] * 6
assert list(rec.trace.batches.sort_values("delivered_s")["batch"]) == list(range(12))

# %% after first-look-20: it is a share
assert 0 < computed < 1.5
