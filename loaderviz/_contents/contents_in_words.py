"""What came of comparing contents, in words: the states of samples, a sentence, and notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch.utils.data import default_collate, default_convert

from loaderviz._contents.collate_trial import CollateTrial
from loaderviz._contents.read_alone import Reference
from loaderviz._contents.repeated_tail import repeated_tail
from loaderviz.text import count

if TYPE_CHECKING:
    import pandas as pd

# States of a delivered sample, in the order in which they are told.
SAME, BUFFER, REPLACED, CHANGED, DROPPED = "same", "buffer", "replaced", "changed", "dropped"
RANDOM, NOT_COMPARED = "random", "not compared"
WRONG = (BUFFER, REPLACED, CHANGED, DROPPED)
UNKNOWN = (RANDOM, NOT_COMPARED)

WORDS = {
    BUFFER: "were overwritten when another was read",
    REPLACED: "hold what another key holds",
    CHANGED: "hold something else than the dataset does when it is read alone",
    DROPPED: "were left out of their batch by collate_fn",
}

FILLED = "came in place of what could not be read"
ONE_BUFFER = (
    "A sample changes when a later one is read: the dataset gives the same buffer again and "
    "again. Remedy: give a copy of it, sample.clone() or sample.copy()."
)


def names_of(**functions: Any) -> dict[str, str]:
    """What to call the reader's own functions, by what they are to the loader."""
    return {
        name: str(getattr(function, "__qualname__", type(function).__name__))
        for name, function in functions.items()
        if function not in (None, default_collate, default_convert)
    }


def sentence_on(
    states: Sequence[str],
    reference: Reference,
    n_left_out: int,
    n_unknown: int,
    names: Mapping[str, str],
    trial: CollateTrial,
) -> str:
    """What was compared, and what came of it, without its full stop."""
    sentence = _on_samples(states, reference, n_left_out)
    if trial.faults:
        fault = trial.faults[0].replace("collate_fn", f"collate_fn={names['collate_fn']}", 1)
        of_samples = n_left_out or reference.reads_change or {*WRONG} & {*states}
        return f"{sentence}; {fault}" if of_samples else fault
    if n_left_out:
        return sentence
    if n_unknown:
        return f"{sentence}, before collate_fn made fewer rows of them"
    if "collate_fn" in names and SAME in states:
        return f"{sentence}, before collate_fn={names['collate_fn']} made batches of them"
    return sentence


def _on_samples(states: Sequence[str], reference: Reference, n_left_out: int) -> str:
    counts, n = Counter(states), len(states)
    counts[DROPPED] = n_left_out
    n_compared = n - sum(counts[state] for state in UNKNOWN)
    if any(counts[state] for state in WRONG):
        words = {**WORDS, REPLACED: FILLED} if reference.filled else WORDS
        return "; ".join(
            f"{counts[state]:,} of {count(n, 'sample')} {words[state]}"
            for state in WRONG
            if counts[state]
        )
    if reference.reads_change:
        key = reference.reads_change[0]
        return f"what key {key!r} holds depends on what was read before it"
    if n_compared:
        are = "are" if n_compared == n else "were compared, and are"
        own = f"{n_compared:,} of {count(n, 'sample')} {are} the dataset's own"
        tail = repeated_tail(reference)
        return own if tail is None else f"{own}, and from key {tail.first:,} on they repeat"
    return f"contents were not compared: {_why_not(counts, reference)}"


def _why_not(counts: Counter[str], reference: Reference) -> str:
    if reference.not_read:
        return reference.not_read
    if counts[RANDOM]:
        return "each read differs, as random augmentation makes it"
    if reference.raised:
        return f"read alone, the dataset raises {next(iter(reference.raised.values()))}"
    if any(number is not None for number in reference.numbers.values()):
        return "the dataset makes batches of its own"
    return "they have no content that can be told from others"


