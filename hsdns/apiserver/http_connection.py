"""An HTTP/1.1 connection to the API server: one request at a time, with its response as it arrives.

Path: connections.py opens it -> client.py sends requests on it.
Rule 1: httptools parses; no octet of a response is decoded here.
Rule 2: the body is buffered up to a limit, then flow control stops the server.  It is read in pieces of at most
        READ_LEN octets, so that the events of one piece do not block the event loop; or it is passed on as it arrives,
        in the same call, so that an event does not wait for another turn of the event loop.
Rule 3: a connection serves another request only if the previous body was read to its end, and both sides keep it open.
        Octets without a request close it.
Rule 4: every failure is an HttpFault or the system's error that caused it (fault.py turns them into sentences).
Source: RFC 9112 (sections 6.3 for the end of a body, 9.3 for persistence).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final, cast

from httptools import HttpParserError, HttpResponseParser

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

    async def read(self) -> bytes:
        """The next octets of the body, b"" at its end; raise the error that ended it early."""
        while not self._pieces:
            if self.error is not None:
                raise self.error
            if self._is_complete:
                return b""
            self._arrived = asyncio.get_running_loop().create_future()
            try:
                await self._arrived
            finally:
                self._arrived = None
        return self._next_piece()

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
            self.fail(NotHttp("it sends what was not asked for"))
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
            arrived.set_exception(error)

    def _wake(self) -> None:
        """Wake ask(), read() or feed()."""
        if self._head is not None and not self._head.done():
            if self._has_head:
                self._head.set_result(None)
            elif self.error is not None:
                self._head.set_exception(self.error)
        if self._arrived is None or self._arrived.done():
            return
        if self._take is None:
            self._arrived.set_result(None)
        else:
            self._pass_on(self._arrived, self._take)
