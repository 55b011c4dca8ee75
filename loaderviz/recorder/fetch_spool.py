"""The spool file of a process that makes batches: it holds each signature of theirs once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from torch import Tensor

from loaderviz.record_layout import Tag, pack_text
from loaderviz.recorder.batch_signature import (
    NUMBERS,
    fixed_bytes,
    storage_bytes,
    walk,
)
from loaderviz.recorder.signature_text import signature_text
from loaderviz.spool import Limit, RollingSpool, Spool
from loaderviz.spool_ring import Ring

MOST_SIGNATURES: Final = 10_000  # that are kept in mind: each batch may have one of its own

# The number of a signature, the bytes of the tensors and arrays in a batch that has it, and where
# among its parts the tensors are whose storages are to be weighed in each batch, beside these.
_Entry = tuple[int, int | None, tuple[int, ...]]
_NOTHING: Final[_Entry] = 0, None, ()


class FetchSpool(RollingSpool):
    """The file of a worker: it knows the signatures that it holds, by their numbers."""

    _sends = True  # its batches to another process

    def __init__(
        self,
        path: Path,
        meta: dict[str, Any],
        limit: Limit | None = None,
        paid_bytes: int = 0,
        ring: Ring | None = None,
    ) -> None:
        super().__init__(path, meta, limit, paid_bytes, ring)
        self._n_texts = 0
        self._known: dict[Any, _Entry] = {}  # by key; of a batch that is a number by its type too
        self._last: tuple[list[Any] | None, _Entry] = None, _NOTHING  # measured
        self._new: tuple[Any, ...] | None = None  # the key of the last, if that is to be written

    def _tell_of_lost(self) -> None:
        super()._tell_of_lost()
        if self._ring is not None:  # each block has the texts that it names, or the next one
            self._known.clear()
            self._last, self._new = (None, _NOTHING), None

    def measure(self, batch: Any) -> tuple[int | None, int, str]:
        """What a batch weighs in bytes, None if unknown, and the number of its signature, 0: none.

        The third is the text of a signature that is new: ``write_text`` is to follow.
        """
        entry = self._known.get(type(batch))
        if entry is not None:
            return 0, entry[0], ""
        seen = walk(batch)
        if seen is None:
            return None, 0, ""
        key, text_bytes, parts = seen
        if self._new is not None:  # it was not written
            self._last, self._new = (None, _NOTHING), None
        last_key, (number, n_bytes, places) = self._last
        text = ""
        if key != last_key:
            (number, n_bytes, places), is_new = self._entry(key, parts)
            text = signature_text(batch) if is_new else ""
        sent_bytes = storage_bytes([parts[place] for place in places]) if places else 0
        if n_bytes is None or sent_bytes is None:
            return None, number, text
        return n_bytes + sent_bytes + text_bytes, number, text

    def _entry(self, key: list[Any], parts: list[Any]) -> tuple[_Entry, bool]:
        fixed_key = tuple(key)
        entry = self._known.get(fixed_key)
        is_new = entry is None and len(self._known) < MOST_SIGNATURES
        if entry is None:
            n_bytes = fixed_bytes(parts)
            places: tuple[int, ...] = ()
            if self._sends and n_bytes is not None:
                places = tuple(i for i, part in enumerate(parts) if type(part) is Tensor)
                n_bytes = fixed_bytes([part for part in parts if type(part) is not Tensor])
            entry = self.next_number() if is_new else 0, n_bytes, places
        self._last, self._new = (key, entry), fixed_key if is_new else None
        return entry, is_new

    def next_number(self) -> int:
        """The number of the text that will be written next."""
        self._n_texts += 1
        return self._n_texts

    def write_text(self, number: int, text: str) -> None:
        """Write a text that the record of a fetch names by its number; raises as ``write`` does.

        After that record, as the next one may begin a new block.
        """
        self.write(Tag.TEXT, number, *pack_text(text))
        if self._new is not None and self._last[1][0] == number:
            self._known[self._new] = self._last[1]
            if self._new[0] in NUMBERS:
                self._known[self._new[0]] = self._last[1]
            self._new = None


class HereSpool(FetchSpool):
    """The file of the main process's own fetches, each with its batch.

    What it holds stays where it is: the loop has a batch for longer than the fetch takes.
    """

    _sends = False
    _make_room = Spool._make_room
