"""Connections to an API server: opened, through a proxy if there is one, and reused.

Path: client.py takes one for each request -> Connections -> HttpConnection.
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
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast
from urllib.parse import SplitResult, unquote, urlsplit

from httptools import HttpParserError, HttpResponseParser

from hsdns.apiserver.access import Access

# An HTTP/1.1 connection to the API server: one request at a time, with its response as it arrives.
#
# Rule 1: httptools parses; no octet of a response is decoded here.
# Rule 2: the body is buffered up to a limit, then flow control stops the server.  It is read in pieces of at most
#         READ_LEN octets, so that the events of one piece do not block the event loop; or it is passed on as it
#         arrives, in the same call, so that an event does not wait for another turn of the event loop.
# Rule 3: a connection serves another request only if the previous body was read to its end, and both sides keep it
#         open. Octets without a request close it.
# Rule 4: every failure is an HttpFault or the system's error that caused it (client.py turns them into sentences).
# Source: RFC 9112 (sections 6.3 for the end of a body, 9.3 for persistence).


READ_LEN: Final = 1 << 18  # octets that a read returns at most
BUFFER_LEN: Final = 1 << 18  # octets to buffer before flow control stops the server
# Octets of a status line with its headers, and of what follows the body.
MAX_HEAD_LEN: Final = 1 << 16


class HttpFault(Exception):
    """A failure of a connection or of a response."""


class ConnectTimeout(HttpFault):
    """No connection was made in time."""


class ProxyUnreachable(HttpFault):
    """The proxy cannot be connected to."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.error = error


class ProxyRefused(HttpFault):
    """The proxy refuses to connect to the server."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status, self.reason = status, reason


class Lost(HttpFault):
    """The connection ended with an error before a response began."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class NoResponse(HttpFault):
    """The server closed the connection before a response began."""


class Incomplete(HttpFault):
    """The connection ended before the end of a response."""


class NotHttp(HttpFault):
    """The server sent something other than HTTP; the argument says why."""


