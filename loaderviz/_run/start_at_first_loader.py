"""The first loader that is iterated begins the recording. Arming imports nothing of torch."""

from __future__ import annotations

from contextlib import suppress

from loaderviz._run import final_message
from loaderviz.loaders.first_iteration import Trigger


def _begin() -> None:
    try:
        from loaderviz._run import process_recording

        process_recording.begin(trigger.arm_again)
    except Exception as error:  # the script goes on
        final_message.say(f"this process is not recorded: {error}")


def _add(cls: type) -> None:
    with suppress(Exception):  # where this process is not recorded, that has been said
        from loaderviz._run import process_recording

        process_recording.add_class(cls)


trigger = Trigger(_begin, _add)
