"""LV2xx: random numbers, and epochs, that workers, ranks or an evaluation share, or should.

The notes of a worker's first batches hold the states of its generators.
"""

from __future__ import annotations

from loaderviz._doctor.batch_probe import Note
from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.process_state import epoch_of
from loaderviz._doctor.run_epochs import Epoch, EpochSet
from loaderviz.loaders.held_objects import Part, attributes
from loaderviz.loaders.random_state import held_generators

GLOBAL = ("torch", "numpy.random", "random")


def _drew(notes: list[Note], path: str) -> bool:
    """Whether a worker drew from this generator while it made its first batches."""
    states = {note.states.get(path) for note in notes}
    at_start = notes[0].started.get(path)
    return len(states if at_start is None else states | {at_start}) > 1


@check("LV201")
def _copied_generator(case: Case) -> Seen | None:
    generators = _copied(case)
    if not generators or not case.setup.num_workers:
        return None
    if not case.ran:
        raise Undecided(f"{generators[0].path} is copied to each worker; {case.why_not_run}")
    for path, generator in generators:
        lines = _alike_in_workers(case, path) or _alike_in_epochs(case, path)
        if lines:
            return seen(
                f"{path} is a {type(generator).__name__} of which each worker has a copy",
                *lines,
                fix="""
def __getitem__(self, index):
    if self.rng is None:  # set to None in __init__; the same in a collate_fn
        info = torch.utils.data.get_worker_info()
        self.rng = np.random.default_rng(info.seed if info else torch.initial_seed())
    ...
""",
            )
    return None


def _copied(case: Case) -> list[Part]:
    """The generators that each worker has a copy of."""
    setup = case.setup
    return held_generators(dataset=setup.dataset, collate_fn=setup.settings["collate_fn"])


def _alike_in_workers(case: Case, path: str) -> list[str]:
    workers_by_state: dict[int | None, list[int]] = {}
    for worker, notes in case.epoch().first_notes().items():
        if _drew(notes, path):
            workers_by_state.setdefault(notes[0].states.get(path), []).append(worker)
    for state, workers in workers_by_state.items():
        if state is not None and len(workers) > 1:
            return [f"workers {sorted(workers)} have it in the same state after their first batch"]
    return []


def _alike_in_epochs(case: Case, path: str) -> list[str]:
    first, second = (case.epoch(number).first_notes() for number in (0, 1))
    for worker, notes in first.items():
        if worker in second and _drew(notes, path):
            later_state = second[worker][0].states.get(path)
            if later_state is not None and later_state == notes[0].states.get(path):
                if _same_first_keys(case, worker):
                    raise Undecided(
                        f"{path} is in the same state as an epoch ago, after the same samples: "
                        "either a worker's copy of it starts over, or each sample seeds it"
                    )
                return [f"worker {worker} draws the same numbers again in the second epoch"]
    return []


def _same_first_keys(case: Case, worker: int) -> bool:
    """Whether this worker's first batch is of the same samples in both epochs."""
    samples = case.recorded().samples
    keys = []
    for _, epoch in samples[samples["worker"] == worker].groupby("epoch"):
        keys.append(epoch.loc[epoch["batch"] == epoch["batch"].min(), "key"].tolist())
    return len(keys) < 2 or keys[0] == keys[1]