class Headers(Mapping[str, str]):
    """The headers of a response, by case-insensitive name; the first of repeated headers counts."""

    def __init__(self) -> None:
        self._by_name: dict[str, str] = {}

    def add(self, name: bytes, value: bytes) -> None:
        """Add a header as received."""
        self._by_name.setdefault(name.decode("latin-1").lower(), value.decode("utf-8", "replace"))

    def __getitem__(self, name: str) -> str:
        return self._by_name[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


class HttpConnection(asyncio.Protocol):
    """A connection; `buffer_len` may be changed while a response arrives."""

    def __init__(self) -> None:
        self.status = 0
        self.reason = ""
        self.headers = Headers()
        self.buffer_len = BUFFER_LEN
        self.is_used = False  # whether it has served a request
        self.last_received = 0.0  # time of the event loop when octets arrived last
        self.transport: asyncio.Transport
        self._time: Callable[[], float]
        self.error: BaseException | None = (
            None  # the error that ends the response, or ended the connection
        )
        self._parser: HttpResponseParser | None = None  # of the response being received
        self._head: asyncio.Future[None] | None = None
        self._head_len = 0
        self._has_head = self._is_complete = self._keeps = False
        self._pieces: deque[bytes] = deque()
        self._buffered = 0  # octets that have arrived since all pieces were read, less those read
        self.on_body = self._pieces.append  # called by the parser with each part of the body
        self._is_paused = self._is_lost = False
        self._arrived: asyncio.Future[None] | None = None
        self._take: Callable[[bytes], bool] | None = None

    async def ask(self, request: bytes) -> None:
        """Send a request and wait for the head of its response; raise HttpFault or OSError."""
        if self.error is not None:
            raise self.error
        self.status, self.reason, self.headers = 0, "", Headers()
        self._head_len = self._buffered = 0
        self._has_head = self._is_complete = self._keeps = False
        self._parser = HttpResponseParser(self)
        self._head = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        try:
            await self._head
        finally:
            self._head = None
            self.is_used = True

    async def feed(self, take: Callable[[bytes], bool]) -> None:
        """Pass the octets of the body to `take` as they arrive, until it returns False or the body ends.

        Raise the error that ended the body early, or the error of `take`.
        """
        arrived = self._arrived = asyncio.get_running_loop().create_future()
        self._take = take
        try:
            self._pass_on(arrived, take)
            await arrived
        finally:
            self._take = self._arrived = None

    @property
    def is_at_end(self) -> bool:
        """Whether the body has been read to its end."""
        return self._is_complete and not self._pieces

    @property
    def is_reusable(self) -> bool:
        """Whether another request may be sent."""
        return self.is_at_end and self._keeps and self.error is None

    @property
    def is_open(self) -> bool:
        """Whether neither side has closed it."""
        return self.error is None and not self._is_lost and not self.transport.is_closing()

    def fail(self, error: BaseException) -> None:
        """End the response with an error."""
        if self.error is None:
            self.error = error
            self._pieces.clear()  # unread octets belong to an incomplete body
            self._wake()

    def close(self) -> None:
        """Close it at once."""
        if not self._is_lost:
            self.transport.abort()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's differs only in its class
        self._time = asyncio.get_running_loop().time

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived."""
        self.last_received = self._time()
        if self._parser is None or self._is_complete:
            self.fail(NotHttp("it sends what hsdns did not request"))
            self.close()
            return
        had_head, held = self._has_head, len(self._pieces)
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._end(NotHttp(str(error)))
            return
        is_body = len(self._pieces) > held or self._has_head is not had_head
        self._head_len = 0 if is_body else self._head_len + len(data)
        if self._head_len > MAX_HEAD_LEN:
            part = "end" if had_head else "head"
            self._end(NotHttp(f"the {part} of its response is longer than {MAX_HEAD_LEN} octets"))
            return
        if not self._has_head:
            return
        arrived, take = self._arrived, self._take
        if take is not None and arrived is not None and not arrived.done():
            self._pass_on(arrived, take)
            return
        self._buffered += len(data)
        self._wake()
        if self._buffered >= self.buffer_len and not self._is_paused and not self._is_complete:
            self._is_paused = True
            self.transport.pause_reading()

    def eof_received(self) -> None:
        """Close the connection; connection_lost() does the rest."""

    def connection_lost(self, exc: Exception | None) -> None:
        """End a response that lasts until the end of the connection; any other is incomplete."""
        self._is_lost = True
        if self._is_complete:
            self.error = self.error or NoResponse()
            return
        if self._has_head and exc is None and self._ends_with_connection():
            self._is_complete = True
            self._wake()
        elif self._has_head:
            self._end(Incomplete())
        elif exc is None:
            self._end(NoResponse())
        else:
            self._end(Lost(exc))

    # Called by the parser.

    def on_status(self, status: bytes) -> None:
        """Add a part of the reason phrase."""
        self.reason += status.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; trailers are ignored."""
        if not self._has_head:
            self.headers.add(name, value)

    def on_headers_complete(self) -> None:
        """Let ask() return, unless the response is interim."""
        assert self._parser is not None, "it calls"
        self.status = self._parser.get_status_code()
        if self.status // 100 == 1:
            self.reason, self.headers = "", Headers()
            return
        self._has_head = True
        self._wake()

    def on_message_complete(self) -> None:
        """End the body."""
        if self._has_head:
            assert self._parser is not None, "it calls"
            self._is_complete = True
            self._keeps = self._parser.should_keep_alive()

    def _ends_with_connection(self) -> bool:
        coding = self.headers.get("Transfer-Encoding", "").lower()
        return "Content-Length" not in self.headers and "chunked" not in coding

    def _end(self, error: BaseException) -> None:
        """End the response, after the octets that have arrived, and the connection."""
        if self.error is None:
            self.error = error
        self._wake()
        self.close()

    def _next_piece(self) -> bytes:
        piece = self._pieces.popleft()
        length = len(piece)
        if self._pieces and length < READ_LEN:
            joined = [piece]
            while self._pieces and length + len(self._pieces[0]) <= READ_LEN:
                joined.append(self._pieces.popleft())
                length += len(joined[-1])
            piece = b"".join(joined)
        self._buffered = max(0, self._buffered - length) if self._pieces else 0
        if self._is_paused and self._buffered < self.buffer_len and not self._is_lost:
            self._is_paused = False
            self.transport.resume_reading()
        return piece

    def _pass_on(self, arrived: asyncio.Future[None], take: Callable[[bytes], bool]) -> None:
        """Pass on what has arrived; end feed() if nothing follows."""
        try:
            while self._pieces:
                if not take(self._next_piece()):
                    break
            else:
                if self.error is not None:
                    raise self.error
                if not self._is_complete:
                    return
            arrived.set_result(None)
        except BaseException as error:
            if not arrived.done():  # what takes a piece may end the response
                arrived.set_exception(error)

    def _wake(self) -> None:
        """Wake ask() or feed()."""
        if self._head is not None and not self._head.done():
            if self._has_head:
                self._head.set_result(None)
            elif self.error is not None:
                self._head.set_exception(self.error)
        if self._arrived is not None and self._take is not None and not self._arrived.done():
            self._pass_on(self._arrived, self._take)


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

    async def ask(
        self, route: Route, request: bytes, buffer_len: int, *, repeats: bool = True
    ) -> HttpConnection:
        """Send a request; return the connection once the head of the response has arrived.

        At most `buffer_len` octets of the body are buffered before they are read.  With `repeats`, it is sent again if
        the server has closed an idle connection.  Raises HttpFault or OSError.
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
                if not was_used or not repeats:
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
        host, *rest = found[0][4]
        # Octets: for a str, uvloop imports what encodes names of other scripts, 8 ms and half a megabyte.
        await loop.sock_connect(sock, (host.encode(), *rest))
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
