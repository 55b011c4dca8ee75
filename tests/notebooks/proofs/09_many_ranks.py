"""What notebook 09 claims; proven.py puts each part behind the cell that its line names."""

# %% after many-ranks-05: each rank reads all
from itertools import chain

assert [[*chain(*epochs[0])] for epochs in runs["whole"].results] == [[*range(17)]] * 2

# %% after many-ranks-12: nine for each; sample 0 comes to rank 0 first, then to rank 1
found = loaderviz.audit(runs["dealt"].trace)
assert [len([*chain(*epochs[0])]) for epochs in runs["dealt"].results] == [9, 9]
assert [*found.duplicates["key"]] == [0]
assert [*found.duplicates["ranks"]] == [(0, 1)]
assert runs["dealt_to_workers"].results == runs["dealt"].results
assert runs["dealt_to_workers"].trace.summary().n_workers == 4

# %% after many-ranks-16: three of 17 come twice on four ranks, or one never; as in the real ranks
assert len(dealing(17, 4, drop_last=False).duplicates) == 3
assert len(dealing(17, 4, drop_last=True).missing) == 1
assert [*dealing(17, 2, drop_last=False).duplicates["key"]] == [0]


# %% after many-ranks-19: the loader's drop_last loses four of 16, and the sampler's none
def lost(of_sampler, of_loader):
    data = range(16)
    every = {"num_replicas": 2, "shuffle": False, "drop_last": of_sampler}
    samplers = [DistributedSampler(data, rank=rank, **every) for rank in range(2)]
    settings = {"batch_size": 3, "drop_last": of_loader}
    loaders = [DataLoader(data, sampler=sampler, **settings) for sampler in samplers]
    return len(audit_in_turn(loaders, 16).missing)


assert (lost(of_sampler=True, of_loader=False), lost(of_sampler=False, of_loader=True)) == (0, 4)

# %% after 9ab4e217: the order is the same in each epoch, or each epoch has another; audit sees it
for name, n_orders in (("forgotten", 1), ("told", 3)):
    assert len({*map(str, runs[name].results[0])}) == n_orders
sampler = DistributedSampler(range(17), num_replicas=2, rank=0)
loader = DataLoader(range(17), batch_size=3, sampler=sampler)
assert "The order is the same in every epoch" in loaderviz.audit(loader, epochs=2).notes[1]

# %% after many-ranks-40: shares by rank and worker give every sample once
assert audit_run(runs["by_worker"], 17).duplicates["times"].unique().tolist() == [2]
assert audit_run(runs["by_rank_and_worker"], 17).exactly_once

# %% after f87d05b6: rank 0 waits in vain, and the recording names the ranks
assert uneven == [
    "rank 0: ['step 0', 'step 1', 'step 2: nobody answers']",
    "rank 1: ['step 0', 'step 1', 'done']",
]
assert "rank 1 has 2, rank 0 has 3" in str(runs["uneven"].trace.summary())

# %% after many-ranks-51: which batch sizes end well, and what torch waits
from torch.distributed.constants import default_pg_timeout


def ending(samples):
    figures = {size: unequal_ends(samples, 2, size) for size in range(1, 9)}
    return [size for size, each in figures.items() if "All ranks end" in each.layout.title.text]


assert ending(17) == [3, 5, 6, 7]
assert 3 not in ending(19)
assert str(default_pg_timeout) == "0:30:00"

# %% after many-ranks-56: both take two steps
assert [len(events) for events in runs["in_step"].results] == [3, 3]

# %% after many-ranks-70: rank 1's loader holds both up, until it has three workers
slowest = two_ranks(6).summary().slowest
assert (slowest.rank, slowest.cause, slowest.holds_up) == (1, "loader", True)
assert two_ranks(6, workers=2).summary().slowest.rank == 1
assert two_ranks(6, workers=3).summary().slowest is None
rows = two_ranks(6).batches
steps_s = (rows["released_s"] - rows["delivered_s"]).groupby(rows["rank"]).median()
assert steps_s[0] > 1.5 * steps_s[1]
