"""A scripted server for DNS over HTTPS on loopback, as an upstream of what is under test.

It speaks HTTP/2 through h2's server side, the counterpart of what hsdns/upstream/https.py uses.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import h2.config
import h2.connection
import h2.events
import h2.settings

from tests.support.upstreams.certificate import Certificate
from tests.support.upstreams.dns_upstream import Answer

DNS_MESSAGE = "application/dns-message"


class Asked(NamedTuple):
    """One request as the server saw it."""

    method: str
    path: str
    authority: str
    content_type: str | None
    message: bytes


@dataclass
class DohUpstream:
    """A server that runs; `status` and `content_type` are what it answers with, `at_most` its streams at a time."""

    script: Answer
    port: int = 0
    status: int = 200
    content_type: str = DNS_MESSAGE
    at_most: int = 100
    asked: list[Asked] = field(default_factory=list)
    connections: list[asyncio.Transport] = field(default_factory=list)
    sessions: list[h2.connection.H2Connection] = field(default_factory=list)

    def say(self, connection: int, *, goodbye: bool = False) -> None:
        """Send what a session has to send, and where told a GOAWAY."""
        session = self.sessions[connection]
        if goodbye:
            session.close_connection()
        self.connections[connection].write(session.data_to_send())


class _Http2(asyncio.Protocol):
    def __init__(self, upstream: DohUpstream) -> None:
        self._upstream = upstream
        config = h2.config.H2Configuration(client_side=False, header_encoding="ascii")
        self._http = h2.connection.H2Connection(config)
        self._http.local_settings = h2.settings.Settings(
            client=False,
            initial_values={h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: upstream.at_most},
        )
        self._requests: dict[int, tuple[dict[str, str], bytearray]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._upstream.connections.append(self._transport)
        self._upstream.sessions.append(self._http)
        self._http.initiate_connection()
        self._transport.write(self._http.data_to_send())

    def data_received(self, data: bytes) -> None:
        for event in self._http.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                headers = {str(name): str(value) for name, value in event.headers}
                self._requests[event.stream_id] = headers, bytearray()
            elif isinstance(event, h2.events.DataReceived):
                self._requests[event.stream_id][1].extend(event.data)
            elif isinstance(event, h2.events.StreamEnded):
                self._answer(event.stream_id)
        if not self._transport.is_closing():
            self._transport.write(self._http.data_to_send())

    def _answer(self, stream: int) -> None:
        upstream = self._upstream
        headers, body = self._requests.pop(stream)
        path, _, query = headers[":path"].partition("?dns=")
        message = urlsafe_b64decode(query + "=" * (-len(query) % 4)) if query else bytes(body)
        upstream.asked.append(
            Asked(
                headers[":method"],
                path,
                headers[":authority"],
                headers.get("content-type"),
                message,
            )
        )
        for reply in upstream.script(message):
            self._http.send_headers(
                stream, [(":status", str(upstream.status)), ("content-type", upstream.content_type)]
            )
            for at in range(0, len(reply), 16000):
                self._http.send_data(stream, reply[at : at + 16000])
            self._http.end_stream(stream)


@asynccontextmanager
async def serve_doh(
    script: Answer, certificate: Certificate, *, alpn: str = "h2", at_most: int = 100
) -> AsyncIterator[DohUpstream]:
    """Run a server on a loopback port; it offers the protocol `alpn`."""
    upstream = DohUpstream(script, at_most=at_most)
    context: ssl.SSLContext = certificate.server_context()
    context.set_alpn_protocols([alpn])
    listener = await asyncio.get_running_loop().create_server(
        lambda: _Http2(upstream), "127.0.0.1", 0, ssl=context
    )
    upstream.port = listener.sockets[0].getsockname()[1]
    try:
        yield upstream
    finally:
        listener.close()
        for connection in upstream.connections:
            connection.abort()
        await listener.wait_closed()
