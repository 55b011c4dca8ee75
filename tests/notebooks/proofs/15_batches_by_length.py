# %% after 40b5c9ee: the same texts, and much less padding
assert sum(map(len, by_length)) == sum(map(len, arrival)) == 200


def padding_of(made):
    return 1 - sum(lengths) / sum(batch.numel() for batch in made)


assert 0.5 < padding_of(arrival) < 0.6
assert padding_of(by_length) < 0.07

# %% after streaming-40: all of them, within the budget; less padding the narrower
shares, n_of_width = [], []
for width in (60, 20, 10, 5, 1):
    buckets = [*DataLoader(LengthBuckets(texts, 240, width), batch_size=None)]
    assert sum(map(len, buckets)) == 200
    assert max(batch.numel() for batch in buckets) <= 240
    shares.append(padding_of(buckets))
    n_of_width.append(len(buckets))
assert shares == sorted(shares, reverse=True)
assert n_of_width[0] > n_of_width[2] < n_of_width[-1]  # it falls, then rises

# %% after 83fb2a9d: two workers leave more batches that are not full
assert all(two > one for one, two in counts.values())

# %% after a65e0f1b: fewer shapes, more padding
assert len({batch.shape for batch in in_multiples}) < len({batch.shape for batch in by_length}) / 2
assert padding_of(by_length) < padding_of(in_multiples) < padding_of(arrival)

# %% after streaming-38: no line twice, none lost, 1 to 4 at once
assert [line for chunk in chunks for line in chunk] == log.read_text().splitlines()
assert {len(chunk) for chunk in chunks} == {1, 2, 3, 4}
assert {len(line) + 1 for line in log.read_text().splitlines()} <= {*range(8, 29)}
