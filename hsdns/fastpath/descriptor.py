"""A descriptor as a socket object that does not close it.

Path: batch.py, portable_batch.py and sender.py ask it for what ctypes has no short word for.
Rule 1: the descriptor stays its owner's.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


def family_of(fd: int) -> socket.AddressFamily:
    """The address family of an open socket; raise OSError if the descriptor is none."""
    with lent(fd) as sock:
        return socket.AddressFamily(sock.family)


@contextlib.contextmanager
def lent(fd: int) -> Iterator[socket.socket]:
    """A socket object around a descriptor that stays its owner's."""
    sock = socket.socket(fileno=fd)
    try:
        yield sock
    finally:
        sock.detach()
