"""A trace that holds what cannot be is refused, with the value, its place and the way out."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import loaderviz as lv
from damage import rewrite_parquet
from loaderviz import LoaderVizError, Trace
from traces import made

LOADER = {"num_workers": 2, "prefetch_factor": 2, "batch_size": 4}


VALUES = {
    "batches": {
        "rank": [-1, 2**31],
        "loader": [10**7],
        "epoch": [2**31],
        "batch": [-1],
        "worker": [10**7],
        "n_samples": [10**8],
        "ready_s": [math.inf],
        "delivered_s": [1e308],
        "n_bytes": [-1.0],
        "state": ["gone"],
        "shapes": [3],
    },
    "samples": {"epoch": [3], "batch": [100], "position": [3, -1], "start_s": [-math.inf]},
    "workers": {"pid": [-1], "exit": ["gone"], "start_method": [3]},
    "spans": {"name": [3], "end_s": [1e10]},
}


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        (table, column, value)
        for table, columns in VALUES.items()
        for column, values in columns.items()
        for value in values
    ],
)
def test_a_value_that_cannot_be_is_named(table, column, value):
    trace = replace(made(), spans=Trace.from_columns(spans={"name": ["a"]}).spans)
    changed = getattr(trace, table).copy()
    changed.loc[changed.index[-1], column] = value
    with pytest.raises(LoaderVizError, match=column if table != "samples" else "sample") as refusal:
        replace(trace, **{table: changed})
    digits = str(refusal.value).replace(",", "")
    assert str(value) in digits


@pytest.mark.parametrize(
    "meta",
    [
        {"loaders": "x"},
        {"loaders": [None]},
        {"loaders": [LOADER | {"num_workers": 10**7}]},
        {"loaders": [LOADER | {"num_workers": "many"}]},
        {"loaders": [LOADER | {"prefetch_factor": 1e308}]},
        {"loaders": [LOADER | {"num_workers": 1000, "prefetch_factor": 1000}]},
        {"loaders": [LOADER | {"batch_size": "x"}]},
        {"loaders": [LOADER | {"kind": 1}]},
        {"cpu_allowance": [1]},
        {"cpu_allowance": 0},
        {"cpu_allowance": math.nan},
        {"rank": "first"},
        {"rank": -1},
        {"started": "now"},
        {"started": [1, 10**30]},
        {"ranks": [{"rank": "first"}]},
        {"ranks": [{}]},
        {"ranks": [{"rank": 0, "uncertainty_s": "little"}]},
        {"clock": {"offset_ns": 0.5}},
        {"problems": 7},
        {"left_out": "many"},
        {"world_size": 10**400},
        {"recorded_s": 10**400},
        {"pressure_s": {"cpu": "all"}},
    ],
    ids=lambda meta: str(meta)[:60],
)
def test_a_meta_that_cannot_be_is_named(meta):
    with pytest.raises(LoaderVizError, match=next(iter(meta))):
        replace(made(), meta=meta)


def test_a_table_of_other_columns_or_types_is_refused():
    trace = made()
    with pytest.raises(LoaderVizError, match="batches has the columns"):
        replace(trace, batches=trace.batches.drop(columns="epoch"))
    with pytest.raises(LoaderVizError, match="'epoch' of batches holds float64"):
        replace(trace, batches=trace.batches.astype({"epoch": float}))


def test_a_text_of_any_length_is_none_of_a_batch():
    trace = made()
    for length, fits in [(1000, True), (1001, False)]:
        column = pd.Series(["x" * length] * 4, dtype=object)
        batches = trace.batches.assign(shapes=column)
        if fits:
            replace(trace, batches=batches)
        else:
            with pytest.raises(LoaderVizError, match="'shapes' of batches holds a text of 1,001"):
                replace(trace, batches=batches)


def test_samples_stand_for_batches_that_are_there():
    trace = made()
    with pytest.raises(LoaderVizError, match="there is no such batch"):
        replace(trace, batches=trace.batches.iloc[:2])
    with pytest.raises(LoaderVizError, match="position 1 of batch 0, which has 0 samples"):
        replace(trace, batches=trace.batches.assign(n_samples=0))


def test_what_may_be_is_taken():
    trace = made()
    undescribed = replace(made(loader=1), meta={"loaders": [LOADER]})  # its line was cut off
    assert undescribed.summary().loaders[0].name == "loader 1 (8 samples)"
    begun = trace.samples.assign(position=trace.samples["position"] + 1)  # the last was not read
    unknown = trace.batches.assign(delivered_s=np.nan, n_samples=0)
    assert len(replace(trace, samples=begun).samples) == 8
    assert len(replace(trace, batches=unknown, samples=trace.samples[:0]).batches) == 4
    meta = {"loaders": [{}, LOADER], "cpu_allowance": np.float64(1.5), "label": ["any"], "mine": 3}
    assert replace(trace, meta=meta).meta == meta


@pytest.mark.parametrize(
    "change",
    [
        lambda tables, _: tables["batches"]["epoch"].__setitem__(0, 2**31),
        lambda tables, _: tables["samples"]["batch"].__setitem__(0, 50),
        lambda _, meta: {**meta, "cpu_allowance": [1]},
    ],
)
def test_a_file_that_holds_it_is_called_damaged(change, tmp_path):
    made().save(tmp_path / "run.parquet")
    rewrite_parquet(tmp_path / "run.parquet", change)
    with pytest.raises(LoaderVizError, match=r"run\.parquet' is damaged \(.*copy it again"):
        lv.load(tmp_path / "run.parquet")
