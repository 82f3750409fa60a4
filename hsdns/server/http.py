"""Serves /health, /ready, /metrics and the control door over HTTP.

Path: beside the queries; plugins register pages through `runtime.serve_http`, instance.py opens the sockets,
lifecycle.py closes them; http_connection.py answers.
Rule 1: pages belong to a configuration (HttpPages), sockets to the process (HttpListeners).  If a reload has pages at
        the same address, it replaces the pages and keeps the socket open, so a probe of the kubelet never finds it
        closed.
Rule 2: an address with a page that has a `tls` context is served over HTTPS; a reload replaces the context, too.
Rule 3: the number of connections over all sockets is limited, and the octets that wait in them.  At the limit, the
        server closes a connection of the client with the most connections for a new one (admission.py), so that clients
        that connect and send nothing cannot keep probes out.
Rule 4: the addresses of the control door have a limit of their own, so that its readers and the probes of the kubelet
        do not take each other's connections.  Its streams continue after a reload, and end when its socket closes.
Rule 5: at most MAX_READERS streams that do not end are sent at an address at a time.  Clients share them as they share
        connections; pages that end are none of them, so a reader keeps no page from anybody.
Source: CoreDNS 1.14.7 plugin/health, plugin/ready, plugin/metrics: time limits of 5 s, SO_REUSEPORT, other paths 404.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

from hsdns.corefile.keys import split_host_port
from hsdns.http_page import HttpPage, HttpStream
from hsdns.server.admission import Places, Turns
from hsdns.server.http_connection import TIMEOUT, HttpConnection
from hsdns.server.sockets import BACKLOG
from hsdns.server.tls import TlsConnection
from hsdns.server.unix_socket import PREFIX, UnixSocket

# Connections accepted in one iteration of the loop.  uvloop accepts one for each descriptor of a socket, which is too
# few if an iteration takes long, so the socket is duplicated; less often where the descriptor limit is low.
ACCEPTED: Final = 8
MAX_CONTROL: Final = 32  # connections to the control door
MAX_READERS: Final = 16  # streams that do not end, at one address
INTERVAL: Final = 60.0  # seconds between two lines about malformed requests
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
# The directive of a path, if its name is not the path's.
_DIRECTIVES: Final = {"/metrics": "prometheus", "/": "dashboard"}
_log = logging.getLogger("hsdns.server.http")


Paths = dict[str, HttpPage | HttpStream]


def _is_control(paths: Paths) -> bool:
    """Whether these are the pages of the control door."""
    return any(isinstance(page, HttpStream) and not page.is_public for page in paths.values())


class HttpError(Exception):
    """A sentence for the operator: the address and its directive, and why the server cannot listen there."""


class HttpPages:
    """The pages of one configuration: address -> path -> page."""

    def __init__(self) -> None:
        self.by_address: dict[str, Paths] = {}

    @property
    def control(self) -> HttpPages:
        """The pages of the control door alone."""
        found = HttpPages()
        found.by_address = {
            address: paths for address, paths in self.by_address.items() if _is_control(paths)
        }
        return found

    def serve(self, address: str, paths: Mapping[str, HttpPage | HttpStream]) -> None:
        """Add pages (this is `Runtime.serve_http`); of several for one path of an address the last one counts."""
        self.by_address.setdefault(address, {}).update(paths)


class MalformedCount:
    """Requests that could not be read: a line in the log for the first one, then at most one for each INTERVAL."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._count = 0
        self._next = -inf

    def add(self, client: str, reason: str) -> None:
        """Count one."""
        self._count += 1
        now = self._clock()
        if now >= self._next:
            _log.warning(
                "http: %d malformed requests were refused; the last one, from %s: %s",
                self._count, client, reason,
            )  # fmt: skip
            self._count, self._next = 0, now + INTERVAL


@dataclass(slots=True)
class HttpListener:
    """An open socket and its current pages."""

    paths: Paths
    accepting: list[asyncio.Server]
    bound: tuple[str, int]  # for a Unix socket its path, and 0
    places: Places
    path: UnixSocket | None
    turns: Turns
    malformed: MalformedCount
    readers: Places  # of streams that do not end
    streams: set[asyncio.Task[None]] = field(default_factory=set)  # sends pages in pieces
    clients: set[HttpConnection] = field(default_factory=set)

    def connect(self) -> asyncio.Protocol:
        """Make the protocol of one connection."""
        contexts = (page.tls for page in self.paths.values() if isinstance(page, HttpPage))
        context = next((each for each in contexts if each is not None), None)
        connection = HttpConnection(self)
        return connection if context is None else TlsConnection(connection, context, is_http=True)

    def page_for(self, path: str) -> HttpPage | HttpStream | None:
        """The page of a path without its parameters; "/debug/pprof/" has all paths below it."""
        folder = path.rpartition("/")[0]
        page = self.paths.get(path)
        return self.paths.get(f"{folder}/") if page is None and folder else page


