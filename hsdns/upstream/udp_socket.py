"""Connected UDP sockets whose datagrams a multiplexer sends and receives.

Path: upstream/multiplexer.py opens some for its upstream.
Rule 1: the kernel chooses the source port at random, and drops datagrams from other addresses than the upstream's.
Rule 2: the loop watches one selector for all sockets of an upstream.  This costs less than watching each socket, and
        uvloop would stop watching a socket for good when the kernel reports an error of a datagram (ICMP), which must
        be passed on.
Rule 3: one iteration of the loop receives no more than BATCH_LEN datagrams of a socket, and after TURN seconds no more
        from any: a reply goes through the whole chain at once.  The sockets that have waited longest come first.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hsdns.upstream.connection import connect_udp, local_address
from hsdns.upstream.target import Target

BATCH_LEN: Final = 16
TURN: Final = 0.002  # seconds; four times those for the queries, as a query that was sent must not be lost after that
_MAX_LEN: Final = 65535  # octets
_RECEIVE_BUFFER_SIZE: Final = 1024 * 1024  # octets; the default, 212,992, holds 256 small replies


class UdpSockets:
    """The sockets to one upstream, from the local address `source`, or any."""

    def __init__(self, target: Target, source: str | None, clock: Callable[[], float]) -> None:
        self._target = target
        self._source = source
        self._clock = clock
        self._selector: selectors.DefaultSelector | None = None  # while any socket is open

    def open(self, receive: Callable[[bytes], None], fail: Callable[[OSError], None]) -> UdpSocket:
        """Open a socket; raise OSError.

        `receive` gets each datagram, `fail` the errors that the kernel reports of those sent.
        """
        sock = connect_udp(self._target, local_address(self._target, self._source))
        try:
            with contextlib.suppress(OSError):  # the kernel cuts it to net.core.rmem_max
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_SIZE)
            if self._selector is None:
                self._selector = selectors.DefaultSelector()
                asyncio.get_running_loop().add_reader(self._selector, self._read)
            opened = UdpSocket(sock, receive, fail, self._close, self._clock)
            self._selector.register(sock, selectors.EVENT_READ, opened)
        except BaseException:
            sock.close()
            raise
        return opened

    def _read(self) -> None:
        if self._selector is not None:
            end = self._clock() + TURN
            for key, _ in self._selector.select(0):
                if key.data.read(end):
                    break

    def _close(self, sock: socket.socket) -> None:
        if sock.fileno() >= 0 and self._selector is not None:
            self._selector.unregister(sock)
            sock.close()
            if not self._selector.get_map():
                asyncio.get_running_loop().remove_reader(self._selector)
                self._selector.close()
                self._selector = None


def _ignore(received: object) -> None:
    pass


@dataclass(eq=False)
class UdpSocket:
    """An open socket; UdpSockets makes it."""

    sock: socket.socket
    receive: Callable[[bytes], None]
    fail: Callable[[OSError], None]
    close_socket: Callable[[socket.socket], None]
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self.send: Callable[[bytes], object] = self.sock.send

    def close(self) -> None:
        """Close it; what it was opened with is free then (hsdns/memory.py, rule 3)."""
        self.close_socket(self.sock)
        self.receive = self.fail = _ignore

    def read(self, end: float) -> bool:
        """Receive what has arrived, until this time of the clock; return whether it has come."""
        sock = self.sock
        for _ in range(BATCH_LEN):
            if sock.fileno() < 0:  # the last reply may have closed it, or another socket's
                return False
            try:
                datagram = sock.recv(_MAX_LEN)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                self.fail(error)
                return self.clock() >= end
            self.receive(datagram)
            if self.clock() >= end:
                return True
        return False
