"""How far a clock of another machine is from this one's, by the round trips of a few messages.

``ClockServer`` answers every ping with its clock; ``measure_offset`` sends some pings and bounds
the offset by the shortest round trip. Messages are of fixed length and carry a random token, so
that nothing else that listens at an address is taken for a clock. A forked child keeps no socket
open.

The server listens only where the ranks meet, and answers one connection at a time, of which all
pings take milliseconds. Whoever sends none with the token in time is closed; others wait meanwhile,
as long as ``measure_offset`` lets them.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait

from loaderviz.clocks import process_clock

N_PINGS = 16  # of which the shortest round trip counts: one that nothing interrupted
PING_WITHIN_S = 0.5  # as long as ``machine_offsets`` waits for all answers
PAUSE_S = 0.2  # before the next look for connections, where there can be none
TOKEN_BYTES = 16
_PING = struct.Struct(f"!{TOKEN_BYTES}sq")  # token, number
_PONG = struct.Struct(f"!{TOKEN_BYTES}sqq")  # token, number, the server's clock

_open_sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()


@dataclass(frozen=True)
class Offset:
    """What to add to this clock's readings to get another clock's: two bounds, in ns."""

    least_ns: int
    most_ns: int

    @classmethod
    def from_ping(cls, sent_ns: int, theirs_ns: int, received_ns: int) -> Offset:
        """The other clock was read after the ping was sent and before its answer was received."""
        return cls(theirs_ns - received_ns, theirs_ns - sent_ns)

    @classmethod
    def from_pings(cls, pings: Sequence[tuple[int, int, int]]) -> Offset:
        """What the shortest round trip tells; each ping is (sent, theirs, received), in ns."""
        offsets = (cls.from_ping(*ping) for ping in pings)
        return min(offsets, key=lambda offset: offset.most_ns - offset.least_ns)

    @property
    def middle_ns(self) -> int:
        """The offset itself, as well as it is known."""
        return (self.least_ns + self.most_ns) // 2

    @property
    def uncertainty_ns(self) -> int:
        """How far the true offset may be from the middle, either way."""
        return self.most_ns - self.middle_ns

    def union(self, other: Offset) -> Offset:
        """Bounds that hold for both, and for a clock that drifts from one to the other."""
        return Offset(min(self.least_ns, other.least_ns), max(self.most_ns, other.most_ns))


class ClockServer:
    """Answers pings at an IP address until it is closed; raises OSError where it cannot."""

    def __init__(self, host: str, now: Callable[[], int] = process_clock.now) -> None:
        self.token = secrets.token_bytes(TOKEN_BYTES)
        self._now = now
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self._close_signal, self._close_sender = socket.socketpair()
        _open_sockets.update((self._listener, self._close_signal, self._close_sender))
        self._thread = threading.Thread(target=self._serve, name="loaderviz-clock", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more, and close every socket."""
        with suppress(OSError):
            self._close_sender.send(b"x")
        self._thread.join()

    def _serve(self) -> None:
        sockets = self._listener, self._close_signal, self._close_sender
        try:
            while self._is_heard(self._listener):
                self._answer_next()
        except (OSError, ValueError):  # the user's code may close any file
            return
        finally:
            for each in sockets:
                each.close()

    def _is_heard(self, source: socket.socket, within_s: float | None = None) -> bool:
        """Whether there is something to read within that time; False, too, once it is to close."""
        return wait([source, self._close_signal], within_s) == [source]

    def _answer_next(self) -> None:
        """Answer whoever has connected next, as long as pings come."""
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it is gone, or no file is free, and then the listener stays ready
            wait([self._close_signal], PAUSE_S)
            return
        _open_sockets.add(connection)
        with connection, suppress(OSError, struct.error):
            while self._is_heard(connection, PING_WITHIN_S):
                # A message this short arrives whole; one that does not is no ping of ours.
                token, number = _PING.unpack(connection.recv(_PING.size))
                if not secrets.compare_digest(token, self.token):
                    return
                connection.send(_PONG.pack(token, number, self._now()))


def measure_offset(
    address: tuple[str, int],
    token: bytes,
    *,
    timeout_s: float,
    now: Callable[[], int] = process_clock.now,
) -> Offset:
    """The offset from this clock to that of the server at ``address``.

    Raises:
        OSError: where there is no answer within ``timeout_s``, for all pings together, or one that
            is not of the server with this ``token``.
    """
    deadline = time.monotonic() + timeout_s
    pings = []
    with socket.create_connection(address, timeout=timeout_s) as connection:
        _open_sockets.add(connection)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(N_PINGS):
            sent_ns = now()
            connection.sendall(_PING.pack(token, number))
            answer = _receive(connection, _PONG.size, deadline)
            received_ns = now()
            if answer[: _PING.size] != _PING.pack(token, number):
                raise OSError("no clock of this run answers there")
            pings.append((sent_ns, _PONG.unpack(answer)[2], received_ns))
    return Offset.from_pings(pings)


def _receive(connection: socket.socket, n_bytes: int, deadline: float) -> bytes:
    answer = b""
    while len(answer) < n_bytes:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        connection.settimeout(left_s)
        part = connection.recv(n_bytes - len(answer))
        if not part:
            raise ConnectionError("the connection was closed")
        answer += part
    return answer


def rendezvous_address() -> str:
    """The IP address of this machine on the network where the ranks of the run meet.

    The ranks meet at MASTER_ADDR (torch/distributed/rendezvous.py, ``_env_rendezvous_handler``),
    whose name torch looks up too. Connecting a datagram socket sends nothing: it only has the
    system choose the interface.

    Raises:
        OSError: where MASTER_ADDR is not set, or is no address that can be reached.
    """
    host = os.environ.get("MASTER_ADDR")
    if not host:
        raise OSError("MASTER_ADDR, where the ranks meet, is not set")
    family, kind, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])


def _close_in_child() -> None:
    for inherited in list(_open_sockets):
        with suppress(OSError):
            inherited.close()
    _open_sockets.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
