"""The requests of DNS over HTTPS as frames of HTTP/2, each made once.

Path: http2.py -> here -> hpack.
Source: RFC 8484 section 4.1 (the ID is 0), RFC 9113 sections 6.1 and 6.2, RFC 7541.
Rule 1: the headers that all requests of a connection share enter its dynamic table with the first request, as a
        browser's do; the others never do.  So there are two forms of a block, and both depend only on the query.
Rule 2: for a server that requires a smaller table there is a third form, which uses none.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Final, NamedTuple

from hpack import Encoder, NeverIndexedHeaderTuple

from hsdns.load.stream_plan import GET

MEDIA_TYPE: Final = "application/dns-message"
DATA, HEADERS = 0, 1
END_STREAM, END_HEADERS = 1, 4
_NO_TABLE: Final = b"\x20"  # the table is of size 0 from now on (RFC 7541 section 6.3)

Fields = list[tuple[str, str]]


class Request(NamedTuple):
    """The frames of a query, without the number of their stream.

    HEADERS on a new connection, later, and without a table, each in two parts around the stream's number; then DATA, if
    any.
    """

    first: tuple[bytes, bytes]
    later: tuple[bytes, bytes]
    plain: tuple[bytes, bytes]
    data: tuple[bytes, bytes] | None

    def frames(self, form: tuple[bytes, bytes], stream: int) -> bytes:
        """The octets on a stream, with one of the forms of HEADERS."""
        number = stream.to_bytes(4, "big")
        if self.data is None:
            return b"".join((form[0], number, form[1]))
        return b"".join((form[0], number, form[1], self.data[0], number, self.data[1]))


class Requests:
    """Makes requests to one server; `method` is GET or POST."""

    def __init__(self, authority: str, path: str, method: str) -> None:
        self._path = path
        self._is_get = method == GET
        self._before: Fields = [
            (":method", method.upper()),
            (":scheme", "https"),
            (":authority", authority),
        ]
        self._after: Fields = [("accept", MEDIA_TYPE)]
        if not self._is_get:
            self._before.append((":path", path))
            self._after.append(("content-type", MEDIA_TYPE))
        table = Encoder()
        self._first = table.encode(self._before), table.encode(self._after)
        self._later = table.encode(self._before), table.encode(self._after)
        self._plain = _without_table(self._before), _without_table(self._after)
        self._made: dict[bytes, Request] = {}

    def of(self, octets: bytes) -> Request:
        """The request for a query without its ID."""
        found = self._made.get(octets)
        if found is None:
            found = self._made[octets] = self._make(b"\0\0" + octets)
        return found

    def _make(self, message: bytes) -> Request:
        middle, end = b"", b""
        if self._is_get:
            mark = "&" if "?" in self._path else "?"
            text = urlsafe_b64encode(message).rstrip(b"=").decode()
            middle = _without_table([(":path", f"{self._path}{mark}dns={text}")])
        else:
            end = _without_table([("content-length", str(len(message)))])
        flags = END_HEADERS | (END_STREAM if self._is_get else 0)

        def form(parts: tuple[bytes, bytes], head: bytes = b"") -> tuple[bytes, bytes]:
            block = head + parts[0] + middle + parts[1] + end
            return frame_head(HEADERS, flags, len(block)), block

        data = None
        if not self._is_get:
            data = frame_head(DATA, END_STREAM, len(message)), message
        return Request(form(self._first), form(self._later), form(self._plain, _NO_TABLE), data)


def frame_head(kind: int, flags: int, length: int) -> bytes:
    """The header of a frame, without the number of its stream."""
    return length.to_bytes(3, "big") + bytes((kind, flags))


def _without_table(fields: Fields) -> bytes:
    return Encoder().encode([NeverIndexedHeaderTuple(name, value) for name, value in fields])
