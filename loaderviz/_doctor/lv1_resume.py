"""LV109 to LV113: what becomes of the batches, the draws and the time when training resumes."""

from __future__ import annotations

import math
import pickle
import time
from dataclasses import dataclass
from statistics import median
from typing import Any

from loaderviz._doctor.checks import Seen, check, look, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.resume_trial import ResumeTrial
from loaderviz.text import count, duration, percent, size

DEAR_STATE_SHARE = 0.05  # of a batch's time: less is hardly felt
DEAR_STATE_S = 0.0005  # any state takes some 0.1 ms: a part of a batch where nothing is read
STATES = 5  # are saved, to time one

# Code to paste that makes a loader resume exactly, or at once.
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


def _trial(case: Case, *, by_state: bool | None = None) -> ResumeTrial | None:
    """The trial; None where nobody wants to resume, or not in this way.

    Raises Undecided if it could not be made, or the loader failed when it was resumed.
    """
    if not case.setup.is_to_resume:
        return None
    case.epoch()
    trial = case.observed(ResumeTrial)
    if trial is None:
        raise Undecided("resuming was not tried out: it takes a copy of this process, and time")
    if trial.undecided:
        raise Undecided(f"resuming could not be tried out: {trial.undecided}")
    if by_state is None:
        return trial
    first = trial.attempts[0]
    if first.way.by_state != by_state:
        return None
    if first.run.failure:
        raise Undecided(f"it could not be resumed here: {first.run.failure}")
    return trial


def _evidence(trial: ResumeTrial) -> tuple[str, str]:
    attempt = trial.attempts[0]
    difference = attempt.difference
    assert difference is not None
    batch = trial.n_before + difference.at
    return (
        f"stopped after {count(trial.n_before, 'batch', 'batches')} and resumed in a new process "
        f"from {attempt.way.saved}: {difference.text}",
        f"{difference.n_batches} of {difference.n_compared} batches differ, the first is batch "
        f"{batch}",
    )


@check("LV109")
def _resumes_elsewhere(case: Case) -> Seen | None:
    trial = _trial(case, by_state=True)
    if trial is None:
        return None
    first, restored = trial.attempts[0], trial.attempts[-1]
    if first.difference is None or first.difference.kind == "draws":
        return _after_the_end(trial)
    if not trial.whole.batches[0].keys:
        if restored.exact:
            return None  # the batches were those: see LV111
        if first.difference.kind == "others" and not _is_steady(case):
            raise Undecided("contents differ on every read, so they say nothing about the order")
    # torchdata's goes on where its dataset and sampler can
    fix = _skip_fix(case) if "snapshot_every_n_steps" in case.setup.settings else STATEFUL
    return seen(*_evidence(trial), fix=fix)


def _after_the_end(trial: ResumeTrial) -> Seen | None:
    n, n_whole = trial.n_after_end, len(trial.whole.batches)
    if n is None or n >= n_whole:
        return None
    return seen(
        f"saved after the last batch of an epoch: the epoch after resuming has "
        f"{count(n, 'batch', 'batches')} in place of {n_whole}",
        fix=STATEFUL,
    )


def _is_steady(case: Case) -> bool:
    """Whether nothing was drawn from a generator between two batches: contents do not vary."""
    first_two = next(iter(case.epoch().first_notes().values()), [])
    return len(first_two) == 2 and first_two[0].states == first_two[1].states


@check("LV110")
def _other_order(case: Case) -> Seen | None:
    trial = _trial(case, by_state=False)
    if trial is None:
        return None
    difference, cured = trial.attempts[0].difference, trial.attempts[-1].exact
    if difference is None or difference.kind == "draws":
        return None
    if not trial.whole.batches[0].keys and cured:
        raise Undecided("of a stream, other draws and another order look the same: see LV111")
    return seen(*_evidence(trial), _restored(cured), fix=SEED_BY_EPOCH)


def _restored(cured: bool) -> str:
    if cured:
        return "with the states of the generators restored, all are the same"
    return "the states of the generators of the main process do not bring them back"


@check("LV111")
def _other_draws(case: Case) -> Seen | None:
    trial = _trial(case, by_state=True) or _trial(case, by_state=False)
    if trial is None or trial.attempts[0].difference is None:
        return None
    cured, stream = trial.attempts[-1].exact, not trial.whole.batches[0].keys
    if trial.attempts[0].difference.kind != "draws" and not (stream and cured):
        return None  # see LV109 and LV110
    by_generators = cured and trial.attempts[0].way.by_state
    fix = SAVE_GENERATORS if by_generators else SEED_BY_KEY
    return seen(*_evidence(trial), _restored(cured), fix=fix)


@check("LV112")
def _reads_again(case: Case) -> Seen | None:
    trial = _trial(case)
    if trial is None:
        return None
    if math.isnan(trial.go_on_s):
        raise Undecided("no batch came after resuming")
    if not trial.is_dear:
        return None
    return seen(
        f"going on after {count(trial.n_before, 'batch', 'batches')} took "
        f"{duration(trial.go_on_s)}; the first batch of an epoch takes {duration(trial.start_s)}",
        fix=_skip_fix(case),
    )


def _skip_fix(case: Case) -> str:
    return SAVE_PLACE if case.setup.iterable else SEED_BY_EPOCH


@dataclass(frozen=True)
class SavedState:
    """What it takes a worker to say where its dataset is."""

    seconds: float  # to make and pickle it, the median of some
    n_bytes: int


@look(SavedState)
def save_a_state(setup: Setup, until: float) -> SavedState | None:
    """Ask the dataset for its state as torchdata's workers do; None where it has none.

    They ask the dataset, or the iterator of a stream
    (torchdata/stateful_dataloader/worker.py, ``_worker_loop``).
    """
    if "snapshot_every_n_steps" not in setup.settings or not setup.num_workers:
        return None
    holder: Any = setup.dataset
    if setup.iterable and not hasattr(holder, "state_dict"):
        holder = iter(holder)
        next(holder)
    if not hasattr(holder, "state_dict"):
        return None
    times_s, n_bytes = [], 0
    for _ in range(STATES):
        begun_s = time.perf_counter()
        n_bytes = len(pickle.dumps(holder.state_dict()))
        times_s.append(time.perf_counter() - begun_s)
    return SavedState(median(times_s), n_bytes)


@check("LV113")
def _dear_snapshots(case: Case) -> Seen | None:
    every = case.setup.settings.get("snapshot_every_n_steps")
    if every is None or not case.setup.num_workers:
        return None
    epoch, state = case.epoch(), case.observed(SavedState)
    if state is None or not every:
        return None
    batch_s = epoch.pace_s * case.setup.num_workers  # at best: of one worker
    share = state.seconds / every / batch_s
    if not share >= DEAR_STATE_SHARE or state.seconds / every < DEAR_STATE_S:
        return None
    return seen(
        f"with snapshot_every_n_steps={every}, a worker saves a state of {size(state.n_bytes)} in "
        f"{duration(state.seconds)}: {percent(min(share, 1))} of the time of its batches",
        fix="""
# As often as you save; it goes on exactly from between two snapshots, too.
StatefulDataLoader(dataset, ..., snapshot_every_n_steps=1000)
""",
    )
