"""What this process has of its machine: CPUs, memory, its rank among others, versions."""

import os
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from loaderviz.own_errors import own_errors

if sys.platform != "win32":
    import resource

MOST_CPUS = 1 << 16  # of one machine: Linux takes 8,192
_CGROUP = Path("/sys/fs/cgroup")
_PRESSURE = Path("/proc/pressure")


def cpu_allowance() -> float:
    """How many CPUs this process may keep busy: its affinity mask, cut by a container's CPU quota.

    ``os.cpu_count()`` counts the CPUs of the machine, which in a container or under ``taskset`` is
    more than a loader can use. The quota is that of cgroup v2 (``cpu.max``) or v1
    (``cpu.cfs_quota_us``), which may be a fraction of a CPU.
    """
    if hasattr(os, "sched_getaffinity"):
        n_cpus = float(len(os.sched_getaffinity(0)))
    else:
        n_cpus = float(os.cpu_count() or 1)
    return min(n_cpus, _cgroup_quota())


def cpu_list(cpus: Iterable[int]) -> str:
    """Numbers of CPUs as Linux lists them: "0-3,8"."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1][1:] = [cpu]
        else:
            runs.append([cpu])
    return ",".join("-".join(map(str, run)) for run in runs)


def cpus_in(listed: str) -> set[int]:
    """The numbers in such a list; of one that is no list, those before the first error."""
    cpus: set[int] = set()
    for run in listed.split(","):
        first, _, last = run.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            break
        cpus.update(range(int(first), min(int(last or first), MOST_CPUS) + 1))
    return cpus


def _cgroup_quota() -> float:
    return min(_cgroup_quotas().values(), default=float("inf"))


def _cgroup_quotas() -> dict[Path, float]:
    """How many CPUs each cgroup of this process may keep busy; those without a quota are not in."""
    quotas = {}
    for folder in _cgroup_folders():
        try:
            quota, period = (folder / "cpu.max").read_text().split()[:2]
            if quota != "max":
                quotas[folder] = int(quota) / int(period)
        except own_errors(OSError, ValueError, ZeroDivisionError):
            continue
    for folder in _cgroup_folders("cpu"):
        try:
            quota_us = int((folder / "cpu.cfs_quota_us").read_text())
            period_us = int((folder / "cpu.cfs_period_us").read_text())
        except own_errors(OSError, ValueError):
            continue
        if quota_us > 0 and period_us > 0:
            quotas[folder] = quota_us / period_us
    return quotas


def _cgroup_folders(controller: str = "") -> list[Path]:
    """This process's cgroup and all above it, of which the tightest limit holds.

    Those of cgroup v2, or of v1 for a ``controller``. A container of v1 may not have the folder
    that /proc says, but finds its own at the top.
    """
    top = _CGROUP / controller
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        fields = [line.split(":", 2) for line in lines]
        path = next((path for _, names, path in fields if controller in names.split(",")), "")
    except own_errors(OSError, ValueError):
        return [top]
    own_folder = top / path.lstrip("/")
    return [own_folder, *(folder for folder in own_folder.parents if folder.is_relative_to(top))]


def throttling_file() -> Path | None:
    """Where the kernel counts how long the tightest CPU quota stopped us; None without a quota."""
    quotas = _cgroup_quotas()
    return min(quotas, key=quotas.__getitem__) / "cpu.stat" if quotas else None


def throttled_ns(stat: bytes) -> int:
    """What such a file says, the time of all CPUs added up; raises ValueError where it does not.

    In cgroup v2 it is ``throttled_usec``, in v1 ``throttled_time`` in ns (kernel documentation,
    admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst).
    """
    words = stat.split()
    if b"throttled_usec" in words:
        return 1000 * int(words[words.index(b"throttled_usec") + 1])
    return int(words[words.index(b"throttled_time") + 1])


def pressure_s() -> dict[str, float]:
    """How long some task of this machine has waited for the CPU, for I/O, for memory, since boot.

    Empty where the kernel does not count it (accounting/psi.rst of its documentation).
    """
    totals = {}
    for resource_name in ("cpu", "io", "memory"):
        try:
            line = (_PRESSURE / resource_name).read_text().splitlines()[0]
            totals[resource_name] = int(line.partition(" total=")[2]) / 1e6
        except own_errors(OSError, IndexError, ValueError):
            continue
    return totals


def memory_available_bytes(*, files_are_free: bool = False) -> int:
    """How many bytes may still be allocated, in the machine and in the container.

    A container's limit is that of cgroup v2 (``memory.max``). File pages that have not been used
    lately (``inactive_file``) count as free: the system gives them up first. With
    ``files_are_free`` all do, as before a process is killed for memory.
    """
    free = ("inactive_file", "active_file") if files_are_free else ("inactive_file",)
    available = int(psutil.virtual_memory().available)
    for folder in _cgroup_folders():
        try:
            limit = int((folder / "memory.max").read_text())
            used = int((folder / "memory.current").read_text())
            stat = (folder / "memory.stat").read_text()
            used -= sum(int(stat.partition(f"\n{name} ")[2].split()[0]) for name in free)
        except own_errors(OSError, ValueError, IndexError):  # no limit: "max"
            continue
        available = min(available, max(limit - used, 0))
    return available


def rss_bytes() -> int:
    """The resident memory of this process now, in bytes, what it shares with others included."""
    return int(psutil.Process().memory_info().rss)


def rss_peak_bytes() -> int:
    """The most resident memory that this process has had, in bytes, shared memory included."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Not getrusage(2), whose figure a forked process inherits from its parent.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024  # given in KiB (proc(5))


