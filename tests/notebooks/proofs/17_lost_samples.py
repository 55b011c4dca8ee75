# %% after 3d5a90be: the last of 17 samples is lost, and no other
assert lost.missing["sample"].tolist() == [16]

# %% after duplicates-41: of 10 samples 6 workers get so many in each of the three ways
assert len(split_up("by_floor", 10, 6).missing) == 4
assert list(split_up("by_ceil", 10, 6).per_worker["samples"]) == [2, 2, 2, 2, 2, 0]
assert list(split_up("by_stride", 10, 6).per_worker["samples"]) == [2, 2, 2, 2, 1, 1]
assert split_up("by_floor", 16, 2).exactly_once

# %% after b1c8e05f: each worker delivers a full batch, and drops the rest of its share
assert list(dropped.per_worker["samples"]) == [8] * 8

# %% after duplicates-46: the simulation says what the runs show; sixteen workers deliver nothing
assert dropping(8).verdict == dropped.verdict
assert len(dropping(16).deliveries) == 0
for num_workers in (0, 2):
    run = DataLoader(dataset, batch_size=8, num_workers=num_workers, drop_last=True)
    assert len(loaderviz.audit(run).missing) == 7

# %% after duplicates-51: nothing but the dataset's own last batch is lost, whoever has it
for num_workers in (1, 2, 4, 8, 16):
    lost = dropping(num_workers, by_batch).missing["sample"]
    assert lost.tolist() == list(range(96, 103))

# %% after duplicates-57: torch warns only where somebody has asked for the length
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    list(DataLoader(Stream(range(10)), batch_size=1, num_workers=2))
assert not [each for each in caught if "Length of IterableDataset" in str(each.message)]

# %% after duplicates-64: worker 3 delivers nothing, and nothing is lost; two workers read unevenly
assert found.exactly_once
assert list(found.per_worker["samples"]) == [6, 6, 6, 0]
two = DataLoader(SplitStream(files, splits.by_shard), batch_size=3, num_workers=2)
assert list(loaderviz.audit(two).per_worker["samples"]) == [12, 6]

# %% after duplicates-73: each worker reads 1/2, 1/4, 1/8, both together 1, 1/2, 1/4
assert list(found.per_worker["samples"]) == [8, 8, 4, 4, 2, 2]
assert list(found.epochs["delivered"]) == [16, 8, 4]
assert list(found.missing.query("epoch == 1")["sample"]) == list(range(4, 12))
fresh = DataLoader(CuttingStream(range(16)), num_workers=2)
assert loaderviz.audit(fresh, epochs=3).exactly_once

# %% after duplicates-103: A delivers 24 samples, the first 12 from both workers
first = loaderviz.audit(lost_samples.loader("A"))
assert len(first.deliveries) == 24
assert sorted(first.missing["sample"]) == list(range(12, 24))
solved = {"A": "every worker reads the same half", "B": "nothing", "C": "drop_last"}
assert lost_samples.faults(solved).passed
