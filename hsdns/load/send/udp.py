"""A UDP socket for the queries to one target and its replies.

Path: sender.py -> here; the compiled sender uses such sockets too (process.py).
Rule 1: the socket is connected, so that the kernel drops datagrams from other addresses.
Rule 2: an error that the kernel reports for an earlier query (a closed port) is not an error of the next one.

A UDP socket that reports when the kernel received each datagram:
Rule 1: the kernel's time of arrival counts, if it gives one (Linux), so that a slow process does not add latency.
Rule 2: the kernel's timestamps are wall clock time.  The offset of the monotonic clock is read again before each
        reading of datagrams: a step of the clock affects only datagrams that were waiting then.
Source: socket(7), SO_TIMESTAMPNS.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from typing import Final

BUFFER: Final = 4 << 20  # octets, as far as the system allows
AT_ONCE: Final = 64
TRIES: Final = 4
LONGEST: Final = 65_535  # octets


def open_socket(family: int, address: tuple[str | int, ...]) -> socket.socket:
    """A non-blocking socket for a target; raise OSError."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, option, BUFFER)
    sock.setblocking(False)
    try:
        sock.connect(address)
    except OSError:
        sock.close()
        raise
    return sock


class UdpWire:
    """A socket for one target; `address` in the socket module's form."""

    def __init__(self, family: int, address: tuple[str | int, ...]) -> None:
        self.socket = open_socket(family, address)

    def send(self, queries: Sequence[bytes]) -> list[int]:
        """Send datagrams; return the indexes of those that could not be sent."""
        return [place for place, query in enumerate(queries) if not self._is_sent(query)]

    def receive(self) -> tuple[list[bytes], bool]:
        """Return at most AT_ONCE datagrams that have arrived, and whether there may be more."""
        receive, found = self.socket.recv, []
        for _ in range(AT_ONCE):
            try:
                found.append(receive(LONGEST))
            except BlockingIOError:
                return found, False
            except OSError:
                continue
        return found, True

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def _is_sent(self, query: bytes) -> bool:
        for _ in range(TRIES):
            try:
                self.socket.send(query)
            except ConnectionRefusedError:
                continue  # an error of an earlier query; the kernel clears it by reporting it
            except OSError:
                return False
            else:
                return True
        return False


POD_BUFFER: Final = 1 << 20  # octets, as far as the system allows
POD_AT_ONCE: Final = 32
_TIMESTAMPNS: Final = 35  # SO_TIMESTAMPNS and SCM_TIMESTAMPNS of Linux
_TIME: Final = Struct("@ll")  # struct timespec
_SECOND: Final = 1_000_000_000


class StampedUdp:
    """A socket for one target; `address` in the socket module's form."""

    def __init__(self, family: int, address: tuple[str | int, ...]) -> None:
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        with suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, POD_BUFFER)
        with suppress(OSError):  # without it, the times are those of reading
            self.socket.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
        self.socket.setblocking(False)
        self.socket.connect(address)
        self._room = socket.CMSG_SPACE(_TIME.size)

    def fileno(self) -> int:
        """The file descriptor."""
        return self.socket.fileno()

    def send(self, octets: bytes) -> bool:
        """Send a datagram; return whether the system took it."""
        for _ in range(2):
            try:
                self.socket.send(octets)
            except ConnectionRefusedError:  # the result of an earlier one
                continue
            except OSError:
                return False
            return True
        return False

    def receive(self) -> list[tuple[bytes, int]]:
        """At most AT_ONCE datagrams that have arrived, with their times in nanoseconds of the monotonic clock."""
        found: list[tuple[bytes, int]] = []
        receive, room = self.socket.recvmsg, self._room
        offset = time.time_ns() - time.monotonic_ns()
        for _ in range(POD_AT_ONCE):
            try:
                octets, control, _, _ = receive(LONGEST, room)
            except ConnectionRefusedError:  # the result of a query
                continue
            except OSError:
                break
            found.append((octets, _received(control, offset)))
        return found

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


def _received(control: list[tuple[int, int, bytes]], offset: int) -> int:
    now = time.monotonic_ns()
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == _TIMESTAMPNS and len(data) >= _TIME.size:
            seconds, nanoseconds = _TIME.unpack_from(data)
            return min(now, int(seconds) * _SECOND + int(nanoseconds) - offset)
    return now
