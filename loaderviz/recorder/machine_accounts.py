"""What the kernel books of the machine while a recording runs: throttling by a quota, pressure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loaderviz import machine
from loaderviz.clocks.process_clock import now
from loaderviz.own_errors import own_errors


class MachineAccounts:
    """Looks at the kernel's books once when it is made, and once when it is asked."""

    def __init__(self) -> None:
        self._throttling_file = machine.throttling_file()
        self._throttled_ns = _throttled_ns(self._throttling_file)
        self._pressure_s = machine.pressure_s()
        self._since_ns = now()

    def since_then(self) -> dict[str, Any]:
        """Seconds since it was made, for a trace's ``meta``; what is not known is not in.

        ``recorded_s`` by the clock; ``throttled_s`` that CPUs were withheld by a quota, added up
        over the CPUs; ``pressure_s`` that some task waited, by resource.
        """
        facts: dict[str, Any] = {"recorded_s": (now() - self._since_ns) / 1e9}
        throttled_ns = _throttled_ns(self._throttling_file)
        if self._throttled_ns is not None and throttled_ns is not None:
            facts["throttled_s"] = (throttled_ns - self._throttled_ns) / 1e9
        pressure_s = {
            name: round(total_s - self._pressure_s[name], 6)
            for name, total_s in machine.pressure_s().items()
            if name in self._pressure_s
        }
        return {**facts, "pressure_s": pressure_s} if pressure_s else facts


def _throttled_ns(file: Path | None) -> int | None:
    try:
        return machine.throttled_ns(file.read_bytes()) if file is not None else None
    except own_errors(OSError, ValueError):
        return None
