"""Which line a look has found, and how it is written down: each frame and each stack once.

CPython runs a handler where it calls, where a function begins and where a loop goes round
(Python/ceval.c), so not within ``a @ b`` or ``a[i]`` but at the next such place. Which instruction
took the time is found again here, from the code and from what it was specialised to; only between
arithmetic and a call into C after it, on two lines of one function, nobody can tell: each has half.
"""

from __future__ import annotations

import dis
import functools
import itertools
import json
import linecache
import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any, Final, NamedTuple, Self, TypeVar

from torch.utils.data._utils import fetch

from loaderviz.own_errors import own_errors
from loaderviz.record_layout import Phase, Tag, pack_text
from loaderviz.recorder.line_looks import MOST_FRAMES, Frames, LineLooks, Look, root
from loaderviz.spool import NoRoomError, Spool

Result = TypeVar("Result")

MOST_SOURCE: Final = 120  # characters of a line
MOST_NAME: Final = 200
MOST_STACKS: Final = 20_000  # that are told apart, of one process
YOURS: Final = ""  # the owner of the user's own code
_QUICK: Final = ("_LEN", "_ISINSTANCE", "_LIST_APPEND", "_TYPE_1", "_STR_1", "_TUPLE_1")
_LONG: Final = ("BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP", "STORE_SUBSCR", "CONTAINS_OP")
_CACHE: Final = dis.opmap["CACHE"]
_ARRAYS: Final = ("@", "*", "+", "-", "/")
_HANDLERS_RUN: Final = ("RESUME", "JUMP_BACKWARD", "CALL", "PRECALL")
# In 3.11 a call into C is made by the first of its two instructions, once that is specialised.
_ONLY_PREPARE: Final = ("PRECALL", "PRECALL_ADAPTIVE", "PRECALL_PYFUNC", "PRECALL_BOUND_METHOD")
_PYTHON_CALLS: Final = ("CALL_PY", "CALL_BOUND_METHOD", "BINARY_SUBSCR_GETITEM")
_RECORDER: Final = f"{Path(__file__).parent}{os.sep}"
_PACKAGE: Final = f"{Path(__file__).parents[1]}{os.sep}"  # which may be a checkout


