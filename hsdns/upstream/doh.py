"""Client side of DNS over HTTPS on HTTP/2, sans I/O.

Path: https.py does the I/O; http2.py interprets the frames.
Source: RFC 8484 (section 4.1: the ID is 0, so that replies to GET can be cached); RFC 9113; CoreDNS 1.14.7
plugin/pkg/doh doh.go, which always requests the path /dns-query.
Rule 1: each query is a stream, which ends once, with a message or an error.
Rule 2: memory for a server's data is bounded: MAX_REPLY octets per stream, no pushed streams.
Rule 3: after GOAWAY nothing is waited for: a query may always be repeated, on another connection.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Final

from hsdns.http2 import (
    ENABLE_PUSH,
    HEADERS_SIZE,
    LAST_STREAM,
    MAX_BLOCK_LEN,
    MEDIA_TYPE,
    PREFACE,
    SETTINGS,
    Connection,
    ErrorCode,
    Fields,
    Stream,
    Violation,
    field,
    split,
)
from hsdns.upstream.connection import ConnectionClosed, ProtocolViolation

PATH: Final = "/dns-query"
MAX_REPLY: Final = 65535
_TYPE_AT: Final = 3  # octets before the type of a frame (RFC 9113 section 4.1)
_INTERIM: Final = "interim"
_TRAILERS: Final = "trailers"


class DohSession(Connection[str]):
    """The client side of an HTTP/2 connection."""

    def __init__(self, authority: str, method: str = "POST") -> None:
        super().__init__(PREFACE, [(ENABLE_PUSH, 0), (HEADERS_SIZE, MAX_BLOCK_LEN)])
        self.is_open = True
        self._data = bytearray()
        self._ended: dict[int, bytes | OSError] = {}
        self._is_get = method == "GET"
        self._before = b"".join(
            field(*each)
            for each in [(":method", method), (":scheme", "https"), (":authority", authority)]
        )

    @property
    def has_room(self) -> bool:
        """Whether the server accepts another query now."""
        return self.is_open and len(self.streams) < self.max_streams and self.last < LAST_STREAM

    def ask(self, message: bytes) -> int:
        """Send a query; return the stream on which the reply will arrive; raise ConnectionClosed."""
        if not self.has_room:
            self.is_open = self.is_open and self.last < LAST_STREAM
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
        self._data += data
        # Checked here, because "HTT" would be a frame length of 4 MB.
        if not self.has_settings and self._data[_TYPE_AT:] and self._data[_TYPE_AT] != SETTINGS:
            self.is_open = False
            raise ConnectionClosed("does not speak HTTP/2")
        try:
            for frame in split(self._data):
                self.take(*frame)
        except Violation as violation:
            self.is_open = False
            self.go_away(violation.code, 0)
            raise ConnectionClosed(f"violates the HTTP/2 protocol: {violation}") from None
        ended, self._ended = self._ended, {}
        return ended

    def shut(self) -> None:
        """End the connection with GOAWAY."""
        if self.is_open:
            self.is_open = False
            self.go_away(ErrorCode.NO_ERROR, 0)

    def read_fields(self, fields: Fields) -> str:
        """What is wrong with the response that a header block begins; "" for nothing."""
        found = dict(fields)
        status = found.get(b":status", b"").decode("ascii", "replace")
        if not status:
            return _TRAILERS
        if status.startswith("1") and len(status) == len("100"):
            return _INTERIM
        if status != "200":
            return f"answers with HTTP status {status}"
        media_type = found.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if media_type != MEDIA_TYPE.encode():
            return f'answers with "{media_type.decode("ascii", "replace")[:80]}" instead of "{MEDIA_TYPE}"'
        return ""

    def take_head(self, number: int, head: str, *, ends: bool) -> None:
        """A response begins, or its trailers have come."""
        stream = self.streams.get(number)
        if stream is None or (head == _INTERIM and not ends):  # it was cancelled
            return
        if stream.head is None and head:
            self._fail(number, ProtocolViolation(head))
            return
        stream.head = head
        if ends:
            self._end(number, bytes(stream.body))

    def take_body(self, stream: Stream[str], data: bytes, *, ends: bool) -> None:
        """A part of a reply has come."""
        stream.body += data
        if len(stream.body) > MAX_REPLY:
            self._fail(
                stream.number, ProtocolViolation(f"sent a reply of more than {MAX_REPLY} octets")
            )
        elif ends:
            self._end(stream.number, bytes(stream.body))

    def take_reset(self, stream: Stream[str], code: int) -> None:
        """The server does not answer a query."""
        if (
            code == ErrorCode.REFUSED_STREAM
        ):  # not processed (RFC 9113 section 8.7), so it may be sent again
            error: OSError = ConnectionClosed("refuses the query on this connection")
        else:
            name = ErrorCode(code).name if code in list(ErrorCode) else code
            error = ProtocolViolation(f"reset the stream of the query ({name})")
        self._ended[stream.number] = error

    def take_goaway(self, *_: int) -> None:
        """The server accepts no more queries."""
        self.is_open = False
        for number in tuple(self.streams):
            self._end(number, ConnectionClosed("closes the connection"))

    def _end(self, number: int, result: bytes | OSError) -> None:
        self.close(number)
        self._ended[number] = result

    def _fail(self, number: int, error: OSError) -> None:
        self.reset(number, ErrorCode.CANCEL)
        self._ended[number] = error
