"""Serves /health, /ready, /metrics and the control door over HTTP.

Path: beside the queries; plugins register pages through `runtime.serve_http`, instance.py opens the sockets,
lifecycle.py closes them.
Rule 1: pages belong to a configuration (HttpPages), sockets to the process (HttpListeners).  If a reload has pages at
        the same address, it replaces the pages and keeps the socket open, so a probe of the kubelet never finds it
        closed.
Rule 2: a page is made on the event loop, so that /health proves that the loop runs; a slow page is made in a thread.
Rule 3: an address with a page that has a `tls` context is served over HTTPS; a reload replaces the context, too.
Rule 4: the number of connections over all sockets is limited.  At the limit, the server closes a connection of the
        client with the most connections for a new one (places.py), so that clients that connect and send nothing cannot
        keep probes out.  Such a client costs no more than its socket, because aiohttp gets a connection only when data
        arrive.
Rule 5: aiohttp is imported, in a thread, when a client sends the first request that is not a probe (http_probe.py): the
        import takes 0.14 s and 10 MB, which a server with requests for /health and /ready only does not need.
Rule 6: the addresses of the control door have a limit of their own, so that its readers and the probes of the kubelet
        do not take each other's connections.  Its streams continue after a reload, and end when its socket closes.
Rule 7: pages of `dashboard` share the limit of the probes; at most MAX_READERS of them are sent at an address at a
        time.
Source: CoreDNS 1.14.7 plugin/health, plugin/ready, plugin/metrics: time limits of 5 s, SO_REUSEPORT, other paths 404.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from hsdns.corefile.arguments import split_host_port
from hsdns.http_page import HttpPage, HttpStream
from hsdns.server.http_probe import answer, read_probe
from hsdns.server.http_stream import refusal, send
from hsdns.server.places import Places
from hsdns.server.sockets import BACKLOG
from hsdns.server.tls import TlsConnection
from hsdns.server.unix_socket import PREFIX, UnixSocket

if TYPE_CHECKING:
    from aiohttp import web

TIMEOUT: Final = 5.0  # seconds to send a request, to stay idle, and to read a response
# Connections accepted in one iteration of the loop.  uvloop accepts one for each descriptor of a socket, which is too
# few if an iteration takes long, so the socket is duplicated; less often where the descriptor limit is low.
ACCEPTED: Final = 8
MAX_CONTROL: Final = 32  # connections to the control door
MAX_HELD: Final = 65_536  # octets that a client may send while aiohttp is imported
MAX_READERS: Final = 16  # responses with pages of `dashboard`, at one address
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


@dataclass(slots=True)
class _Listener:
    """An open socket and its current pages."""

    paths: Paths
    accepting: list[asyncio.Server]
    bound: tuple[str, int]  # for a Unix socket its path, and 0
    places: Places
    path: UnixSocket | None
    connections: dict[asyncio.Protocol, _Connection]  # by the request handlers of aiohttp
    streams: set[asyncio.Task[object]]  # sends pages in pieces
    clients: set[_Connection]
    server: web.Server | None = None  # of the connections that aiohttp handles

    def connect(self) -> asyncio.Protocol:
        """Make the protocol of one connection."""
        contexts = (page.tls for page in self.paths.values() if isinstance(page, HttpPage))
        context = next((each for each in contexts if each is not None), None)
        connection = _Connection(self)
        return connection if context is None else TlsConnection(connection, context, is_http=True)

    def page_for(self, path: str) -> HttpPage | HttpStream | None:
        """The page of a path without its parameters; "/debug/pprof/" has all paths below it."""
        folder = path.rpartition("/")[0]
        page = self.paths.get(path)
        return self.paths.get(f"{folder}/") if page is None and folder else page

    def handler(self) -> web.RequestHandler:
        """Make aiohttp's handler of one connection; aiohttp has been imported."""
        from aiohttp import web  # noqa: PLC0415 - Rule 5

        async def serve(request: web.BaseRequest) -> web.StreamResponse:
            with self.connections[request.protocol].asking():
                return await _answer(self, request)

        if self.server is None:
            # If the client disconnects, its handler is cancelled; an endless stream would notice it late.
            self.server = web.Server(
                serve, handler_cancellation=True, keepalive_timeout=TIMEOUT, access_log=None
            )
        return self.server()


