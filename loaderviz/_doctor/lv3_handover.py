"""LV3xx, the way from a worker to the main process: pickling, pinning."""

from __future__ import annotations

import math
from statistics import median

import numpy as np

from loaderviz._doctor.batch_contents import MANY_OBJECTS, Contents
from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.run_epochs import Epoch
from loaderviz.text import duration
from loaderviz.why.attribution import AT_ONCE_S, USUAL_HANDOVER_S

UNPICKLING_SHARE = 0.2  # of the CPU time in which a batch is made
LEAST_SHARE = 0.05  # of the time between two batches, which is longer where the machine is busy
TAKING_SHARE = 0.2  # of the time between two batches
FEWEST_BATCHES = 10  # that lay ready
MANY_TENSORS = 20  # in a batch: samples of a few fields each have fewer once they are collated


@check("LV306")
def _slow_handover(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers and not setup.settings["pin_memory"]:
        return None
    epoch, contents = case.epoch(), case.observed(Contents)
    if contents is None:
        raise Undecided("no batch was inspected")
    if setup.settings["pin_memory"] and contents.cannot_pin:
        return seen(
            f"pin_memory=True, but torch does not pin {contents.cannot_pin}, which holds tensors "
            "and has no pin_memory() (torch/utils/data/_utils/pin_memory.py)",
            fix=f"""
class {contents.cannot_pin}:
    def pin_memory(self):
        self.inputs = self.inputs.pin_memory()  # each tensor that it holds
        return self
""",
        )
    if not setup.num_workers or len(epoch.notes) < 2:
        return None
    if contents.n_others < MANY_OBJECTS:
        return _many_tensors(case, contents.n_tensors)
    unpickle_s, cpu_s = contents.unpickle_s, _cpu_of_a_batch_s(epoch)
    make_s = cpu_s / setup.num_workers  # at best
    between_s = median(np.diff(epoch.delivered_s).tolist())
    if not unpickle_s >= max(UNPICKLING_SHARE * make_s, LEAST_SHARE * between_s):
        return None
    n = setup.num_workers
    together = f", so {n} together make one every {duration(make_s)} at best" if n > 1 else ""
    return seen(
        f"a batch holds {contents.n_others:,} Python objects besides {contents.n_tensors} tensors",
        f"unpickling them takes the main process {duration(unpickle_s)} of CPU for each batch; a "
        f"worker needs {duration(cpu_s)} of CPU to make and pickle one{together}",
        fix="""
def collate(samples):  # as collate_fn: tensors travel by shared memory
    return torch.as_tensor(samples)
""",
    )


def _many_tensors(case: Case, n_tensors: int) -> Seen | None:
    """Of many tensors that each need shared memory, a descriptor and a message of their own."""
    if n_tensors < MANY_TENSORS:
        return None
    if case.trace is None:
        raise Undecided("the recording was lost")
    batches = case.trace.batches
    lay_ready = batches[batches["ready_s"] <= batches["requested_s"]]
    taking_s = lay_ready["delivered_s"] - lay_ready["requested_s"]
    taking_s = taking_s[taking_s >= AT_ONCE_S]
    if len(taking_s) < FEWEST_BATCHES:
        return None  # the loop waits until batches are made
    take_s = float(taking_s.median())
    between_s = median(np.diff(case.epoch().delivered_s).tolist())
    if take_s < max(USUAL_HANDOVER_S, TAKING_SHARE * between_s):
        return None
    return seen(
        f"a batch holds {n_tensors} tensors, each in shared memory of its own",
        f"getting a batch that lies ready usually takes the loop {duration(take_s)}; one comes "
        f"every {duration(between_s)}",
        fix="""
def collate(samples):  # as collate_fn: one tensor of all boxes, and how many are whose
    boxes = [sample["boxes"] for sample in samples]
    return torch.cat(boxes), torch.tensor([len(each) for each in boxes])
""",
    )


def _cpu_of_a_batch_s(epoch: Epoch) -> float:
    """CPU seconds of a worker for each of its batches but the first."""
    first = {note.pid: note.cpu_s for note in reversed(epoch.notes)}
    last = {note.pid: note.cpu_s for note in epoch.notes}
    n_batches = len(epoch.notes) - len(first)
    cpu_s = sum(last[pid] - first[pid] for pid in first)
    return cpu_s / n_batches if n_batches else math.nan
