"""LV601 to LV604: what a dataset is, and the shapes of its samples and batches."""

from __future__ import annotations

import dis
import re
from collections.abc import Iterable
from typing import Any

from torch.utils.data import Dataset

from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz.text import percent
from loaderviz.why.predicted_padding import sent_if_sorted
from loaderviz.why.shapes import short

COLLATE = """
def collate(samples):  # as collate_fn: pads to the longest of the batch
    tensors = [torch.as_tensor(sample{part}) for sample in samples]
    lengths = torch.tensor([len(each) for each in tensors])  # tells data from padding
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True), lengths
"""
RESIZE = """
# where a sample is made: every image to the same height and width
image = torch.nn.functional.interpolate(image[None], size=(224, 224))[0]
"""
ONE_MODE = """
# where a sample is made: grey images, and those with transparency, as colours
image = PIL.Image.open(path).convert("RGB")
"""

MOST_SHAPES = 8  # torch warns of more CUDA graphs, and stops to compile a function anew
MUCH = 0.25  # of a batch is padding
SAVED = 0.5  # of the padding, by batches of similar lengths
LEAST_BATCHES = 8

FEW_SHAPES = """
def collate(samples):  # as collate_fn: pads to a multiple of {n}, so that there are few shapes
    padded = torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)
    return torch.nn.functional.pad(padded, (0, -padded.shape[1] % {n}))
# tokenizers: pad_to_multiple_of={n}; images: one height and width
"""
BY_LENGTH = """
keys = random.sample(range(len(dataset)), len(dataset))  # all of this anew for each epoch
keys.sort(key=lambda key: lengths[key] // 8)  # lengths: noted once
batches = [keys[i : i + {size}] for i in range(0, len(keys), {size})]
random.shuffle(batches)
DataLoader(dataset, batch_sampler=batches, collate_fn=...)
# a stream: sort what a buffer of some batches holds (notebook 15)
"""
TO_LONGEST = """
def collate(samples):  # as collate_fn: pads to the longest of the batch, not to a fixed length
    return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)
# tokenizers: padding="longest" in the collate_fn, and no padding in the dataset
"""


@check("LV601")
def _wrong_style(case: Case) -> Seen | None:
    setup = case.setup
    cls = type(setup.dataset)
    has_getitem = getattr(cls, "__getitem__", None) not in (None, Dataset.__getitem__)
    if not setup.iterable and hasattr(cls, "__iter__") and not has_getitem:
        return seen(
            f"{cls.__name__} has __iter__ but no __getitem__, and is not an IterableDataset: "
            "torch takes it for map-style and asks for dataset[0]",
            fix=f"class {cls.__name__}(torch.utils.data.IterableDataset): ...",
        )
    if setup.num_workers:
        return None
    trouble = case.trouble_of_kind("no worker info")
    method = "__iter__" if setup.iterable else "__getitem__"
    unguarded = _uses_worker_info_unguarded(getattr(cls, method, None))
    if trouble is None and (case.ran or not unguarded):
        return None
    return seen(
        f"num_workers=0, so get_worker_info() is None, and {cls.__name__}.{method} does not expect "
        "that",
        *([trouble.text] if trouble is not None else []),
        fix="""
info = torch.utils.data.get_worker_info()
worker, n_workers = (info.id, info.num_workers) if info is not None else (0, 1)
""",
    )


def _uses_worker_info_unguarded(function: Any) -> bool:
    """Whether its code reads the worker's info and nowhere tests anything, such as for None."""
    code = getattr(function, "__code__", None)
    if code is None or "get_worker_info" not in code.co_names:
        return False
    if not {"id", "num_workers", "seed"} & set(code.co_names):
        return False
    tests = ("IS_OP", "POP_JUMP", "JUMP_IF")
    return not any(
        instruction.opname.startswith(tests) for instruction in dis.get_instructions(code)
    )


