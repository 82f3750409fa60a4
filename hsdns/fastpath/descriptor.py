"""A file descriptor as a socket object that does not close it.

Path: batch.py, portable_batch.py and mmsg.py, for calls that would be long with ctypes.
Rule 1: the owner of the descriptor closes it.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


def family_of(fd: int) -> socket.AddressFamily:
    """The address family of an open socket; raise OSError if the descriptor is not a socket."""
    with lent(fd) as sock:
        return socket.AddressFamily(sock.family)


@contextlib.contextmanager
def lent(fd: int) -> Iterator[socket.socket]:
    """A context manager with a socket object for a descriptor, which stays open."""
    sock = socket.socket(fileno=fd)
    try:
        yield sock
    finally:
        sock.detach()
