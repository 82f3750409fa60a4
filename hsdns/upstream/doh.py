"""Client side of DNS over HTTPS on HTTP/2, sans I/O.

Path: https.py does the I/O; h2 implements HTTP/2.
Source: RFC 8484 (section 4.1: the ID is 0, so that replies to GET can be cached); RFC 9113; CoreDNS 1.14.7
plugin/pkg/doh doh.go, which always requests the path /dns-query.
Rule 1: each query is a stream, which ends once, with a message or an error.
Rule 2: memory for a server's data is bounded: MAX_REPLY octets per stream, no pushed streams.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from hsdns.upstream.faults import ConnectionClosed, ProtocolViolation

MEDIA_TYPE: Final = "application/dns-message"
PATH: Final = "/dns-query"
METHODS: Final = ("GET", "POST")
MAX_REPLY: Final = 65535

# Octets (RFC 9113 section 4.1); a server's first frame is SETTINGS (section 3.4).
_FRAME_HEADER_LEN: Final = 9
_TYPE_AT: Final = 3
_SETTINGS: Final = 4

Headers = Iterable[tuple[bytes, bytes]]


class DohSession:
    """The client side of an HTTP/2 connection."""

    def __init__(self, authority: str, method: str = "POST") -> None:
        self.is_open = True
        # The server's settings, without which the number of concurrent streams is unknown.
        self.has_settings = False
        self._head = b""
        self._authority = authority
        self._method = method
        config = h2.config.H2Configuration(client_side=True, header_encoding=None)
        self._http = h2.connection.H2Connection(config)
        self._http.local_settings = h2.settings.Settings(
            client=True,
            initial_values={
                h2.settings.SettingCodes.ENABLE_PUSH: 0,
                h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: 16384,
            },
        )
        self._http.initiate_connection()
        self._replies: dict[int, bytearray] = {}  # incomplete replies by stream
        self._unsent: dict[int, bytes] = {}

    def data_to_send(self) -> bytes:
        """Return the bytes to send and clear them."""
        return self._http.data_to_send()

    @property
    def has_room(self) -> bool:
        """Whether the server accepts another query now."""
        return self.is_open and (
            self._http.open_outbound_streams < self._http.remote_settings.max_concurrent_streams
        )

    def ask(self, message: bytes) -> int:
        """Send a query; return the stream on which the reply will arrive; raise ConnectionClosed."""
        if not self.has_room:
            raise ConnectionClosed("accepts no more queries on this connection")
        message = b"\0\0" + message[2:]
        path, body = PATH, message
        if self._method == "GET":
            path = f"{PATH}?dns={urlsafe_b64encode(message).rstrip(b'=').decode()}"
            body = b""
        headers = [
            (":method", self._method),
            (":scheme", "https"),
            (":authority", self._authority),
            (":path", path),
            ("accept", MEDIA_TYPE),
        ]
        if body:
            headers += [("content-type", MEDIA_TYPE), ("content-length", str(len(body)))]
        try:
            stream = self._http.get_next_available_stream_id()
            self._http.send_headers(stream, headers, end_stream=not body)
        except h2.exceptions.ProtocolError as error:
            # The stream IDs are exhausted, or the connection is closing.
            self.is_open = False
            raise ConnectionClosed(f"accepts no more queries on this connection: {error}") from None
        self._replies[stream] = bytearray()
        if body:
            self._unsent[stream] = body
            self._send_bodies()
        return stream

    def cancel(self, stream: int) -> None:
        """Reset a stream whose reply is no longer needed."""
        if self._replies.pop(stream, None) is not None:
            self._reset(stream)

    def receive_data(self, data: bytes) -> dict[int, bytes | OSError]:
        """Process bytes from the server; return the ended streams; raise ConnectionClosed if it is not HTTP/2."""
        ended: dict[int, bytes | OSError] = {}
        if len(self._head) < _FRAME_HEADER_LEN:
            self._head += data[:_FRAME_HEADER_LEN]
            # Checked here, because h2 would take "HTT" as a frame length and wait for 4 MB.
            if self._head[_TYPE_AT:] and self._head[_TYPE_AT] != _SETTINGS:
                self.is_open = False
                raise ConnectionClosed("does not speak HTTP/2")
        try:
            for event in self._http.receive_data(data):
                self._handle(event, ended)
        except h2.exceptions.ProtocolError as error:
            self.is_open = False
            raise ConnectionClosed(f"violates the HTTP/2 protocol: {error}") from None
        self._send_bodies()
        return ended

    def close(self) -> None:
        """Close the connection with GOAWAY."""
        if self.is_open:
            self.is_open = False
            self._http.close_connection()

    def _handle(self, event: h2.events.Event, ended: dict[int, bytes | OSError]) -> None:
        if isinstance(event, h2.events.RemoteSettingsChanged):
            self.has_settings = True
        elif isinstance(event, h2.events.ConnectionTerminated):
            # h2 processes nothing after a GOAWAY, not even replies to earlier streams.
            self.is_open = False
            for waiting in list(self._replies):
                self._end(waiting, ConnectionClosed("closes the connection"), ended)
        stream: int = getattr(event, "stream_id", None) or 0
        if isinstance(event, h2.events.DataReceived):
            # Also for cancelled streams, because they use the connection's flow control window too.
            self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        if stream not in self._replies:
            return
        if isinstance(event, h2.events.ResponseReceived):
            fault = _fault(event.headers or ())
            if fault is not None:
                self._end(stream, ProtocolViolation(fault), ended)
                self._reset(stream)
        elif isinstance(event, h2.events.DataReceived):
            reply = self._replies[stream]
            reply += event.data or b""
            if len(reply) > MAX_REPLY:
                self._end(
                    stream,
                    ProtocolViolation(f"sent a reply of more than {MAX_REPLY} octets"),
                    ended,
                )
                self._reset(stream)
        elif isinstance(event, h2.events.StreamEnded):
            self._end(stream, bytes(self._replies[stream]), ended)
        elif isinstance(event, h2.events.StreamReset):
            self._end(stream, _reset_error(event), ended)

    def _end(self, stream: int, result: bytes | OSError, ended: dict[int, bytes | OSError]) -> None:
        del self._replies[stream]
        self._unsent.pop(stream, None)
        ended[stream] = result

    def _reset(self, stream: int) -> None:
        self._unsent.pop(stream, None)
        with suppress(h2.exceptions.ProtocolError):  # the server may already have ended it
            self._http.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)

    def _send_bodies(self) -> None:
        """Send as much of the waiting bodies as flow control allows."""
        for stream, body in list(self._unsent.items()):
            try:
                while body:
                    size = min(
                        self._http.local_flow_control_window(stream),
                        self._http.max_outbound_frame_size,
                        len(body),
                    )
                    if size <= 0:
                        break
                    self._http.send_data(stream, body[:size], end_stream=size == len(body))
                    body = body[size:]
            except h2.exceptions.ProtocolError:
                body = b""  # the stream has ended; an event reports how
            if body:
                self._unsent[stream] = body
            else:
                del self._unsent[stream]


def _fault(headers: Headers) -> str | None:
    """Return the error in the response headers; None if they announce a DNS message."""
    found = dict(headers)
    status = found.get(b":status", b"").decode("ascii", "replace")
    if status != "200":
        return f"answers with HTTP status {status}"
    media_type = found.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media_type != MEDIA_TYPE.encode():
        return (
            f'answers with "{media_type.decode("ascii", "replace")[:80]}" instead of "{MEDIA_TYPE}"'
        )
    return None


def _reset_error(event: h2.events.StreamReset) -> OSError:
    if event.error_code == h2.errors.ErrorCodes.REFUSED_STREAM:
        # Not processed (RFC 9113 section 8.7), so it may be sent again.
        return ConnectionClosed("refuses the query on this connection")
    code = event.error_code
    name = code.name if isinstance(code, h2.errors.ErrorCodes) else code
    return ProtocolViolation(f"reset the stream of the query ({name})")
