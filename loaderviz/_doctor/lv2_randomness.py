"""LV2xx: who draws which random numbers, in which worker, epoch and rank."""

from __future__ import annotations

from loaderviz._doctor.batch_probe import Note
from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.process_state import epoch_of
from loaderviz.loaders.held_objects import attributes
from loaderviz.loaders.random_state import held_generators

GLOBAL = ("torch", "numpy.random", "random")
EVALUATION = ("val", "valid", "validation", "eval", "evaluation", "test", "dev", "holdout")


def _first_two(notes: tuple[Note, ...]) -> dict[int, list[Note]]:
    """By worker: the notes with the states of the generators."""
    found: dict[int, list[Note]] = {}
    for note in notes:
        if note.states:
            found.setdefault(note.worker, []).append(note)
    return found


def _drawn(notes: list[Note], path: str) -> bool:
    """Whether a worker drew from this generator while it made its first batches."""
    states = [each.states.get(path) for each in notes]
    before = notes[0].started.get(path)
    return len({*states, *([] if before is None else [before])}) > 1


@check(
    "LV201",
    "Workers draw the same numbers from a generator kept on the dataset",
    "error",
    notebook=5,
    threads="5059",
)
def copied_generator(case: Case) -> Seen | None:
    held = held_generators("dataset", case.setup.dataset)
    if not held or not case.setup.num_workers:
        return None
    if not case.ran:
        raise Undecided(f"{held[0].path} is copied to each worker; {case.why_not}")
    for path, generator in held:
        lines = _alike_in_workers(case, path) or _alike_in_epochs(case, path)
        if lines:
            return seen(
                f"{path} is a {type(generator).__name__} of the dataset, copied to each worker",
                *lines,
                fix="""
def __getitem__(self, index):
    if self.rng is None:  # set to None in __init__
        info = torch.utils.data.get_worker_info()
        self.rng = np.random.default_rng(info.seed if info else torch.initial_seed())
    ...
""",
            )
    return None


def _alike_in_workers(case: Case, path: str) -> list[str]:
    workers = _first_two(case.epoch().notes)
    at: dict[int | None, list[int]] = {}
    for worker, notes in workers.items():
        if _drawn(notes, path):
            at.setdefault(notes[0].states.get(path), []).append(worker)
    alike = next((each for state, each in at.items() if state is not None and len(each) > 1), None)
    return (
        [] if alike is None else [f"workers {sorted(alike)} stand at the same draw after a batch"]
    )


def _alike_in_epochs(case: Case, path: str) -> list[str]:
    first, second = (_first_two(case.epoch(number).notes) for number in (0, 1))
    for worker, notes in first.items():
        if worker in second and _drawn(notes, path):
            again = second[worker][0].states.get(path)
            if again is not None and again == notes[0].states.get(path):
                if _same_first_keys(case, worker):
                    raise Undecided(
                        f"{path} stands where it stood an epoch before, after the same samples: "
                        "a copy, or seeded by each sample"
                    )
                return [f"worker {worker} begins the second epoch with the draws of the first"]
    return []


def _same_first_keys(case: Case, worker: int) -> bool:
    """Whether this worker's first batches of two epochs are of the same samples."""
    trace = case.traces.get("plain")
    if trace is None:
        raise Undecided("the recording was lost")
    own = trace.samples[trace.samples["worker"] == worker]
    keys = []
    for _, epoch in own.groupby("epoch"):
        keys.append(epoch.loc[epoch["batch"] == epoch["batch"].min(), "key"].tolist())
    return len(keys) < 2 or keys[0] == keys[1]


@check(
    "LV202",
    "Every rank draws the same random numbers",
    "error",
    notebook=9,
    threads="huggingface/transformers#37932 meta-pytorch/torchtune#177",
)
def same_on_every_rank(case: Case) -> Seen | None:
    told = case.told()
    if told is None:
        return None
    if any("states" not in each for each in told):
        raise Undecided("not every rank has delivered a batch")
    first = told[0]
    for name in first["drawn"]:
        if all(
            name in each["drawn"] and each["states"].get(name) == first["states"].get(name)
            for each in told
        ):
            seed = first["seed"]
            return seen(
                f"all {len(told)} ranks draw from the same state of {name} "
                f"in worker {0 if first['workers'] else 'none'}",
                *([f"the seed of their workers is {seed} on each"] if seed is not None else []),
                fix="""
torch.manual_seed(seed + torch.distributed.get_rank())  # before the loader is iterated
# or: DataLoader(..., generator=torch.Generator().manual_seed(seed + rank))
""",
            )
    return None


