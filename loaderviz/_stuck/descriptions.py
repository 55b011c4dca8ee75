"""What a process does, in words."""

from __future__ import annotations

from loaderviz._stuck.process_view import ProcessView
from loaderviz._stuck.task_now import TaskNow
from loaderviz.clocks.process_clock import now
from loaderviz.record_layout import State
from loaderviz.text import count, duration


def activity(task: TaskNow, key: object = None, *, was: bool = False) -> str:
    """What a process does with the batch that it began last; or ``was`` doing when it died."""
    has_been = "was" if was else "has been"
    if task.state != State.RUNNING:
        return "waited for work" if was else "waits for work"
    since_ns = task.sample_ns or task.started_ns
    since = "when it died" if was else f"for {duration((now() - since_ns) / 1e9)}"
    if task.collates:
        return f"{has_been} collating it {since}"
    sample = task.sample(key)
    if sample is not None:
        return f"{has_been} reading sample {sample!r} {since}"
    if task.position >= 0:
        return f"{has_been} reading sample number {task.position + 1} of the batch {since}"
    if task.keys:
        return f"{has_been} reading the samples {', '.join(map(repr, task.keys))} at once {since}"
    return f"{has_been} making it {since}"


def kernel_text(view: ProcessView) -> str:
    """How a process stands, as the kernel says."""
    if not view.is_alive:
        return "does not run any more"
    function = f"({view.kernel_function})" if view.kernel_function else ""
    where = " ".join(part for part in (view.call, function) if part)
    return (
        f"state {view.state}{f', in {where}' if where else ''}, "
        f"{count(view.n_threads, 'thread')}, {duration(view.cpu_s)} of CPU time"
    )


def sentence(text: str) -> str:
    """A text as a sentence."""
    return f"{text[:1].upper()}{text[1:]}."
