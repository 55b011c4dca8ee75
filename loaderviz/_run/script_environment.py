"""The settings of a run, which reach all of its processes in an environment variable."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from typing import Any, Self

SETTINGS_VARIABLE = "LOADERVIZ_RUN"
FIRST_PROCESS_VARIABLE = "LOADERVIZ_RUN_FIRST"  # set for the script's own process alone


@dataclass(frozen=True)
class RunSettings:
    """What to record, and where.

    Attributes:
        folder: the absolute path of the run's folder.
        limits: the arguments of ``record`` that limit it, by name, where the user gave any.
    """

    folder: str
    limits: dict[str, Any]

    def as_text(self) -> str:
        """The settings as the value of ``SETTINGS_VARIABLE``."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_environment(cls) -> Self:
        """The settings of the run that this process is a part of; KeyError where it is of none."""
        return cls(**json.loads(os.environ[SETTINGS_VARIABLE]))
