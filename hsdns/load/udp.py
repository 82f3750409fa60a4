"""A UDP socket for the queries to one target and its replies.

Path: sender.py -> here; the compiled sender uses such sockets too (compiled_sender.py).
Rule 1: the socket is connected, so that the kernel drops datagrams from other addresses.
Rule 2: an error that the kernel reports for an earlier query (a closed port) is not an error of the next one.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
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
