"""Connections to an API server: opened, through a proxy if there is one, and reused.

Path: client.py takes one for each request -> here -> http_connection.py.
Rule 1: addresses of a name are tried as in RFC 8305, all of them within CONNECT_TIMEOUT, including TLS.
Rule 2: a dead server is detected by TCP keep-alive and TCP_USER_TIMEOUT.
Rule 3: an idle connection is closed after IDLE_TIMEOUT.  If the server has closed it by then, the request is sent again
        on a new connection.
Rule 4: a proxy gets a CONNECT request for a server with https, and the request itself for a server with http; only in
        the second case does it see the server's credentials.  A proxy with https is verified like the server.
Source: client-go transport; RFC 9110 section 9.3.6 (CONNECT), RFC 9112 section 3.2.2.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64encode
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from hsdns.apiserver.access import Access
from hsdns.apiserver.http_connection import (
    ConnectTimeout,
    HttpConnection,
    Lost,
    NoResponse,
    ProxyRefused,
    ProxyUnreachable,
)

CONNECT_TIMEOUT: Final = 10.0  # seconds, including name lookup and TLS
IDLE_TIMEOUT: Final = 15.0  # seconds
HAPPY_EYEBALLS_DELAY: Final = (
    0.25  # seconds after which the next address of a name is tried in parallel
)
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
_USER_TIMEOUT_MS: Final = 30_000
_PORTS: Final = {"http": 80, "https": 443}


class Route(NamedTuple):
    """The destination of a connection; connections with equal routes are interchangeable."""

    server: SplitResult
    proxy: SplitResult | None
    tls: ssl.SSLContext | None
    tls_server_name: str

    @classmethod
    def of(cls, access: Access, tls: ssl.SSLContext | None) -> Route:
        """The route for an access, whose `tls` is the current context."""
        server = urlsplit(access.server)
        return cls(
            server._replace(path=""),
            urlsplit(access.proxy) if access.proxy else None,
            tls,
            access.tls_server_name,
        )

    @property
    def is_tunnel(self) -> bool:
        """Whether the connection goes through a proxy that does not see the requests."""
        return self.proxy is not None and self.server.scheme == "https"

    @property
    def target(self) -> str:
        """The part before the path in a request."""
        plain = self.proxy is not None and not self.is_tunnel
        return f"{self.server.scheme}://{self.server.netloc}" if plain else ""

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The headers that a request needs on this route."""
        if self.proxy is None or self.is_tunnel:
            return []
        return proxy_authorization(self.proxy)


class Connections:
    """The connections of one client."""

    def __init__(self) -> None:
        self._idle: dict[Route, list[tuple[HttpConnection, asyncio.TimerHandle]]] = {}

    async def ask(self, route: Route, request: bytes, buffer_len: int) -> HttpConnection:
        """Send a request; return the connection once the head of the response has arrived.

        At most `buffer_len` octets of the body are buffered before they are read.  Raises HttpFault or OSError.
        """
        while True:
            connection = self._take(route) or await self._open(route)
            was_used = connection.is_used
            connection.buffer_len = buffer_len
            try:
                await connection.ask(request)
                return connection
            except (Lost, NoResponse):
                connection.close()
                if not was_used:
                    raise
            except BaseException:
                connection.close()
                raise

    async def reach(self, route: Route) -> None:
        """Open a connection for the next request; raise HttpFault or OSError."""
        self.release(route, await self._open(route))

    def release(self, route: Route, connection: HttpConnection) -> None:
        """Keep an unused connection until IDLE_TIMEOUT."""
        timer = asyncio.get_running_loop().call_later(IDLE_TIMEOUT, self._expire, route, connection)
        self._idle.setdefault(route, []).append((connection, timer))

    def close(self) -> None:
        """Close the idle connections."""
        idle, self._idle = self._idle, {}
        for found in idle.values():
            for connection, timer in found:
                timer.cancel()
                connection.close()

    def _take(self, route: Route) -> HttpConnection | None:
        found = self._idle.get(route, [])
        while found:
            connection, timer = found.pop()
            if not found:
                del self._idle[route]
            timer.cancel()
            if connection.is_open:
                return connection
        return None

    def _expire(self, route: Route, connection: HttpConnection) -> None:
        left = [each for each in self._idle.pop(route, []) if each[0] is not connection]
        if left:
            self._idle[route] = left
        connection.close()

    async def _open(self, route: Route) -> HttpConnection:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                if route.proxy is not None:
                    return await _connect_through(route, route.proxy)
                return await _connect(route.server, route.tls, route.tls_server_name)
        except TimeoutError as error:
            if error.errno is not None:  # an error of the system, for one address
                raise
            raise ConnectTimeout from None


