"""How a worker ended: done, failed or killed; or that it still runs."""

from __future__ import annotations

import psutil

from loaderviz.own_errors import own_errors

SAME_PROCESS_S = 10.0  # the most that the recorded and the system's time of a start may differ


def worker_ending(pid: int, started_at: float, exit_code: int | None, *, has_ended: bool) -> str:
    """What the column ``exit`` of ``workers`` says: "done", "failed", "killed" or "running".

    Args:
        pid: the worker's, as it was recorded; another process may have it now.
        started_at: when the worker started, in seconds since 1970; 0 where it is not known.
        exit_code: as the main process saw it, negative for a signal; None where it saw none.
        has_ended: whether the worker wrote down that it ended.
    """
    if exit_code is not None:
        return "done" if exit_code == 0 else "killed" if exit_code < 0 else "failed"
    if has_ended:
        return "done"
    return "running" if _is_running(pid, started_at) else "killed"


def _is_running(pid: int, started_at: float) -> bool:
    """Whether this process runs; a later one that has its number does not count."""
    try:
        process = psutil.Process(pid)
        is_same = not started_at or abs(process.create_time() - started_at) < SAME_PROCESS_S
        return is_same and process.status() != psutil.STATUS_ZOMBIE
    except own_errors(psutil.Error, ValueError, OverflowError):
        return False
