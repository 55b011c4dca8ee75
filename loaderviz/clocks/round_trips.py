"""How far a clock of another machine is from this one's, by the round trips of a few messages.

``Server`` answers every ping with its clock; ``ask`` sends some and bounds the offset by the
shortest round trip. Messages are of fixed length and carry a random token, so that nothing else
that listens at an address is taken for a clock. In a forked child no socket stays open.
"""

from __future__ import annotations

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

import psutil

from loaderviz.clocks import process_clock

N_PINGS = 16
MOST_ADDRESSES = 16
MOST_CONNECTIONS = 512  # beyond it the oldest is closed: who still needs it asks again
TOKEN_BYTES = 16
_PING = struct.Struct(f"!{TOKEN_BYTES}sq")  # token, number
_PONG = struct.Struct(f"!{TOKEN_BYTES}sqq")  # token, number, the server's clock

_open: weakref.WeakSet[socket.socket | selectors.BaseSelector] = weakref.WeakSet()


@dataclass(frozen=True)
class Offset:
    """What to add to this clock's readings to get another clock's: between two bounds, in ns."""

    least: int
    most: int

    @classmethod
    def of_ping(cls, sent: int, theirs: int, received: int) -> Offset:
        """The other clock was read after the ping was sent and before its answer was received."""
        return cls(theirs - received, theirs - sent)

    @classmethod
    def of_pings(cls, pings: Sequence[tuple[int, int, int]]) -> Offset:
        """From (sent, theirs, received) of each: what the shortest round trip tells."""
        return min((cls.of_ping(*each) for each in pings), key=lambda each: each.width)

    @property
    def width(self) -> int:
        return self.most - self.least

    @property
    def middle_ns(self) -> int:
        return (self.least + self.most) // 2

    @property
    def uncertainty_ns(self) -> int:
        return self.most - self.middle_ns

    def or_(self, other: Offset) -> Offset:
        """Bounds that hold for both, and for a clock that drifts from one to the other."""
        return Offset(min(self.least, other.least), max(self.most, other.most))


class Server:
    """Answers pings until it is closed; raises OSError where it can open no port."""

    def __init__(self, now: Callable[[], int] = process_clock.now) -> None:
        self.token = secrets.token_bytes(TOKEN_BYTES)
        self._now = now
        self._listener = _listen()
        self.port = int(self._listener.getsockname()[1])
        self._bell, self._wake = socket.socketpair()
        self._connections: dict[socket.socket, None] = {}
        self._selector = selectors.DefaultSelector()
        ours = (self._listener, self._bell, self._wake)
        _open.update((*ours, self._selector))
        for each in ours:
            each.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="loaderviz-clock", daemon=True)
        self._thread.start()

    def close(self) -> None:
        with suppress(OSError):
            self._wake.send(b"x")
        self._thread.join()

    def _serve(self) -> None:
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is self._bell:
                        return
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket):
                        self._answer(key.fileobj)
        except (OSError, ValueError):  # the user's code may close any file
            return
        finally:
            for each in (*self._connections, self._listener, self._bell, self._wake):
                each.close()
            self._selector.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # gone already, or no file is free
            return
        _open.add(connection)
        connection.setblocking(False)
        if len(self._connections) >= MOST_CONNECTIONS:
            self._drop(next(iter(self._connections)))
        self._connections[connection] = None
        self._selector.register(connection, selectors.EVENT_READ)

    def _answer(self, connection: socket.socket) -> None:
        if connection not in self._connections:  # dropped since
            return
        try:
            # A message this short comes whole; one that does not is not worth waiting for.
            token, number = _PING.unpack(connection.recv(_PING.size))
            if not secrets.compare_digest(token, self.token):
                raise ValueError("another token")
            connection.send(_PONG.pack(token, number, self._now()))
        except (OSError, ValueError, struct.error):
            self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        del self._connections[connection]
        self._selector.unregister(connection)
        connection.close()


def ask(
    address: tuple[str, int],
    token: bytes,
    *,
    timeout_s: float,
    now: Callable[[], int] = process_clock.now,
) -> Offset:
    """The offset to the clock of the server at ``address``: what it adds to this one's readings.

    Raises:
        OSError: where nothing answers there within ``timeout_s`` altogether, or nonsense.
    """
    until = time.monotonic() + timeout_s
    pings = []
    with socket.create_connection(address, timeout=timeout_s) as connection:
        _open.add(connection)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(N_PINGS):
            sent = now()
            connection.sendall(_PING.pack(token, number))
            answer = _receive(connection, _PONG.size, until)
            received = now()
            if answer[: _PING.size] != _PING.pack(token, number):
                raise OSError("what answers there is no clock of this run")
            pings.append((sent, _PONG.unpack(answer)[2], received))
    return Offset.of_pings(pings)


def _receive(connection: socket.socket, n_bytes: int, until: float) -> bytes:
    answer = b""
    while len(answer) < n_bytes:
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        connection.settimeout(left_s)
        part = connection.recv(n_bytes - len(answer))
        if not part:
            raise ConnectionError("the connection was closed")
        answer += part
    return answer


def addresses() -> list[str]:
    """This machine's, as numbers: to look up a name can take long, and nothing can end it."""
    found = []
    for each in [one for ones in psutil.net_if_addrs().values() for one in ones]:
        if each.family not in (socket.AF_INET, socket.AF_INET6):
            continue
        is_local = each.address.startswith(("127.", "fe80:")) or each.address == "::1"
        if not is_local:
            found.append(each.address)
    return found[:MOST_ADDRESSES] or ["127.0.0.1"]


def _listen() -> socket.socket:
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            address = ("::", 0)
            return socket.create_server(address, family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def _close_in_child() -> None:
    for each in list(_open):
        with suppress(OSError):
            each.close()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
