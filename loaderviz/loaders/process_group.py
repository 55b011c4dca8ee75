"""The one thing that ranks share and that is no collective: none waits for it unasked."""

from __future__ import annotations

from typing import Any

from torch import distributed


def store() -> Any:
    """The key-value store of the default process group, which must be initialised.

    torch has no public name for it (torch/distributed/distributed_c10d.py, ``_get_default_store``).
    """
    group: Any = distributed.distributed_c10d
    return group._get_default_store()
