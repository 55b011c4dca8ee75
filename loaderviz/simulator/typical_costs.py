"""Typical costs, in place of those that no recording has shown.

Measured with torch 2.13 on Linux 6.18; seconds, where nothing else is said. Imports nothing of the
simulator.
"""

from __future__ import annotations

from typing import Any, Final

from loaderviz.errors import LoaderVizError

# To start one worker, in the main process and then in the worker: a forked worker begins at once,
# any other imports torch first.
TYPICAL_START: Final = {"fork": (0.0075, 0.004), "forkserver": (0.01, 2.0), "spawn": (0.02, 2.5)}

# To hand tasks and batches over, which some recordings show and some do not. Taking a batch takes
# 0.6 ms where the loop comes back soon, and up to 1.5 ms where it has slept for long before.
TYPICAL_HANDOVER: Final = {
    "transport_s": 6e-4,
    "take_s": 8.5e-4,
    "dispatch_s": 6e-5,
    "send_s": 3.5e-4,
    "shutdown_s": 5e-4,
}

# No recording tells these apart from other costs.
TYPICAL_SHARE_S: Final = 1.8e-4  # to make shared memory for a batch, its bytes aside
BYTES_PER_S: Final = 1.6e9  # that are put into shared memory, or pinned
RELEASE_BYTES_PER_S: Final = 6e9  # of shared memory that is given back


def check_start_method(value: Any) -> None:
    """Check that a start method is known; None is any method.

    Raises:
        LoaderVizError: for any other value.
    """
    if value is not None and value not in TYPICAL_START:
        raise LoaderVizError(f"start_method={value!r} is not one of {', '.join(TYPICAL_START)}")
