"""What work typically takes, in seconds, with torch 2.13 on Linux 6.18, where nobody has seen it.

Imports nothing of the simulator.
"""

from __future__ import annotations

from typing import Any, Final

from loaderviz.errors import LoaderVizError

# To start one worker, in the main process and then in the worker: a forked worker begins at once,
# any other imports torch first.
TYPICAL_START: Final = {"fork": (0.0075, 0.004), "forkserver": (0.01, 2.0), "spawn": (0.02, 2.5)}

# What a recording shows of the ways between processes, but not every recording.
TYPICAL_WAYS: Final = {
    "transport_s": 6e-4,
    "take_s": 5.5e-4,
    "dispatch_s": 6e-5,
    "send_s": 3.5e-4,
    "shutdown_s": 5e-4,
}

# What no recording tells apart.
TYPICAL_SHARE_S: Final = 1.8e-4
TYPICAL_SLICE_S: Final = 1.4e-3
# A part of all CPUs: caches are cold, and while many wait for one CPU another may idle.
TYPICAL_SWITCHING: Final = 0.03


def check_start_method(value: Any) -> None:
    """None is any method.

    Raises:
        LoaderVizError: for one of which nothing is known.
    """
    if value is not None and value not in TYPICAL_START:
        raise LoaderVizError(f"start_method={value!r} is not one of {', '.join(TYPICAL_START)}")
