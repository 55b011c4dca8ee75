"""LV6xx about shapes: batches that cannot be made, that differ, or that are mostly padding."""

from __future__ import annotations

import re

from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case, RecordedLoop
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.shape_trial import Shape
from loaderviz.text import percent
from loaderviz.why.predicted_padding import predict_padding, sent_if_sorted
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
def collate(samples):  # as collate_fn: pads to a multiple of 64, so that there are few shapes
    padded = torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)
    return torch.nn.functional.pad(padded, (0, -padded.shape[1] % 64))
# tokenizers: pad_to_multiple_of=64; images: one height and width
"""
BY_LENGTH = """
order = sorted(range(len(dataset)), key=lambda key: lengths[key])  # lengths: noted once
batches = [order[i : i + {size}] for i in range(0, len(order), {size})]
random.shuffle(batches)  # anew for each epoch
DataLoader(dataset, batch_sampler=batches, collate_fn=...)
# a stream: sort what a buffer of some batches holds (notebook 06)
"""
TO_LONGEST = """
def collate(samples):  # as collate_fn: pads to the longest of the batch, not to a fixed length
    return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)
# tokenizers: padding="longest" in the collate_fn, and no padding in the dataset
"""


@check(
    "LV602",
    "The samples of a batch have different shapes",
    "error",
    notebook=2,
    threads="188150",
    recorded=True,
)
def _unequal_shapes(case: Case) -> Seen | None:
    if case.recording is not None:
        return _unequal_in_recording(case.recording)
    found = case.unequal_shapes
    if found is None:
        case.epoch()  # raises Undecided where nothing came
        return None
    (one, other), (shape, other_shape) = found.keys, found.shapes
    whose = "places {} and {} of the stream" if case.setup.iterable else "samples {} and {}"
    part = found.part or "the tensor"
    return seen(
        f"{whose.format(one, other)} would share a batch, but their shapes differ: {shape} and "
        f"{other_shape}" + (f" in {part}" if found.part else ""),
        f"among {found.n_samples:,} samples, {part} has {found.n_shapes:,} shapes; torch.stack "
        "takes equal ones only",
        fix=_fix(found.part, shape, other_shape),
    )


def _unequal_in_recording(recording: RecordedLoop) -> Seen | None:
    """The first batch that failed for it; the recorder notes why: see unequal_samples.py."""
    batches = recording.trace.batches
    failed = batches[(batches["state"] == "failed") & batches["shapes"].notna()]
    if failed.empty:
        return None
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


def _fix(part: str, shape: Shape, other: Shape) -> str:
    if shape[1:] != other[1:]:
        return RESIZE
    is_image = len(shape) == 3 and {shape[0], other[0]} <= {1, 2, 3, 4}
    return ONE_MODE if is_image else COLLATE.format(part=part)


@check(
    "LV603",
    "Batches have many shapes",
    "advice",
    notebook=6,
    threads="188150",
    recorded=True,
)
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
        "a model that is compiled, captured in CUDA graphs or tuned by cudnn.benchmark begins anew "
        "for each shape, until it gives up; one that runs as it is need not mind",
        fix=FEW_SHAPES,
    )


@check(
    "LV604",
    "Much of each batch is padding",
    "advice",
    notebook=6,
    threads="huggingface/transformers#3634",
    recorded=True,
)
def _padding(case: Case) -> Seen | None:
    if case.recording is not None:
        raise Undecided(_what_shapes_tell(case.recording))
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
    return seen(
        f"{percent(padding / n_sent)} of {batches[0].part or 'the batches'} is padding, in "
        f"{len(batches)} batches",
        f"padded to the longest of each batch it would be {percent(1 - n_data / n_longest)}, and "
        f"in batches of similar lengths {percent(1 - n_data / n_sorted)}",
        fix=TO_LONGEST if to_longest else BY_LENGTH.format(size=len(batches[0].lengths)),
    )


def _what_shapes_tell(recording: RecordedLoop) -> str:
    """Of padding, which takes the samples to know."""
    predicted = predict_padding(recording.trace, recording.loader)
    told = "the shapes of batches do not tell how much is padding: doctor(loader) measures it"
    if predicted is None or predicted.share < MUCH:
        return told
    return (
        f"{told}. Predicted, if each batch is padded to its longest sample: at least "
        f"{percent(predicted.share)}, and batches of similar lengths would send at least "
        f"{percent(predicted.saved)} less"
    )
