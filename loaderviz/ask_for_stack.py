"""Asks processes for their Python stacks, by the signal for which their recorder left a note.

A signal is sent only to a process that is certainly the one of the note: started at the same time,
with the file of the note open under the number in it, and with a handler for the signal. Nobody can
tell from outside whether the program has put a handler of its own in its place: that one is called.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from loaderviz.stack_note import (
    SIGNAL,
    StackNote,
    has_signal,
    pid_namespace,
    stack_path,
    start_ticks,
)

ANSWER_S: Final = 0.8  # the longest wait for all the answers
_LOOK_EVERY_S: Final = 0.01
_OUTERMOST: Final = ("<module>", "_bootstrap", "_run_module_as_main")  # the last: python -m
_HEADING = "Stack (most recent call first):\n"
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')  # Python/traceback.c, ``dump_frame``


@dataclass(frozen=True)
class Frame:
    """One call in a stack."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


Stack = tuple[Frame, ...]  # the innermost call first


def is_same_process(note: StackNote) -> bool:
    """Whether the process of the note still runs, and is seen from here."""
    try:
        is_here = not note.namespace or pid_namespace() == note.namespace
        return is_here and start_ticks(note.pid) == note.started
    except (OSError, ValueError, IndexError):
        return False


def ask(folder: Path, notes: Iterable[StackNote]) -> dict[int, Stack]:
    """The stacks of the processes of these notes, by pid; those that do not answer are left out."""
    asked = {}
    for note in notes:
        path = stack_path(folder, note.pid)
        with suppress(OSError, ValueError, IndexError):
            n_bytes = path.stat().st_size
            if _may_be_asked(note, path):
                _send(note)
                asked[note.pid] = path, n_bytes
    answers: dict[int, str] = {}
    end = time.monotonic() + ANSWER_S
    while time.monotonic() < end and not all(_is_whole(answers.get(pid, "")) for pid in asked):
        time.sleep(_LOOK_EVERY_S)
        answers = {pid: _answer(*of_pid) for pid, of_pid in asked.items()}
    return {pid: stack for pid, text in answers.items() if (stack := _parsed(text))}


def _may_be_asked(note: StackNote, path: Path) -> bool:
    """Whether the signal would reach the handler that writes to this file.

    Raises OSError or ValueError where that cannot be known.
    """
    if note.fd < 0 or not is_same_process(note):
        return False
    if not has_signal(note.pid, "SigCgt") or has_signal(_thread(note), "SigBlk"):
        return False
    written_to = Path(f"/proc/{note.pid}/fd/{note.fd}").stat()
    return os.path.samestat(written_to, path.stat())


def _thread(note: StackNote) -> int:
    """The thread of the note, or the first of its process where that one has ended."""
    exists = Path(f"/proc/{note.pid}/task/{note.thread}").exists()
    return note.thread if exists else note.pid


def _send(note: StackNote) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if hasattr(library, "tgkill"):
        library.tgkill(note.pid, _thread(note), SIGNAL)
    else:
        os.kill(note.pid, SIGNAL)


def _answer(path: Path, offset: int) -> str:
    """What was added to the file since the signal, in whole lines."""
    with suppress(OSError):
        with path.open("rb") as file:
            file.seek(offset)
            text = file.read().decode("utf-8", "replace")
        return text[: text.rfind("\n") + 1]
    return ""


def _parsed(text: str) -> Stack:
    """The last stack in what faulthandler wrote."""
    lines = text.rpartition(_HEADING)[2].splitlines()
    found = [_FRAME.fullmatch(line) for line in lines]
    return tuple(Frame(match[1], int(match[2]), match[3]) for match in found if match)


def _is_whole(text: str) -> bool:
    """Whether a stack is there to its outermost call, or as deep as faulthandler goes.

    It is written line by line. One that ends with another call is waited for a while, and taken.
    """
    stack = _parsed(text)
    return text.endswith("  ...\n") or (bool(stack) and stack[-1].function in _OUTERMOST)
