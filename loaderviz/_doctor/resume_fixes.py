"""Code to paste that makes a loader resume exactly, or at once: for LV109 to LV112."""

STATEFUL = """
from torchdata.stateful_dataloader import StatefulDataLoader  # 0.11 or later

loader = StatefulDataLoader(dataset, ...)  # and state_dict()/load_state_dict() of the dataset
"""
SAVE_GENERATORS = """
state = {"loader": loader.state_dict(), "torch": torch.get_rng_state()}  # also numpy.random, random
...
loader.load_state_dict(state["loader"])
batches = iter(loader)  # draws a number itself:
torch.set_rng_state(state["torch"])  # so only now
for batch in batches: ...
"""
SEED_BY_EPOCH = """
class EpochSampler(torch.utils.data.Sampler):  # the order is a function of seed and epoch
    def __init__(self, dataset, seed=0):
        self.n, self.seed, self.epoch, self.start = len(dataset), seed, 0, 0

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        start, self.start = self.start, 0
        return iter(torch.randperm(self.n, generator=generator).tolist()[start:])

    def __len__(self):
        return self.n - self.start

# In the loop: sampler.epoch = epoch. Save the epoch and how many batches the loop has had.
# To resume, set both: sampler.start = n_batches * batch_size
"""
SEED_BY_KEY = """
def __getitem__(self, key):  # draws are a function of seed, epoch and key
    rng = np.random.default_rng([self.seed, self.epoch, key])
    ...
"""
SAVE_PLACE = """
class Stream(IterableDataset):  # of a torchdata StatefulDataLoader
    def state_dict(self):
        return {"at": self.at}  # where to go on: shard and place, or a byte of a file

    def load_state_dict(self, state):
        self.at = state["at"]
"""
