"""What the command tells every process of the run, through one environment variable."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from typing import Any, Self

VARIABLE = "LOADERVIZ_RUN"
FIRST = "LOADERVIZ_RUN_FIRST"  # set for the script's own process alone


@dataclass(frozen=True)
class Settings:
    """What to record, and where.

    Attributes:
        folder: that of the run, absolute.
        limits: those of ``record`` that were asked for, by name.
    """

    folder: str
    limits: dict[str, Any]

    def as_text(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of_run(cls) -> Self:
        return cls(**json.loads(os.environ[VARIABLE]))
