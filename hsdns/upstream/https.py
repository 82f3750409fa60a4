"""HTTP/2 connection to a DNS over HTTPS upstream, shared by all queries.

Path: upstream/exchange.py sends queries; http2.py interprets the frames.
Source: RFC 8484 (section 4.1: the ID is 0, so that replies to GET can be cached); CoreDNS 1.14.7 plugin/pkg/doh
doh.go, which always requests the path /dns-query.
Rule 1: the first query opens the connection; others wait for it meanwhile.
Rule 2: if the connection closes during a query, or accepts no more, the query is sent over a new one.
Rule 3: a connection that is idle for longer than `expire`, or older than `max_age`, is closed.
Rule 4: after GOAWAY nothing is waited for: a query may always be repeated, on another connection.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from typing import Final, cast

from hsdns.http2 import (
    HEADERS_SIZE,
    LAST_STREAM,
    MAX_BLOCK_LEN,
    MEDIA_TYPE,
    Client,
    ErrorCode,
    field,
)
from hsdns.upstream.connection import (
    ConnectionClosed,
    ProtocolViolation,
    local_address,
    server_hostname,
    time_limit,
)
from hsdns.upstream.target import Target, UpstreamSettings

PATH: Final = "/dns-query"
MAX_CLOSED: Final = 3  # connections that may close during one query
OPEN_TIMEOUT: Final = 5.0  # seconds


class DohSession(Client):
    """The client side of an HTTP/2 connection, sans I/O."""

    def __init__(self, authority: str, method: str = "POST") -> None:
        super().__init__((HEADERS_SIZE, MAX_BLOCK_LEN))
        self._ended: dict[int, bytes | OSError] = {}
        self._is_get = method == "GET"
        self._before = b"".join(
            field(*each)
            for each in [(":method", method), (":scheme", "https"), (":authority", authority)]
        )

    @property
    def has_room(self) -> bool:
        """Whether the server accepts another query now."""
        return self.takes and len(self.streams) < self.max_streams and self.last < LAST_STREAM

    def ask(self, message: bytes) -> int:
        """Send a query; return the stream on which the reply will arrive; raise ConnectionClosed."""
        if not self.has_room:
            self.takes = self.takes and self.last < LAST_STREAM
            raise ConnectionClosed("accepts no more queries on this connection")
        message = b"\0\0" + message[2:]
        path = PATH
        if self._is_get:
            path = f"{PATH}?dns={urlsafe_b64encode(message).rstrip(b'=').decode()}"
        fields = self._before + field(":path", path) + field("accept", MEDIA_TYPE)
        if not self._is_get:
            fields += field("content-type", MEDIA_TYPE) + field("content-length", str(len(message)))
        stream = self.open(self.last + 2 if self.last else 1)
        self.send_head(stream.number, fields, ends=self._is_get)
        if not self._is_get:
            self.send_body(stream, message, 0.0)
        return stream.number

    def cancel(self, stream: int) -> None:
        """Reset a stream whose reply is no longer needed."""
        if stream in self.streams:
            self.reset(stream, ErrorCode.CANCEL)

    def receive_data(self, data: bytes) -> dict[int, bytes | OSError]:
        """Process octets from the server; return the ended streams; raise ConnectionClosed if it is not HTTP/2."""
        self.receive(data)
        if self.broken:
            self.takes = False
            raise ConnectionClosed(self.broken)
        ended, self._ended = self._ended, {}
        return ended

    def shut(self) -> None:
        """End the connection with GOAWAY."""
        if self.takes:
            self.takes = False
            self.go_away(ErrorCode.NO_ERROR, 0)

    def take_goaway(self, last: int, code: int) -> None:
        """The server accepts no more queries."""
        del last
        super().take_goaway(0, code)

    def finish(self, number: int, message: bytes | None, why: str = "") -> None:
        """A query has its reply, or an error."""
        error: OSError = ConnectionClosed("refuses the query on this connection")
        if why:
            error = ProtocolViolation(f"answers with {why}")
        self._ended[number] = error if message is None else message


class HttpsConnection(asyncio.Protocol):
    """An HTTP/2 connection with any number of concurrent queries."""

    def __init__(self, session: DohSession) -> None:
        self._session = session
        self._transport: asyncio.Transport | None = None
        self._is_draining = False
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_usable(self) -> bool:
        """Whether it accepts another query."""
        transport = self._transport
        is_open = transport is not None and not transport.is_closing()
        return is_open and self._session.has_room and not self._is_draining

    @property
    def is_full(self) -> bool:
        """Whether it accepts no other query only because of the queries in progress."""
        return self._session.takes and not self.is_usable and not self.is_idle

    @property
    def is_idle(self) -> bool:
        """Whether no query is in progress."""
        return not self._waiting

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start HTTP/2."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are of no common class
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Complete the queries whose replies have arrived."""
        try:
            ended = self._session.receive_data(data)
        except ConnectionClosed as error:
            self._flush()
            self._drop(error)
            return
        if self._session.has_settings and not self._ready.done():
            self._ready.set_result(None)
        for stream, result in ended.items():
            future = self._waiting.pop(stream, None)
            if future is None or future.done():
                continue
            if isinstance(result, bytes):
                future.set_result(result)
            else:
                future.set_exception(result)
        self._flush()
        self._close_when_done()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all queries in progress."""
        self._drop(exc or ConnectionClosed("closed the connection"))

    async def wait_ready(self) -> None:
        """Wait for the server's settings, which limit the concurrent queries; raise OSError."""
        await self._ready

    async def ask(self, message: bytes) -> bytes:
        """Send a query; return the reply (ID 0); raise ConnectionError if a new connection may help, or OSError."""
        stream = self._session.ask(message)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[stream] = future
        self._flush()
        try:
            return await future
        finally:
            if self._waiting.pop(stream, None) is not None:  # cancelled before the reply
                self._session.cancel(stream)
                self._flush()
                self._close_when_done()

    def drain(self) -> None:
        """Accept no more queries, and close after those in progress."""
        self._is_draining = True
        self._close_when_done()

    def close(self) -> None:
        """Close the socket."""
        self._session.shut()
        self._flush()
        self._drop(ConnectionClosed("closed the connection"))

    def _flush(self) -> None:
        data = self._session.take_out()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _close_when_done(self) -> None:
        is_over = self._is_draining or not self._session.takes
        if is_over and not self._waiting and self._transport is not None:
            self._transport.close()

    def _drop(self, error: Exception) -> None:
        self._session.takes = False
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # marks it as retrieved if nobody waits
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)
        if self._transport is not None:
            self._transport.close()


