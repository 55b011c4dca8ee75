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
AGES: Final = (16, 512)  # looks after which code is read anew: it is specialised as it runs
PACKAGES: Final = ("site-packages", "dist-packages")
_QUICK: Final = ("_LEN", "_ISINSTANCE", "_LIST_APPEND", "_TYPE_1", "_STR_1", "_TUPLE_1")
_LONG: Final = ("BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP", "STORE_SUBSCR", "CONTAINS_OP")
_ARRAYS: Final = ("@", "*", "+", "-", "/")  # on other numbers they are most often specialised
_HANDLERS_RUN: Final = ("RESUME", "JUMP_BACKWARD", "CALL", "PRECALL")
# In 3.11 a call into C is made by the first of its two instructions, once that is specialised.
_ONLY_PREPARE: Final = ("PRECALL", "PRECALL_ADAPTIVE", "PRECALL_PYFUNC", "PRECALL_BOUND_METHOD")
_PYTHON_CALLS: Final = ("CALL_PY", "CALL_BOUND_METHOD", "BINARY_SUBSCR_GETITEM")
_CACHE: Final = dis.opmap["CACHE"]
_RECORDER: Final = f"{Path(__file__).parent}{os.sep}"
_PACKAGE: Final = f"{Path(__file__).parents[1]}{os.sep}"  # which may be a checkout


