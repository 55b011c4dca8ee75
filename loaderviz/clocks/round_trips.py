"""How far a clock of another machine is from this one's, by the round trips of a few messages.

``ClockServer`` answers every ping with its clock; ``measure_offset`` sends some pings and bounds
the offset by the shortest round trip. Messages are of fixed length and carry a random token, so
that nothing else that listens at an address is taken for a clock. A forked child keeps no socket
open.

The server listens only where the ranks meet. Whoever connects has a second to send a ping with the
token, and another for each further one. There are few connections at a time; where they are all
taken, or the process has no file left, the server looks again a little later.
"""

from __future__ import annotations

import math
import os
import secrets
import selectors
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from loaderviz.clocks import process_clock

N_PINGS = 16
MOST_CONNECTIONS = 32
PING_WITHIN_S = 1.0
PAUSE_S = 0.2  # before the next look for connections, where there can be no more
TOKEN_BYTES = 16
_PING = struct.Struct(f"!{TOKEN_BYTES}sq")  # token, number
_PONG = struct.Struct(f"!{TOKEN_BYTES}sqq")  # token, number, the server's clock

_open_sockets: weakref.WeakSet[socket.socket | selectors.BaseSelector] = weakref.WeakSet()


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
        return min((cls.from_ping(*ping) for ping in pings), key=lambda offset: offset._width_ns)

    @property
    def _width_ns(self) -> int:
        return self.most_ns - self.least_ns

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
        self.port = int(self._listener.getsockname()[1])
        self._close_signal, self._close_sender = socket.socketpair()
        self._deadlines: dict[socket.socket, float] = {}  # when each connection is closed
        self._listens_again_at = math.inf  # while it does not listen
        self._selector = selectors.DefaultSelector()
        own_sockets = (self._listener, self._close_signal, self._close_sender)
        _open_sockets.update((*own_sockets, self._selector))
        for own_socket in own_sockets:
            own_socket.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._close_signal, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="loaderviz-clock", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more, and close every socket."""
        with suppress(OSError):
            self._close_sender.send(b"x")
        self._thread.join()

    def _serve(self) -> None:
        try:
            while True:
                for key, _ in self._selector.select(self._left_s()):
                    if key.fileobj is self._close_signal:
                        return
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket):
                        self._answer(key.fileobj)
                self._close_overdue()
        except (OSError, ValueError):  # the user's code may close any file
            return
        finally:
            own_sockets = (self._listener, self._close_signal, self._close_sender)
            for open_socket in (*self._deadlines, *own_sockets):
                open_socket.close()
            self._selector.close()

    def _left_s(self) -> float | None:
        """How long there is nothing to do unless somebody writes; None: for ever."""
        next_at = min((*self._deadlines.values(), self._listens_again_at))
        return None if math.isinf(next_at) else max(next_at - time.monotonic(), 0.0)

    def _accept(self) -> None:
        if len(self._deadlines) >= MOST_CONNECTIONS:
            self._pause()
            return
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:  # gone already
            return
        except OSError:  # no file is free, and so the listener stays ready
            self._pause()
            return
        _open_sockets.add(connection)
        connection.setblocking(False)
        self._deadlines[connection] = time.monotonic() + PING_WITHIN_S
        self._selector.register(connection, selectors.EVENT_READ)

    def _pause(self) -> None:
        self._selector.unregister(self._listener)
        self._listens_again_at = time.monotonic() + PAUSE_S

    def _close_overdue(self) -> None:
        at = time.monotonic()
        for connection in [each for each, deadline in self._deadlines.items() if deadline <= at]:
            self._drop(connection)
        if self._listens_again_at <= at:
            self._listens_again_at = math.inf
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _answer(self, connection: socket.socket) -> None:
        try:
            # A message this short arrives whole; one that does not is no ping of ours.
            token, number = _PING.unpack(connection.recv(_PING.size))
            if not secrets.compare_digest(token, self.token):
                raise ValueError("another token")
            connection.send(_PONG.pack(token, number, self._now()))
            self._deadlines[connection] = time.monotonic() + PING_WITHIN_S
        except (OSError, ValueError, struct.error):
            self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        del self._deadlines[connection]
        self._selector.unregister(connection)
        connection.close()


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
