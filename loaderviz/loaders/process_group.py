"""The key-value store that ranks share: unlike in a collective, no rank waits for the others."""

from __future__ import annotations

from typing import Any

from torch import distributed


def default_store() -> Any:
    """The key-value store of the default process group, which must be initialised.

    torch has no public name for it (torch/distributed/distributed_c10d.py, ``_get_default_store``).
    """
    c10d: Any = distributed.distributed_c10d
    return c10d._get_default_store()
