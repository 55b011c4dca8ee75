"""A trace that is saved and opened is what it was; a damaged file never gives one."""

import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import loaderviz as lv
from damage import rewrite_groups
from loaderviz import schema
from loaderviz.trace import Trace
from loaderviz.trace.check_trace import META, MOST_EPOCHS, RANGES, TABLES, TEXTS
from loaderviz.trace.columns_of_rows import BATCH
from loaderviz.trace.parquet import read_parquet, write_parquet
from loaderviz.trace.parquet.columns import COUNTS
from loaderviz.trace.parquet.write_parquet import FORMAT_KEY, META_KEY
from own_code import in_recorder
from probes import Keys, as_it_is
from traces import made, recorded

INT64 = st.integers(-(2**63), 2**63 - 1)
TIME_NS = st.integers(-(2**40), 2**51)  # 26 days
BYTES = st.integers(0, 2**53)
TIMES = st.none() | TIME_NS | st.integers(0, 3)  # small ones meet
WORDS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
KEYS = st.recursive(
    st.none()
    | st.text(max_size=4)
    | st.integers()
    | st.floats(allow_nan=False).filter(math.isfinite),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(-1e300, 1e300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def seconds(times_ns: list[int | None]) -> Any:
    return np.array([math.nan if each is None else each / 1e9 for each in times_ns], np.float64)


@st.composite
def tables(draw: Callable[..., Any], columns: schema.Columns) -> dict[str, Any]:
    n = draw(st.integers(0, 5))
    kinds = {"float64": TIMES, "object": WORDS}
    known = {column: st.integers(*ends) for column, ends in RANGES.items()}
    known |= {column: st.sampled_from([None, *texts]) for column, texts in TEXTS.items() if texts}
    known |= {"epoch": st.integers(0, MOST_EPOCHS), **dict.fromkeys(COUNTS, st.none() | BYTES)}
    keys = draw(st.sampled_from([KEYS, INT64]))
    found = {}
    for column, kind in columns.items():
        values = keys if column in ("key", "last_key") else known.get(column, kinds.get(kind))
        drawn = draw(st.lists(values, min_size=n, max_size=n))
        if column in COUNTS:
            found[column] = np.array([math.nan if each is None else each for each in drawn], float)
        else:
            found[column] = seconds(drawn) if kind == "float64" else objects(drawn, column)
    return found


def objects(values: list[Any], column: str) -> Any:
    """The values as they are: numpy makes an array of two axes from a list of tuples."""
    if column not in ("key", "last_key"):
        return values
    array = np.empty(len(values), object)
    array[:] = values
    return array


@st.composite
def traces(draw: Callable[..., Any]) -> Trace:
    columns = {name: draw(tables(columns)) for name, columns in TABLES.items()}
    batches, samples = columns["batches"], columns["samples"]
    if len(batches["rank"]):  # samples are of batches that are there
        samples |= {name: [batches[name][0]] * len(samples["rank"]) for name in BATCH}
        samples["position"] = [0] * len(samples["rank"])
    # Hypothesis draws texts of our source, too: of these names the values are checked.
    names = st.text().filter(lambda name: name not in META)
    meta = draw(st.dictionaries(names, JSON_VALUES, max_size=3))
    return Trace.from_columns(**columns, meta=meta)


def assert_same(found: Trace, wanted: Trace) -> None:
    assert found.meta == wanted.meta
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(found, name), getattr(wanted, name), check_exact=True)
    for name, column in [("samples", "key"), ("workers", "last_key")]:
        pairs = zip(getattr(found, name)[column], getattr(wanted, name)[column], strict=True)
        for key, of_wanted in pairs:
            assert type(key) is type(of_wanted)
            assert key == of_wanted


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file to be written again and again."""
    return tmp_path_factory.mktemp("saved") / "run.parquet"


@pytest.fixture(scope="module")
def content(place: Path) -> bytes:
    """That of a saved trace with rows in each table."""
    one = Trace.from_columns(
        batches={"batch": [0, 1], "started_s": [0.1, 0.2], "state": ["delivered", "failed"]},
        samples={"key": ["a", ("b", 1), None], "start_s": [0.1, 0.2, 0.3], "end_s": [0.2, 0.3, 1]},
        workers={"worker": [0], "exit": ["done"], "last_key": ["a"]},
        spans={"name": ["step"], "start_s": [0.1], "end_s": [0.2]},
        meta={"rank": 0, "label": "ä"},
    )
    one.save(place)
    return place.read_bytes()


class TestRoundTrips:
    @settings(max_examples=20)
    @given(trace=traces())
    @example(trace=Trace.from_columns())
    def test_any_trace_comes_back_as_it_was(self, trace, place):
        trace.save(place)
        assert_same(lv.load(place), trace)

    def test_a_recording_comes_back_as_it_was(self, tmp_path):
        keys = ["a", 3, "ä\ud800", 2**70]
        loader = DataLoader(Keys(6), batch_size=2, num_workers=1, sampler=keys, collate_fn=as_it_is)
        with lv.record(loader) as rec:
            for _ in loader:
                with lv.span("step"):
                    pass
        rec.trace.save(str(tmp_path / "run.parquet"))
        found = lv.load(str(tmp_path / "run.parquet"))
        assert_same(found, rec.trace)
        assert repr(found.summary()) == repr(rec.trace.summary())

    def test_keys_of_each_kind_stay_of_it(self, place):
        made().save(place)
        assert lv.load(place).samples["key"].dtype == np.int64
        pairs = [(0, "a"), (0, "b"), (1, (2, None)), (0, "a")]
        for keys in (pairs, [np.int64(3), "a"]):
            Trace.from_columns(samples={"key": keys}).save(place)
            found = list(lv.load(place).samples["key"])
            assert found == keys
        assert type(found[0]) is int  # numpy's integers, too

    def test_ends_and_starts_meet_across_row_groups(self, place, monkeypatch):
        monkeypatch.setattr(write_parquet, "ROWS_PER_GROUP", 3)
        starts = np.arange(10) / 1e3
        times = {"start_s": starts, "end_s": starts + 1 / 1e3, "position": range(10)}
        trace = Trace.from_columns(samples=times, spans={"name": list("abcdefg")})
        trace.save(place)
        assert pq.read_metadata(place).num_row_groups == 4 + 3
        np.testing.assert_allclose(lv.load(place).samples["end_s"], trace.samples["end_s"])

    def test_simulated_times_are_rounded_to_nanoseconds(self, place):
        Trace.from_columns(spans={"start_s": [1 / 3], "end_s": [2 / 3]}).save(place)
        spans = lv.load(place).spans
        assert (spans["start_s"][0], spans["end_s"][0]) == (333_333_333 / 1e9, 666_666_667 / 1e9)

    def test_rows_that_were_chosen_are_numbered_anew(self, place):
        trace = made()
        some = replace(trace, samples=trace.samples[trace.samples["worker"] == 1])
        some.save(place)
        found = lv.load(place).samples
        assert list(found.index) == list(range(len(found)))
        assert list(found["key"]) == list(some.samples["key"])
        found.loc[0, "start_s"] = 5.0  # what was opened can be changed
        found["key"] += 1
        assert list(found["key"]) == [key + 1 for key in some.samples["key"]]


class TestTheFile:
    def test_takes_at_most_8_bytes_a_sample(self, place):
        for mean_ns, spread in [(150, 0.3), (1e6, 0.1)]:
            recorded(50_000, mean_ns=mean_ns, spread=spread).save(place)
            assert place.stat().st_size <= 8 * 50_000

    def test_is_parquet_that_other_tools_read(self, place):
        trace = recorded(1_000)
        trace.save(place)
        rows = pd.read_parquet(place)
        assert rows["table"].value_counts().to_dict() == {
            "batches": len(trace.batches),
            "samples": len(trace.samples),
            "workers": len(trace.workers),
        }
        samples = pd.read_parquet(place, filters=[("table", "==", "samples")])
        assert np.array_equal(samples["key"].astype(int), trace.samples["key"])
        assert np.array_equal(samples["start_ns"] / 1e9, trace.samples["start_s"])
        until_next = samples["until_next"].astype(bool)
        ends = samples["end_ns"].where(~until_next, samples["start_ns"].shift(-1))
        assert np.array_equal(ends / 1e9, trace.samples["end_s"])
        assert until_next.mean() > 0.9

    def test_has_the_columns_of_format_7_and_meta_in_plain_json(self, content, place):
        """Whoever changes these gives the format a new number, and still opens the files of old."""
        place.write_bytes(content)
        parquet = pq.ParquetFile(place)
        assert parquet.metadata.metadata[FORMAT_KEY] == b"7"
        assert json.loads(parquet.metadata.metadata[META_KEY]) == {"rank": 0, "label": "ä"}
        groups = map(parquet.read_row_group, range(parquet.num_row_groups))
        assert [group["table"].unique().to_pylist() for group in groups] == [[n] for n in TABLES]
        assert " ".join(parquet.schema_arrow.names) == (
            "table rank loader epoch batch worker n_samples drawing_ns dispatched_ns started_ns "
            "collate_ns ready_ns pinned_ns requested_ns delivered_ns released_ns cpu_ns "
            "process_cpu_ns children_cpu_ns queued_ns throttled_ns read_bytes disk_bytes rss_bytes "
            "n_bytes shapes device_start_ns device_end_ns state position key start_ns end_ns pid "
            "start_method asked_ns pickle_ns pickle_bytes boot_ns unpickle_ns init_ns "
            "first_task_ns first_read_ns ended_ns dismissed_ns gone_ns exit last_key "
            "rss_peak_bytes cpus_allowed threads name device_ns until_next"
        )

    def test_equal_texts_cost_nothing_and_many_long_ones_can_be_opened(self, place):
        n = 5_000
        sizes = []
        for texts in ([None] * n, ["x" * 900] * n, [f"{'x' * 900}{i}" for i in range(n)]):
            batches = {"batch": range(n), "shapes": texts, "started_s": np.arange(n) / 7}
            Trace.from_columns(batches=batches).save(place)
            sizes.append(place.stat().st_size)
            assert lv.load(place).batches["shapes"].tolist() == texts
        assert sizes[1] < 1.05 * sizes[0]


def refusal(path: object) -> str:
    """The words with which load() refuses, and nothing but that."""
    with pytest.raises(lv.LoaderVizError) as refused:
        lv.load(path)
    return str(refused.value)


# What files of a format have, and those before lack.
SINCE = {
    "2": ["n_bytes"],
    "3": [
        *("drawing_ns", "process_cpu_ns", "queued_ns", "throttled_ns"),
        *("pickle_ns", "pickle_bytes", "boot_ns", "unpickle_ns", "init_ns"),
    ],
    "4": ["first_read_ns"],
    "5": ["shapes"],
    "6": ["children_cpu_ns", "asked_ns", "dismissed_ns", "gone_ns"],
    "7": ["read_bytes", "disk_bytes", "cpus_allowed", "threads"],
}


class TestDamage:
    @settings(max_examples=30)
    @given(data=st.data(), harm=st.sampled_from(["truncated", "flipped", "longer"]))
    def test_a_file_of_which_a_bit_is_off_is_refused(self, data, harm, content, place):
        at = data.draw(st.integers(0, len(content) - 1))
        if harm == "truncated":
            changed = content[:at]
        elif harm == "flipped":
            flipped = content[at] ^ 1 << data.draw(st.integers(0, 7))
            changed = content[:at] + bytes([flipped]) + content[at + 1 :]
        else:
            more = data.draw(st.binary(min_size=1))
            changed = content + more if at % 2 else more + content
        place.write_bytes(changed)
        assert str(place) in refusal(place)

    def test_it_says_what_to_do(self, content, place):
        half = len(content) // 2
        place.write_bytes(content[:half])
        assert "end is missing" in refusal(place)
        place.write_bytes(content[:half] + bytes(8) + content[half + 8 :])
        assert "does not match its digest" in refusal(place)
        assert "copy it again" in refusal(place)

    def test_a_file_that_another_tool_wrote_in_the_same_format_is_opened(self, content, place):
        place.write_bytes(content)
        samples = lv.load(place).samples
        rewrite(place)
        pd.testing.assert_frame_equal(lv.load(place).samples, samples)

    def test_a_format_of_another_version_asks_for_that(self, content, place):
        place.write_bytes(content)
        rewrite(place, about={FORMAT_KEY: "8"})
        assert "update loaderviz" in refusal(place)
        place.write_bytes(content)
        rewrite(place, about={FORMAT_KEY: None})
        assert "not a trace saved by loaderviz" in refusal(place)

    @pytest.mark.parametrize("number", ["1", *SINCE][:-1])
    def test_a_file_of_an_older_format_is_opened(self, place, number):
        """What it lacks is unknown; what there is can be looked into as before."""
        trace = made()
        trace.save(place)
        lacking = [column for later in SINCE if later > number for column in SINCE[later]]
        rewrite_groups(place, lambda rows: rows.drop_columns(lacking), {FORMAT_KEY: number})
        opened = lv.load(place)
        assert_same(opened, trace)
        for column in lacking:
            name = column.replace("_ns", "_s")
            table = opened.workers if name in opened.workers else opened.batches
            assert table[name].isna().all()
        assert opened.summary().verdict == trace.summary().verdict

    @pytest.mark.parametrize(
        "harm",
        [
            *("", "{", "[]", "null", "3", '{"a": ' + "[" * 100_000, '{"a": ' + "9" * 5000 + "}"),
            *(b'{"a": "\xff"}', None),
            lambda rows: rows.drop_columns(["n_bytes"]),
            lambda rows: rows.drop_columns(["end_ns"]),
            lambda rows: rows.append_column("more", pa.nulls(len(rows), pa.int64())),
            lambda rows: with_column(rows, "start_ns", pa.nulls(len(rows), pa.float64())),
            lambda rows: with_column(rows, "table", pa.repeat("other", len(rows))),
            lambda rows: with_column(rows, "table", pa.nulls(len(rows), pa.string())),
            lambda rows: with_column(rows, "rank", pa.nulls(len(rows), pa.int64())),
            lambda rows: with_column(rows, "until_next", pa.nulls(len(rows), pa.bool_())),
            lambda rows: with_column(rows, "key", pa.repeat("1, 2", len(rows))),
            lambda rows: with_column(rows, "key", pa.repeat("{}", len(rows))),
            lambda rows: with_column(rows, "key", pa.repeat("[" * 100_000, len(rows))),
            lambda rows: with_column(rows, "key", pa.repeat("9" * 5000, len(rows))),
            lambda rows: rows.take(np.zeros(150_000, int)),
        ],
        ids=range(22),
    )
    def test_a_file_of_another_meta_or_of_other_columns_or_values_is_refused(
        self, harm, content, place
    ):
        place.write_bytes(content)
        rewrite(place, harm) if callable(harm) else rewrite(place, about={META_KEY: harm})
        assert "is damaged" in refusal(place)

    def test_a_trace_too_large_for_the_memory_is_not_called_damaged(
        self, content, place, monkeypatch
    ):
        def fail(*_: object) -> None:
            raise MemoryError

        place.write_bytes(content)
        monkeypatch.setattr(read_parquet, "from_arrow", fail)
        assert "needs more memory" in refusal(place)

    def test_what_is_no_trace_is_refused_in_clear_words(self, place, tmp_path):
        pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
        (tmp_path / "a.csv").write_text("a,b\n1,2\n")
        (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
        (tmp_path / "empty").touch()
        (tmp_path / "PAR1").write_bytes(b"PAR1")
        (tmp_path / "folder").mkdir()
        os.mkfifo(tmp_path / "pipe")
        for name, words in {
            "other.parquet": "is a file, but not a trace saved by loaderviz",
            "a.csv": "is a file, but not a trace saved by loaderviz",
            "a.png": "is a file, but not a trace saved by loaderviz",
            "empty": "is a file, but not a trace saved by loaderviz",
            "PAR1": "is damaged",
            "folder": "holds no recording",
            "pipe": "is neither a file nor a folder",
            "missing": "does not exist",
            "x" * 300: "cannot open",
        }.items():
            assert words in refusal(tmp_path / name)
        for wrong in (42, None, "\0"):
            assert repr(wrong).strip("'") in refusal(wrong)


def with_column(rows: Any, name: str, values: Any) -> Any:
    return rows.set_column(rows.schema.names.index(name), name, values)


def rewrite(
    path: Path,
    change: Callable[[Any], Any] = lambda rows: rows,
    about: dict[bytes, Any] | None = None,
) -> None:
    """The file with other rows or metadata under a right digest: one row group for the samples."""
    rewrite_groups(path, change, about, groups=[1])


HOLDS_ITSELF: list[Any] = []
HOLDS_ITSELF.append(HOLDS_ITSELF)


class TestSaving:
    def test_replaces_what_was_there_as_any_new_file_would(self, tmp_path):
        path, link = tmp_path / "run.parquet", tmp_path / "link"
        path.write_text("of old")
        link.symlink_to(path)
        assert made().save(link) is None
        assert link.is_symlink()
        assert len(lv.load(path).batches) == 4
        assert {each.name for each in tmp_path.iterdir()} == {"run.parquet", "link"}
        (tmp_path / "other").touch()
        assert path.stat().st_mode == (tmp_path / "other").stat().st_mode

    @pytest.mark.parametrize(
        "error", [OSError(28, "No space left on device"), MemoryError(), KeyboardInterrupt()]
    )
    @pytest.mark.parametrize("step", ["_row_groups", "seal"])
    def test_what_fails_or_is_interrupted_leaves_the_old_file_and_no_other(
        self, error, step, tmp_path, monkeypatch
    ):
        @in_recorder
        def fail(*_: object) -> None:
            raise error

        path = tmp_path / "run.parquet"
        path.write_text("of old")
        monkeypatch.setattr(write_parquet, step, fail)
        expected = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else lv.LoaderVizError
        with pytest.raises(expected) as raised:
            made().save(path)
        assert path.read_text() == "of old"
        assert list(tmp_path.iterdir()) == [path]
        if expected is lv.LoaderVizError:
            assert str(path) in str(raised.value)

    def test_a_path_that_cannot_be_is_named(self, tmp_path):
        (tmp_path / "file").touch()
        for path, words in {
            tmp_path: "is not a file",
            tmp_path / "missing" / "run": "No such file",
            tmp_path / "file" / "run": "Not a directory",
            "/dev/null": "is not a file",
            str(tmp_path / "\0"): "null",
            str(tmp_path / ("x" * 300)): "too long",
            42: "42",
            None: "None",
            "": "''",
        }.items():
            with pytest.raises(lv.LoaderVizError, match=words) as raised:
                made().save(path)
            assert repr(str(path))[1:-1] in str(raised.value)
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    @pytest.mark.parametrize(
        ("meta", "key"),
        [
            ({"good": 1, "bad": object(), "problems": ["one"]}, "'bad'"),
            ({"bad": {"deep": [math.nan, {1, 2}]}}, "'bad'"),
            ({(1, 2): {3}}, r"\(1, 2\)"),
            ({"own": HOLDS_ITSELF}, "'own'"),
        ],
    )
    def test_meta_that_json_cannot_hold_is_left_out_with_a_word(self, meta, key, place):
        Trace.from_columns(meta=meta).save(place)
        opened = lv.load(place).meta
        assert set(opened) == {"problems", *(meta.keys() & {"good"})}
        *before, problem = opened["problems"]
        assert before == meta.get("problems", [])
        assert re.match(rf"left out: meta\[{key}\] cannot be written as JSON", problem)

    def test_half_a_byte_is_named(self, place):
        with pytest.raises(lv.LoaderVizError, match="'n_bytes' of batches"):
            Trace.from_columns(batches={"n_bytes": [0.5]}).save(place)

    def test_a_key_of_another_kind_is_saved_as_its_repr_and_a_half_letter_as_a_mark(self, place):
        keys = np.empty(4, object)
        keys[:] = [{"a": 1}, ("a", [b"bytes"]), math.nan, "\ud800"]
        samples, batches = {"key": keys, "position": range(4)}, {"n_samples": [4]}
        names = {"name": ["\ud800"]}
        Trace.from_columns(samples=samples, batches=batches, spans=names).save(place)
        opened = lv.load(place)
        assert repr(opened.samples["key"].tolist()) == (
            """["{'a': 1}", "('a', [b'bytes'])", nan, '\\ud800']"""
        )
        assert opened.spans["name"].tolist() == ["?"]