class LineLog:
    """The looks of this process, and where they are written: a spool file, once it is open."""

    def __init__(self, looks: LineLooks) -> None:
        self._looks = looks
        self.resume, self.pause, self.stop = looks.resume, looks.pause, looks.stop
        self._spool: Spool | None = None
        self._early: list[tuple[list[Look], int, int]] = []  # before it was open
        self._frames: dict[tuple[int, int], int] = {}  # by code and instruction
        self._lines: dict[tuple[str, int, str], int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        self._callees: dict[tuple[int, int], CodeType] = {}  # by code and instruction of the call
        self._reader: CodeType | None = None
        self._n_looks = 0
        self._kept: dict[int, CodeType] = {}  # so that no other has the same id

    @classmethod
    def start(cls) -> Self | str:
        """Be able to look, in this process; returns why not, where that cannot be."""
        looks = LineLooks.start()
        return looks if isinstance(looks, str) else cls(looks)

    def expect(self, dataset: object) -> None:
        """Know which function torch's fetcher calls for a sample."""
        self._reader = getattr(getattr(type(dataset), "__getitem__", None), "__code__", None)

    def write_to(self, spool: Spool) -> None:
        """Write to this file from now on, and what was seen before."""
        self._spool = spool
        early, self._early = self._early, []
        for looks, iterator, phase in early:
            self.write(looks, iterator, phase)

    @root
    def look_at(self, call: Callable[..., Result], *args: Any, iterator: int, phase: int) -> Result:
        """What ``call`` returns, which was looked at; raises what it raises."""
        self.resume()
        try:
            return call(*args)
        finally:
            self.write(self.pause(), iterator, phase)

    def write(self, looks: list[Look], iterator: int, phase: int, collate_ns: int = 0) -> None:
        """Write down what was seen; after ``collate_ns``, if that is given, samples were collated.

        Where that cannot be done it looks no more.
        """
        if self._spool is None:
            self._early.append((looks, iterator, phase))
            return
        try:
            for at_ns, weight_ns, cpu_ns, frames in looks:
                self._n_looks += 1
                settled = self._settled(frames)
                for each in settled:
                    stack = self._stack(each, self._spool)
                    if stack is not None:
                        now_phase = Phase.COLLATE if 0 < collate_ns <= at_ns else phase
                        shares_ns = weight_ns // len(settled), cpu_ns // len(settled)
                        fields = iterator, now_phase, stack, at_ns, *shares_ns
                        self._spool.write(Tag.LOOK, *fields)
        except NoRoomError:
            self.stop()
        except own_errors(Exception) as error:
            self.stop()
            self._spool.note_problem(f"lines: {type(error).__name__}: {error}")

    def _settled(self, frames: Frames) -> list[Frames]:
        """The same with the instruction that took the time, or several among which it was shared.

        Innermost first.
        """
        frames = [(code, _begin(code, at)) for code, at in frames]
        for (inner, _), (outer, at) in itertools.pairwise(frames):
            self._callees[id(outer), at] = inner
            self._kept[id(outer)] = outer
        if not frames:
            return []
        code, at = frames[0]
        if len(frames) > 1 and self._instruction(code, at).name.startswith("RESUME"):
            frames = frames[1:]
            code, at = frames[0]
            before = self._long_before(code, at)
        elif self._instruction(code, at).may_call_long():
            before = self._long_before(code, at)
            if before is not None and before.is_arithmetic and before.line != _line_at(code, at):
                return [self._entered(code, each, frames[1:]) for each in (before.at, at)]
            before = None
        else:
            before = self._long_before(code, at)
        return [self._entered(code, at if before is None else before.at, frames[1:])]

    def _entered(self, code: CodeType, at: int, callers: Frames) -> Frames:
        """The stack, and what was called there, and has just returned after a long operator."""
        stack = [(code, at), *callers]
        while len(stack) < MOST_FRAMES:
            callee = self._callees.get((id(code), at))
            if callee is None and code.co_filename == fetch.__file__:
                callee = self._reader
            last = None if callee is None else self._long_before(callee, len(callee.co_code))
            if callee is None or last is None:
                break
            code, at = callee, last.at
            stack.insert(0, (code, at))
        return stack

    def _instructions(self, code: CodeType) -> list[Instruction]:
        return _instructions(code, self._n_looks.bit_length())  # it is specialised as it runs

    def _instruction(self, code: CodeType, at: int) -> Instruction:
        own = self._instructions(code)
        return next((each for each in own if each.at == at), Instruction(at, "", "", 0))

    def _long_before(self, code: CodeType, at: int) -> Instruction | None:
        """Where before an instruction time may have gone since a handler could have run last.

        That is an operator of types that CPython has no quick way for, or a call whose function has
        returned without such a place after its last operator.
        """
        for each in reversed(self._instructions(code)):
            if each.at < at:
                if each.may_take_long():
                    return each
                if each.runs_handlers():
                    return None
        return None

    def _stack(self, frames: Frames, spool: Spool) -> int | None:
        """The number of a stack, which is written if it is new; None for one of ours alone."""
        numbers = [self._frame(code, at, spool) for code, at in frames]
        key = tuple(number for number in reversed(numbers) if number)
        if not key:
            return None
        number = self._stacks.get(key, 0)
        if not number and len(self._stacks) < MOST_STACKS:
            number = self._stacks[key] = len(self._stacks) + 1
            spool.write(Tag.STACK, number, *key)
        return number

    def _frame(self, code: CodeType, at: int, spool: Spool) -> int:
        """The number of a frame, which is written if its line is new; 0 for one of ours."""
        number = self._frames.get((id(code), at))
        if number is None:
            self._kept[id(code)] = code
            number = 0
            if not code.co_filename.startswith(_RECORDER):
                number = self._line(code, _line_at(code, at), spool)
            self._frames[id(code), at] = number
        return number

    def _line(self, code: CodeType, line: int, spool: Spool) -> int:
        key = code.co_filename, line, code.co_qualname
        number = self._lines.get(key)
        if number is None:
            number = self._lines[key] = len(self._lines) + 1
            file, owner = place(code.co_filename)
            source = linecache.getline(code.co_filename, line).strip()[:MOST_SOURCE]
            about = [file[-MOST_NAME:], code.co_qualname[-MOST_NAME:], owner, source]
            spool.write(Tag.FRAME, number, line, *pack_text(json.dumps(about)))
        return number


@functools.cache
def place(filename: str) -> tuple[str, str]:
    """How a file is named in a recording, which is passed on, and whose it is.

    The user's own are named from the folder that the program runs in, or by their last folder and
    name; others from where they are installed. Their owner is the package: "pandas", "Python".
    """
    if "ipykernel_" in filename:
        return "cell", YOURS
    if filename.startswith("<"):
        return filename, YOURS if filename in ("<string>", "<stdin>") else "Python"
    path = Path(filename)
    if filename.startswith(_PACKAGE):
        return path.relative_to(Path(_PACKAGE).parent).as_posix(), "loaderviz"
    for folder in _installed():
        if path.is_relative_to(folder):
            named = path.relative_to(folder)
            return named.as_posix(), named.parts[0].removesuffix(".py")
    for folder in map(Path, {sysconfig.get_path(each) for each in ("stdlib", "platstdlib")}):
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix(), "Python"
    try:
        return path.relative_to(Path.cwd()).as_posix(), YOURS
    except own_errors(ValueError, OSError):
        return "/".join(path.parts[-2:]), YOURS


@functools.cache
def _installed() -> list[Path]:
    """Folders of packages, the innermost first."""
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    folders |= {each for each in sys.path if each.endswith(("site-packages", "dist-packages"))}
    return sorted(map(Path, folders), key=lambda each: -len(each.parts))


class Instruction(NamedTuple):
    """One instruction: its place in the code, its name as it is specialised, its operator."""

    at: int
    name: str
    operator: str
    line: int

    @property
    def is_arithmetic(self) -> bool:
        """Whether it may be one on arrays: on other numbers it is most often specialised."""
        return self.name.startswith("BINARY_OP") and self.operator.removesuffix("=") in _ARRAYS

    def may_take_long(self) -> bool:
        """Whether it may take long and run no handler in the end."""
        return self.name.removesuffix("_ADAPTIVE") in _LONG or self.name.startswith(_PYTHON_CALLS)

    def may_call_long(self) -> bool:
        """Whether it calls what may take long, and runs handlers then."""
        return self.name.startswith(("CALL", "PRECALL")) and not self.name.endswith(_QUICK)

    def runs_handlers(self) -> bool:
        """Whether a handler may run there."""
        return self.name.startswith(_HANDLERS_RUN) and self.name not in _ONLY_PREPARE


def _begin(code: CodeType, at: int) -> int:
    """Where the instruction begins: that of a call can be told as at the last of its caches."""
    names = code.co_code
    while at > 0 and names[at] == _CACHE:
        at -= 2
    return at


@functools.lru_cache(maxsize=4096)
def _instructions(code: CodeType, _age: int) -> list[Instruction]:
    return [
        Instruction(each.offset, each.opname, each.argrepr, _line_at(code, each.offset))
        for each in dis.get_instructions(code, adaptive=True)
    ]


@functools.lru_cache(maxsize=4096)
def _lines(code: CodeType) -> dict[int, int | None]:
    return {at: line for begin, end, line in code.co_lines() for at in range(begin, end, 2)}


def _line_at(code: CodeType, at: int) -> int:
    return _lines(code).get(at) or code.co_firstlineno
