# %% after map-and-iterable-02: sample 2 is asked for once batch 0 was delivered
assert asked.index("how many?") < asked.index("batch [0, 10]") < asked.index("number 2, please")
assert asked.count("number 2, please") == 1

# %% after map-and-iterable-24: used up after the first epoch
assert batches == [2, 0, 0]

# %% after map-and-iterable-26: some samples never come, and the weights decide how often one does
assert len(found.missing)
many = list(WeightedRandomSampler([1] * 12 + [9] * 4, num_samples=4000))
assert 0.65 < sum(number >= 12 for number in many) / len(many) < 0.85  # 4 x 9 lots of 48

# %% after map-and-iterable-46: each row is a request, or each batch
assert [title.split()[1] for title in traces] == ["24", "4"]
assert [trace.summary().n_batches for trace in traces.values()] == [4, 4]

# %% after price-loaders: slices deliver every row once
assert loaderviz.audit(as_slices).exactly_once

# %% after map-and-iterable-59: batches 0 and 2 wait for a chunk, batch 1 does not
reading_s = (trace.batches["ready_s"] - trace.batches["started_s"]).tolist()
assert [seconds > 0.05 for seconds in reading_s[:5]] == [True, False, True, False, False]

# %% after map-and-iterable-70: each worker delivers all of a stream, but a key goes to one worker
twice = loaderviz.audit(DataLoader(stream, batch_size=2, num_workers=2))
assert sorted(twice.deliveries["sample"]) == sorted([*range(12), *range(12)])
assert loaderviz.audit(DataLoader(SleepingDataset(12, 0), num_workers=2)).exactly_once
