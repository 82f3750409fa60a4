"""Clients of DNS over HTTPS with an event loop of their own: one connection that speaks HTTP/1.1, or HTTP/2.

Path: a test -> Http1Client or Http2Client -> a server in the same event loop.  Replies come in the order of their arrival.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from typing import Any, NamedTuple, Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded

from tests.support.clients.messages import query
from tests.support.coroutines.event_loops import DEADLINE
from tests.support.servers.stream_serving import ADDRESS, client_context


def get(number: int = 0) -> str:
    """The target of a GET request for a query with this ID."""
    wire = query(number=number).to_wire()
    return f"/dns-query?dns={urlsafe_b64encode(wire).decode().rstrip('=')}"


class Answered(NamedTuple):
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes


class Http1Client:
    """A connection that speaks HTTP/1.1; an asynchronous context."""

    protocols: tuple[str, ...] = ("http/1.1",)

    def __init__(self, port: int, *, tls: bool = True) -> None:
        self._port, self._tls = port, tls
        self._heads = list[bool]()  # which requests want no body

    async def __aenter__(self) -> Self:
        options: dict[str, Any] = {}
        if self._tls:
            options = {"ssl": client_context(*self.protocols), "server_hostname": ADDRESS}
        self.reader, self.writer = await asyncio.open_connection(ADDRESS, self._port, **options)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.writer.close()

    def send(self, method: str, target: str, body: bytes = b"") -> None:
        """Send a request."""
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        self._heads.append(method == "HEAD")
        self.writer.write(f"{method} {target} HTTP/1.1\r\nHost: x\r\n{length}\r\n".encode() + body)

    async def receive(self) -> Answered:
        """The next response."""
        async with asyncio.timeout(DEADLINE):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            is_head = bool(self._heads) and self._heads.pop(0)
            size = 0 if is_head else int(headers["content-length"])
            return Answered(int(head[0].split()[1]), headers, await self.reader.readexactly(size))

    async def ask(self, method: str, target: str, body: bytes = b"") -> Answered:
        """Send a request and take its response."""
        self.send(method, target, body)
        return await self.receive()

    async def has_ended(self) -> bool:
        """Whether the server has closed."""
        async with asyncio.timeout(DEADLINE):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True


class Http2Client(Http1Client):
    """A connection that speaks HTTP/2; an asynchronous context."""

    protocols = ("h2", "http/1.1")

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.events: list[Any] = []
        self.is_terminated = False

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.h2.initiate_connection()
        self.writer.write(self.h2.data_to_send())
        return self

    def send(self, method: str, target: str, body: bytes = b"") -> None:
        """Send a request."""
        stream = self.h2.get_next_available_stream_id()
        fields = {":method": method, ":path": target, ":scheme": "https", ":authority": "x"}
        self.h2.send_headers(stream, list(fields.items()), end_stream=not body)
        if body:
            self.h2.send_data(stream, body, end_stream=True)
        self.writer.write(self.h2.data_to_send())

    async def receive(self) -> Answered:
        """The next response."""
        async with asyncio.timeout(DEADLINE):
            while not any(isinstance(event, StreamEnded) for event in self.events):
                data = await self.reader.read(65536)
                assert data, "it is closed"
                new = self.h2.receive_data(data)
                self.is_terminated |= any(isinstance(event, ConnectionTerminated) for event in new)
                self.events += new
                self.writer.write(self.h2.data_to_send())
        stream = next(each.stream_id for each in self.events if isinstance(each, StreamEnded))
        own = [each for each in self.events if getattr(each, "stream_id", None) == stream]
        self.events = [each for each in self.events if each not in own]
        (headers,) = (
            {str(name): str(value) for name, value in each.headers}
            for each in own
            if isinstance(each, ResponseReceived)
        )
        body = b"".join(each.data for each in own if isinstance(each, DataReceived))
        return Answered(int(headers[":status"]), headers, body)
