"""LV125: do ranks read the same samples? Of map-style datasets; LV101 is the same for streams."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

from torch.utils.data import Dataset, RandomSampler

from loaderviz import machine
from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.lv1_contents import names_used_by
from loaderviz._doctor.rank_messages import MOST_SAMPLES
from loaderviz.loaders.held_objects import is_a
from loaderviz.sample_keys import BITS_OF_KEY
from loaderviz.text import count
from loaderviz.trace.underlying_keys import KnownDatasets, key_of

EQUAL = 0.1  # of the samples, with equal contents under other keys: fewer may be padding
MOST_RANKS = 64  # of which each is compared with each
KNOWS_RANKS = (
    "rank",
    "world_size",
    "process_index",
    "environ",
)  # part of a name in the dataset's code

DEAL_OUT = """
sampler = DistributedSampler(dataset)  # a part for each rank, in an order by chance
loader = DataLoader(dataset, sampler=sampler, ...)
sampler.set_epoch(epoch)  # before each epoch
# Only ranks that hold parts of one model must read the same samples: then all is well.
"""
SAME_SEED = """
sampler = DistributedSampler(dataset, seed=0)  # the same on every rank: it knows its own rank
sampler.set_epoch(epoch)  # the same on every rank, too
"""
SAME_SPLIT = """
generator = torch.Generator().manual_seed(0)  # the same on every rank
training, validation = random_split(dataset, [0.8, 0.2], generator=generator)
"""


SAME_ORDER = """
random.Random(0).shuffle(self.files)  # the same order on every rank; or leave it to the sampler
"""


@dataclass(frozen=True)
class _Pair:
    """Two ranks that have samples in common."""

    ranks: tuple[int, int]
    n_common: int
    messages: tuple[dict[str, Any], dict[str, Any]]  # their ``samples``

    def __str__(self) -> str:
        fewest = min(len(message["keys"]) for message in self.messages)
        first = "" if fewest < MOST_SAMPLES else ", of those with the lowest keys"
        one, other = self.ranks
        return (
            f"ranks {one} and {other} have {self.n_common} of {count(fewest, 'sample')} in common"
            f"{first}"
        )


@check("LV125")
def _same_samples(case: Case) -> Seen | None:
    if case.setup.iterable:
        return None
    try:
        messages = case.rank_messages()
    except Undecided as reason:
        raise Undecided(_suspicion(case, str(reason))) from None
    if messages is None:
        return None
    if not all(message.get("samples") for message in messages):
        raise Undecided("not every rank has delivered a batch")
    pair = _most_in_common(messages)
    unlike = _unlike_samplers(messages)
    if unlike:
        return seen(*unlike, *([str(pair)] if pair else []), fix=SAME_SEED)
    if pair is not None and _hold_the_same(case, pair):
        return _judged(case, pair)
    return _under_other_keys(messages)


def _suspicion(case: Case, reason: str) -> str:
    part = case.setup.sampler
    if not is_a(part.value, RandomSampler):
        return reason
    return (
        f"there are {machine.world_size()} ranks, and {part.path} is a "
        f"{type(part.value).__name__}, which knows of none: unless the dataset is this rank's own "
        f"part, each rank reads all of it; {reason}"
    )


def _unlike_samplers(messages: tuple[dict[str, Any], ...]) -> list[str]:
    """In what the ranks' DistributedSamplers differ that must be the same for all."""
    samplers = [message.get("sampler") or {} for message in messages]
    if not all(
        each.get("num_replicas") == len(messages) and each.get("shuffle") for each in samplers
    ):
        return []
    values = {name: [each.get(name) for each in samplers] for name in ("seed", "epoch")}
    return [
        f"the DistributedSampler's {name}, by rank, is {by_rank[:8]}: each rank deals out another "
        "order, so samples come twice or not at all"
        for name, by_rank in values.items()
        if len(set(by_rank)) > 1
    ]


def _most_in_common(messages: tuple[dict[str, Any], ...]) -> _Pair | None:
    """The two ranks with most in common; None where that is no more than the padding of one."""
    some = [*enumerate(messages)][:MOST_RANKS]
    keys = [_keys(message["samples"]) for _, message in some]
    pairs = [
        _Pair((a, b), len(keys[a] & keys[b]), (one["samples"], other["samples"]))
        for (a, one), (b, other) in combinations(some, 2)
        if not _share_a_part(one["sampler"], other["sampler"])
    ]
    most = max(pairs, key=lambda pair: pair.n_common, default=None)
    padding = max(message["samples"]["largest_batch"] for message in messages)
    return most if most is not None and most.n_common > padding else None


def _share_a_part(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two ranks were told to read the same part, as those that share one model are."""
    return bool(one) and one.get("rank") == other.get("rank")


def _keys(samples: dict[str, Any]) -> set[tuple[str, Any]]:
    """Each with the class of the dataset that it is a key of."""
    names = [dataset["class"] for dataset in samples["datasets"]]
    return {
        (names[key >> BITS_OF_KEY], key_of(key)) if type(key) is int else (names[0], key)
        for key in samples["keys"]
    }


def _hold_the_same(case: Case, pair: _Pair) -> bool:
    """Whether a key is the same sample on both ranks; raises Undecided."""
    one, other = (message["contents"] for message in pair.messages)
    compared = [bool(one[key] == other[key]) for key in one if key in other]
    if compared:
        return sum(compared) > len(compared) // 2
    known = KnownDatasets()
    first, second = ([*map(known.number, each["datasets"])] for each in pair.messages)
    if first != second:
        return False
    datasets = [part.value for part in case.setup.parts if is_a(part.value, Dataset)]
    names = {name.lower() for dataset in datasets for name in names_used_by(dataset)}
    if any(word in name for name in names for word in KNOWS_RANKS):
        raise Undecided(
            f"{pair}, by key; but the dataset's code knows of ranks, and its samples differ with "
            "each read, so they could not be compared"
        )
    return True


def _under_other_keys(messages: tuple[dict[str, Any], ...]) -> Seen | None:
    """Samples of equal contents on two ranks, where no rank has such by itself."""
    some = [*enumerate(messages)][:MOST_RANKS]
    if any(message["samples"]["has_twins"] for _, message in some):
        return None
    for (a, one), (b, other) in combinations(some, 2):
        if _share_a_part(one["sampler"], other["sampler"]):
            continue
        held, held_there = one["samples"]["held"], other["samples"]["held"]
        n_equal, n = len({*held} & {*held_there}), min(len(held), len(held_there))
        if n_equal > max(EQUAL * n, one["samples"]["largest_batch"]):
            return seen(
                f"{n_equal} of {count(n, 'sample')} hold the same on ranks {a} and {b}, "
                "under other keys: each has the data in another order",
                fix=SAME_ORDER,
            )
    return None


def _judged(case: Case, pair: _Pair) -> Seen:
    part, (one, other) = case.setup.sampler, pair.messages
    if one["behind"] != other["behind"]:
        name = one["datasets"][0]["class"]
        return seen(str(pair), f"each has another Subset of {name}", fix=SAME_SPLIT)
    if one["with_repeats"] or other["with_repeats"]:
        raise Undecided(f"{pair}: each draws some more than once, so it may draw what others do")
    if one["in_order"] and other["in_order"]:
        raise Undecided(
            f"{pair}, and read them in order: right where each rank evaluates for itself, and not "
            "where they share the work"
        )
    return seen(
        str(pair),
        f"{part.path} is a {type(part.value).__name__}"
        + (", which knows of no rank" if is_a(part.value, RandomSampler) else ""),
        fix=DEAL_OUT,
    )
