# %% after inside-the-dataloader-28: while batch 4 is late, batch 5 lies in the buffer
from loaderviz.widgets.play import station_times

uneven_run = loaderviz.simulate(costs, num_workers=2, batch_size=4, n_batches=12)
fourth, fifth = station_times(uneven_run)["batches"][4:6]
assert fifth["taken"] < fourth["delivered"] - 0.1
assert "a few samples take far longer" in uneven_run.summary().verdict

# %% after inside-the-dataloader-14: each comes once, and 9 has overtaken 8
assert sorted(order) == list(range(12))
assert order.index(9) < order.index(8)

# %% after inside-the-dataloader-33: the same, batch for batch
assert len(yours) == 7
assert all(torch.equal(*pair) for pair in zip(yours, theirs, strict=True))

# %% after inside-the-dataloader-20: 9 and 11 are ready, 10 is not begun, 12 and 13 are not sent
simulated = slow.batches.set_index("batch")
before_s = simulated["ready_s"][8] - 0.001
assert list(simulated.index[simulated["ready_s"] < before_s]) == [*range(8), 9, 11]
assert simulated["dispatched_s"][10] < before_s < simulated["started_s"][10]
assert simulated["dispatched_s"][12] > before_s
assert list(simulated["worker"][8:12]) == [0, 1, 0, 1]

# %% after inside-the-dataloader-24: the more are under way, the less the model waits
waiting = [trace.summary().wait_share for trace in traces.values()]
assert [round(100 * share) for share in waiting] == [32, 8]

# %% after inside-the-dataloader-30: torch deals in turn, hands over in order, and then sends more
recorded = rec.trace.batches.set_index("batch")
assert list(recorded["worker"]) == [0, 1] * 6
assert recorded["delivered_s"].is_monotonic_increasing
assert recorded["ready_s"][9] < recorded["ready_s"][8] < recorded["delivered_s"][9]
assert 9 in early
# The task of batch k + 4 went out once batch k was asked for and ready: 4 were under way.
sent_s = recorded["dispatched_s"][4:].to_numpy()
assert (sent_s > recorded["requested_s"][:-4].to_numpy()).all()
assert (sent_s > recorded["ready_s"][:-4].to_numpy()).all()

# %% after inside-the-dataloader-36: far more than a hundred thousand times
assert pictures > 100_000 * task

# %% after inside-the-dataloader-42: what has a name to import arrives, a method with its object
assert sent["arrives"]["function_of_a_module"] == sent["arrives"]["bound_method"] == "yes"
assert sent["pickled"]["lambda_"].startswith("no")
assert sent["arrives"]["function_of_this_notebook"] not in ("", "yes")
assert len(pickle.dumps(json.loads)) < 100
assert len(pickle.dumps(million.__getitem__)) > 1_000_000

# %% after inside-the-dataloader-51: torch makes iterators as often as the model does
assert started == {False: 2, True: 1}
kept = DataLoader(SleepingDataset(4, 0), num_workers=1, persistent_workers=True)
assert iter(kept) is iter(kept)
assert type(iter(kept)).__name__ == "_MultiProcessingDataLoaderIter"
assert type(iter(DataLoader(SleepingDataset(4, 0)))).__name__ == "_SingleProcessDataLoaderIter"
del kept  # and its worker
