"""How far a clock of another machine is from this one's, by the round trips of a few messages.

``ClockServer`` answers every ping with its clock; ``measure_offset`` sends some pings and bounds
the offset by the shortest round trip. Messages are of fixed length and carry a random token, so
that nothing else that listens at an address is taken for a clock. A forked child keeps no socket
open.
"""

from __future__ import annotations

import itertools
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
MOST_CONNECTIONS = 512  # beyond it the oldest is closed; who still needs it asks again
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
    """Answers pings until it is closed; raises OSError where it can open no port."""

    def __init__(self, now: Callable[[], int] = process_clock.now) -> None:
        self.token = secrets.token_bytes(TOKEN_BYTES)
        self._now = now
        self._listener = _listen()
        self.port = int(self._listener.getsockname()[1])
        self._close_signal, self._close_sender = socket.socketpair()
        self._connections: dict[socket.socket, None] = {}
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
                for key, _ in self._selector.select():
                    if key.fileobj is self._close_signal:
                        return
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket):
                        self._answer(key.fileobj)
        except (OSError, ValueError):  # the user's code may close any file
            return
        finally:
            own_sockets = (self._listener, self._close_signal, self._close_sender)
            for open_socket in (*self._connections, *own_sockets):
                open_socket.close()
            self._selector.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # gone already, or no file is free
            return
        _open_sockets.add(connection)
        connection.setblocking(False)
        if len(self._connections) >= MOST_CONNECTIONS:
            self._drop(next(iter(self._connections)))
        self._connections[connection] = None
        self._selector.register(connection, selectors.EVENT_READ)

    def _answer(self, connection: socket.socket) -> None:
        if connection not in self._connections:  # dropped since
            return
        try:
            # A message this short arrives whole; one that does not is no ping of ours.
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
                raise OSError("what answers there is no clock of this run")
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


def machine_addresses() -> list[str]:
    """The IP addresses under which other machines may reach this one, or its loopback address.

    No names: looking one up can take long, and cannot be interrupted.
    """
    reachable = []
    for interface in itertools.chain.from_iterable(psutil.net_if_addrs().values()):
        if interface.family not in (socket.AF_INET, socket.AF_INET6):
            continue
        is_local = interface.address.startswith(("127.", "fe80:")) or interface.address == "::1"
        if not is_local:
            reachable.append(interface.address)
    return reachable[:MOST_ADDRESSES] or ["127.0.0.1"]


def _listen() -> socket.socket:
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            address = ("::", 0)
            return socket.create_server(address, family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def _close_in_child() -> None:
    for inherited in list(_open_sockets):
        with suppress(OSError):
            inherited.close()
    _open_sockets.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