class HttpListeners:
    """The HTTP sockets of the process, one per address; all connections share `places`."""

    def __init__(self, places: Places) -> None:
        self._open: dict[str, HttpListener] = {}
        self._places = places
        self._control = Places(MAX_CONTROL)
        self._turns = Turns(time.monotonic, lambda call: asyncio.get_running_loop().call_soon(call))
        self._malformed = MalformedCount()

    @property
    def bound(self) -> dict[str, tuple[str, int]]:
        """The address and port that each address of the Corefile was bound to."""
        return {address: listener.bound for address, listener in self._open.items()}

    async def open(self, pages: HttpPages) -> None:
        """Serve these pages from now on: open the missing sockets, and replace the pages of open ones.

        May be called again after pages were added.  Sockets without any of these pages stay open until close_others().
        Raises HttpError without having changed anything.
        """
        fresh: dict[str, HttpListener] = {}
        try:
            for address, paths in pages.by_address.items():
                if address not in self._open:
                    fresh[address] = await self._listen(address, paths)
        except BaseException:
            for listener in fresh.values():
                await _close(listener)
            raise
        self._open |= fresh
        for address, paths in pages.by_address.items():
            self._open[address].paths = dict(paths)

    async def close_others(self, pages: HttpPages) -> None:
        """Close the sockets without any of these pages."""
        for address in [address for address in self._open if address not in pages.by_address]:
            await _close(self._open.pop(address))

    async def go_back(self, pages: HttpPages) -> None:
        """Serve these pages, whose sockets are open, and close all other sockets."""
        await self.open(pages)
        await self.close_others(pages)

    async def close(self) -> None:
        """Close all sockets."""
        await self.close_others(HttpPages())

    async def _listen(self, address: str, paths: Paths) -> HttpListener:
        places = self._control if _is_control(paths) else self._places
        path = min(paths, default="/")
        directive = "control" if _is_control(paths) else _DIRECTIVES.get(path, path.strip("/"))
        unix: UnixSocket | None = None
        try:
            if address.startswith(PREFIX):
                unix = UnixSocket(address.removeprefix(PREFIX))
            sock = await _bind(address) if unix is None else unix.sock
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            if address.startswith(PREFIX):
                raise HttpError(
                    f"cannot listen on the control socket {address.removeprefix(PREFIX)}: {reason};"
                    ' give another path after "control" in the Corefile or after -control'
                ) from error
            raise HttpError(
                f"cannot listen on {address} for {path}: {reason};"
                f' give another address after "{directive}" in the Corefile'
            ) from error

        listener: HttpListener
        loop = asyncio.get_running_loop()
        create = loop.create_server if unix is None else loop.create_unix_server
        backlog = min(BACKLOG, 2 * places.most)
        accepted = 1 if unix is not None else max(1, min(ACCEPTED, places.most // ACCEPTED))
        socks = [sock, *(sock.dup() for _ in range(accepted - 1))]
        try:
            accepting = [
                await create(
                    lambda: listener.connect(), sock=each, backlog=backlog, start_serving=False
                )
                for each in socks
            ]
            bound = sock.getsockname()[:2] if unix is None else (str(unix.path), 0)
            shared = self._turns, self._malformed, Places(MAX_READERS)
            listener = HttpListener(dict(paths), accepting, bound, places, unix, *shared)
            for door in accepting:
                await door.start_serving()
        except BaseException:
            for each in socks:
                each.close()
            if unix is not None:
                unix.remove()
            raise
        return listener


async def _close(listener: HttpListener) -> None:
    if listener.path is not None:
        listener.path.remove()
    for door in listener.accepting:
        door.close()
    for stream in listener.streams:
        stream.cancel()
    for client in [*listener.clients]:
        client.end()
    tasks = [client.task for client in listener.clients if client.task is not None]
    if tasks:
        await asyncio.wait(tasks, timeout=TIMEOUT)
    for client in [*listener.clients]:
        client.close()


async def _bind(address: str) -> socket.socket:
    """Open a socket; an empty host means all addresses of both families, a name its first IPv4 address, as in Go."""
    parts = split_host_port(address)
    if parts is None:
        raise ValueError("this is no address and port")
    if not parts.host:
        try:
            return _bound(socket.AF_INET6, ("::", parts.port), dual_stack=True)
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
            return _bound(socket.AF_INET, ("0.0.0.0", parts.port))
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(parts.host, parts.port, type=socket.SOCK_STREAM)
    family, _, _, _, where = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return _bound(family, where)


def _bound(family: int, where: Any, *, dual_stack: bool = False) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not dual_stack)
        sock.bind(where)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock
