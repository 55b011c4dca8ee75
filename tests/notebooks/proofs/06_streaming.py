# %% after streaming-04: two files were opened for five lines
assert five == ["a0", "a1", "a2", "b0", "b1"]
assert opened == ["a", "b"]

# %% after streaming-06: three rounds of lines are the same as three rounds of files
again = list(islice(chain.from_iterable(map(lines, cycle(paths))), 36))
assert three_rounds == again == 3 * [f"{name}{i}" for name in "abcd" for i in range(3)]
assert opened == [*"abcd"] + 3 * [*"abcd"]  # four for the lines, then twelve for the paths

# %% after c2905b3e: each line once, and the third batch is of files a and c
assert sorted(line for batch in batches for line in batch) == sorted(map(str, three_rounds[:12]))
assert batches[2] == ["a2", "c0"]

# %% after streaming-11: no slot goes on, once
assert Slots.of(in_a_row, sequences).breaks == 32

# %% after streaming-13: every slot goes on, with the sample of the others
found = Slots.of(equal, sequences)
assert (found.breaks, found.repeats) == (0, 12)

# %% after streaming-21: whole alone; every batch comes twice from two that shuffle alike
found = Slots.of(alone, sequences)
assert (found.breaks, found.repeats) == (0, 0)
assert all(map(torch.equal, by_two[::2], by_two[1::2]))
assert by_two[0][0] == by_two[1][0] == 60

# %% after streaming-23: each worker alone breaks nothing
assert Slots.of(apart, sequences).breaks > 22
assert all(Slots.of(apart[worker::2], sequences).breaks == 0 for worker in (0, 1))

# %% after streaming-28: batch for batch as from one process
assert all(map(torch.equal, multi, alone))

# %% after streaming-31: as many slots for each
assert [isinstance(shared_by(n), list) for n in range(1, 7)] == [
    True,
    True,
    True,
    False,
    False,
    True,
]

# %% after streaming-34: a batch is made in about half the time, and each loader makes a part of it
assert 0.4 < making_s(together) / making_s(plain) < 0.6
delivered = together.batches.dropna(subset="delivered_s").groupby("loader")["batch"]
assert list(delivered.agg(list)) == [[*range(10)], [*range(10)]]
