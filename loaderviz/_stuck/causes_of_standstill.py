"""Why a process goes no further: from its stack, and from what the kernel says of it.

A cause is named where something shows it. Else it is ``unknown``, with what was seen.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Final

from loaderviz._stuck.process_view import ProcessView
from loaderviz.ask_for_stack import Stack
from loaderviz.text import count, duration

DEAD, STOPPED, FORK, LOCK = "dead worker", "stopped", "lock held at fork", "lock"
SHARED_MEMORY, NETWORK, STORAGE = "shared memory", "network", "storage"
CHILD, SLEEP, COMPUTING, UNKNOWN = "another process", "sleep", "computing", "unknown"

COMPUTES = 0.5  # of the time between two looks on a CPU
_NETWORK_CALLS: Final = ("recvfrom", "recvmsg", "sendto", "sendmsg", "connect", "accept", "accept4")
_NETWORK_FUNCTIONS: Final = ("sk_wait_data", "wait_woken", "inet_", "tcp_", "unix_stream")
_NETWORK_FILES: Final = (
    "/socket.py", "/ssl.py", "/http/client.py", "/urllib3/", "/aiohttp/", "/botocore/",
)  # fmt: skip
_FILE_CALLS: Final = ("read", "pread64", "openat", "newfstatat", "fsync", "write")
_STORAGE_FUNCTIONS: Final = ("nfs", "rpc_", "fuse_", "request_wait", "io_schedule", "folio_wait")
_SHARED_MEMORY_FILES: Final = ("/multiprocessing/reductions.py", "/multiprocessing/shared_memory")
_EVENT_FILES: Final = ("/threading.py", "/queue.py", "/fsspec/asyn.py", "/concurrent/futures/")


@dataclass(frozen=True)
class Why:
    """Why a process goes no further: one of the causes above, and what shows it, as a sentence."""

    cause: str
    evidence: str


@dataclass(frozen=True)
class Seen:
    """All that was seen of one process.

    Attributes:
        before, view: how it stood ``apart_s`` seconds ago, and now.
        stack: of the thread that matters; empty where it is not known.
        forked: whether it was forked and runs no other program since.
        alone: whether no other thread of it can release a lock: there is none, or only such as
            wait for batches to send.
    """

    before: ProcessView
    view: ProcessView
    apart_s: float
    stack: Stack
    forked: bool
    alone: bool


def why(seen: Seen) -> Why:
    """Why this process goes no further."""
    view = seen.view
    if not view.is_alive:
        return Why(DEAD, _how_it_ended(view))
    if view.is_stopped:
        return Why(STOPPED, "it is stopped, by a signal (SIGSTOP, Ctrl-Z) or a debugger")
    used_s = view.cpu_s - seen.before.cpu_s
    if used_s > COMPUTES * seen.apart_s:
        return Why(
            COMPUTING,
            f"it computes: {duration(used_s)} of CPU time in the last {duration(seen.apart_s)}",
        )
    if view.state == seen.before.state == "R":
        return Why(COMPUTING, "it computes, as far as it gets a CPU")
    for look in (_lock, _shared_memory, _network, _files, _others):
        found = look(seen)
        if found is not None:
            return found
    where = view.kernel_function and f" (in {view.kernel_function})"
    return Why(UNKNOWN, f"the kernel does not say what it waits for{where}")


def _how_it_ended(view: ProcessView) -> str:
    if not view.exit_signal:
        return "its process is gone" if not view.state else "its process has ended"
    name = signal.Signals(view.exit_signal).name
    reasons = {
        "SIGKILL": ", as the kernel does for lack of memory: dmesg says so then",
        "SIGBUS": ", as where /dev/shm is full",
    }
    return f"{name} ended its process{reasons.get(name, '')}"


def _lock(seen: Seen) -> Why | None:
    view, stack = seen.view, seen.stack
    if view.call in ("flock", "fcntl"):
        return Why(LOCK, f"it waits for a lock on {_named(view, 'a file')}")
    if view.call != "futex" and "futex" not in view.kernel_function:
        return None
    for_an_event = bool(stack) and _is_in(stack, _EVENT_FILES, 1)
    if seen.forked and seen.alone and ((view.private_wait and not view.timed) or for_an_event):
        return Why(
            FORK,
            "no thread of its process can end this: what it waits for was left behind when the "
            "worker was forked (or the worker has taken the same lock twice)",
        )
    whose = "which any process may hold" if view.call and not view.private_wait else ""
    if not view.call:
        whose = "of which the kernel tells this user no more"
    if view.private_wait:
        whose = f"which one of its {count(view.n_threads, 'thread')} has to release"
    return Why(LOCK, f"it waits for a lock, {whose}")


def _shared_memory(seen: Seen) -> Why | None:
    if "shmem" in seen.view.kernel_function or _is_in(seen.stack, _SHARED_MEMORY_FILES, 3):
        return Why(SHARED_MEMORY, "it waits for shared memory (/dev/shm)")
    return None


def _network(seen: Seen) -> Why | None:
    view = seen.view
    over = [target for target in view.waits_on if target.startswith("the connection")]
    if over:
        return Why(NETWORK, f"it waits for the other end of {' and of '.join(over[:3])}")
    is_call = view.call in _NETWORK_CALLS
    is_function = any(name in view.kernel_function for name in _NETWORK_FUNCTIONS)
    if is_call or is_function or _is_in(seen.stack, _NETWORK_FILES, 4):
        doing = "for another end to answer" if view.call != "connect" else "to be connected"
        return Why(NETWORK, f"it waits at a socket, {doing}")
    return None


def _files(seen: Seen) -> Why | None:
    view = seen.view
    if "a pipe" in view.waits_on:
        return Why(CHILD, "it waits for another process, at a pipe")
    is_function = any(name in view.kernel_function for name in _STORAGE_FUNCTIONS)
    if is_function or view.state == "D" or (view.call in _FILE_CALLS and view.waits_on):
        return Why(STORAGE, f"it waits for {_named(view, 'storage, as of a disk or a server')}")
    return None


def _others(seen: Seen) -> Why | None:
    view = seen.view
    if view.call in ("wait4", "waitid"):
        return Why(CHILD, "it waits for a process that it has started to end")
    if "nanosleep" in view.call or "nanosleep" in view.kernel_function:
        return Why(SLEEP, "it sleeps, as time.sleep does")
    return None


def _named(view: ProcessView, otherwise: str) -> str:
    return view.waits_on[0] if view.waits_on else otherwise


def _is_in(stack: Stack, files: tuple[str, ...], depth: int) -> bool:
    """Whether one of the innermost calls is in a file whose path has one of these parts."""
    return any(part in frame.file for frame in stack[:depth] for part in files)
