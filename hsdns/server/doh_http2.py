"""HTTP/2 on one connection: bytes in, requests out; replies in, bytes out; no socket here.

Path: doh.py feeds it; the library h2 knows the protocol (RFC 9113).
Rule 1: what a client may have open at once is bounded (MAX_STREAMS, MAX_BODY_LEN), and so is what is kept for it.
Rule 2: a reply goes out as fast as the client's windows allow (RFC 9113 section 5.2).
"""

from __future__ import annotations

from email.utils import formatdate
from typing import Final, NamedTuple

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings

from hsdns.server.doh_message import MAX_BODY_LEN, HttpReply

MAX_STREAMS: Final = 128
MAX_HEADERS_LEN: Final = 65_536  # a GET has the query in its path


class HttpRequest(NamedTuple):
    """A complete request; `stream` is to be named in the reply."""

    stream: int
    method: str
    target: str
    body: bytes


class _Arriving:
    """A request whose end has not come."""

    def __init__(self, headers: dict[bytes, bytes]) -> None:
        self.method = headers.get(b":method", b"").decode("ascii", "replace")
        self.target = headers.get(b":path", b"").decode("ascii", "replace")
        self.body = bytearray()

    def take(self, data: bytes) -> None:
        """Add to the body, but one octet more than is allowed says enough."""
        self.body += data[: MAX_BODY_LEN + 1 - len(self.body)]


class Http2:
    """The server's side of one connection."""

    def __init__(self) -> None:
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self._h2.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
                SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADERS_LEN,
            },
        )
        self._h2.initiate_connection()
        self._arriving: dict[int, _Arriving] = {}
        self._unsent: dict[int, bytes] = {}
        self.is_over = False

    def receive(self, data: bytes) -> list[HttpRequest]:
        """Take bytes of the client; return the requests that are complete now."""
        requests = []
        try:
            events = self._h2.receive_data(data)
        except ProtocolError:
            self.is_over = True  # h2 has made the GOAWAY frame that says why
            return []
        for event in events:
            if isinstance(event, RequestReceived):
                self._arriving[event.stream_id] = _Arriving(dict(event.headers))
            elif isinstance(event, DataReceived):
                if event.stream_id in self._arriving:
                    self._arriving[event.stream_id].take(event.data)
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded):
                arrived = self._arriving.pop(event.stream_id, None)
                if arrived is not None:
                    requests.append(
                        HttpRequest(
                            event.stream_id, arrived.method, arrived.target, bytes(arrived.body)
                        )
                    )
            elif isinstance(event, StreamReset):
                requests = [each for each in requests if each.stream != event.stream_id]
                self._arriving.pop(event.stream_id, None)
                self._unsent.pop(event.stream_id, None)
            elif isinstance(event, WindowUpdated):
                self._send_on()
            elif isinstance(event, ConnectionTerminated):
                self.is_over = True
        return requests

    def reply(self, stream: int, reply: HttpReply, *, head_only: bool = False) -> None:
        """Answer a request; nothing happens where the client has taken it back."""
        try:
            self._h2.send_headers(
                stream,
                [(":status", str(reply.status)), *reply.headers, ("date", formatdate(usegmt=True))],
                end_stream=head_only,
            )
        except ProtocolError:
            return
        if not head_only:
            self._unsent[stream] = reply.body
            self._send(stream)

    def end(self, reason: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """Tell the client that no more requests are taken."""
        if not self.is_over:
            self.is_over = True
            self._h2.close_connection(reason)

    def to_send(self) -> bytes:
        """Take what is to go out."""
        return bytes(self._h2.data_to_send())

    @property
    def has_unsent(self) -> bool:
        """Whether replies wait for the client's windows."""
        return bool(self._unsent)

    def _send_on(self) -> None:
        for stream in tuple(self._unsent):
            self._send(stream)

    def _send(self, stream: int) -> None:
        body = self._unsent[stream]
        try:
            while body:
                room = min(
                    self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size
                )
                if room <= 0:
                    break
                self._h2.send_data(stream, body[:room], end_stream=len(body) <= room)
                body = body[room:]
        except (ProtocolError, StreamClosedError):
            body = b""
        if body:
            self._unsent[stream] = body
        else:
            del self._unsent[stream]
