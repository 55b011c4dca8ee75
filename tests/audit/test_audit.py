"""``audit``: what it finds, what it cannot know, and that it leaves everything as it was."""

import itertools
import random

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
)

import patients
import streams
from frames import let_go
from loaderviz import LoaderVizError, Trace, audit, record, shard_init
from loaderviz.course.datasets import SleepingDataset, SleepingStream
from loaderviz.loaders.content_hash import SampleIdentifier
from patients import in_an_order_of_its_own, not_at_all
from probes import Deadly, Keys, Refusing, as_it_is
from streams import (
    Augmented,
    Cases,
    Counted,
    Endless,
    Floored,
    InBulk,
    Items,
    Lethal,
    Listed,
    Named,
    Opaque,
    Shared,
    UsedUp,
)
from traces import made, together


def two_workers(dataset, **options):
    return DataLoader(dataset, **{"batch_size": 4, "num_workers": 2, **options})


def recorded(loader, epochs=1):
    with record(loader) as rec:
        for _ in range(epochs):
            list(loader)
    return rec.trace


# What comes twice, and what never


def test_nothing_is_extra_where_each_sample_comes_once():
    found = audit(DataLoader(list(range(8)), batch_size=4))
    assert found.exactly_once is True
    assert found.extra.empty
    assert found.epochs["extra"].tolist() == [0]


def test_every_worker_delivers_all_of_a_naive_stream():
    found = audit(two_workers(SleepingStream(20, 0), multiprocessing_context="fork"))
    assert found.exactly_once is False
    assert found.verdict == "Every sample came twice: each of 2 workers delivered all of them"
    assert list(found.duplicates["sample"]) == list(found.duplicates["key"]) == list(range(20))
    assert set(found.duplicates["times"]) == {2}
    assert {frozenset(who) for who in found.duplicates["workers"]} == {frozenset({0, 1})}
    assert found.missing.empty
    assert found.extra.empty
    assert any("loaderviz.shard(" in note for note in found.notes)
    lines = str(found).splitlines()
    assert lines[0] == f"{found.verdict}."
    assert lines[1] == "40 samples delivered for 20 in the dataset · 2 workers · 1 epoch"
    assert lines[2] == "worker 0: 20 (50 %), worker 1: 20 (50 %)"
    assert lines[3].startswith("Remedy: share the samples out")


def alone(dataset, **options):
    return DataLoader(dataset, **options)


def rank_1_of_2(dataset):
    return alone(dataset, sampler=DistributedSampler(dataset, num_replicas=2, rank=1))


MAP, WORDS = SleepingDataset(9, 0), streams.WORDS
NAMED, UNLISTED = Named({"a": 1, ("b", 2): 2, "c": 3}, 3), Listed({"a": 1, "b": 2, "c": 3}, 3)
SLICES = BatchSampler(range(10), 4, drop_last=False)


def case(loader, exactly_once, said="", missing=(), twice=(), **options):
    return pytest.param(loader, options, exactly_once, said, [*missing], [*twice], id=said or None)