async def connect_https(
    target: Target, tls: ssl.SSLContext | None, method: str, source: str | None = None
) -> HttpsConnection:
    """Open a connection; raise OSError, also if the upstream does not speak HTTP/2."""
    name = server_hostname(target)
    # SNI only for names: RFC 6066 section 3 has no addresses.
    authority = str(target) if target.server_name is None else f"{name}:{target.port}"
    transport, connection = await asyncio.get_running_loop().create_connection(
        lambda: HttpsConnection(DohSession(authority, method)),
        target.address,
        target.port,
        ssl=tls,
        server_hostname=name,
        local_addr=local_address(target, source),
    )
    session = transport.get_extra_info("ssl_object")
    if session is None or session.selected_alpn_protocol() != "h2":
        transport.abort()
        raise ProtocolViolation("does not offer HTTP/2, which DNS over HTTPS requires")
    try:
        await connection.wait_ready()
    except BaseException:
        transport.abort()
        raise
    return connection


class HttpsPool:
    """Holds the connection to an upstream, opened on demand."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[HttpsConnection]],
        clock: Callable[[], float],
        settings: UpstreamSettings,
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._expire = settings.expire
        self._max_age = settings.max_age or float("inf")
        self._connection: HttpsConnection | None = None
        self._opening: asyncio.Future[HttpsConnection] | None = None
        self._opened = self._used = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def __len__(self) -> int:
        """The number of idle connections."""
        connection = self._connection
        return int(connection is not None and connection.is_usable and connection.is_idle)

    async def ask(self, message: bytes, count: Callable[[bool], None]) -> bytes:
        """Send a query; raise OSError.  `count` is called for each connection used: whether it was already open."""
        left = MAX_CLOSED
        while True:
            connection = self._usable()
            count(connection is not None)
            if connection is None:
                connection = await self._open()
                if connection.is_full:  # other waiting queries have used it up
                    continue
            try:
                return await connection.ask(message)
            except ConnectionError:
                left -= 1
                if not left:
                    raise
            except asyncio.CancelledError:  # no reply in time: the connection may be dead
                self._drain(connection)
                raise
            finally:
                self._used = self._clock()
                if self._is_closed:
                    self._drain(connection)

    def sweep(self) -> None:
        """Close the connection if it is idle for too long; called by a timer while it is open."""
        self._timer = None
        connection = self._connection
        if connection is None:
            return
        is_expired = self._clock() - self._used >= self._expire or self._is_closed
        if not connection.is_usable or (connection.is_idle and is_expired):
            self._drain(connection)
        else:
            self._schedule_sweep()

    def close(self) -> None:
        """Close the connection after the queries in progress."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connection is not None:
            self._drain(self._connection)

    def _usable(self) -> HttpsConnection | None:
        connection, now = self._connection, self._clock()
        if connection is None:
            return None
        is_old = connection.is_idle and now - self._used > self._expire
        if connection.is_usable and not is_old and now - self._opened <= self._max_age:
            return connection
        self._drain(connection)
        return None

    def _drain(self, connection: HttpsConnection) -> None:
        if self._connection is connection:
            self._connection = None
        connection.drain()

    async def _open(self) -> HttpsConnection:
        """Open a connection, or wait for the one that is being opened."""
        if self._opening is None:
            opening = self._opening = asyncio.get_running_loop().create_task(self._connected())
            opening.add_done_callback(self._store_opened)
        return await asyncio.shield(self._opening)

    async def _connected(self) -> HttpsConnection:
        """Connect, in a task that all waiting queries share."""
        try:
            async with time_limit(OPEN_TIMEOUT):
                return await self._connect()
        except TimeoutError:
            raise OSError(0, f"no connection within {OPEN_TIMEOUT:g}s") from None

    def _store_opened(self, opening: asyncio.Future[HttpsConnection]) -> None:
        self._opening = None
        if opening.cancelled() or opening.exception() is not None:
            return
        self._connection = opening.result()
        self._opened = self._used = self._clock()
        self._schedule_sweep()

    def _schedule_sweep(self) -> None:
        if self._timer is None and self._connection is not None:
            self._timer = asyncio.get_running_loop().call_later(max(self._expire, 1.0), self.sweep)
