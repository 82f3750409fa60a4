"""The client side of DNS over HTTPS on HTTP/2, sans I/O: frames, streams and windows, and nothing else of HTTP.

Path: connection.py passes octets in both directions -> here.
Source: RFC 9113, RFC 8484.  Decision 0024 says why no library does this.
Rule 1: each query is a stream.  It ends with a message, with the reason why there is none, or unprocessed by the server
        (RFC 9113 section 6.8 and 8.7); then it may be sent on another connection.
Rule 2: a query is sent only if the server's windows and its number of streams leave room.
Rule 3: all header blocks are decoded in order, as HPACK's table requires; a repeated block has the same meaning while
        the table is unchanged.

The requests of DNS over HTTPS as frames of HTTP/2, each made once:
Source: RFC 8484 section 4.1 (the ID is 0), RFC 9113 sections 6.1 and 6.2, RFC 7541.
Rule 1: the headers that all requests of a connection share enter its dynamic table with the first request, as a
        browser's do; the others never do.  So there are two forms of a block, and both depend only on the query.
Rule 2: for a server that requires a smaller table there is a third form, which uses none.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Final, NamedTuple

from hpack import Decoder, Encoder, HPACKError, NeverIndexedHeaderTuple

from hsdns import http2
from hsdns.load.counters import CLOSED
from hsdns.load.plan import GET
from hsdns.load.send.connection import QueryResult, Session
from hsdns.load.send.loop import HEADER_LEN, Query

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
        self._after: Fields = [("accept", http2.MEDIA_TYPE)]
        if not self._is_get:
            self._before.append((":path", path))
            self._after.append(("content-type", http2.MEDIA_TYPE))
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
        flags = http2.END_HEADERS | (http2.END_STREAM if self._is_get else 0)

        def form(parts: tuple[bytes, bytes], head: bytes = b"") -> tuple[bytes, bytes]:
            block = head + parts[0] + middle + parts[1] + end
            return frame_head(http2.HEADERS, flags, len(block)), block

        data = None
        if not self._is_get:
            data = frame_head(http2.DATA, http2.END_STREAM, len(message)), message
        return Request(
            form(self._first), form(self._later), form(self._plain, http2.NO_TABLE), data
        )


def frame_head(kind: int, flags: int, length: int) -> bytes:
    """The header of a frame, without the number of its stream."""
    return length.to_bytes(3, "big") + bytes((kind, flags))


def _without_table(fields: Fields) -> bytes:
    return Encoder().encode([NeverIndexedHeaderTuple(name, value) for name, value in fields])


MAX_REPLY: Final = 65_535
CREDIT: Final = 1 << 30  # octets of replies that the server may send before the next WINDOW_UPDATE
MOST_QUERY: Final = 1024  # maximum octets of a query
OPENING: Final = b"".join(
    (
        http2.PREFACE,
        http2.frame(http2.SETTINGS, 0, 0, http2.ENABLE_PUSH.to_bytes(2, "big") + bytes(4)),
        http2.frame(http2.WINDOW_UPDATE, 0, 0, CREDIT.to_bytes(4, "big")),
    )
)


class Http2Session(Session):
    """A connection; several connections may share `requests`."""

    def __init__(self, requests: Requests) -> None:
        super().__init__()
        self.out += OPENING
        self._requests = requests
        self._next = 1
        self._data = bytearray()
        self._has_settings = False
        self._table_size = 4096
        self._table_is_told = False
        self._streams = http2.LAST_STREAM  # at once
        self._window = http2.DEFAULT_WINDOW
        self._stream_window = http2.DEFAULT_WINDOW
        self._consumed = 0
        self._decoder = Decoder(max_header_list_size=http2.MAX_BLOCK_LEN)
        self._meanings: dict[
            bytes, str
        ] = {}  # the meaning of a block, while the table is unchanged
        self._block: tuple[int, int, bytes] | None = (
            None  # stream, flags and octets of an incomplete block
        )
        self._bodies: dict[int, bytes] = {}
        self._refused: set[int] = set()  # streams with a known reason for having no message

    @property
    def has_room(self) -> bool:
        """Whether another query can be sent now."""
        return (
            self.takes
            and len(self.in_flight) < self._streams
            and self._window >= MOST_QUERY
            and self._stream_window >= MOST_QUERY
        )

    def ask(self, query: Query) -> int:
        """Send a query; return its stream."""
        stream = self._next
        self._next += 2
        if self._next > http2.LAST_STREAM:
            self.takes, self.leaves = False, "all its streams used"
        request = self._requests.of(query.octets)
        if self._table_size < 4096:
            head, block = request.plain
            # The first octet of the first such block announces the table's new size, once.
            form = (head, block) if not self._table_is_told else _without_first(head, block)
            self._table_is_told = True
        else:
            form = request.first if stream == 1 else request.later
        if request.data is not None:
            self._window -= len(request.data[1])
        self.out += request.frames(form, stream)
        self.in_flight[stream] = query
        return stream

    def forget(self, key: int) -> None:
        """Cancel a stream."""
        if self.in_flight.pop(key, None) is not None:
            self._bodies.pop(key, None)
            self._frame(http2.RST_STREAM, 0, key, int(http2.ErrorCode.CANCEL).to_bytes(4, "big"))

    def end(self) -> None:
        """Send GOAWAY."""
        self._frame(http2.GOAWAY, 0, 0, bytes(8))

    def feed(self, octets: bytes) -> list[QueryResult]:
        """Process octets of the server."""
        found: list[QueryResult] = []
        data = self._data
        data += octets
        if not self._has_settings and len(data) >= 4 and data[3] != http2.SETTINGS:
            self.broken = "does not speak HTTP/2"
        at, size = 0, len(data)
        while not self.broken and size - at >= http2.HEAD_LEN:
            length = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
            if length > http2.MAX_FRAME_LEN:
                self.broken = f"sends an HTTP/2 frame of {length} octets"
                break
            end = at + http2.HEAD_LEN + length
            if end > size:
                break
            stream = int.from_bytes(data[at + 5 : at + 9], "big") & http2.LAST_STREAM
            self._take(
                data[at + 3], data[at + 4], stream, bytes(data[at + http2.HEAD_LEN : end]), found
            )
            at = end
        del data[:at]
        return found

    def _take(
        self, kind: int, flags: int, stream: int, payload: bytes, found: list[QueryResult]
    ) -> None:
        if self._block is not None and kind != http2.CONTINUATION:
            self.broken = "breaks off an HTTP/2 header block"
        elif kind == http2.DATA:
            self._take_data(flags, stream, payload, found)
        elif kind == http2.HEADERS:
            self._take_headers(flags, stream, _unpadded(flags, payload), found)
        elif kind == http2.CONTINUATION:
            self._take_continuation(flags, stream, payload, found)
        elif kind == http2.SETTINGS:
            self._take_settings(flags, payload)
        elif kind == http2.PING and not flags & http2.ACK:
            self._frame(http2.PING, http2.ACK, 0, payload)
        elif kind == http2.WINDOW_UPDATE and len(payload) == 4 and not stream:
            self._window += int.from_bytes(payload, "big") & http2.LAST_STREAM
        elif kind == http2.RST_STREAM:
            self._take_reset(stream, int.from_bytes(payload[:4], "big"), found)
        elif kind == http2.GOAWAY:
            self._take_goaway(payload, found)
        elif kind == http2.PUSH_PROMISE:
            self.broken = "pushes, though it was told not to"

    def _take_data(self, flags: int, stream: int, payload: bytes, found: list[QueryResult]) -> None:
        self._consumed += len(payload)
        if self._consumed > CREDIT // 2:
            self._frame(http2.WINDOW_UPDATE, 0, 0, self._consumed.to_bytes(4, "big"))
            self._consumed = 0
        if flags & http2.PADDED:
            payload = payload[1 : len(payload) - payload[0]] if payload else b""
        body = self._bodies.pop(stream, None)
        if body is None:
            if flags & http2.END_STREAM:
                self._ends_unknown(stream, found)
            return
        if body:
            payload = body + payload
        if flags & http2.END_STREAM:
            self._message(stream, payload, found)
        elif len(payload) > MAX_REPLY:
            self._without(stream, f"HTTP reply of more than {MAX_REPLY} octets", found)
        else:
            self._bodies[stream] = payload

    def _take_headers(
        self, flags: int, stream: int, block: bytes, found: list[QueryResult]
    ) -> None:
        if not flags & http2.END_HEADERS:
            self._block = stream, flags, block
            return
        meaning = self._read(block)
        if meaning is None or (meaning == "1xx" and not flags & http2.END_STREAM):
            return
        ends = flags & http2.END_STREAM
        if stream in self._bodies:  # trailers
            if ends:
                self._message(stream, self._bodies.pop(stream), found)
        elif stream not in self.in_flight:
            if ends:
                self._ends_unknown(stream, found)
        elif meaning or ends:
            if not ends:
                self._refused.add(stream)
            found.append(
                QueryResult(
                    self.in_flight.pop(stream), None, meaning or "HTTP reply without a message"
                )
            )
        else:
            self._bodies[stream] = b""

    def _take_continuation(
        self, flags: int, stream: int, payload: bytes, found: list[QueryResult]
    ) -> None:
        if self._block is None or self._block[0] != stream:
            self.broken = "continues no HTTP/2 header block"
            return
        _, first, block = self._block
        block += payload
        if len(block) > http2.MAX_BLOCK_LEN:
            self.broken = "sends an HTTP/2 header block without end"
        elif flags & http2.END_HEADERS:
            self._block = None
            self._take_headers(first | http2.END_HEADERS, stream, block, found)
        else:
            self._block = stream, first, block

    def _take_settings(self, flags: int, payload: bytes) -> None:
        self._has_settings = True
        if flags & http2.ACK:
            return
        for at in range(0, len(payload) - 5, 6):
            which = int.from_bytes(payload[at : at + 2], "big")
            value = int.from_bytes(payload[at + 2 : at + 6], "big")
            if which == http2.TABLE_SIZE:
                self._table_size = value
            elif which == http2.MAX_STREAMS:
                self._streams = value
            elif which == http2.INITIAL_WINDOW:
                self._stream_window = value
        self._frame(http2.SETTINGS, http2.ACK, 0)

    def _take_reset(self, stream: int, code: int, found: list[QueryResult]) -> None:
        query = self.in_flight.pop(stream, None)
        self._bodies.pop(stream, None)
        self._refused.discard(stream)
        if query is not None:
            why = "" if code == http2.ErrorCode.REFUSED_STREAM else f"stream reset ({_code(code)})"
            found.append(QueryResult(query, None, why))

    def _take_goaway(self, payload: bytes, found: list[QueryResult]) -> None:
        last = int.from_bytes(payload[:4], "big") & http2.LAST_STREAM
        code = int.from_bytes(payload[4:8], "big")
        self.takes = False
        self.leaves = f"{CLOSED} (GOAWAY{'' if not code else f', {_code(code)}'})"
        for stream in [each for each in self.in_flight if each > last]:
            self._bodies.pop(stream, None)
            found.append(QueryResult(self.in_flight.pop(stream), None))

    def _read(self, block: bytes) -> str | None:
        """The meaning of a header block: "" if a message follows, "1xx", or why there is none."""
        meaning = self._meanings.get(block)
        if meaning is not None:
            return meaning
        entries = self._decoder.header_table.dynamic_entries
        newest = entries[0] if entries else None
        try:
            fields = dict(self._decoder.decode(block, raw=True))
        except HPACKError as error:
            self.broken = f"sends HTTP/2 headers that cannot be read: {error}"
            return None
        meaning = _fault(fields)
        if (entries[0] if entries else None) is not newest:
            self._meanings.clear()
        else:
            self._meanings[block] = meaning
        return meaning

    def _message(self, stream: int, body: bytes, found: list[QueryResult]) -> None:
        query = self.in_flight.pop(stream)
        if len(body) < HEADER_LEN:
            found.append(
                QueryResult(
                    query, None, f"HTTP reply of {len(body)} octets, which is no DNS message"
                )
            )
        else:
            found.append(QueryResult(query, body))

    def _without(self, stream: int, why: str, found: list[QueryResult]) -> None:
        query = self.in_flight[stream]
        self.forget(stream)
        found.append(QueryResult(query, None, why))

    def _ends_unknown(self, stream: int, found: list[QueryResult]) -> None:
        if stream in self._refused:
            self._refused.discard(stream)
        else:
            found.append(QueryResult(None, None))

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes = b"") -> None:
        self.out += http2.frame(kind, flags, stream, payload)


def _unpadded(flags: int, payload: bytes) -> bytes:
    """The header block in HEADERS."""
    begin, end = 0, len(payload)
    if flags & http2.PADDED and payload:
        begin, end = 1, end - payload[0]
    if flags & http2.HAS_PRIORITY:
        begin += 5
    return payload[begin:end]


def _without_first(head: bytes, block: bytes) -> tuple[bytes, bytes]:
    """A form of HEADERS without the first octet of its block."""
    return (len(block) - 1).to_bytes(3, "big") + head[3:], block[1:]


def _fault(fields: dict[bytes, bytes]) -> str:
    status = fields.get(b":status", b"").decode("ascii", "replace")
    if status.startswith("1") and len(status) == 3:
        return "1xx"
    if status != "200":
        return f"HTTP status {status}"
    kind = fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != http2.MEDIA_TYPE.encode():
        return f'HTTP content type "{kind.decode("ascii", "replace")[:80]}"'
    return ""


def _code(code: int) -> str:
    try:
        return http2.ErrorCode(code).name
    except ValueError:
        return f"code {code}"
