"""Assembles a load over connections from its plan, in the sending process.

Path: process.py -> here -> stream.py, pool.py.

The sockets of connections, and one selector for all of them:
Rule: select() waits for the selector's descriptor, because the timeout of epoll has milliseconds.
"""

from __future__ import annotations

import errno
import os
import select
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from hsdns.load.plan import DOH, Plan, StreamPlan, authority
from hsdns.load.send.connection import Connection, FramedSession
from hsdns.load.send.http2 import Http2Session, Requests
from hsdns.load.send.pool import Hears, Pool
from hsdns.load.send.sender import Wire
from hsdns.load.send.stream import Falls, StreamSender, Telling
from hsdns.load.send.tls import HTTP2, TlsLayer, client_context

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
    plan: StreamPlan, timeout: int, links: Links, hears: Hears, clock: Callable[[], int]
) -> Pool:
    """The connections of a plan; `timeout` in nanoseconds."""
    return Pool(plan, timeout, maker(plan, links.address), links.open, hears, clock)


class FallsOverTcp(Falls):
    """The retries over TCP of a plan, with sockets."""

    def __init__(self, plan: Plan, wires: Sequence[Wire], emit: Callable[[bytes], None]) -> None:
        assert plan.streams is not None, "the caller has looked"
        streams, timeout, clock = plan.streams, plan.timeout, time.monotonic_ns
        self._links = links = Links(plan.family, plan.address)

        def make(hears: Hears) -> Pool:
            return make_pool(streams, timeout, links, hears, clock)

        super().__init__(wires, make, emit, clock)

    def fileno(self) -> int:
        """The descriptor that is readable if a connection is ready."""
        return self._links.fileno()

    def turn(self) -> list[int]:
        """Do what is due; return the numbers of the wires that have a reply."""
        self._links.serve(self.pool.can_read, self.pool.can_write)
        return super().turn()

    def close(self) -> None:
        """Close the connections."""
        super().close()
        self._links.close()


def stream_sender(plan: Plan, stdin: int, emit: Callable[[bytes], None]) -> StreamSender:
    """The sender of a plan over connections; it ends when the descriptor `stdin` is closed."""
    assert plan.streams is not None, "the caller has looked"
    links = Links(plan.family, plan.address)
    telling = Telling(emit, replies=plan.replies, kinds=plan.kinds)
    pool = make_pool(plan.streams, plan.timeout, links, telling, time.monotonic_ns)
    watched = [stdin, links.fileno()]

    def wait(nanoseconds: int) -> bool:
        ready = select.select(watched, [], [], nanoseconds / 1e9)[0]
        if stdin in ready:
            return False
        if ready:
            links.serve(pool.can_read, pool.can_write)
        return True

    return StreamSender(
        pool,
        telling,
        plan.queries,
        plan.times(),
        plan.order(),
        clock=time.monotonic_ns,
        wait=wait,
    )
