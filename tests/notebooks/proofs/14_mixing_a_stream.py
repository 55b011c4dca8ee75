# %% after randomness-40: none comes a whole buffer too early, and some come very late
assert sorted(order) == list(range(1000))
assert max(came - place for place, came in enumerate(order)) == 99
assert max(place - came for place, came in enumerate(order)) > 300

# %% after randomness-44: a buffer of a tenth leaves four classes of ten, one of all mixes fully
average = [mixing_a_stream.classes_in_a_batch(1000, size) for size in (1, 100, 1000)]
assert average[0] == 1
assert 4 < average[1] < 4.7
assert average[2] > 9.9

# %% after e80c6d92: memory is that of the samples in the buffer
assert all(
    abs(peak - size * 100 / 1024) < 3 for size, peak in zip(sizes[1:], peaks[1:], strict=True)
)

# %% after randomness-46: two workers with a buffer each mix as one process with twice the buffer
assert found[100, 2] > found[100, 0] + 1
assert abs(found[100, 2] - found[200, 0]) < 0.6
both = loaderviz.audit(DataLoader(BufferedStream(range(40), 8), 4, num_workers=2), epochs=2)
assert both.exactly_once
assert not both.epochs["same_order"].iloc[1]

# %% after randomness-50: 40 samples came, as they should, but as many came twice as never
assert len(each_its_own.deliveries) == 40
assert len(each_its_own.duplicates) == len(each_its_own.missing) > 0

# %% after 0ab6f417: neither the buffer alone is enough, nor shards in random order
assert "6.3 classes" in mixing_a_stream.mixed(mixed).message
by_shards = mixing_a_stream.mixed(
    lambda shards, rng: chain.from_iterable(rng.sample(shards, len(shards)))
)
assert "4.2 classes" in by_shards.message