@pytest.mark.parametrize(
    ("loader", "options", "exactly_once", "said", "missing", "twice"),
    [
        case(
            two_workers(Floored(range(103)), num_workers=4),
            False,
            "3 of 103 samples never arrived: the remainder of 103 by 4 workers",
            [100, 101, 102],
        ),
        case(
            two_workers(Shared(range(23)), drop_last=True),
            False,
            "drop_last takes each worker's last, partial batch",
            [17, 19, 21],
        ),
        case(
            two_workers(MAP, sampler=[0, 1, 1, 2, 2, 2, 3]),
            False,
            "asks for some samples more than once and does not ask for others.",
            range(4, 9),
            [1, 2],
        ),
        case(
            two_workers(MAP, sampler=SubsetRandomSampler(range(7))),
            False,
            "SubsetRandomSampler does not ask for all samples.",
            [7, 8],
        ),
        case(
            two_workers(Cases([0, 1, 2, 3], [0, 1, 7], [2, 3])),
            False,
            "1 sample came that one process does not read",
        ),
        case(two_workers(Shared(WORDS)), True, "Every sample came exactly once"),
        case(alone(Items([]), batch_size=2), True, "Nothing came: the dataset is empty"),
        case(two_workers(Cases(range(4), [], [])), False, "all 4 samples are missing", range(4)),
        case(alone(NAMED, sampler=["a", ("b", 2), "a"]), False, missing=["c"], twice=["a"]),
        case(alone(UNLISTED, sampler=["c", "a", "b"]), True),
        case(alone(UNLISTED, sampler=["c", "a"]), None, "has no keys()"),
        case(alone(UNLISTED, sampler=["c", "c", "a"]), False, twice=["c"]),
        case(alone(InBulk(list(range(10)), 10), sampler=SLICES, batch_size=None), True),
        case(alone(Shared(range(7)), batch_size=None, num_workers=2), True),
        case(two_workers(Items(list(range(11))), worker_init_fn=shard_init("items")), True),
        case(two_workers(Augmented(20)), None, "audit(loader, key=lambda sample"),
        case(
            two_workers(Augmented(20, share=False)),
            False,
            "40 samples came, where one process reads 20",
        ),
        case(two_workers(Augmented(20)), True, key=streams.name_of),
        case(
            two_workers(Listed(WORDS, 11), drop_last=True),
            False,
            "drop_last takes the last, partial batch",
            ["SAW", "THE", "CAT"],
            key=str.upper,
        ),
        case(
            two_workers(Shared(range(20)), collate_fn=streams.only_even),
            True,
            "only_even makes",
        ),
        case(
            alone(Counted(range(10), 5)),
            True,
            "len(dataset) is 5, and one process reads 10 samples.",
        ),
        case(alone(Counted(range(10), ValueError("no"))), True, "len(dataset) raises ValueError"),
        case(two_workers(Endless()), True, "of the first", n_samples=50),
        case(two_workers(Floored(range(21))), False, missing=[20], n_samples=999),
        case(
            two_workers(SleepingDataset(99, 0), shuffle=True),
            None,
            "whether any is missing is not known",
            n_samples=40,
        ),
        case(rank_1_of_2(SleepingDataset(21, 0)), None, "This is rank 1 of 2"),
    ],
)
def test_what_came_is_counted_against_what_there_is(
    loader, options, exactly_once, said, missing, twice
):
    found = audit(loader, **options)
    assert found.exactly_once is exactly_once
    assert said in " ".join(str(found).split())
    assert list(found.missing["key"]) == missing
    assert list(found.duplicates["key"]) == twice


def test_what_drop_last_takes_is_told_from_what_is_never_read():
    found = audit(two_workers(Floored(range(103)), num_workers=4, batch_size=8, drop_last=True))
    samples = found.missing.groupby("cause")["sample"].apply(list)
    assert samples.to_dict() == {"drop_last": [24, 49, 74, 99], "not read": [100, 101, 102]}


def test_an_endless_stream_that_every_worker_delivers_lacks_nothing_that_was_passed():
    found = audit(two_workers(Endless(share=False)), n_samples=50)
    assert (found.exactly_once, len(found.deliveries)) == (False, 50)
    assert "came twice" in found.verdict
    assert found.missing.empty


def test_shares_of_lists_in_different_orders_overlap_and_leave_gaps():
    for split, is_told in ((in_an_order_of_its_own, True), (not_at_all, False)):
        found = audit(two_workers(patients.Stream(32, split)))
        assert any("overlap and leave gaps" in note for note in found.notes) == is_told


def test_a_shared_stream_comes_once_in_every_epoch():
    loader = two_workers(Shared(range(23)), num_workers=3, persistent_workers=True)
    found = audit(loader, epochs=3)
    assert found.exactly_once is True
    assert found.verdict == "Every sample came exactly once in each of 3 epochs"
    assert list(found.epochs["delivered"]) == [23] * 3
    assert found.n_samples == 23