async def _connect_through(route: Route, proxy: SplitResult) -> HttpConnection:
    tls = route.tls or ssl.create_default_context() if proxy.scheme == "https" else None
    try:
        connection = await _connect(proxy, tls, "")
    except OSError as error:
        if isinstance(error, TimeoutError) and error.errno is None:
            raise
        raise ProxyUnreachable(error) from None
    if not route.is_tunnel:
        return connection
    assert route.tls is not None, "of a server with https"
    server = route.server
    host = f"{_bracketed(server)}:{server.port or _PORTS[server.scheme]}"
    try:
        lines = [("Host", host), *proxy_authorization(proxy)]
        await connection.ask(head_of(f"CONNECT {host}", lines))
        if connection.status != 200:
            raise ProxyRefused(connection.status, connection.reason)
        inside = HttpConnection()
        transport = await asyncio.get_running_loop().start_tls(
            connection.transport,
            inside,
            route.tls,
            server_hostname=route.tls_server_name or server.hostname,
        )
        assert transport is not None, "asyncio returns None for a closed connection before 3.11"
        inside.connection_made(transport)
        return inside
    except BaseException:
        connection.close()
        raise


async def _connect(to: SplitResult, tls: ssl.SSLContext | None, server_name: str) -> HttpConnection:
    loop = asyncio.get_running_loop()
    port = to.port or _PORTS[to.scheme]
    found = await loop.getaddrinfo(to.hostname, port, type=socket.SOCK_STREAM)
    sock = await _first(loop, found)
    hostname = (server_name or to.hostname) if tls is not None else None
    try:
        _, connection = await loop.create_connection(
            HttpConnection, sock=sock, ssl=tls, server_hostname=hostname
        )
    except BaseException:
        sock.close()
        raise
    return connection


async def _first(loop: asyncio.AbstractEventLoop, found: list[tuple[Any, ...]]) -> socket.socket:
    """A socket connected to the first of these addresses that accepts."""
    if len(found) > 1:
        from aiohappyeyeballs import start_connection  # noqa: PLC0415 - few names have several addresses

        return await start_connection(
            found,
            happy_eyeballs_delay=HAPPY_EYEBALLS_DELAY,
            interleave=1,
            loop=loop,
            socket_factory=make_socket,
        )
    sock = make_socket(found[0])
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, found[0][4])
    except BaseException:
        sock.close()
        raise
    return sock


def make_socket(address: tuple[Any, ...]) -> socket.socket:
    """Make a socket for an address of getaddrinfo() that detects a dead peer within 30 s."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)
    return made


def head_of(asked: str, headers: list[tuple[str, str]]) -> bytes:
    """The head of a request, such as `GET /path`; raise ValueError if a header would be more than one."""
    for name, value in headers:
        if any(character in "\r\n\0" for character in name + value):
            raise ValueError(f'the value of the header "{name.splitlines()[0]}" has a line break')
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"{asked} HTTP/1.1\r\n{lines}\r\n".encode()


def _bracketed(url: SplitResult) -> str:
    host = url.hostname or ""
    return f"[{host}]" if ":" in host else host


def proxy_authorization(proxy: SplitResult) -> list[tuple[str, str]]:
    """Return the header with the name and password in the URL of a proxy."""
    if proxy.username is None:
        return []
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return [("Proxy-Authorization", f"Basic {b64encode(pair.encode()).decode()}")]
