"""The sockets of a load: for datagrams, and for connections with one selector for all of them.

Path: process.py, probe.py -> here -> udp.py, pool.py, pods.py.
Rule 1: a UDP socket is connected, so that the kernel drops datagrams from other addresses.  An error that the kernel
        reports for an earlier query (a closed port) is not an error of the next one.
Rule 2: a stamped one reports when the kernel received each datagram, if it tells (Linux), so that a slow process does
        not add latency.  These times are wall clock time.  The offset of the monotonic clock is read again before each
        reading: a step of the clock affects only datagrams that were waiting then.
Source: socket(7), SO_TIMESTAMPNS.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import Struct
from typing import Final

from hsdns.load.plan import DOH, StreamPlan, authority
from hsdns.load.send.connection import Connection, FramedSession
from hsdns.load.send.http2 import Http2Session, Requests
from hsdns.load.send.loop import Receiver
from hsdns.load.send.pool import Pool
from hsdns.load.send.tls import HTTP2, TlsLayer, client_context

BUFFER: Final = 4 << 20  # octets, as far as the system allows
STAMPED_BUFFER: Final = 1 << 20  # there are many of these
AT_ONCE: Final = 64  # datagrams
TRIES: Final = 4
LONGEST: Final = 65_535  # octets
_TIMESTAMPNS: Final = 35  # SO_TIMESTAMPNS and SCM_TIMESTAMPNS of Linux
_TIME: Final = Struct("@ll")  # struct timespec
_SECOND: Final = 1_000_000_000
READ_LEN: Final = 1 << 16  # octets
_BUSY: Final = (errno.EINPROGRESS, errno.EWOULDBLOCK)
_LACKS: Final = (errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE, errno.ENOBUFS)


def open_socket(family: int, address: tuple[str | int, ...], buffer: int = BUFFER) -> socket.socket:
    """A non-blocking socket for a target; raise OSError."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, option, buffer)
    sock.setblocking(False)
    try:
        sock.connect(address)
    except OSError:
        sock.close()
        raise
    return sock


class UdpSocket:
    """A socket for one target; `address` in the socket module's form."""

    def __init__(
        self, family: int, address: tuple[str | int, ...], *, is_stamped: bool = False
    ) -> None:
        self.socket = open_socket(family, address, STAMPED_BUFFER if is_stamped else BUFFER)
        self._room = 0
        if is_stamped:
            with suppress(OSError):  # without it, the times are those of reading
                self.socket.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
            self._room = socket.CMSG_SPACE(_TIME.size)

    def send(self, datagrams: Sequence[bytes]) -> Sequence[int]:
        """Send datagrams; return the indexes of those that could not be sent."""
        return [place for place, each in enumerate(datagrams) if not self._is_sent(each)]

    def receive(self) -> tuple[list[tuple[bytes, int]], bool]:
        """Return at most AT_ONCE datagrams that have arrived, with their times, and whether there may be more.

        A time is in nanoseconds of the monotonic clock; 0 if it is not known.
        """
        found: list[tuple[bytes, int]] = []
        offset = time.time_ns() - time.monotonic_ns() if self._room else 0
        for _ in range(AT_ONCE):
            try:
                if self._room:
                    octets, control, _, _ = self.socket.recvmsg(LONGEST, self._room)
                    found.append((octets, _received(control, offset)))
                else:
                    found.append((self.socket.recv(LONGEST), 0))
            except BlockingIOError:
                return found, False
            except OSError:
                continue
        return found, True

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def _is_sent(self, datagram: bytes) -> bool:
        for _ in range(TRIES):
            try:
                self.socket.send(datagram)
            except ConnectionRefusedError:
                continue  # an error of an earlier query; the kernel clears it by reporting it
            except OSError:
                return False
            else:
                return True
        return False


def _received(control: list[tuple[int, int, bytes]], offset: int) -> int:
    now = time.monotonic_ns()
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == _TIMESTAMPNS and len(data) >= _TIME.size:
            seconds, nanoseconds = _TIME.unpack_from(data)
            return min(now, int(seconds) * _SECOND + int(nanoseconds) - offset)
    return now


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


def maker(plan: StreamPlan, address: tuple[str | int, ...]) -> Callable[[int], Connection]:
    """A function that makes connections by a plan; raise LoadError for unreadable certificates."""
    name = plan.tls_name or str(address[0]).partition("%")[0]
    is_doh = plan.transport == DOH
    protocol = HTTP2 if is_doh else ""
    context = (
        client_context(plan.tls_ca, insecure=plan.tls_insecure, protocol=protocol)
        if plan.is_encrypted
        else None
    )
    requests = Requests(authority(name, int(address[1])), plan.path, plan.method)

    def make(now: int) -> Connection:
        session = Http2Session(requests) if is_doh else FramedSession()
        tls = None if context is None else TlsLayer(context, name, protocol)
        return Connection(session, tls, plan.pipeline, plan.queries, now)

    return make


def make_pool(
    plan: StreamPlan, timeout: int, links: Links, receiver: Receiver, clock: Callable[[], int]
) -> Pool:
    """The connections of a plan; `timeout` in nanoseconds."""
    return Pool(plan, timeout, maker(plan, links.address), links.open, receiver, clock)