class LineLog:
    """The looks of this process, and where they are written: a spool file, once it is open."""

    def __init__(self, looks: LineLooks) -> None:
        self.resume, self.pause, self.stop = looks.resume, looks.pause, looks.stop
        self._spool: Spool | None = None
        self._early: list[tuple[list[Look], int, int]] = []  # before it was open
        self._frames: dict[tuple[CodeType, int], int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        self._callees: dict[tuple[CodeType, int], CodeType] = {}  # by where they are called
        self._reader: CodeType | None = None
        # Of stacks seen before, by the ids of their code, which stays: the numbers of what it is.
        self._known: dict[tuple[int, ...], tuple[list[int], Frames]] = {}
        self._n_looks = 0
        self._new_numbers = itertools.count(1)
        self._block = 0  # of the file, that the frames and stacks are written in

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
        spool = self._spool
        if spool is None:
            self._early.append((looks, iterator, phase))
            return
        try:
            for at_ns, weight_ns, cpu_ns, frames in looks:
                self._n_looks += 1
                now_phase = Phase.COLLATE if 0 < collate_ns <= at_ns else phase
                numbers = self._numbers(frames, spool)
                if spool.block_number != self._block:  # each names what it has, or the one before
                    self._block = spool.block_number
                    for known in (self._known, self._stacks, self._frames):
                        known.clear()
                    numbers = self._numbers(frames, spool)
                for stack in numbers:
                    shares_ns = weight_ns // len(numbers), cpu_ns // len(numbers)
                    spool.write(Tag.LOOK, iterator, now_phase, stack, at_ns, *shares_ns)
        except NoRoomError:
            self.stop()
        except own_errors(Exception) as error:
            self.stop()
            spool.note_problem(f"lines: {type(error).__name__}: {error}")

    def _numbers(self, frames: Frames, spool: Spool) -> list[int]:
        """The numbers of the stacks among which a look is shared; none for what is ours alone."""
        age = sum(self._n_looks > each for each in AGES)
        key = (age, *itertools.chain(*[(id(code), at) for code, at in frames]))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST_STACKS:
                self._known.clear()
            stacks = [self._stack(each, spool) for each in self._settled(frames, age)]
            known = self._known[key] = [each for each in stacks if each is not None], frames
        return known[0]

    def _stack(self, frames: Frames, spool: Spool) -> int | None:
        """The number of a stack, which is written if it is new; None for one of ours alone."""
        numbers = [self._frame(code, at, spool) for code, at in reversed(frames)]
        key = tuple(filter(None, numbers))
        if not key:
            return None
        number = self._stacks.get(key, 0)
        if not number and len(self._stacks) < MOST_STACKS:
            number = self._stacks[key] = next(self._new_numbers)
            spool.write(Tag.STACK, number, *key)
        return number

    def _frame(self, code: CodeType, at: int, spool: Spool) -> int:
        """The number of a frame, which is written if it is new; 0 for one of ours.

        And 0 for one that is made of text, as the ``__new__`` of a named tuple, but for
        ``python -c``: who calls it is told.
        """
        is_made = code.co_filename == "<string>" and sys.argv[:1] != ["-c"]
        if is_made or code.co_filename.startswith(_RECORDER):
            return 0
        number = self._frames.get((code, at), 0)
        if not number:
            number = self._frames[code, at] = next(self._new_numbers)
            (file, owner), line = place(code.co_filename), _line_at(code, at)
            source = linecache.getline(code.co_filename, line).strip()[:MOST_SOURCE]
            about = [file[-MOST_NAME:], code.co_qualname[-MOST_NAME:], owner, source]
            spool.write(Tag.FRAME, number, line, *pack_text(json.dumps(about)))
        return number

    def _settled(self, frames: Frames, age: int) -> list[Frames]:
        """The same with the instruction that took the time, or several among which it was shared.

        Innermost first.
        """
        frames = [(code, _begin(code, at)) for code, at in frames]
        self._callees.update({outer: inner for (inner, _), outer in itertools.pairwise(frames)})
        if not frames:
            return []
        begins = len(frames) > 1 and _instruction(*frames[0], age).name.startswith("RESUME")
        (code, at), *callers = frames[1:] if begins else frames  # what was before is its caller's
        here, before = _instruction(code, at, age), _long_before(code, at, age)
        into_c = here.may_call_long() and not (begins and here.name.startswith(_PYTHON_CALLS))
        if before is None or (into_c and not before.is_arithmetic):
            places = [at]
        elif here.may_call_long() and not begins and before.line != here.line:
            places = [before.at, at]
        else:
            places = [before.at]
        return [self._entered([(code, each), *callers], age) for each in places]

    def _entered(self, stack: Frames, age: int) -> Frames:
        """The stack, and what was called there, and has just returned after a long operator."""
        while len(stack) < MOST_FRAMES:
            is_fetch = stack[0][0].co_filename == fetch.__file__
            callee = self._callees.get(stack[0], self._reader if is_fetch else None)
            last = None if callee is None else _long_before(callee, len(callee.co_code), age)
            if callee is None or last is None:
                break
            stack.insert(0, (callee, last.at))
        return stack


@functools.cache
def place(filename: str) -> tuple[str, str]:
    """How a file is named in a recording, which is passed on, and whose it is.

    The user's own are named from the folder that the program runs in, or by their last folder and
    name; others from where they are installed. Their owner is the package: "pandas", "Python".
    """
    if "ipykernel_" in filename:
        return "cell", ""
    if filename.startswith("<"):
        return filename, "" if filename in ("<string>", "<stdin>") else "Python"
    path = Path(filename)
    if filename.startswith(_PACKAGE):
        return path.relative_to(Path(_PACKAGE).parent).as_posix(), "loaderviz"
    for i, folder in enumerate(path.parts[:-1]):
        if folder in PACKAGES:
            inside = path.parts[i + 1 :]
            return "/".join(inside), inside[0].removesuffix(".py")
    for root_, owner in ((sysconfig.get_path("stdlib"), "Python"), (Path.cwd(), "")):
        if path.is_relative_to(root_):
            return path.relative_to(root_).as_posix(), owner
    return "/".join(path.parts[-2:]), ""


class Instruction(NamedTuple):
    """One instruction: its place in the code, its name as it is specialised, its operator."""

    at: int
    name: str = ""
    operator: str = ""
    line: int = 0

    @property
    def is_arithmetic(self) -> bool:
        """Whether it may be one on arrays."""
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


def _instruction(code: CodeType, at: int, age: int) -> Instruction:
    return next((each for each in _instructions(code, age) if each.at == at), Instruction(at))


def _long_before(code: CodeType, at: int, age: int) -> Instruction | None:
    """Where before an instruction time may have gone since a handler could have run last.

    That is an operator of types that CPython has no quick way for, or a call whose function has
    returned without such a place after its last operator.
    """
    for each in reversed(_instructions(code, age)):
        if each.at < at:
            if each.may_take_long():
                return each
            if each.runs_handlers():
                return None
    return None


@functools.lru_cache(maxsize=1024)
def _instructions(code: CodeType, _age: int) -> list[Instruction]:
    return [
        Instruction(each.offset, each.opname, each.argrepr, _line_at(code, each.offset))
        for each in dis.get_instructions(code, adaptive=True)
    ]


@functools.lru_cache(maxsize=1024)
def _lines(code: CodeType) -> dict[int, int | None]:
    return {at: line for begin, end, line in code.co_lines() for at in range(begin, end, 2)}


def _line_at(code: CodeType, at: int) -> int:
    return _lines(code).get(at) or code.co_firstlineno
