"""A UDP socket that sends and receives many datagrams with one call of the system, where it can.

Path: sender.py -> here -> fastpath (recvmmsg and sendmmsg, compiled or not).
Rule: what does not come from the target is dropped.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from hsdns.fastpath import Batch
from hsdns.fastpath.control import write_address

BUFFER: Final = 4 << 20  # octets, as far as the system allows
AT_ONCE: Final = 64


class UdpWire:
    """A socket for one target; `address` in the socket module's form."""

    def __init__(self, family: int, address: tuple[object, ...]) -> None:
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            with suppress(OSError):
                self.socket.setsockopt(socket.SOL_SOCKET, option, BUFFER)
        any_address = "::" if family == socket.AF_INET6 else "0.0.0.0"
        self.socket.bind((any_address, 0))
        self.socket.setblocking(False)
        self._target = write_address(family, address)
        self._batch = Batch(self.socket.fileno(), False)
        self._failed = 0

    def send(self, queries: Sequence[bytes]) -> int:
        """Send datagrams; return how many could not be sent."""
        target = self._target
        self._batch.send([(query, target, b"") for query in queries])
        failed = sum(self._batch.statistics().send_errors.values())
        refused, self._failed = failed - self._failed, failed
        return refused

    def receive(self) -> list[bytes]:
        """Return what has arrived from the target, at most AT_ONCE."""
        target = self._target
        while found := self._batch.serve(None):
            datagrams = [octets for octets, address, _ in found if address == target]
            if datagrams or len(found) < AT_ONCE:
                return datagrams
        return []

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()
