"""Measures, while a run records, how far this machine's clock is from that of rank 0.

Rank 0 serves its clock while it records, at the address where the ranks meet, and says where in a
file of the run's folder. Every other process asks it at the start of its recording, then less and
less often, and at the end. What is known goes into the recording's description at once, so that it
survives a crash:

    clock       reference, offset_ns (to add to this recording's clock), uncertainty_ns; or None
    clock_note  why there is no clock, or since when it could not be measured again

The true offset lies within the uncertainty at the first and at the last measurement and, if the
clocks drift in one direction only, at all times between. The measuring thread does not hold up the
training, and no failure in here reaches it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from loaderviz.clocks import process_clock
from loaderviz.clocks.round_trips import (
    TOKEN_BYTES,
    ClockServer,
    Offset,
    measure_offset,
    rendezvous_address,
)
from loaderviz.own_errors import own_errors, own_errors_suppressed

CLOCK_FILE = ".clock.json"  # in the folder of the run
FIRST_WAIT_S, LONGEST_WAIT_S = 0.05, 60.0  # between measurements; each wait is twice the last
ANSWER_TIMEOUT_S = 0.5  # also at the end of a recording, which waits no longer

NOT_MEASURED = {"clock": None, "clock_note": "the clocks have not been compared yet"}

AddFacts = Callable[..., None]  # adds its keyword arguments to the recording's description


class Alignment(Protocol):
    """Serves or measures a clock, from when it is made until ``stop``."""

    def stop(self) -> None:
        """End it, and wait until it has ended."""


def start_alignment(run: Path, meta: Mapping[str, Any], add_facts: AddFacts) -> Alignment | None:
    """Serve this machine's clock in the folder of a run, or measure it against rank 0's.

    ``meta`` is the recording's description so far. Returns None where no port or thread can be had;
    the description then says so.
    """
    try:
        serves = meta["rank"] == 0 and not _is_served(run / CLOCK_FILE, meta["clock_domain"])
        return Reference(run, meta, add_facts) if serves else Follower(run, meta, add_facts)
    except own_errors(OSError, RuntimeError, ValueError) as error:  # ValueError: no name at all
        with own_errors_suppressed(OSError):
            add_facts(clock_note=f"the clocks could not be aligned: {error}")
        return None


class Reference:
    """Rank 0 serves its clock, which the other machines' clocks are measured against."""

    def __init__(
        self,
        run: Path,
        meta: Mapping[str, Any],
        add_facts: AddFacts,
        *,
        now: Callable[[], int] = process_clock.now,
    ) -> None:
        self._path = run / CLOCK_FILE
        host = rendezvous_address()
        self._server = ClockServer(host, now)
        description = {
            "host": meta["host"],
            "clock_domain": meta["clock_domain"],
            "address": host,
            "port": self._server.port,
            "token": self._server.token.hex(),
        }
        self._text = json.dumps(description)
        try:
            new_file = self._path.with_name(f"{CLOCK_FILE}.{description['token']}")
            new_file.touch(mode=0o600)
            new_file.write_text(self._text)
            new_file.replace(self._path)  # also that of an earlier start of this run
            add_facts(clock=_same_clock(meta["host"]), clock_note=None)
        except own_errors(OSError):
            self.stop()
            raise

    def stop(self) -> None:
        """Serve no more, and remove the file that says where."""
        self._server.close()
        with own_errors_suppressed(OSError):
            if self._path.read_text() == self._text:  # else it is that of a later start
                self._path.unlink()


class Follower:
    """Any other rank measures its clock against that of rank 0, unless both are the same."""

    def __init__(
        self,
        run: Path,
        meta: Mapping[str, Any],
        add_facts: AddFacts,
        *,
        now: Callable[[], int] = process_clock.now,
    ) -> None:
        self._path = run / CLOCK_FILE
        self._domain = meta["clock_domain"]
        self._add_facts = add_facts
        self._now = now
        self._reference: dict[str, Any] | None = None  # what the clock file says of it
        self._first_offset: Offset | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loaderviz-clock", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Measure a last time, and end."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        wait_s, done = FIRST_WAIT_S, False
        try:
            while not (done := self._measure()) and not self._ended.wait(wait_s):
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
            if not done:
                self._measure()
        except Exception as error:  # of the disk, or a bug: the wall clocks must do
            with suppress(Exception):
                self._add_facts(clock_note=f"the clocks could not be aligned: {error}")

    def _measure(self) -> bool:
        """Measure once, and write down the result; returns whether no more are needed."""
        self._read_reference()
        if self._reference is None:
            self._note_failure("rank 0 has not begun to record in the same folder")
            return False
        if self._reference["clock_domain"] == self._domain:
            self._add_facts(clock=_same_clock(self._reference["host"]), clock_note=None)
            return True
        offset = self._measure_offset(self._reference)
        if offset is not None:
            self._first_offset = self._first_offset or offset
            known = self._first_offset.union(offset)
            measured = {
                "reference": self._reference["host"],
                "offset_ns": known.middle_ns,
                "uncertainty_ns": known.uncertainty_ns,
            }
            self._add_facts(clock=measured, clock_note=None)
        return False

    def _read_reference(self) -> None:
        """Read where rank 0's clock is served; where its recording has ended, that is kept."""
        latest, known = _read_clock_file(self._path), self._reference
        if latest and (known is None or latest["token"] != known["token"]):
            if known is None or latest["clock_domain"] != known["clock_domain"]:
                self._first_offset = None  # of another clock
            self._reference = latest

    def _measure_offset(self, reference: dict[str, Any]) -> Offset | None:
        address = reference["address"]
        try:
            return measure_offset(
                address, reference["token"], timeout_s=ANSWER_TIMEOUT_S, now=self._now
            )
        except (OSError, ValueError, OverflowError) as error:
            self._note_failure(
                f"the clock of rank 0 on {reference['host']} did not answer ({address[0]}: {error})"
            )
            return None

    def _note_failure(self, reason: str) -> None:
        measured_before = "; the offset was measured before" if self._first_offset else ""
        self._add_facts(clock_note=f"{reason}{measured_before}")


def _read_clock_file(path: Path) -> dict[str, Any] | None:
    """What the file says of a clock that is served; None where there is none, or nonsense in it."""
    try:
        described = json.loads(path.read_text())
        token = bytes.fromhex(described["token"])
        if len(token) != TOKEN_BYTES or not 0 < described["port"] < 1 << 16:
            return None
        return {
            "host": str(described["host"]),
            "clock_domain": described["clock_domain"],
            "address": (str(described["address"]), int(described["port"])),
            "token": token,
        }
    except own_errors(OSError, RecursionError, LookupError, TypeError, ValueError):
        return None


def _is_served(path: Path, domain: object) -> bool:
    """Whether this clock is served already, as in a process that rank 0 has started."""
    served = _read_clock_file(path)
    if served is None or served["clock_domain"] != domain:
        return False
    try:
        measure_offset(served["address"], served["token"], timeout_s=ANSWER_TIMEOUT_S)
    except own_errors(OSError, ValueError):
        return False
    return True


def _same_clock(host: str) -> dict[str, Any]:
    return {"reference": host, "offset_ns": 0, "uncertainty_ns": 0}