def children_cpu_ns() -> int:
    """CPU time of the child processes that this one has waited for, in nanoseconds.

    The kernel books it when they are waited for (getrusage(2)); 0 where it does not tell.
    """
    if sys.platform == "win32":
        return 0
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int(1e9 * (usage.ru_utime + usage.ru_stime))


def rank() -> int:
    """This process's rank: torch.distributed's when initialised, else ``RANK``, else 0."""
    group = _process_group()
    if group is not None:
        return int(group.get_rank())
    text = os.environ.get("RANK", "0")
    return int(text) if text.isdecimal() else 0


def world_size() -> int:
    """How many ranks train: torch.distributed's when initialised, else ``WORLD_SIZE``, else 1."""
    group = _process_group()
    if group is not None:
        return int(group.get_world_size())
    text = os.environ.get("WORLD_SIZE", "1")
    return int(text) if text.isdecimal() else 1


def local_world_size() -> int | None:
    """How many ranks share this machine, by torchrun's ``LOCAL_WORLD_SIZE``; None where not set."""
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, int(text)) if text.isdecimal() else None


def spans_machines() -> bool:
    """Whether the launcher says that ranks train on other machines too."""
    n_local = local_world_size()
    return n_local is not None and world_size() > n_local


def _process_group() -> Any:
    """torch.distributed where it is initialised, else None; never imports it."""
    distributed: Any = sys.modules.get("torch.distributed")
    ready = distributed and distributed.is_available() and distributed.is_initialized()
    return distributed if ready else None


def clock_domain() -> str:
    """Names the clock that ``process_clock`` reads: processes of one domain read the same.

    On Linux it names the boot of the kernel, which containers share with their host, and how far a
    time namespace shifts its clock (time_namespaces(7)). Elsewhere it is the host's name.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except own_errors(OSError):
        return platform.node()
    try:
        line = Path("/proc/self/timens_offsets").read_text().splitlines()[0]
        shift = [int(number) for number in line.split()[1:]]  # seconds and nanoseconds
    except own_errors(OSError, IndexError, ValueError):  # a kernel without time namespaces
        return boot
    return f"{boot} {shift}" if any(shift) else boot


def describe_machine() -> dict[str, object]:
    """What the ``meta`` of a trace says of the machine that it was recorded on."""
    import torch  # not needed to read a trace, and slow to import

    return {
        "host": platform.node(),
        "clock_domain": clock_domain(),
        "world_size": world_size(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": sys.platform,
        "cpu_count": os.cpu_count(),
        "cpu_allowance": cpu_allowance(),
    }