@check("LV203")
def _constant_seed(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or setup.settings["worker_init_fn"] is None:
        return None
    if setup.persistent:
        return None  # worker_init_fn runs only once
    first, second = (case.epoch(number).first_notes() for number in (0, 1))
    for worker, notes in first.items():
        later_notes = second.get(worker)
        if later_notes is None or notes[0].seed == later_notes[0].seed:
            continue
        for name in GLOBAL:
            same_start = notes[0].started.get(name) == later_notes[0].started.get(name)
            if same_start and name in notes[0].started and _drew(notes, name):
                return seen(
                    f"worker {worker} begins both epochs with {name} in the same state, and draws "
                    "from it",
                    "torch had given it different seeds: "
                    f"{notes[0].seed}, then {later_notes[0].seed}",
                    fix="""
def seed_worker(worker_id):
    seed = torch.initial_seed() % 2**32  # differs by worker and by epoch
    np.random.seed(seed)
    random.seed(seed)
""",
                )
    return None


@check("LV207")
def _seeded_alike(case: Case) -> Seen | None:
    if not case.setup.num_workers:
        return None
    by_epoch = [case.epoch(number).first_notes() for number in (0, 1)]
    processes = [notes[:2] for by_worker in by_epoch for notes in by_worker.values()]
    for path in GLOBAL:
        if _is_same_after_each_batch(processes, path):
            n = sum(map(len, processes))
            return seen(
                f"{path} is in the same state after each of {n} batches, though the workers that "
                "made them had begun with different seeds",
                fix="""
def __getitem__(self, index):
    rng = np.random.default_rng((self.seed, index))  # if a sample is to be the same each time
    ...
# else no seed at all: torch has seeded each worker's generators, by worker and by epoch
""",
            )
    return None


def _is_same_after_each_batch(processes: list[list[Note]], path: str) -> bool:
    """Whether a generator that began differently in each process was the same after any batch."""
    begun = [notes[0].started.get(path) for notes in processes]
    after = {note.states.get(path) for notes in processes for note in notes}
    several_batches = any(len(notes) > 1 for notes in processes)
    differed = None not in begun and len(set(begun)) == len(begun) > 1
    return several_batches and differed and len(after) == 1 and None not in after


@check("LV206")
def _same_in_every_epoch(case: Case) -> Seen | None:
    if not case.setup.num_workers:
        return None
    first, second = (_generators_made(case.epoch(number)) for number in (0, 1))
    copied = {path for path, _ in _copied(case)}  # see LV201
    alike: dict[str, dict[int, int]] = {}  # by path and worker, the state that both epochs have
    for (worker, path), state in first.items():
        if path not in copied and second.get((worker, path)) == state:
            alike.setdefault(path, {})[worker] = state
    for path, states in alike.items():
        if len(set(states.values())) == 1:
            raise Undecided(
                f"{path} draws the same in every epoch and every worker: right for an order that "
                "all workers must agree on, wrong for noise and crops"
            )
        return seen(
            f"{path}: workers {sorted(states)} draw the same numbers in the second epoch as in the "
            "first",
            fix="""
def __iter__(self):
    seed = torch.randint(2**62, ()).item()  # differs by worker and by epoch: torch has seen to it
    rng = np.random.default_rng(seed)
    ...
""",
        )
    return None


def _generators_made(epoch: Epoch) -> dict[tuple[int, str], int]:
    """By worker and path, the first state of each generator that a worker made and drew from."""
    drawn = {}
    for worker, notes in epoch.notes_by_worker().items():
        earlier, later = ([note.made for note in notes] + [{}, {}])[:2]
        for path, state in later.items():
            if earlier.get(path, state) != state:
                drawn[worker, path] = earlier[path]
    return drawn


EVALUATION = ("val", "valid", "validation", "eval", "evaluation", "test", "dev", "holdout")


@check("LV202")
def _same_on_every_rank(case: Case) -> Seen | None:
    messages = case.rank_messages()
    if messages is None:
        return None
    if any("states" not in message for message in messages):
        raise Undecided("not every rank has delivered a batch")
    first = messages[0]
    for name in first["drawn"]:
        if all(
            name in message["drawn"] and message["states"].get(name) == first["states"].get(name)
            for message in messages
        ):
            seed = first["seed"]
            where = "worker 0" if first["workers"] else "the main process"
            return seen(
                f"{name} is in the same state on all {len(messages)} ranks, and each draws from it "
                f"(in {where})",
                *([f"their workers have the same base seed: {seed}"] if seed is not None else []),
                fix="""
torch.manual_seed(seed + torch.distributed.get_rank())  # before the loader is iterated
# or: DataLoader(..., generator=torch.Generator().manual_seed(seed + rank))
""",
            )
    return None


@check("LV204")
def _stale_epoch(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or not setup.persistent or epoch_of(setup.dataset) is None:
        return None
    if not case.ran:
        raise Undecided(
            f"the dataset has an epoch, and persistent_workers=True; {case.why_not_run}"
        )
    notes = (*case.epoch(0).notes, *case.epoch(1).notes)
    seen_by_workers = [
        note.values["dataset.epoch"] for note in notes if "dataset.epoch" in note.values
    ]
    set_to = [each.value for each in case.observations if isinstance(each, EpochSet)]
    if len(set_to) < 2 or None in set_to:
        raise Undecided("dataset.epoch could not be set from outside")
    if set_to[1] in seen_by_workers or len(set(seen_by_workers)) > 1:
        return None
    return seen(
        f"dataset.epoch was set to {set_to[0]}, then to {set_to[1]}, but the workers saw "
        f"{seen_by_workers[0]} both times: they keep the copy that they began with",
        fix="""
self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # in __init__
dataset.epoch.fill_(epoch)  # in the loop, before the loader is iterated
# or put the epoch into the sampler, which stays in the main process
""",
    )


@check("LV205")
def _draws_from_global(case: Case) -> Seen | None:
    setup = case.setup
    if setup.settings["generator"] is not None:
        return None
    reason = _why_for_evaluation(case)
    if not reason:
        if type(setup.sampler.value).__name__ != "SequentialSampler":
            return None  # shuffled: for training
        raise Undecided(
            "generator is None, so iter(loader) draws from torch's global generator: this matters "
            "if the loader is for evaluation between epochs of training"
        )
    return seen(
        f"generator is None, and the loader is for evaluation: {reason}",
        "iter(loader) draws a seed from torch's global generator (torch/utils/data/dataloader.py, "
        "_BaseDataLoaderIter.__init__), which changes the epochs of training after it",
        fix="DataLoader(..., generator=torch.Generator())",
    )


def _why_for_evaluation(case: Case) -> str:
    """Why the loader seems to be for evaluation; empty if it does not."""
    dataset = attributes(case.setup.dataset)
    for name in ("split", "mode", "subset", "phase"):
        value = dataset.get(name)
        if type(value) is str and value.lower() in EVALUATION:
            return f"dataset.{name} is {value!r}"
    if dataset.get("train") is False:
        return "dataset.train is False"
    for name in sorted(case.setup.loader_names):
        if name.lower().split("_")[0] in EVALUATION:
            return f"the loader is called {name}"
    return ""
