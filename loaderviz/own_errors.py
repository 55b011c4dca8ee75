"""Which errors loaderviz may swallow: those that provably began in its own code.

What raises while our code runs need not be ours. A signal handler is called between any two
bytecodes, another thread can raise an exception in this one (``PyThreadState_SetAsyncExc``), and a
key, an index list or a hook of the user's may be code of their own. Whatever comes from there must
reach the user as if we were not there: it may be how a job is told to stop, or that a worker died.

So nothing on the way of a training is swallowed by its class alone. Code that comes from outside
leaves a frame of its own in the traceback. What another thread raises leaves none, but no ``raise``
statement of ours made it, and it is made without arguments, as hardly any error of CPython's is.
An error counts as ours if nothing of this is so; where it cannot be told, it goes on.
"""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from opcode import opmap
from types import CodeType, FunctionType, MethodType
from typing import Any, TypeVar

Error = TypeVar("Error", bound=Exception)

# The packages whose code we call, and which raise nothing in the name of others. Of torch only
# this: the handler that says which worker died is torch's, too.
_OUR_CALLEES = sys.stdlib_module_names | {
    *("numpy", "pandas", "psutil", "pyarrow"),
    # For the reports that callbacks of trainers write; a template of jinja2's has such a frame.
    *("jinja2", "<template>", "narwhals", "plotly", "_plotly_utils"),
}
_OF_TORCH = "torch.cuda"
_RAISE = opmap["RAISE_VARARGS"]


def own_errors(
    *kinds: type[Error], method: str = "", of: Iterable[Any] = ()
) -> tuple[type[Error], ...]:
    """In an ``except`` clause: ``kinds`` where what was raised began in our own code, else none.

    Also what a ``method`` of the user's has raised that torch would not have called, or what that
    method has called, unless a handler of a signal came in between. Under whatever name it was
    written, where it is known whose method it is: ``of`` these objects.

    >>> try:
    ...     write()
    ... except own_errors(OSError):
    ...     stop_recording()

    It does not tell apart what is raised without a frame: a handler that is no Python function, and
    raises anything but KeyboardInterrupt, which no clause of ours catches.
    """
    error = sys.exception()
    if not isinstance(error, Exception) or isinstance(error, SystemError):  # which can hide another
        return ()
    functions = [getattr(type(each), method, None) for each in of] if method else ()
    return kinds if _is_own(error, method, _codes(functions)) else ()


@contextmanager
def own_errors_suppressed(*kinds: type[Exception]) -> Iterator[None]:
    """``contextlib.suppress`` for ``own_errors(*kinds)``."""
    try:
        yield
    except own_errors(*kinds):
        pass


def warn_or_print(text: str, *, stacklevel: int) -> None:
    """Warn; where a filter makes errors of warnings, print: a training is not to end for it."""
    try:
        warnings.warn(text, stacklevel=stacklevel + 1)
    except own_errors(Warning):
        print(text, file=sys.stderr)


def _is_own(error: Exception, method: str, methods: Collection[CodeType]) -> bool:
    step, in_method = error.__traceback__, False
    while step is not None:
        code, last = step.tb_frame.f_code, step.tb_next is None
        if in_method and code in _signal_handlers():
            return False
        if not in_method and not _is_callee(step.tb_frame.f_globals.get("__name__") or ""):
            if code.co_name != method and code not in methods:
                return False
            in_method = True
            if last:
                return True
        if last and code.co_code[step.tb_lasti] == _RAISE:
            return True
        step = step.tb_next
    says_why = bool(error.args) or type(error) is MemoryError  # which CPython makes without a word
    return says_why and (in_method or _is_callee(type(error).__module__))


def _signal_handlers() -> set[CodeType]:
    """The code of the functions that are called for signals."""
    return _codes(signal.getsignal(number) for number in signal.valid_signals())


def _codes(functions: Iterable[Any]) -> set[CodeType]:
    functions = [each.__func__ if type(each) is MethodType else each for each in functions]
    return {each.__code__ for each in functions if type(each) is FunctionType}


def _is_callee(module: str) -> bool:
    package = module.partition(".")[0]
    return package == "loaderviz" or package in _OUR_CALLEES or module.startswith(_OF_TORCH)
