"""What holds for every trace, recorded or simulated; and what tests ask of one again and again."""

import itertools
from typing import Any

import pandas as pd

from loaderviz import schema
from loaderviz.trace import Trace

LIFE = ["dispatched_s", "started_s", "collate_s", "ready_s", "delivered_s", "released_s"]


def delivered(trace: Trace) -> pd.DataFrame:
    """The batches that were delivered, in that order."""
    return trace.batches.dropna(subset="delivered_s").sort_values("delivered_s")


def keys_of(trace: Trace, row: Any) -> list[Any]:
    of_batch = trace.samples[
        (trace.samples[["loader", "epoch", "batch"]] == [row.loader, row.epoch, row.batch]).all(
            axis=1
        )
    ]
    return list(of_batch.sort_values("position")["key"])


def assert_orderly(trace: Trace) -> None:
    """What holds also where something was not written: no row twice, no time before an earlier."""
    batches, samples = trace.batches, trace.samples
    assert not batches.duplicated(["loader", "epoch", "batch"]).any()
    for earlier, later in itertools.combinations(LIFE, 2):
        assert not (batches[earlier] > batches[later]).any(), f"{earlier} after {later}"
    assert not samples.duplicated(["loader", "epoch", "batch", "position"]).any()


def assert_lawful(trace: Trace) -> None:
    """What holds for every trace, whatever was recorded."""
    assert_orderly(trace)
    for name in ("batches", "samples", "workers", "spans"):
        columns = dict(getattr(schema, name.upper()))
        table = getattr(trace, name)
        if name == "samples" and table["key"].dtype == "int64":
            columns["key"] = "int64"
        assert table.dtypes.astype(str).to_dict() == columns
    batches, samples = trace.batches, trace.samples
    assert not (batches["requested_s"] > batches["delivered_s"]).any()
    arrived = batches["delivered_s"].notna()
    assert batches.loc[arrived, [*LIFE[1:-1], "requested_s", "cpu_s"]].notna().all(axis=None)
    kept = batches[arrived & batches["released_s"].isna()]  # of a loop that is still in it
    assert not kept.duplicated(["loader", "epoch"]).any()
    assert batches.loc[~arrived, ["requested_s", "released_s"]].isna().all(axis=None)

    assert not (samples["start_s"] > samples["end_s"]).any()
    joined = samples.merge(batches, on=["rank", "loader", "epoch", "batch"], how="left")
    assert (joined["worker_x"] == joined["worker_y"]).all()
    assert not (joined["start_s"] < joined["started_s"]).any()
    assert not (joined["end_s"] > joined["collate_s"]).any()
    in_order = samples.sort_values(["loader", "epoch", "batch", "position"])
    same_batch = in_order.groupby(["loader", "epoch", "batch"])
    assert (same_batch["start_s"].diff().dropna() >= 0).all()
    complete = samples.dropna(subset="end_s").groupby(["loader", "epoch", "batch"]).size()
    expected = batches.set_index(["loader", "epoch", "batch"])["n_samples"]
    assert complete.reindex(expected.index, fill_value=0).equals(expected)