def notes_on(
    table: pd.DataFrame,
    reference: Reference,
    n_left_out: int,
    names: Mapping[str, str],
    trial: CollateTrial,
    own_orders: bool,
) -> Iterator[str]:
    """What else was seen, and the ways out, a note each."""
    states = set(table["state"])
    yield from (f"{fault[:1].upper()}{fault[1:]}." for fault in trial.faults[1:])
    if BUFFER in states or reference.reused:
        yield ONE_BUFFER
    if reference.reads_change and not own_orders:
        yield (
            f"Reading changes what is read later: key {reference.reads_change[0]!r} holds "
            "something else once others were read, with the same random numbers. Remedy: copy what "
            "is changed in place, before that; and let a cache tell all keys apart."
        )
    if REPLACED in states and reference.swallowed:
        yield _note_on_swallowed(table, reference)
    elif own_orders:
        yield (
            "Each worker has the data in an order of its own, by chance: a key stands for one "
            "sample in one worker and for another in the next. Remedy: one order for all, such as "
            "ORDER BY a key, a sorted list of files, or a shuffle with a seed."
        )
    elif reference.reads_change:
        pass  # which says it all
    elif {REPLACED, CHANGED} & states and not (table["worker"] >= 0).any():
        yield (
            "The data has changed while the loader ran: something works in place on what the "
            "dataset keeps, be it a transform, collate_fn or the loop. Remedy: copy it before."
        )
    elif {REPLACED, CHANGED} & states and not trial.faults:
        init = names.get("worker_init_fn")
        blamed = f"worker_init_fn={init} changes" if init else "something changes"
        yield (
            "In the workers these keys hold something else than here. Either "
            f"{blamed} a worker's copy of the dataset, or all workers read from one file, "
            "connection or other handle that was opened before the fork: open it in the worker."
        )
    if n_left_out:
        leaves_out = "leaves out samples"
        if trial.fills_gaps:
            leaves_out = "puts other samples in the place of those that are None"
        yield (
            f"collate_fn={names.get('collate_fn', '')} {leaves_out}. Leave such keys out of the "
            "dataset, so that batches have their size, and no evaluation lacks them unseen."
        )
    unknown = set(table.loc[table["state"].isin(UNKNOWN), "key"])
    silent = [error for key, error in reference.swallowed.items() if key in unknown]
    if silent:
        yield (
            f"For {count(len(silent), 'key')} {silent[0].line} met {silent[0].name} "
            f"({silent[0].message}, say), and went on: whether what it gives then is theirs is "
            "not known."
        )
    n_random = int((table["state"] == RANDOM).sum())
    if n_random and n_random < len(table):
        differ = count(n_random, "sample differs", "samples differ")
        yield f"{differ} with each read (random), and not compared."
    if (tail := repeated_tail(reference)) is not None:
        yield (
            f"Key {tail.first:,} and those after it hold {tail.held}: the dataset is longer than "
            "its data, unless that is meant."
        )
    n_read, n_keys = len(reference.numbers), table["key"].nunique()
    if 0 < n_read < n_keys:
        yield (
            f"{n_read:,} of {count(n_keys, 'key')}, drawn at random, were read to compare with: "
            "budget_s= gives it more time."
        )


def on_fewer_rows(n: int, names: Mapping[str, str]) -> Iterator[str]:
    """What is said where ``collate_fn`` makes so many rows fewer than it gets samples."""
    if n:
        yield (
            f"collate_fn={names.get('collate_fn', '')} makes {count(n, 'row')} fewer than there "
            "are samples: whether it puts them together or leaves some out is not known."
        )


def _note_on_swallowed(table: pd.DataFrame, reference: Reference) -> str:
    replaced = set(table.loc[table["state"] == REPLACED, "key"])
    met = [error for key, error in reference.swallowed.items() if key in replaced]
    error = (met or list(reference.swallowed.values()))[0]
    return (
        f"For {count(len(met), 'key')} {error.line} met {error.name} ({error.message}, say), and "
        "something else was returned in place of the sample that was asked for. Let it raise, or "
        "leave such keys out of the dataset."
    )
