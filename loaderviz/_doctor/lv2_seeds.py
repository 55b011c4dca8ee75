"""LV203 and LV207: global generators that are seeded with the same number again."""

from __future__ import annotations

from loaderviz._doctor.batch_probe import Note
from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.generator_notes import drew, first_notes

GLOBAL = ("torch", "numpy.random", "random")


@check(
    "LV203",
    "worker_init_fn gives the same seeds in every epoch",
    "error",
    notebook=5,
    threads="xingyizhou/CenterNet#233",
)
def _constant_seed(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or setup.settings["worker_init_fn"] is None:
        return None
    if setup.persistent:
        return None  # worker_init_fn runs only once
    first, second = (first_notes(case.epoch(number).notes) for number in (0, 1))
    for worker, notes in first.items():
        later_notes = second.get(worker)
        if later_notes is None or notes[0].seed == later_notes[0].seed:
            continue
        for name in GLOBAL:
            same_start = notes[0].started.get(name) == later_notes[0].started.get(name)
            if same_start and name in notes[0].started and drew(notes, name):
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


@check(
    "LV207",
    "Samples seed a global generator with the same number",
    "warning",
    notebook=5,
)
def _seeded_alike(case: Case) -> Seen | None:
    if not case.setup.num_workers:
        return None
    by_epoch = [first_notes(case.epoch(number).notes) for number in (0, 1)]
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
