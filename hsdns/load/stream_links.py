"""The sockets of connections, and one selector for all of them.

Path: pool.py -> here; stream_process.py waits.
Rule: select() waits for the selector's descriptor, because the timeout of epoll has milliseconds.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from hsdns.load.connection import Connection

READ_LEN: Final = 1 << 16  # octets
_BUSY: Final = (errno.EINPROGRESS, errno.EWOULDBLOCK)
_LACKS: Final = (errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE, errno.ENOBUFS)


class StreamLink:
    """A connecting socket."""

    def __init__(self, links: Links, connection: Connection) -> None:
        self._links = links
        self._connection = connection
        self.socket = socket.socket(links.family, socket.SOCK_STREAM)
        try:
            self.socket.setblocking(False)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            found = self.socket.connect_ex(links.address)
            if found in _LACKS:
                raise OSError(found, os.strerror(found))
            self._refused = 0 if found in _BUSY else found
            links.selector.register(self.socket, selectors.EVENT_WRITE, connection)
        except OSError:
            self.socket.close()
            raise

    def fault(self) -> str:
        """Why it could not connect; "" if it is connected."""
        found = self._refused or self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not found:
            self.watch_writing(is_on=False)
        return os.strerror(found).lower() if found else ""

    def send(self, octets: bytes) -> int:
        """Send as many octets as there is room for; return their number."""
        try:
            return self.socket.send(octets)
        except BlockingIOError:
            return 0

    def receive(self) -> bytes | None:
        """Return what has arrived, None for nothing."""
        try:
            return self.socket.recv(READ_LEN)
        except BlockingIOError:
            return None

    def watch_writing(self, *, is_on: bool) -> None:
        """Start or stop watching for room to send."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if is_on else 0)
        self._links.selector.modify(self.socket, events, self._connection)

    def close(self) -> None:
        """Close it."""
        with suppress(KeyError, ValueError):
            self._links.selector.unregister(self.socket)
        self.socket.close()
        del self._connection  # it refers to this link, and cycles are not collected here


class Links:
    """Makes sockets to one address, and finds those that are ready."""

    def __init__(self, family: int, address: tuple[str | int, ...]) -> None:
        self.family = family
        self.address = address
        self.selector = selectors.DefaultSelector()

    def open(self, connection: Connection) -> StreamLink:
        """Begin to connect; raise OSError if this machine cannot."""
        return StreamLink(self, connection)

    def fileno(self) -> int:
        """The descriptor that is readable if a socket is ready."""
        number = getattr(self.selector, "fileno", None)
        assert number is not None, "epoll and kqueue have one"
        return int(number())

    def serve(
        self, can_read: Callable[[Connection], None], can_write: Callable[[Connection], None]
    ) -> None:
        """Call `can_read` and `can_write` for the connections that are ready."""
        for key, events in self.selector.select(0):
            if events & selectors.EVENT_WRITE:
                can_write(key.data)
            if events & selectors.EVENT_READ:
                can_read(key.data)

    def close(self) -> None:
        """Close the selector."""
        self.selector.close()
