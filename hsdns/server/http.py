"""Answer /health, /ready and /metrics over HTTP.

Path: beside the queries; plugins ask through `runtime.serve_http`, instance.py opens, lifecycle.py closes.
Rule 1: pages belong to a configuration (HttpPages), sockets to the process (HttpListeners).  A reload whose pages name
        the same address exchanges the pages under the open socket, so no probe of the kubelet finds it closed.
Rule 2: a page is made on the event loop, so that /health proves that the loop turns; a page that is slow is
        made in a thread.
Rule 3: an address with a page that has a `tls` context is answered over HTTPS; a reload exchanges that too.
Rule 4: connections are bounded over all sockets.  Where there are too many, the one that has been silent longest makes
        room, so that a client that holds all of them keeps no probe out.
Rule 5: aiohttp is imported when the first socket is opened: it takes 0.14 s, and a Corefile may do without HTTP.
Source: CoreDNS 1.14.7 plugin/health, plugin/ready, plugin/metrics: time limits of 5 s, SO_REUSEPORT, other paths 404.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from hsdns.corefile.arguments import split_host_port
from hsdns.http_page import HttpPage
from hsdns.server.tls import TlsConnection

if TYPE_CHECKING:
    from aiohttp import web

TIMEOUT: Final = 5.0  # seconds to send a request in, to stay idle, and to take an answer
BACKLOG: Final = 128
MAX_CONNECTIONS: Final = 64  # half of the descriptors that tcp.py leaves to others
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
# The directive behind a path where it is not the path's own word.
_DIRECTIVES: Final = {"/metrics": "prometheus"}
_log = logging.getLogger("hsdns.server.http")


class HttpError(Exception):
    """A sentence for the operator: which address of which directive cannot be listened on, and why."""


class HttpPages:
    """What one configuration answers: address -> path -> page."""

    def __init__(self) -> None:
        self.by_address: dict[str, dict[str, HttpPage]] = {}

    def serve(self, address: str, paths: dict[str, HttpPage]) -> None:
        """Add pages (this is `Runtime.serve_http`); the last plugin to ask for a path of an address has it."""
        self.by_address.setdefault(address, {}).update(paths)


@dataclass(slots=True)
class _Listener:
    """An open socket, and the pages that are answered through it now."""

    paths: dict[str, HttpPage]
    server: web.Server
    accepting: asyncio.Server
    bound: tuple[str, int]
    connections: _Connections

    def connect(self) -> asyncio.Protocol:
        """Make what speaks with one client."""
        contexts = (page.tls for page in self.paths.values())
        context = next((each for each in contexts if each is not None), None)
        inside = self.server()
        return _Impatient(
            inside if context is None else TlsConnection(inside, context, is_http=True),
            inside,
            self.connections,
        )


class _Connections:
    """The open connections of all sockets, by what aiohttp knows each as; who was answered last comes last."""

    def __init__(self) -> None:
        self._silent: dict[asyncio.Protocol, asyncio.Transport] = {}
        self._asking: dict[asyncio.Protocol, asyncio.Transport] = {}

    def add(self, protocol: asyncio.Protocol, transport: asyncio.Transport) -> None:
        """Take a connection in; where there are too many, end the one that is waited for longest, or this one."""
        self._silent[protocol] = transport
        if len(self._silent) + len(self._asking) > MAX_CONNECTIONS:
            self._silent.pop(next(iter(self._silent))).abort()

    def discard(self, protocol: asyncio.Protocol) -> None:
        """Forget a connection."""
        self._silent.pop(protocol, None)
        self._asking.pop(protocol, None)

    @contextlib.contextmanager
    def asking(self, protocol: asyncio.Protocol) -> Iterator[None]:
        """Let a connection stay while its request is answered."""
        _move(protocol, self._silent, self._asking)
        try:
            yield
        finally:
            _move(protocol, self._asking, self._silent)


def _move(
    protocol: asyncio.Protocol,
    origin: dict[asyncio.Protocol, asyncio.Transport],
    to: dict[asyncio.Protocol, asyncio.Transport],
) -> None:
    transport = origin.pop(protocol, None)
    if transport is not None:  # else it was lost meanwhile
        to[protocol] = transport


class _Impatient(asyncio.Protocol):
    """Hands everything on, but ends the connection of a client that does not take what it has asked for."""

    def __init__(
        self, following: asyncio.Protocol, inside: asyncio.Protocol, connections: _Connections
    ) -> None:
        self._next = following
        self._inside = inside
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._abort: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but class
        self._transport.set_write_buffer_limits(0)  # whatever waits to be sent is too much
        self._connections.add(self._inside, self._transport)
        self._next.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._next.data_received(data)

    def eof_received(self) -> bool | None:
        return self._next.eof_received()

    def pause_writing(self) -> None:
        if self._transport is not None:
            loop = asyncio.get_running_loop()
            self._abort = loop.call_later(TIMEOUT, self._transport.abort)
        self._next.pause_writing()

    def resume_writing(self) -> None:
        self._be_patient()
        self._next.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._be_patient()
        self._connections.discard(self._inside)
        self._next.connection_lost(exc)

    def _be_patient(self) -> None:
        if self._abort is not None:
            self._abort.cancel()
            self._abort = None


class HttpListeners:
    """The HTTP sockets of the process, one an address."""

    def __init__(self) -> None:
        self._open: dict[str, _Listener] = {}
        self._connections = _Connections()

    @property
    def bound(self) -> dict[str, tuple[str, int]]:
        """The address and port that each address of the Corefile was bound to."""
        return {address: listener.bound for address, listener in self._open.items()}

    async def open(self, pages: HttpPages) -> None:
        """Answer with these pages from now on: open what is not open yet, exchange the pages of what is.

        May be called again when pages were added.  Sockets that these pages do not name stay open until close_others().
        Raises HttpError, and then nothing has changed.
        """
        fresh: dict[str, _Listener] = {}
        try:
            for address, paths in pages.by_address.items():
                if address not in self._open:
                    fresh[address] = await _listen(address, paths, self._connections)
        except BaseException:
            for listener in fresh.values():
                await _close(listener)
            raise
        self._open |= fresh
        for address, paths in pages.by_address.items():
            self._open[address].paths = dict(paths)

    async def close_others(self, pages: HttpPages) -> None:
        """Close the sockets that these pages do not name."""
        for address in [address for address in self._open if address not in pages.by_address]:
            await _close(self._open.pop(address))

    async def close(self) -> None:
        """Close all sockets."""
        await self.close_others(HttpPages())


async def _listen(address: str, paths: dict[str, HttpPage], connections: _Connections) -> _Listener:
    from aiohttp import web  # noqa: PLC0415 - Rule 5

    path = min(paths, default="/")
    directive = _DIRECTIVES.get(path, path.strip("/"))
    try:
        sock = await _bind(address)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise HttpError(
            f"cannot listen on {address} for {path}: {reason};"
            f' give another address after "{directive}" in the Corefile'
        ) from error

    async def answer(request: web.BaseRequest) -> web.Response:
        with connections.asking(request.protocol):
            return await _answer(listener.paths, request)

    listener: _Listener
    server = web.Server(answer, keepalive_timeout=TIMEOUT, access_log=None)
    loop = asyncio.get_running_loop()
    try:
        accepting = await loop.create_server(
            lambda: listener.connect(), sock=sock, backlog=BACKLOG, start_serving=False
        )
        bound = sock.getsockname()[:2]
        listener = _Listener(dict(paths), server, accepting, bound, connections)
        await accepting.start_serving()
    except BaseException:
        sock.close()
        raise
    return listener


async def _close(listener: _Listener) -> None:
    listener.accepting.close()
    listener.server.pre_shutdown()
    await listener.server.shutdown(TIMEOUT)


async def _bind(address: str) -> socket.socket:
    """Open a socket; an empty host is all addresses of both families, a name its first IPv4 address, as in Go."""
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


async def _answer(paths: dict[str, HttpPage], request: web.BaseRequest) -> web.Response:
    from aiohttp import web  # noqa: PLC0415 - Rule 5

    folder = request.path.rpartition("/")[0]
    page = paths.get(request.path) or paths.get(f"{folder}/")  # "/debug/pprof/" has all below
    if page is None:
        return web.Response(status=404, text="404 page not found\n")
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
