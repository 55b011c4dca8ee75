# %% after 3f1c8a70: throws differ by epoch, and not by the number of workers
def whole_epochs(num_workers):
    loader = DataLoader(dataset, 4, num_workers=num_workers)
    epochs = []
    for epoch in range(2):
        dataset.epoch.fill_(epoch)
        epochs.append([batch.tolist() for batch in loader])
    return epochs


assert whole_epochs(0) == whole_epochs(1) == whole_epochs(2)
assert whole_epochs(0)[0] != whole_epochs(0)[1]

# %% after randomness-09: a base seed for each start of the workers, and the worker's number more
seen = [[int(seed) for seed in loader] for epoch in range(2)]
assert [second - first for first, second in seen] == [1, 1]
assert seen[0] != seen[1]

# %% after randomness-11: workers that start do not draw a base seed of their own
torch.manual_seed(0)
stays = DataLoader(SeedTeller(2), num_workers=2, persistent_workers=True)
assert [int(seed) for seed in stays] == [int(seed) for seed in stays]
for kind in ("numpy", "torch", "random"):  # all three generators are seeded
    lanes = DataLoader(Dice(8, kind), batch_size=2, num_workers=2, persistent_workers=True)
    assert len({str(batch) for epoch in range(2) for batch in lanes}) == 8, kind

for kind, repeats in {"torch": True, "numpy": False, "random": False}.items():  # without workers
    throws_of = []
    for _ in range(2):
        torch.manual_seed(0)
        throws_of.append([int(throw) for throw in DataLoader(Dice(16, kind))])
    assert (throws_of[0] == throws_of[1]) is repeats, kind


# %% after randomness-17: four crops, each cut by both workers, and in the next epoch again
def places(dataset):
    table = cut(dataset)
    return [[crop.sum().item() for crop in of["crop"]] for _, of in table.groupby("worker")]


first, second = places(CopiedCrops(8))
assert first == second
assert len(set(first)) == 4
assert places(CopiedCrops(8)) == [first, second]

# %% after randomness-20a: no crop is cut twice
assert len({place for lane in places(LazyCrops(8)) for place in lane}) == 8

# %% after randomness-24: the workers differ, the epochs do not
lanes = by_number.groupby(["epoch", "worker"])["number"].agg(list)
assert lanes[0, 0] == lanes[1, 0] != lanes[0, 1] == lanes[1, 1]

# %% after randomness-27e: only the drawn seed differs in each epoch with workers that stay
assert found == {"id": [2, 2], "initial_seed": [4, 2], "randint": [4, 4]}
# The global generators go on where they were.
stays = DataLoader(Dice(8, "numpy"), batch_size=2, num_workers=2, persistent_workers=True)
assert sequences(throws(stays)) == 4


# %% after randomness-54: one sequence in three epochs
def different(epochs):
    return len({line.partition(": ")[2] for line in epochs.splitlines()})


assert different(by_plain) == 1
assert different(three_epochs(shared_dice := EpochDice(8), shared_dice.epoch.fill_)) == 3

# %% after randomness-29: worker for worker the same, and different with the rank in the seed
lanes = one_seed.groupby(["rank", "worker"])["number"].agg(tuple)
assert lanes[0, 0] == lanes[1, 0] != lanes[0, 1] == lanes[1, 1]
apart = ranks(lambda rank: 7 + rank).groupby(["rank", "worker"])["number"].agg(tuple)
assert apart.nunique() == 4

# %% after randomness-33: validation changes the next epoch, unless it has its own generator
alone, validated, own = orders.values()
assert alone == own != validated
