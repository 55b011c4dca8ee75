"""Files of traces, damaged at random: in their bytes, in their fields, or in well-formed values.

Each ``damage_*`` changes a copy of what ``make_originals`` wrote, with the numbers of a
``random.Random``: one seed, one damage.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from torch.utils.data import DataLoader

import loaderviz as lv
from loaderviz.trace.parquet.seal import DIGEST_BYTES, NAME, seal
from loaderviz.trace.parquet.write_parquet import META_KEY, TABLES
from traces import made

MOST_READ_BYTES = 1 << 24
INTEGERS = (
    *(-1, 0, 1, 2, 5, 100, -2, 10**5, 10**7, 10**8, 2**31 - 1, 2**31, 2**32, 2**40, 2**53, 2**62),
    *(-(2**31), -(2**53), -(2**62), 2**63 - 1, -(2**63)),
)
NONSENSE: tuple[Any, ...] = (
    *INTEGERS,
    *(None, True, False, "", "x", "spawn", "iterable", "\x1b[2J", "\ud800", "=1+1", 0.5, -0.5),
    *(math.nan, math.inf, -math.inf, 1e308, -1e308, 10**400, 1e-300),
    *([], [1], ["x"], [None], [[]], [{}], {}, {"a": 1}, {"rank": "first"}, [[[[[]]]]]),
)
FIELDS_OF_LOADERS = (
    *("num_workers", "prefetch_factor", "batch_size", "kind", "dataset", "class", "in_order"),
    *("persistent_workers", "pin_memory", "pinned", "start_method", "shuffled", "drop_last"),
    *("sampler", "draws"),
)
FIELDS_OF_META = (
    *("loaders", "rank", "started", "cpu_allowance", "ranks", "problems", "unread", "complete"),
    *("left_out", "left_out_batches", "world_size", "label", "host", "clock", "clock_domain"),
    *("simulated", "pid", "pressure_s", "recorded_s", "python", "torch", "platform"),
)


def make_originals(folder: Path) -> None:
    """Write the files to damage: recordings, a run of two ranks, saved traces and a profile."""
    loaders = [
        DataLoader(range(8), batch_size=2, num_workers=2),
        DataLoader(range(6), batch_size=2, sampler=[0, 1, 3, 5], collate_fn=list),
    ]
    with lv.record(*loaders, path=folder / "recording") as recording:
        for _ in range(2):
            for loader in loaders:
                for _ in loader:
                    with lv.span("step"):
                        pass
    recording.trace.save(folder / "saved.parquet")
    (folder / "run").mkdir()
    for rank in (0, 1):
        meta = {**recording.trace.meta, "rank": rank, "world_size": 2}
        trace = made(batches=6, rank=rank)
        lv.Trace(trace.batches, trace.samples, trace.workers, trace.spans, meta).save(
            folder / "run" / f"rank-{rank:05d}.parquet"
        )
    lv.load(folder / "run").save(folder / "merged.parquet")
    keyed = made(batches=6)
    keys = [json.loads(json.dumps(f"file {key}")) for key in keyed.samples["key"]]
    samples = keyed.samples.assign(key=keys)
    lv.Trace(keyed.batches, samples, keyed.workers, keyed.spans).save(folder / "keyed.parquet")
    started_us = recording.trace.meta["started"][1] // 1000
    events = [{"ph": "X", "ts": started_us + i, "dur": 10**6, "name": "op"} for i in range(5)]
    (folder / "profile.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))


def damage(layer: str, originals: Path, to: Path, noise: random.Random) -> Path:
    """A damaged copy in the folder ``to``, which is new; returns its path.

    Args:
        layer: what is damaged: "bytes", "fields" or "values".
        originals: the folder that ``make_originals`` wrote to.
        to: where the copy goes.
        noise: the choice of what is damaged, and how.
    """
    names = ["recording", "saved.parquet", "run", "merged.parquet", "keyed.parquet"]
    source = originals / noise.choice(names[:2] if layer == "fields" else names)
    to.mkdir()
    path = to / source.name
    shutil.copytree(source, path) if source.is_dir() else shutil.copy(source, path)
    for _ in range(noise.choice((1, 1, 1, 2, 3))):
        files = [file for file in (path, *sorted(path.rglob("*"))) if _may_be_damaged(file)]
        if files:
            DAMAGES[layer](noise.choice(files), noise)
    return path


def damage_profile(originals: Path, to: Path, noise: random.Random) -> Path:
    """A damaged profile of torch.profiler, packed or not."""
    to.mkdir()
    path = to / "profile.json"
    shutil.copy(originals / "profile.json", path)
    if noise.random() < 0.3:
        damage_bytes(path, noise)
    else:
        _damage_json(path, noise)
    if noise.random() < 0.5 and _may_be_damaged(path):
        path.write_bytes(gzip.compress(path.read_bytes(), 1))
        if noise.random() < 0.5 and _may_be_damaged(path):
            damage_bytes(path, noise)
    return path


def damage_bytes(path: Path, noise: random.Random) -> None:
    """Flip, cut, insert or overwrite bytes; a saved trace is sealed anew, every other time."""
    content = path.read_bytes()
    is_sealed = NAME in content and noise.random() < 0.7
    if is_sealed:
        at = content.rindex(NAME)
        content = content[:at] + content[at + len(NAME) + DIGEST_BYTES :]
    changed = bytearray(content)
    kind = noise.choice(("flip", "flip", "word", "word", "cut", "insert", "noise"))
    at = noise.randrange(max(len(content.rstrip(b"\0")), 1))
    if kind == "flip":
        changed[at : at + 1] = bytes([noise.randrange(256)])
    elif kind == "word":
        at -= at % 8
        changed[at : at + 8] = noise.choice(INTEGERS).to_bytes(8, "little", signed=True)
    elif kind == "cut":
        del changed[at:]
    elif kind == "insert":
        changed[at:at] = noise.randbytes(noise.choice((1, 8, 1000)))
    elif kind == "noise":
        changed[at : at + 64] = noise.randbytes(64)
    path.write_bytes(sealed(bytes(changed)) if is_sealed else changed)


def damage_fields(path: Path, noise: random.Random) -> None:
    """One field of one file is another: a word of a spool, a member of a JSON, a stored value."""
    if path.suffix == ".spool":
        content = bytearray(path.read_bytes())
        used = len(bytes(content).rstrip(b"\0")) // 8 + 1
        is_header = noise.random() < 0.1
        word = noise.randrange(8) if is_header else noise.randrange(min(8192, used - 1), used)
        value = noise.choice((*INTEGERS, noise.randrange(-2, 40)))
        content[word * 8 : word * 8 + 8] = value.to_bytes(8, "little", signed=True)
        path.write_bytes(content)
    elif path.suffix == ".json":
        _damage_json(path, noise)
    elif path.suffix == ".parquet":
        rewrite_parquet(path, lambda tables, meta: _change_cells(tables, noise))
    else:
        damage_bytes(path, noise)


def damage_values(path: Path, noise: random.Random) -> None:
    """A well-formed file says what cannot be: an epoch of 2**31, half of the workers, a text."""
    if path.suffix == ".json":
        meta = json.loads(path.read_text())
        path.write_text(json.dumps(_nonsensical_meta(meta, noise)))
    elif path.suffix != ".parquet":
        damage_fields(path, noise)
    elif noise.random() < 0.4:
        rewrite_parquet(path, lambda _, meta: _nonsensical_meta(meta, noise))
    else:
        rewrite_parquet(path, lambda tables, _: _change_rows(tables, noise))


DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "bytes": damage_bytes,
    "fields": damage_fields,
    "values": damage_values,
}


def rewrite_parquet(path: Path, change: Callable[[dict[str, Any], Any], Any]) -> None:
    """The file with other tables, or with the meta that ``change`` returns, under a right seal."""
    try:
        parquet = pq.ParquetFile(path)
        metadata = dict(parquet.metadata.metadata)
        groups = [parquet.read_row_group(i) for i in range(parquet.num_row_groups)]
        tables = {str(group["table"][0]): group.to_pydict() for group in groups if len(group)}
        meta = json.loads(metadata[META_KEY])
    except Exception:  # it was damaged before
        return
    schema = parquet.schema_arrow
    meta = change(tables, meta) or meta
    metadata[META_KEY] = json.dumps(meta).encode()
    to = io.BytesIO()
    with pq.ParquetWriter(to, schema, store_schema=False) as writer:
        writer.add_key_value_metadata(metadata)
        for table in tables.values():
            rows = pa.Table.from_pydict(table, schema=schema)
            if len(rows):
                writer.write_table(rows)
    path.write_bytes(sealed(to.getvalue()))


def rewrite_groups(
    path: Path,
    change: Callable[[pa.Table], pa.Table],
    about: dict[bytes, Any] | None = None,
    groups: list[int] | None = None,
) -> None:
    """The file with other rows and metadata under a right seal, of all row groups or of some."""
    parquet = pq.ParquetFile(path)
    kept = range(parquet.num_row_groups) if groups is None else groups
    tables = [change(parquet.read_row_group(i)) for i in kept]
    with pq.ParquetWriter(path, tables[0].schema, store_schema=False, compression="zstd") as writer:
        metadata = {**parquet.metadata.metadata, **(about or {})}
        writer.add_key_value_metadata({k: v for k, v in metadata.items() if v is not None})
        for rows in tables:
            writer.write_table(rows)
    path.write_bytes(sealed(path.read_bytes()))


def _may_be_damaged(path: Path) -> bool:
    """Whether it is still a file of its own, of a size that can be read."""
    return path.is_file() and not path.is_symlink() and path.stat().st_size < MOST_READ_BYTES


def sealed(content: bytes) -> bytes:
    """The Parquet file of this content with a seal, where it has an end to put one before."""
    file = io.BytesIO(content)
    try:
        seal(file)
    except (ValueError, OSError):  # without an end there is no place for it
        return content
    return file.getvalue()


def _change_cells(tables: dict[str, Any], noise: random.Random) -> None:
    name = noise.choice(list(tables))
    kinds = {_stored(column): kind for column, kind in TABLES[name].items()}
    column = noise.choice([*kinds, *(["until_next"] * (name == "samples"))])
    values = tables[name][column]
    is_text = kinds.get(column) == "object"
    if column == "key":  # of one kind in all of a file
        is_text = any(isinstance(value, str) for value in values)
    texts = ("", "x", "null", "[]", '{"tuple": []}', "\x1b[2J", "delivered", "1e400", '"=1"')
    for _ in range(noise.choice((1, 1, len(values)))):
        value: Any = noise.choice((*INTEGERS, None))
        if is_text:
            value = noise.choice((*texts, None))
        elif column == "until_next":
            value = noise.random() < 0.5
        values[noise.randrange(len(values))] = value


def _change_rows(tables: dict[str, Any], noise: random.Random) -> None:
    if noise.random() < 0.6:
        _change_cells(tables, noise)
        return
    name = noise.choice(list(tables))
    n = len(tables[name]["table"])
    order = list(range(n))
    kind = noise.choice(("cut", "empty", "twice", "shuffled"))
    if kind == "cut":
        order = order[: noise.randrange(n)]
    elif kind == "empty":
        order = []
    elif kind == "twice":
        order *= 2
    else:
        noise.shuffle(order)
    for column, values in tables[name].items():
        tables[name][column] = [values[i] for i in order]


def _nonsensical_meta(meta: Any, noise: random.Random) -> Any:
    if not isinstance(meta, dict):
        return meta
    value = noise.choice(NONSENSE)
    loaders = meta.get("loaders")
    if noise.random() < 0.5 and isinstance(loaders, list) and loaders:
        loader = noise.choice(loaders)
        if isinstance(loader, dict):
            loader[noise.choice(FIELDS_OF_LOADERS)] = value
    elif noise.random() < 0.2 and isinstance(meta.get("ranks"), list):
        fields = ("rank", "file", "offset_s", "uncertainty_s", "n_batches", "left_out", "host")
        noise.choice(meta["ranks"])[noise.choice(fields)] = value
    else:
        meta[noise.choice(FIELDS_OF_META)] = value
    return meta


def _damage_json(path: Path, noise: random.Random) -> None:
    """One member of a JSON, however deep inside, is another."""
    try:
        document = json.loads(path.read_text())
    except (ValueError, RecursionError):
        return
    inside = document
    while isinstance(inside, dict | list) and inside:
        keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        key = noise.choice(keys)
        if not isinstance(inside[key], dict | list) or noise.random() < 0.3:
            break
        inside = inside[key]
    if isinstance(inside, dict | list) and inside:
        inside[key] = noise.choice((*NONSENSE, "9" * 500, "deep"))
    text = json.dumps(document)
    text = text.replace('"deep"', "[" * 10_000 + "]" * 10_000, 1)
    path.write_text(text.replace(f'"{"9" * 500}"', "9" * 500, 1))


def _stored(column: str) -> str:
    return column.removesuffix("_s") + "_ns" if column.endswith("_s") else column
