"""Begins the recording at the first loader that is iterated. Does not import torch before that."""

from __future__ import annotations

from typing import Any

from loaderviz._run import script_process
from loaderviz.loaders.first_iteration import Trigger
from loaderviz.own_errors import own_errors, own_errors_suppressed


def _begin() -> None:
    try:
        from loaderviz._run import process_recording

        process_recording.begin(trigger.arm_again)
    except own_errors(Exception) as error:  # the script itself goes on
        script_process.write_line(f"this process is not recorded: {error}")


def _add_class(cls: type) -> None:
    with own_errors_suppressed(Exception):  # if this process is not recorded, _begin has said so
        from loaderviz._run import process_recording

        process_recording.add_class(cls)


def arm(module: Any) -> None:
    """Begin the recording when the first ``DataLoader`` of torch's module is iterated."""
    try:
        trigger.arm(module.DataLoader)
    except own_errors(Exception) as error:
        script_process.write_line(f"this process is not recorded: {error}")


trigger = Trigger(on_first_iteration=_begin, on_new_class=_add_class)
