"""The states of random generators in each worker, as notes of its first batches tell them."""

from __future__ import annotations

from loaderviz._doctor.batch_probe import Note


def first_notes(notes: tuple[Note, ...]) -> dict[int, list[Note]]:
    """By worker, the notes that hold states of generators: those of its first two batches."""
    notes_by_worker: dict[int, list[Note]] = {}
    for note in notes:
        if note.states:
            notes_by_worker.setdefault(note.worker, []).append(note)
    return notes_by_worker


def drew(notes: list[Note], path: str) -> bool:
    """Whether a worker drew from this generator while it made its first batches."""
    states = {note.states.get(path) for note in notes}
    at_start = notes[0].started.get(path)
    return len(states if at_start is None else states | {at_start}) > 1
