"""What notebook 11 claims; proven.py puts each part behind the cell that its line names."""

# %% after resume-05: what came before the stop is right, and only what follows differs
whole = process([], "begin anew")
assert sorted(chain.from_iterable(whole[8:])) == [*range(32)]
for way in ("begin anew", "skip"):
    for stop in range(1, 16):
        assert process(process([], way, stop), way)[:stop] == whole[:stop]

# %% after resume-09: no batch is missing, 12 samples come twice, and 12 never
before, after = stopped("begin anew", 5)
assert after == whole[:3]
came = [*chain.from_iterable(before + after)]
assert (len(came), len({*came})) == (32, 20)

# %% after resume-11: skipping is exact in the first epoch alone
assert all(process(process([], "skip", stop), "skip")[:8] == whole[:8] for stop in range(1, 9))
assert all(process(process([], "skip", stop), "skip") != whole for stop in range(9, 16))

# %% after resume-18: with two workers the sampler is 16 samples ahead of the loop
assert (sum(map(len, had)), loader.sampler.drawn) == (12, 28)

# %% after resume-20: the order, the next epoch too, and a dataset that has grown
assert sorted(chain(*had, *rest)) == [*range(32)]
loader.sampler.epoch = resumed.sampler.epoch = 1
assert next(iter(resumed)).tolist() == next(iter(loader)).tolist() != had[0]
import pytest

with pytest.raises(ValueError, match="saved with 32 samples, but this dataset has 40"):
    new_loader(n=40).sampler.load_state_dict(state)

# %% after 84d2f1ab: only draws from epoch and key are the same in another process
assert throws(Dice(16), 1)[8:] != throws(Dice(16), 2, n_seen=2)
assert throws(EpochDice(16), 1)[8:] == throws(EpochDice(16), 2, n_seen=2)

# %% after 7f20be41: by batches all that is left is skipped, by samples nothing is lost or twice
assert (len(seen), len(by_batches), len(by_samples)) == (24, 0, 24)
assert seen | by_samples == {*range(48)}

# %% after resume-35: what islice skips is read
assert (read_by(in_sampler=False), read_by(in_sampler=True)) == (132, 4)

# %% after resume-28: torchdata's loader has the order, and workers begin their draws anew
if StatefulDataLoader:
    assert goes_on(range(32), shuffle=True, num_workers=2)
    assert not goes_on(Dice(32), num_workers=1)

# %% after resume-40: this loader, as it is committed, does not resume, and with the cure it does
import os

if hasattr(os, "fork"):
    assert "LV110" in diagnosis.codes
    cured = DataLoader(range(160), batch_size=4, sampler=ResumableSampler(160, batch_size=4))
    cured.sampler.epoch = 0
    assert "LV110" not in loaderviz.doctor(cured, resume=True).codes
