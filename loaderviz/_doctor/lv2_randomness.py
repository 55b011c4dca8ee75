"""LV2xx: which random numbers are drawn, in which worker, epoch and rank."""

from __future__ import annotations

from loaderviz._doctor.batch_probe import Note
from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.generator_notes import drew, first_notes
from loaderviz._doctor.process_state import epoch_of
from loaderviz.loaders.held_objects import Part, attributes
from loaderviz.loaders.random_state import held_generators

EVALUATION = ("val", "valid", "validation", "eval", "evaluation", "test", "dev", "holdout")


@check(
    "LV201",
    "Workers draw the same numbers from their copies of a generator",
    "error",
    notebook=5,
    threads="5059",
)
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
    for worker, notes in first_notes(case.epoch().notes).items():
        if drew(notes, path):
            workers_by_state.setdefault(notes[0].states.get(path), []).append(worker)
    for state, workers in workers_by_state.items():
        if state is not None and len(workers) > 1:
            return [f"workers {sorted(workers)} have it in the same state after their first batch"]
    return []


def _alike_in_epochs(case: Case, path: str) -> list[str]:
    first, second = (first_notes(case.epoch(number).notes) for number in (0, 1))
    for worker, notes in first.items():
        if worker in second and drew(notes, path):
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
    if case.trace is None:
        raise Undecided("the recording was lost")
    samples = case.trace.samples
    keys = []
    for _, epoch in samples[samples["worker"] == worker].groupby("epoch"):
        keys.append(epoch.loc[epoch["batch"] == epoch["batch"].min(), "key"].tolist())
    return len(keys) < 2 or keys[0] == keys[1]


@check(
    "LV202",
    "Every rank draws the same random numbers",
    "error",
    notebook=9,
    threads="huggingface/transformers#37932 meta-pytorch/torchtune#177",
)
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


@check(
    "LV204", "dataset.epoch does not reach persistent workers", "error", notebook=5, threads="76572"
)
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
    set_to = [case.epochs_set.get(number) for number in (0, 1)]
    if None in set_to:
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


@check(
    "LV205",
    "Evaluating changes the training: iter() draws from the global generator",
    "warning",
    notebook=5,
    threads="36998",
)
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


@check(
    "LV206",
    "A generator made in a worker begins every epoch with the same seed",
    "error",
    notebook=5,
)
def _same_in_every_epoch(case: Case) -> Seen | None:
    if not case.setup.num_workers:
        return None
    first, second = (_generators_made(case.epoch(number).notes) for number in (0, 1))
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


def _generators_made(notes: tuple[Note, ...]) -> dict[tuple[int, str], int]:
    """By worker and path, the first state of each generator that a worker made and drew from."""
    drawn = {}
    for worker in {note.worker for note in notes}:
        earlier, later = ([note.made for note in notes if note.worker == worker] + [{}, {}])[:2]
        for path, state in later.items():
            if earlier.get(path, state) != state:
                drawn[worker, path] = earlier[path]
    return drawn
