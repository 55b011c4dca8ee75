"""The clocks of a run's machines, aligned: how far this one's is from that of rank 0, measured.

Rank 0 serves its clock while it records, and says in a file of the run's folder where. Every other
process asks it at the start of its recording, then ever more rarely, and at the end; what is known
goes into the recording's description at once, so that a crash leaves it too:

    clock       reference, offset_ns (to add to this recording's clock), uncertainty_ns; or None
    clock_note  why there is no clock, or since when it could not be measured again

The true offset lies within the uncertainty at the first and at the last time it was measured, so at
all times between, where clocks drift in one direction. All of it happens in a thread of its own:
nothing here holds up or breaks what is recorded.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from loaderviz.clocks import process_clock
from loaderviz.clocks.round_trips import TOKEN_BYTES, Offset, Server, addresses, ask

NAME = ".clock.json"  # in the folder of the run
FIRST_WAIT_S, LONGEST_WAIT_S = 0.05, 60.0  # between measurements; each wait is twice the last
ANSWER_S = 0.5  # for one address
END_S = 1.0  # for the last measurement: how long the end of a recording may be held up

NOT_MEASURED = {"clock": None, "clock_note": "the clocks have not been compared yet"}

Note = Callable[..., None]  # adds facts to the recording's description


class Alignment(Protocol):
    """Runs from its making to ``stop``."""

    def stop(self) -> None: ...


def align(run: Path, about: Mapping[str, Any], note: Note) -> Alignment | None:
    """Serve this machine's clock in the run, or measure it; ``about`` is the recording's meta."""
    try:
        serves = about["rank"] == 0 and not _is_served(run / NAME, about["clock_domain"])
        return Reference(run, about, note) if serves else Follower(run, about, note)
    except (OSError, RuntimeError) as error:  # no port or no thread can be had
        with suppress(OSError):
            note(clock_note=f"the clocks could not be aligned: {error}")
        return None


class Reference:
    """Rank 0: the other machines' clocks are measured against its own."""

    def __init__(
        self,
        run: Path,
        about: Mapping[str, Any],
        note: Note,
        *,
        now: Callable[[], int] = process_clock.now,
    ) -> None:
        self._path = run / NAME
        self._server = Server(now)
        place = {
            "host": about["host"],
            "clock_domain": about["clock_domain"],
            "addresses": addresses(),
            "port": self._server.port,
            "token": self._server.token.hex(),
        }
        self._text = json.dumps(place)
        try:
            beside = self._path.with_name(f"{NAME}.{place['token']}")
            beside.touch(mode=0o600)
            beside.write_text(self._text)
            beside.replace(self._path)  # of a run that was started anew: takes its place
            note(clock=_same(about["host"]), clock_note=None)
        except OSError:
            self.stop()
            raise

    def stop(self) -> None:
        self._server.close()
        with suppress(OSError):
            if self._path.read_text() == self._text:  # else a later start's
                self._path.unlink()


class Follower:
    """Any other rank: its clock is measured, unless it shares that of rank 0."""

    def __init__(
        self,
        run: Path,
        about: Mapping[str, Any],
        note: Note,
        *,
        now: Callable[[], int] = process_clock.now,
    ) -> None:
        self._path = run / NAME
        self._domain = about["clock_domain"]
        self._note = note
        self._now = now
        self._place: dict[str, Any] | None = None
        self._first: Offset | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loaderviz-clock", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        wait_s, done = FIRST_WAIT_S, False
        try:
            while not (done := self._measure()) and not self._ended.wait(wait_s):
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
            if not done:
                self._measure()
        except Exception as error:  # of a disk, or a bug: the wall clocks must do
            with suppress(Exception):
                self._note(clock_note=f"the clocks could not be aligned: {error}")

    def _measure(self) -> bool:
        """Ask once, and write down what came of it; returns whether there is no more to know."""
        self._look()
        if self._place is None:
            self._fail("rank 0 has not begun to record in the same folder")
            return False
        if self._place["clock_domain"] == self._domain:
            self._note(clock=_same(self._place["host"]), clock_note=None)
            return True
        offset = self._ask(self._place)
        if offset is not None:
            self._first = self._first or offset
            known = self._first.or_(offset)
            measured = {
                "reference": self._place["host"],
                "offset_ns": known.middle_ns,
                "uncertainty_ns": known.uncertainty_ns,
            }
            self._note(clock=measured, clock_note=None)
        return False

    def _look(self) -> None:
        """Where rank 0's clock is to be had; as before, where its recording has ended."""
        found = _read(self._path)
        if found and (self._place is None or found["token"] != self._place["token"]):
            if self._place is None or found["clock_domain"] != self._place["clock_domain"]:
                self._first = None  # another clock than the one before
            self._place = found

    def _ask(self, place: dict[str, Any]) -> Offset | None:
        """The address that answers comes first the next time; those that do not, last."""
        problem: object = "it has no address"
        at_end = self._ended.is_set()
        until = time.monotonic() + (END_S if at_end else math.inf)
        for address in list(place["addresses"]):
            left_s = until - time.monotonic()
            if left_s <= 0 or self._ended.is_set() != at_end:  # the last measurement is to come
                break
            try:
                timeout_s = min(left_s, ANSWER_S)
                return ask(address, place["token"], timeout_s=timeout_s, now=self._now)
            except (OSError, ValueError, OverflowError) as error:
                problem = f"{address[0]}: {error}"
                place["addresses"].append(place["addresses"].pop(0))
        self._fail(f"the clock of rank 0 on {place['host']} did not answer ({problem})")
        return None

    def _fail(self, why: str) -> None:
        self._note(clock_note=f"{why}; the offset was measured before" if self._first else why)


def _read(path: Path) -> dict[str, Any] | None:
    """Where the file says that a clock is to be had."""
    try:
        place = json.loads(path.read_text())
        hosts = [str(each) for each in place["addresses"]]
        token = bytes.fromhex(place["token"])
        if len(token) != TOKEN_BYTES or not 0 < place["port"] < 1 << 16:
            return None
        return {
            "host": str(place["host"]),
            "clock_domain": place["clock_domain"],
            "addresses": [(host, int(place["port"])) for host in hosts],
            "token": token,
        }
    except (OSError, RecursionError, LookupError, TypeError, ValueError):
        return None


def _is_served(path: Path, domain: object) -> bool:
    """Whether this clock is served already: this process is one that rank 0 has started."""
    place = _read(path)
    if place is None or place["clock_domain"] != domain or not place["addresses"]:
        return False
    try:
        ask(("127.0.0.1", place["addresses"][0][1]), place["token"], timeout_s=ANSWER_S)
    except (OSError, ValueError):
        return False
    return True


def _same(host: str) -> dict[str, Any]:
    return {"reference": host, "offset_ns": 0, "uncertainty_ns": 0}
