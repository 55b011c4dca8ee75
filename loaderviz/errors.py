"""The one error family, and how an error of the user's own code is told.

Every error that loaderviz raises on purpose is a LoaderVizError.
"""

from __future__ import annotations

import re
import sysconfig
import traceback
from pathlib import Path

from loaderviz.text import printable

# Where the lines of others lie: of Python, of what is installed beside it, and of ours.
_NOT_THEIRS = (
    *{sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")},
    str(Path(__file__).parent),
    "<frozen",
)
_CALL = re.compile(r'File "(.+?)", line (\d+), in (\S+)')  # a line of a traceback


class LoaderVizError(Exception):
    """Raised when loaderviz cannot do what was asked.

    The message names the value that was given and what to do instead. Exceptions of torch or of
    the user's own dataset are never turned into this one: they pass through unchanged. Control
    characters in the message are escaped: it may name what a stranger's file holds.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


def error_text(error: BaseException) -> str:
    """The line of the user's code that raised it, the type, and its message's first and last line.

    A worker's error arrives as text with its traceback (torch/_utils.py, ``ExceptionWrapper``).
    """
    where = line_of_user(error)
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    calls = [n for n, line in enumerate(lines) if _CALL.search(line)]
    if where and calls:
        raised = next((line for line in lines[calls[-1] :] if not line.startswith(" ")), lines[-1])
        return f"{where}: {raised.strip()} ({lines[0].strip().rstrip('.')})"
    first, *more = lines or [""]
    last = f" ... {more[-1].strip()}" if more else ""
    return f"{where}: " * bool(where) + f"{type(error).__name__}: {first}{last}"


def line_of_user(error: BaseException) -> str:
    """As "train.py:42 in __getitem__"; empty where no line of the traceback is the user's own."""
    frames = _CALL.findall(str(error)) or [
        (frame.filename, str(frame.lineno), frame.name)
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    own = [frame for frame in frames if not frame[0].startswith(_NOT_THEIRS)]
    if not own:
        return ""
    file, line, function = own[-1]
    return f"{Path(file).name}:{line} in {function}"


def traceback_of_user(error: BaseException) -> str:
    """What Python prints of it, from the first line of the user's own code on."""
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename.startswith(_NOT_THEIRS):
        step = step.tb_next
    return "".join(traceback.format_exception(type(error), error, step))