@check(
    "LV203",
    "worker_init_fn gives the same seeds in every epoch",
    "error",
    notebook=5,
    threads="xingyizhou/CenterNet#233",
)
def constant_seed(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or setup.own["worker_init_fn"] is None:
        return None
    if setup.persistent:
        return None  # it runs once
    first, second = (_first_two(case.epoch(number).notes) for number in (0, 1))
    for worker, notes in first.items():
        again = second.get(worker)
        if again is None or notes[0].seed == again[0].seed:
            continue
        for name in GLOBAL:
            same = notes[0].started.get(name) == again[0].started.get(name)
            if same and name in notes[0].started and _drawn(notes, name):
                return seen(
                    f"worker {worker} begins both epochs in the same state of {name}, and draws "
                    "from it",
                    f"torch had seeded it differently: {notes[0].seed}, then {again[0].seed}",
                    fix="""
def seed_worker(worker_id):
    seed = torch.initial_seed() % 2**32  # differs by worker and by epoch
    np.random.seed(seed)
    random.seed(seed)
""",
                )
    return None


@check(
    "LV204", "dataset.epoch does not reach persistent workers", "error", notebook=5, threads="76572"
)
def stale_epoch(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or not setup.persistent or epoch_of(setup.dataset) is None:
        return None
    if not case.ran:
        raise Undecided(f"dataset.epoch and persistent_workers=True; {case.why_not}")
    told: list[int] = []
    for number in (0, 1):
        values = [note.values.get("dataset.epoch") for note in case.epoch(number).notes]
        told += [each for each in values if each is not None]
    set_to = [case.facts.get(f"epoch {number} set") for number in (0, 1)]
    if None in set_to:
        raise Undecided("dataset.epoch was not set from outside")
    if set_to[1] in told or len(set(told)) > 1:
        return None
    return seen(
        f"dataset.epoch was set to {set_to[0]}, then {set_to[1]}; the workers saw {told[0]} both "
        "times: they keep the copy that they began with",
        fix="""
self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # in __init__
dataset.epoch.fill_(epoch)  # in the loop, before the loader is iterated
# or put the epoch into the sampler, which stays in the main process
""",
    )


@check(
    "LV205",
    "Evaluating changes the training: iter() draws from the global generator",
    "warning",
    notebook=5,
    threads="36998",
)
def draws_from_global(case: Case) -> Seen | None:
    setup = case.setup
    if setup.own["generator"] is not None:
        return None
    said = _says_evaluation(case)
    if not said:
        if type(setup.sampler.value).__name__ != "SequentialSampler":
            return None  # shuffled: for training
        raise Undecided(
            "generator is None, and iter(loader) draws from torch's global generator: it matters "
            "if this loader is for evaluation, between epochs of training"
        )
    return seen(
        f"generator is None, and {said}",
        "iter(loader) draws a seed from torch's global generator (torch/utils/data/dataloader.py, "
        "_BaseDataLoaderIter.__init__), so that the epochs of training after it differ",
        fix="DataLoader(..., generator=torch.Generator())",
    )


def _says_evaluation(case: Case) -> str:
    """What tells that the loader is for evaluation."""
    held = attributes(case.setup.dataset)
    for name in ("split", "mode", "subset", "phase"):
        value = held.get(name)
        if type(value) is str and value.lower() in EVALUATION:
            return f"dataset.{name} is {value!r}"
    if held.get("train") is False:
        return "dataset.train is False"
    for name in sorted(case.setup.called):
        if name.lower().split("_")[0] in EVALUATION:
            return f"the loader is called {name}"
    return ""
