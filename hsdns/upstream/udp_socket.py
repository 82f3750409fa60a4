"""A connected UDP socket whose datagrams a multiplexer sends and receives.

Path: upstream/multiplexer.py opens some for each upstream.
Rule 1: the kernel chooses the source port at random, and drops datagrams from other addresses than the upstream's.
Rule 2: no more than BATCH_LEN datagrams are received in a turn of the loop, so that others have theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final

from hsdns.upstream.connection import connect_udp, local_address
from hsdns.upstream.target import Target

BATCH_LEN: Final = 16
_MAX_LEN: Final = 65535  # octets
_RECEIVE_BUFFER_SIZE: Final = 1024 * 1024  # octets; the default, 212,992, holds 256 small replies


class UdpSocket:
    """A socket that is read until it is closed."""

    def __init__(
        self,
        target: Target,
        source: str | None,
        receive: Callable[[bytes], None],
        fail: Callable[[OSError], None],
    ) -> None:
        """Connect to an upstream from the local address `source`, or any; raise OSError.

        `receive` gets each datagram, `fail` the errors that the kernel reports of those sent (ICMP).
        """
        self._receive = receive
        self._fail = fail
        self._sock = connect_udp(target, local_address(target, source))
        with contextlib.suppress(OSError):  # the kernel cuts it to net.core.rmem_max
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_SIZE)
        self.send: Callable[[bytes], object] = self._sock.send
        asyncio.get_running_loop().add_reader(self._sock, self._read)

    @property
    def port(self) -> int:
        """The source port."""
        found: int = self._sock.getsockname()[1]
        return found

    def close(self) -> None:
        """Close it."""
        if self._sock.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._sock)
            self._sock.close()

    def _read(self) -> None:
        for _ in range(BATCH_LEN):
            if self._sock.fileno() < 0:  # a reply was the last that it was open for
                return
            try:
                datagram = self._sock.recv(_MAX_LEN)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._fail(error)
                return
            self._receive(datagram)
