"""Lets go of what the frames of an error hold: torch's iterator, say, with its workers.

Its own end takes 5 s a worker where the interpreter ends it together with its error.
"""

import traceback
from contextlib import suppress


def let_go(error: BaseException) -> None:
    """Clear every frame that is over: those of the traceback, and those that are hidden in it."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        caller = frame
        with suppress(RuntimeError):  # of one that still runs
            while caller is not None:
                caller.clear()
                caller = caller.f_back
    for earlier in (error.__cause__, error.__context__):
        if earlier is not None:
            let_go(earlier)