class _Connection(asyncio.Protocol):
    """One client's connection, with its place and its timeouts; aiohttp handles it once the client sends data."""

    def __init__(self, listener: _Listener) -> None:
        self.pending = 0  # requests in progress
        self._held: bytearray | None = None  # the octets that arrive while aiohttp is imported
        self._listener = listener
        self._inside: web.RequestHandler | None = None
        self._transport: asyncio.Transport | None = None
        self._abort: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection, if there is a place for it."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has another class
        peer = transport.get_extra_info("peername")
        if self._listener.path is not None:
            peer = ("127.0.0.1", 0)  # all clients of a Unix socket count as one
        if not peer or not self._listener.places.take(self, self._transport, peer[0]):
            self._transport.abort()
            return
        self._listener.clients.add(self)
        self._transport.set_write_buffer_limits(0)  # pause as soon as anything waits to be sent
        self._limit_time()

    def data_received(self, data: bytes) -> None:
        """Pass on the octets of a request."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._held is not None:
            self._held += data
            if len(self._held) > MAX_HELD:
                self._transport.abort()
            return
        if self._inside is None:
            if self._answer_probe(self._transport, data):
                return
            if "aiohttp.web" not in sys.modules:
                self._held = bytearray(data)
                loop = asyncio.get_running_loop()
                loop.run_in_executor(None, import_module, "aiohttp.web").add_done_callback(
                    lambda done: self._begin(bytes(self._held or b""))
                )
                return
            self._begin(data)
            return
        self._inside.data_received(data)

    def _answer_probe(self, transport: asyncio.Transport, data: bytes) -> bool:
        """Answer a request that does not need aiohttp; return False, with nothing done, for any other."""
        probe = read_probe(data)
        page = None if probe is None else self._listener.page_for(probe.path.partition("?")[0])
        if probe is None or not isinstance(page, HttpPage) or page.is_slow:
            return False
        try:
            made = page.handler(probe.path)
        except Exception:
            return False  # aiohttp's handler calls it again, and logs the exception
        self._listener.places.touch(self)
        self._forget_limit()
        self._limit_time()
        transport.write(answer(probe, *made))
        if not probe.keeps:
            transport.close()
        return True

    def _begin(self, data: bytes) -> None:
        """Let aiohttp handle the connection."""
        self._held = None
        if self._transport is None or self._transport.is_closing():
            return
        self._inside = self._listener.handler()
        self._listener.connections[self._inside] = self
        self._inside.connection_made(self._transport)
        self._inside.data_received(data)

    def eof_received(self) -> None:
        """Close: a client that sends no more does not wait for a response."""
        if self._inside is not None:
            self._inside.eof_received()

    def pause_writing(self) -> None:
        """Give the client TIMEOUT to read its responses."""
        self._limit_time()
        if self._inside is not None:
            self._inside.pause_writing()

    def resume_writing(self) -> None:
        """Continue to write."""
        self._forget_limit()
        if not self.pending:
            self._limit_time()
        if self._inside is not None:
            self._inside.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the connection."""
        self._forget_limit()
        self._transport = None
        self._listener.clients.discard(self)
        self._listener.places.release(self)
        if self._inside is not None:
            self._listener.connections.pop(self._inside, None)
            self._inside.connection_lost(exc)

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Exempt the connection from timeouts while a request is handled."""
        self.pending += 1
        self._forget_limit()
        try:
            yield
        finally:
            self.pending -= 1
            self._listener.places.touch(self)
            if self._transport is not None:
                self._limit_time()

    def close_if_silent(self) -> None:
        """Close the connection, unless aiohttp closes it."""
        if self._inside is None and self._transport is not None:
            self._transport.close()

    def _limit_time(self) -> None:
        """Give the client TIMEOUT to be idle, to send a request or to read a response."""
        if self._abort is None and self._transport is not None:
            loop = asyncio.get_running_loop()
            self._abort = loop.call_later(TIMEOUT, self._transport.abort)

    def _forget_limit(self) -> None:
        if self._abort is not None:
            self._abort.cancel()
            self._abort = None


class HttpListeners:
    """The HTTP sockets of the process, one per address; all connections share `places`."""

    def __init__(self, places: Places) -> None:
        self._open: dict[str, _Listener] = {}
        self._places = places
        self._control = Places(MAX_CONTROL)

    @property
    def bound(self) -> dict[str, tuple[str, int]]:
        """The address and port that each address of the Corefile was bound to."""
        return {address: listener.bound for address, listener in self._open.items()}

    async def open(self, pages: HttpPages) -> None:
        """Serve these pages from now on: open the missing sockets, and replace the pages of open ones.

        May be called again after pages were added.  Sockets without any of these pages stay open until close_others().
        Raises HttpError without having changed anything.
        """
        fresh: dict[str, _Listener] = {}
        try:
            for address, paths in pages.by_address.items():
                if address not in self._open:
                    places = self._control if _is_control(paths) else self._places
                    fresh[address] = await _listen(address, paths, places)
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


async def _listen(address: str, paths: Paths, places: Places) -> _Listener:
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

    listener: _Listener
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
        listener = _Listener(dict(paths), accepting, bound, places, unix, {}, set(), set())
        for door in accepting:
            await door.start_serving()
    except BaseException:
        for each in socks:
            each.close()
        if unix is not None:
            unix.remove()
        raise
    return listener


async def _close(listener: _Listener) -> None:
    if listener.path is not None:
        listener.path.remove()
    for door in listener.accepting:
        door.close()
    for stream in listener.streams:
        stream.cancel()
    for client in [*listener.clients]:
        client.close_if_silent()
    if listener.server is not None:
        listener.server.pre_shutdown()
        await listener.server.shutdown(TIMEOUT)


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


async def _answer(listener: _Listener, request: web.BaseRequest) -> web.StreamResponse:
    from aiohttp import web  # noqa: PLC0415 - Rule 5

    paths = listener.paths
    page = listener.page_for(request.path)
    if page is None and all(isinstance(each, HttpStream) for each in paths.values()):
        return refusal(404, f"this hsdns has no {request.path}; it has {', '.join(sorted(paths))}")
    if page is None:
        return web.Response(status=404, text="404 page not found\n")
    if isinstance(page, HttpStream):
        if page.is_public and len(listener.streams) >= MAX_READERS:
            return refusal(503, f"{MAX_READERS} others read from this address; close one of them")
        task = asyncio.current_task()
        assert task is not None, "called in a task"
        listener.streams.add(task)
        try:
            return await send(page, request, TIMEOUT)
        finally:
            listener.streams.discard(task)
    if request.method not in ("GET", "HEAD"):
        return web.Response(status=405, headers={"Allow": "GET, HEAD"}, text="method not allowed\n")
    try:
        if page.is_slow:
            page.prepare()
            loop = asyncio.get_running_loop()
            made = await loop.run_in_executor(None, page.handler, request.path_qs)
        else:
            made = page.handler(request.path_qs)
    except Exception:
        _log.exception("http: the page %s could not be made", request.path)
        return web.Response(status=500, text="internal server error\n")
    status, content_type, body = made
    return web.Response(status=status, body=body, headers={"Content-Type": content_type})