def test_drop_last_of_a_shuffled_map_style_loader_is_seen_by_key():
    loader = two_workers(SleepingDataset(23, 0), shuffle=True, drop_last=True)
    found = audit(loader, epochs=2)
    assert list(found.epochs["missing"]) == [3, 3]
    assert set(found.missing["cause"]) == {"drop_last"}


counts = st.lists(st.integers(0, 5), max_size=12)


@given(whole=counts, first=counts, second=counts)
@settings(max_examples=4)
def test_any_two_shares_are_counted_against_the_whole(whole, first, second):
    found = audit(two_workers(Cases(whole, first, second), batch_size=3))
    came = first + second
    held = {each: whole.count(each) for each in {*whole, *came}}
    assume(sum(each not in whole for each in came) < 8)  # or content tells no sample
    extra = sum(came.count(each) for each, n in held.items() if n == 0)
    twice = sum(max(came.count(each) - n, 0) for each, n in held.items() if n)
    never = sum(max(n - came.count(each), 0) for each, n in held.items())
    (row,) = found.epochs.to_dict("records")
    assert row["delivered"] == len(came)
    assert (row["duplicates"], row["missing"], row["extra"]) == (twice, never, extra)
    assert found.exactly_once is (sorted(whole) == sorted(came))
    assert len(found.missing) == never
    assert int((found.duplicates["times"] - 1).sum()) == twice
    str(found)


def test_each_worker_has_its_share_also_one_that_is_idle():
    found = audit(DataLoader(Cases(range(6), range(4), [4, 5], []), batch_size=2, num_workers=3))
    assert list(found.per_worker["samples"]) == [4, 2, 0]
    assert list(found.per_worker["batches"]) == [2, 1, 0]
    assert found.per_worker["share"].sum() == pytest.approx(1)
    assert any("Worker 2 delivered nothing" in note for note in found.notes)


def test_the_deliveries_are_in_the_order_in_which_the_loop_got_them():
    loader = two_workers(Shared(range(11)), batch_size=2)
    got = [sample for batch in loader for sample in batch.tolist()]
    found = audit(loader)
    assert list(found.deliveries["sample"]) == got
    assert not found.epochs["in_order"].item()
    assert audit(two_workers(SleepingDataset(11, 0))).epochs["in_order"].item()


# Several epochs


def test_an_order_that_should_change_and_does_not_is_named():
    sampler = DistributedSampler(SleepingDataset(40, 0), num_replicas=1, rank=0, shuffle=True)
    found = audit(DataLoader(SleepingDataset(40, 0), sampler=sampler), epochs=2)
    assert found.exactly_once is True
    assert list(found.epochs["same_order"]) == [pd.NA, True]
    assert any("set_epoch" in note for note in found.notes)
    found = audit(DataLoader(SleepingDataset(40, 0), shuffle=True), epochs=2)
    assert list(found.epochs["same_order"]) == [pd.NA, False]
    assert not any("set_epoch" in note for note in found.notes)


class Losing(RandomSampler):
    """Gives fewer keys each time, and says that it has all."""

    n_given = 40

    def __iter__(self):
        yield from range(self.n_given)
        self.n_given -= 10


def test_what_a_sampler_of_the_users_own_gives_no_more_is_in_the_verdict_and_lost():
    found = audit(DataLoader(range(40), sampler=Losing(range(40))), epochs=3)
    assert list(found.epochs["missing"]) == [0, 10, 20]
    assert found.verdict.startswith("In epoch 1, 10 of 40 samples never arrived")
    assert "1 other epoch is wrong" in found.verdict
    assert list(found.missing["epoch"]) == [1] * 10 + [2] * 20
    found = audit(recorded(DataLoader(range(40), sampler=Losing(range(40))), epochs=2))
    assert list(found.epochs["missing"]) == [0, 10]
    assert found.loses


# What a sample is known by


def numbers_of(samples):
    identify = SampleIdentifier()
    return [identify.key_and_number(sample)[1] for sample in samples]


def test_the_same_content_has_the_same_number_and_other_content_another():
    first, again = numbers_of(streams.every_kind()), numbers_of(streams.every_kind())
    assert first == again
    assert len(set(first)) == len(first)
    assert all(-(2**63) <= number < 2**63 for number in first)


def test_pictures_are_known_by_their_pixels():
    red, blue = (Image.new("RGB", (4, 3), colour) for colour in ("red", "blue"))
    same = Image.new("RGB", (4, 3), "red")
    flat, grey = red.resize((3, 4)), red.convert("L")
    palette = red.convert("P")
    numbers = numbers_of([red, blue, flat, grey, palette])
    assert len(set(numbers)) == 5
    assert numbers_of([same]) == numbers[:1]


texts = st.recursive(
    st.one_of(st.integers(), st.text(), st.binary(), st.booleans(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.tuples(inner, inner), st.dictionaries(st.text(), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=15)
@given(texts, texts)
def test_numbers_agree_just_where_contents_do(first, second):
    alike = first == second and repr(first) == repr(second)
    assert (numbers_of([first]) == numbers_of([second])) is alike


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_every_kind_of_sample_is_known_in_every_worker(method):
    dataset = Shared(streams.every_kind())
    loader = two_workers(dataset, collate_fn=streams.first, multiprocessing_context=method)
    assert audit(loader).exactly_once is True


# A trace alone


def test_a_trace_proves_what_came_twice_and_says_what_it_does_not_know():
    found = audit(recorded(two_workers(SleepingDataset(20, 0))))
    assert found.exactly_once is None
    assert found.n_samples is None
    assert any("does not tell how many samples" in note for note in found.notes)
    found = audit(recorded(two_workers(SleepingDataset(9, 0), sampler=[0, 1, 1, 3])))
    assert found.exactly_once is False
    assert list(found.duplicates["key"]) == [1]
    assert list(found.missing["key"]) == [2]
    assert set(found.missing["cause"]) == {"not in the trace"}


class Failing(list):
    fails = False

    def __getitem__(self, index):
        if self.fails:
            raise ValueError("now")
        return super().__getitem__(index)


def test_what_a_loop_left_is_not_lost():
    loader = DataLoader(range(40), batch_size=4, shuffle=True, num_workers=1)
    with record(loader) as rec:
        list(loader)
        next(iter(loader))
    found = audit(rec.trace)
    assert list(found.epochs["missing"]) == [0, 36]
    assert set(found.missing["cause"]) == {"only a part of the epoch came"}
    assert found.verdict.endswith("are not in the trace: only a part of the epoch came")
    assert not found.loses


def test_what_failed_on_the_way_is_lost():
    loader = DataLoader(Failing([*range(40)]), batch_size=4, shuffle=True)
    with record(loader) as rec:
        list(loader)
        loader.dataset.fails = True
        with pytest.raises(ValueError, match="now"):
            list(loader)
    assert audit(rec.trace).loses


@pytest.mark.parametrize(("state", "loses"), [("failed", True), ("lost", True), ("ready", False)])
def test_where_one_rank_fails_that_the_others_leave_excuses_nothing(state, loses):
    first, second = made(rank=0), made(rank=1)
    second.samples["key"] += len(first.samples)
    for trace, came_to in ((first, state), (second, "ready")):
        last = trace.batches.index[-1]
        trace.batches.loc[last, ["state", "delivered_s", "released_s"]] = came_to, np.nan, np.nan
    found = audit(together(first, second))
    assert len(found.missing) == 2
    assert found.loses == loses


class Anew(list):
    """Batches that come again and again, as of YOLO's InfiniteDataLoader."""

    def __iter__(self):
        while True:
            random.shuffle(self)
            yield from super().__iter__()


@pytest.mark.parametrize(
    ("loader", "is_told"),
    [
        (DataLoader(range(400), batch_size=8, num_workers=1), True),
        (DataLoader(range(400), batch_size=8, shuffle=True), False),
        (DataLoader(SleepingStream(400, 0), batch_size=8), False),  # nobody knows
    ],
)
def test_a_loop_that_begins_anew_for_each_batch_is_told_that_it_gets_the_same(loader, is_told):
    with record(loader) as rec:
        for _step in range(4):
            next(iter(loader))
    assert ("next(iter(loader))" in str(audit(rec.trace))) == is_told


def test_each_time_through_an_endless_sampler_counts_as_an_epoch():
    loader = DataLoader(
        range(12), batch_sampler=Anew([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]), num_workers=1
    )
    with record(loader) as rec:
        for _, _batch in zip(range(7), loader, strict=False):
            pass
    found = audit(rec.trace)
    assert found.duplicates.empty
    assert list(found.epochs["delivered"]) == [12, 12, 4]
    assert not found.loses
    assert "begins anew within the epoch" in " ".join(found.notes)


@pytest.mark.parametrize("n_taken", [None, 10])
def test_a_sampler_that_lists_all_twice_is_not_endless(n_taken):
    loader = DataLoader(range(12), batch_size=2, sampler=[*range(12)] * 2)
    with record(loader) as rec:
        list(itertools.islice(loader, n_taken))
    found = audit(rec.trace)
    assert list(found.epochs["duplicates"]) == [12 if n_taken is None else 8]
    assert found.exactly_once is False


def test_a_sampler_that_draws_again_is_named_with_what_it_was_told():
    sampler = WeightedRandomSampler(torch.ones(40), 80)
    for found in (
        audit(DataLoader(range(40), sampler=sampler)),
        audit(recorded(DataLoader(range(40), sampler=sampler))),
    ):
        assert found.exactly_once is False
        assert found.as_told in found.notes
        assert "WeightedRandomSampler draws with replacement" in found.as_told
    assert found.missing.empty
    without = WeightedRandomSampler(torch.ones(40), 40, replacement=False)
    assert not audit(recorded(DataLoader(range(40), sampler=without))).as_told


@pytest.mark.parametrize(
    "sampler",
    [
        SubsetRandomSampler([1, 3, 5, 7, 30]),
        RandomSampler(range(40), num_samples=7),
        WeightedRandomSampler(torch.ones(40), 7, replacement=False),
    ],
)
def test_what_a_sampler_was_told_to_leave_out_is_not_lost(sampler):
    found = audit(recorded(DataLoader(range(40), sampler=sampler), epochs=2))
    assert found.missing.empty
    assert found.exactly_once is None


def test_a_shuffle_that_a_recorded_loop_repeats_is_named():
    dealt = DistributedSampler(range(40), num_replicas=1, rank=0)
    trace = recorded(DataLoader(range(40), sampler=dealt), epochs=2)
    assert "set_epoch(epoch)" in " ".join(audit(trace).notes)
    shuffled = DataLoader(range(40), shuffle=True)
    with record(shuffled) as rec:
        for _ in range(2):
            torch.manual_seed(0)
            list(shuffled)
    said = " ".join(audit(rec.trace).notes)
    assert "although RandomSampler shuffles: seed torch" in said
    assert "set_epoch" not in said
    assert "The order is the same" not in " ".join(audit(recorded(shuffled, epochs=2)).notes)


def test_a_trace_of_a_stream_knows_only_how_many_came():
    found = audit(recorded(two_workers(SleepingStream(20, 0)), epochs=2))
    assert found.exactly_once is None
    assert list(found.epochs["delivered"]) == [40, 40]
    assert found.epochs["duplicates"].isna().all()
    assert any("audit(loader)" in note for note in found.notes)


def test_ranks_are_audited_as_one():
    dataset = SleepingDataset(21, 0)
    traces = []
    for rank in range(2):
        sampler = DistributedSampler(dataset, num_replicas=2, rank=rank, shuffle=True)
        trace = recorded(two_workers(dataset, sampler=sampler))
        for table in (trace.batches, trace.samples, trace.workers):
            table["rank"] = rank
        traces.append(trace)
    found = audit(together(*traces, **traces[0].meta))
    assert found.exactly_once is False
    assert len(found.deliveries) == 22
    assert found.duplicates["times"].tolist() == [2]  # DistributedSampler pads
    assert "pads" in found.as_told
    assert sorted(found.duplicates["ranks"].item()) == [0, 1]
    assert len(found.per_worker) == 4
    assert found.missing.empty


# What is left as it was


def test_a_training_after_an_audit_is_as_one_without():
    def draws(audited):
        torch.manual_seed(3), random.seed(3), np.random.seed(3)
        own = torch.Generator().manual_seed(5)
        sampler = RandomSampler(range(12), generator=own)
        loaders = [
            two_workers(Keys(12), shuffle=True, num_workers=0, collate_fn=as_it_is),
            two_workers(Keys(12), sampler=sampler, generator=own, collate_fn=as_it_is),
        ]
        if audited:
            for loader in loaders:
                audit(loader)
            audit(two_workers(Augmented(5), num_workers=0))
        return [list(loader) for loader in loaders], streams.noisy()

    assert draws(audited=False) == draws(audited=True)


def test_the_audited_run_is_the_one_that_the_loop_would_have_had():
    loader = DataLoader(Keys(30), batch_size=5, shuffle=True, collate_fn=as_it_is)
    torch.manual_seed(9)
    keys = list(audit(loader).deliveries["sample"])
    torch.manual_seed(9)
    assert keys == [sample["key"] for batch in loader for sample in batch]


def test_the_loader_keeps_its_attributes_and_its_workers():
    loader = two_workers(Shared(range(8)), persistent_workers=True, drop_last=True)
    list(loader)
    before, workers = dict(vars(loader)), list(loader._iterator._workers)
    audit(loader, epochs=2)
    assert vars(loader) == before
    assert all(each.is_alive() for each in workers)
    assert sum(len(batch) for batch in loader) == 8
    del loader, workers, before


# Bad input


def test_options_that_make_no_sense_are_refused_by_value():
    trace = recorded(DataLoader(range(3)))
    for options, why in [
        ({"epochs": 0}, "epochs=0"),
        ({"epochs": None}, "epochs=None"),
        ({"n_samples": 0}, "n_samples=0"),
        ({"epochs": 2, "n_samples": 4}, "n_samples=4"),
        ({"key": "name"}, "key='name'"),
    ]:
        with pytest.raises(LoaderVizError, match=why):
            audit(DataLoader(range(3)), **options)
        with pytest.raises(LoaderVizError, match="a trace is audited as it is"):
            audit(trace, **options)


def test_what_cannot_be_audited_is_refused_before_anything_runs():
    first, second = DataLoader(range(3)), DataLoader(range(4))
    with record(first, second) as rec:
        list(first), list(second)
    spawned = two_workers(Shared(range(3)), multiprocessing_context="spawn")
    for of, options, why in [
        ([1, 2], {}, "takes a torch DataLoader or a Trace"),
        (None, {}, "takes a torch DataLoader or a Trace"),
        (iter([1]), {}, "takes a torch DataLoader or a Trace"),
        (rec.trace, {}, "2 loaders"),
        (Trace.from_columns(), {}, "no batch"),
        (spawned, {"key": lambda sample: sample}, "started by spawn"),
    ]:
        with pytest.raises(LoaderVizError, match=why):
            audit(of, **options)


@pytest.mark.parametrize(
    ("loader", "options", "why", "delivered"),
    [
        (DataLoader(UsedUp(9), batch_size=2), {}, "cannot be iterated twice", 9),
        (
            DataLoader(SleepingDataset(9, 0), sampler=iter(range(9))),
            {"epochs": 2},
            "none in epoch 1: it cannot be iterated twice",
            9,
        ),
        (DataLoader(Listed("abc", TypeError("no length")), sampler=[0, 1, 1]), {}, "no length", 3),
        (DataLoader(Listed("abc", ValueError("negative")), sampler=[0, 1, 1]), {}, "negative", 3),
        (DataLoader(Listed([0, 1, 2], 5)), {}, r"3 raised IndexError.*holds 5 samples", 3),
    ],
    ids=["read once", "sampler read once", "no length", "bad length", "too long"],
)
def test_what_stops_an_audit_is_told_with_what_came(loader, options, why, delivered):
    with pytest.raises(LoaderVizError, match=why) as caught:
        audit(loader, **options)
    found = caught.value.partial
    assert len(found.deliveries) == delivered
    if "leng" in why or "nega" in why:
        assert found.exactly_once is False
        assert list(found.duplicates["key"]) == [1]


def test_a_sample_that_cannot_be_hashed_is_named():
    dataset = Shared([*range(9), Opaque("ninth")])
    with pytest.raises(LoaderVizError, match=r"the Opaque Opaque\('ninth'\).*key=") as caught:
        audit(two_workers(dataset, collate_fn=as_it_is))
    assert str(caught.value).startswith("the Opaque")
    partial = caught.value.partial
    assert partial.exactly_once is None
    assert len(partial.deliveries) <= 9
    let_go(caught.value)


def test_a_key_that_raises_is_named_with_its_sample():
    def first_letter(word):
        return word[0]

    dataset = Shared(["cat", "dog", "", "cow", "emu"])
    with pytest.raises(
        LoaderVizError, match=r"first_letter raised IndexError.*the str ''"
    ) as caught:
        audit(DataLoader(dataset, batch_size=4), key=first_letter)
    let_go(caught.value)


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        (Deadly(20, 13), "worker 0 was killed while it read sample 13"),
        (Lethal(range(20), 9), "worker 1 was killed after 8 samples"),
    ],
    ids=["map-style", "stream"],
)
def test_a_worker_that_dies_is_named_with_how_far_it_came(dataset, said):
    with pytest.raises(LoaderVizError, match=said) as caught:
        audit(two_workers(dataset, batch_size=2, collate_fn=as_it_is))
    assert 0 < len(caught.value.partial.deliveries) < 20
    let_go(caught.value)


class InWorkersAlone(Items):
    """Floored, which knows no process without workers."""

    def __iter__(self):
        info = get_worker_info()
        each = len(self.items) // info.num_workers
        yield from self.items[info.id * each : (info.id + 1) * each]


def test_a_stream_that_only_workers_can_read_is_read_as_its_only_worker_would():
    found = audit(two_workers(InWorkersAlone(range(21))))
    assert found.n_samples == 21
    assert found.missing["sample"].tolist() == [20]
    assert "get_worker_info() of worker 0 of 1" in " ".join(found.notes)
    assert get_worker_info() is None


def test_what_the_dataset_raises_comes_through_as_it_is():
    loader = two_workers(Refusing(9, 3, LookupError("lost")), num_workers=0)
    with pytest.raises(LookupError, match="lost") as caught:
        audit(loader)
    assert not isinstance(caught.value, LoaderVizError)


def test_what_a_recording_left_out_is_not_called_missing():
    loader = DataLoader(range(100), batch_size=10, shuffle=True)
    with record(loader, max_spans=30) as recording:
        for _ in range(3):
            list(loader)
    found = audit(recording.trace)
    assert found.exactly_once is None
    assert found.missing.empty
    assert "missing" not in found.verdict
    assert any("so that none is called missing" in note for note in found.notes)
    assert not any("order" in note or "delivered nothing" in note for note in found.notes)
