"""A stream that knows its place: its state can be saved, and another process goes on from there."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from torch.utils.data import IterableDataset

from loaderviz.sharding import shard


class SavedStream(IterableDataset[Any]):
    """Yields its share of `data`, each sample after `sample_s` seconds; can say where it is.

    `state_dict()` and `load_state_dict()` are what torchdata's StatefulDataLoader asks a dataset
    for, in each worker. The state holds the next place in the share, and `ballast_bytes` zeros: as
    much as a shuffle buffer may weigh.
    """

    def __init__(
        self, data: Sequence[Any], sample_s: float = 0.0, *, ballast_bytes: int = 0
    ) -> None:
        self.data = data
        self.sample_s = sample_s
        self.ballast = bytearray(ballast_bytes)
        self.at = 0

    def __iter__(self) -> Iterator[Any]:
        mine = list(shard(self.data))
        while self.at < len(mine):
            time.sleep(self.sample_s)
            self.at += 1
            yield mine[self.at - 1]
        self.at = 0

    def state_dict(self) -> dict[str, Any]:
        """Where to go on."""
        if self.ballast:
            self.ballast[0] = self.at % 256  # a buffer changes with each sample
        return {"at": self.at, "ballast": bytes(self.ballast)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was saved."""
        self.at = state["at"]