@check("LV602", recorded=True)
def _unequal_shapes(case: Case) -> Seen | None:
    """The first batch that failed for it; the recorder notes why: see unequal_samples.py."""
    if case.recording is None and case.trouble_of_kind("shapes") is None:
        case.epoch()  # raises Undecided where nothing came
        return None
    trace = case.recorded() if case.recording is None else case.recording.trace
    batches = trace.batches
    failed = batches[(batches["state"] == "failed") & batches["shapes"].notna()]
    if failed.empty:
        trouble = case.trouble_of_kind("shapes")
        return None if trouble is None else seen(trouble.text, fix=_fix("", (0,), (1,)))
    first = failed.iloc[0]
    part = re.match(r"batch([^:]*):", first["shapes"])
    texts = re.findall(r"\(([\d, ]*)\) in ", first["shapes"])
    shapes = [tuple(map(int, re.findall(r"\d+", text))) for text in texts]
    one, other = shapes if len(shapes) == 2 else ((0,), (1,))  # lists, of which one is longer
    more = f"; {len(failed) - 1} more failed" if len(failed) > 1 else ""
    return seen(
        f"batch {first['batch']} of epoch {first['epoch']} could not be put together{more}",
        first["shapes"],
        fix=_fix(part[1] if part else "", one, other),
    )


def _fix(part: str, shape: tuple[int, ...], other: tuple[int, ...]) -> str:
    if shape[1:] != other[1:]:
        return RESIZE
    is_image = len(shape) == 3 and {shape[0], other[0]} <= {1, 2, 3, 4}
    return ONE_MODE if is_image else COLLATE.format(part=part)


@check("LV603", recorded=True)
def _many_shapes(case: Case) -> Seen | None:
    notes = case.epoch().notes
    largest = max(note.n_samples for note in notes)
    full = [note for note in notes if note.n_samples == largest]  # the last one may be smaller
    shapes = dict.fromkeys(note.signature for note in full if note.signature)
    if not shapes and case.recording is not None:
        raise Undecided("the recording does not say what batches are made of")
    if len(shapes) <= MOST_SHAPES:
        return None
    one, other = map(short, list(shapes)[:2])
    return seen(
        f"{len(full)} batches of {largest} samples have {len(shapes)} shapes: {one}; {other}; ...",
        "a model that is captured in CUDA graphs, compiled with dynamic=False or tuned by "
        "cudnn.benchmark begins anew for each shape; torch.compile's default takes a size that has "
        "changed for dynamic, and a model that runs as it is need not mind",
        fix=FEW_SHAPES.format(n=_multiple(shapes)),
    )


def _multiple(signatures: Iterable[str]) -> int:
    """To which lengths are padded: at most a quarter of the longest, or 8."""
    lengths = {int(n) for each in signatures for n in re.findall(r"\[\d+, (\d+)", each)}
    longest = max(lengths) if len(lengths) > 1 else 4 * 64  # else another dimension differs
    return next((n for n in (64, 32, 16) if n <= longest / 4), 8)


@check("LV604")
def _padding(case: Case) -> Seen | None:
    batches = [note.padding for note in case.epoch().notes if note.padding is not None]
    if len(batches) < LEAST_BATCHES:
        return None
    n_data = sum(sum(batch.lengths) for batch in batches)
    n_sent = sum(batch.padded_length * len(batch.lengths) for batch in batches)
    n_longest = sum(max(batch.lengths) * len(batch.lengths) for batch in batches)
    lengths = [length for batch in batches for length in batch.lengths]
    n_sorted = int(sent_if_sorted(lengths, max(len(batch.lengths) for batch in batches)))
    fewest = min(n_longest, n_sorted)
    padding = n_sent - n_data
    if padding < MUCH * n_sent or n_sent - fewest < SAVED * padding:
        return None
    to_longest = n_sent - n_longest >= SAVED * padding
    cured = f"in batches of similar lengths it would be {percent(1 - n_data / n_sorted)}"
    if to_longest:
        longest = percent(1 - n_data / n_longest)
        cured = f"padded to the longest of each batch it would be {longest}, and {cured}"
    return seen(
        f"{percent(padding / n_sent)} of {batches[0].part or 'the batches'} is padding, in "
        f"{len(batches)} batches",
        cured,
        fix=TO_LONGEST if to_longest else BY_LENGTH.format(size=len(batches[0].lengths)),
    )
