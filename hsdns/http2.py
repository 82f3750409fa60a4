"""HTTP/2 as both ends of DNS over HTTPS need it, sans I/O: frames, header blocks, streams, windows and settings.

Path: octets of the other end -> split() -> Connection.take(), frame by frame -> the end: server/http/doh_http2.py
(requests), or Client here (replies), of upstream/https.py and load/send/http2.py; what is to be sent is in `out`.
Source: RFC 9113; RFC 7541, which compiled code decodes, or the library hpack.  Decision 0024 says why no library does
        the rest.
Rule 1: a frame that violates the protocol raises Violation, which ends the connection; an end may do that for errors of
        a stream too (RFC 9113 section 5.4).
Rule 2: header blocks are decoded in order, as the table of HPACK requires, except that a repeated one is not decoded
        again while the table is unchanged.  Our own blocks use no table, so they depend on no earlier one.
Rule 3: `kept` octets of bodies and what is `unsent` because of the other end's windows; limits are up to the end.
Rule 4: a query of a client is a stream, which ends once: with a message, with the reason why there is none, or
        unprocessed by the server, so that it may be sent on another connection (RFC 9113 sections 6.8 and 8.7).
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, Generic, NamedTuple, TypeVar

from hsdns import fastpath

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_LEN: Final = 9  # octets of a frame before its payload
MAX_FRAME_LEN: Final = 16_384  # the default SETTINGS_MAX_FRAME_SIZE
# Of a header block, and of its fields with 32 for each as RFC 9113 counts them.
MAX_BLOCK_LEN: Final = 16_384
DEFAULT_WINDOW: Final = 65_535
MEDIA_TYPE: Final = "application/dns-message"  # RFC 8484 section 6
LAST_STREAM: Final = (1 << 31) - 1
MAX_REPLY: Final = 65_535
(
    DATA,
    HEADERS,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    PUSH_PROMISE,
    PING,
    GOAWAY,
    WINDOW_UPDATE,
    CONTINUATION,
) = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, HAS_PRIORITY = 1, 1, 4, 8, 32
TABLE_SIZE, ENABLE_PUSH, MAX_STREAMS, INITIAL_WINDOW, FRAME_SIZE, HEADERS_SIZE = range(1, 7)

_HEAD: Final = struct.Struct(">HBBBI")
_SETTING: Final = struct.Struct(">HI")
_MAX_MAX_FRAME: Final = (1 << 24) - 1
_PRIORITY_LEN: Final = 5
_TYPE_AT: Final = 3  # octets before the type of a frame (RFC 9113 section 4.1)
_INTERIM: Final = "HTTP status 1"
_NO_STATUS: Final = "no HTTP status"
_MAX_KNOWN, _MAX_KNOWN_LEN = 32, 512  # header blocks, octets of each
NO_TABLE: Final = b"\x20"  # the table is of size 0 from now on (RFC 7541 section 6.3)
# Of the static table (RFC 7541 appendix A): whole fields, and names.
_FIELDS: Final = {
    (":method", "GET"): 2, (":method", "POST"): 3, (":scheme", "https"): 7,
    (":status", "200"): 8, (":status", "400"): 12, (":status", "404"): 13, (":status", "500"): 14,
}  # fmt: skip
_NAMES: Final = {
    ":authority": 1, ":method": 2, ":path": 4, ":status": 8, "accept": 19, "cache-control": 24, "content-length": 28,
    "content-type": 31, "date": 33,
}  # fmt: skip

Fields = list[tuple[bytes, bytes]]
Meaning = TypeVar("Meaning")


class ErrorCode(IntEnum):
    """RFC 9113 section 7."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class Violation(Exception):
    """What the other end did, and the error code for GOAWAY; `limit` names the limit that it exceeded."""

    def __init__(self, code: ErrorCode, reason: str, limit: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.limit = limit


class Frame(NamedTuple):
    """A frame of the other end."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Write a frame."""
    length = len(payload)
    return _HEAD.pack(length >> 8, length & 255, kind, flags, stream) + payload


def split(buffer: bytearray, most: int = 1 << 30) -> list[Frame]:
    """Take whole frames out of octets, at most so many; raise Violation for one that is too long."""
    found: list[Frame] = []
    at, size = 0, len(buffer)
    while size - at >= HEAD_LEN and len(found) < most:
        high, low, kind, flags, stream = _HEAD.unpack_from(buffer, at)
        length = high << 8 | low
        if length > MAX_FRAME_LEN:
            raise Violation(
                ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} octets", "frame length"
            )
        end = at + HEAD_LEN + length
        if end > size:
            break
        found.append(Frame(kind, flags, stream & LAST_STREAM, bytes(buffer[at + HEAD_LEN : end])))
        at = end
    del buffer[:at]
    return found


@functools.lru_cache(maxsize=1024)
def field(name: str, value: str) -> bytes:
    """Write a field of a header block, without use of the dynamic table."""
    indexed = _FIELDS.get((name, value))
    if indexed is not None:
        return bytes((0x80 | indexed,))
    index = _NAMES.get(name)
    head = b"\0" + _string(name) if index is None else _integer(index, 4)
    return head + _string(value)


def _integer(number: int, bits: int) -> bytes:
    """RFC 7541 section 5.1."""
    most = (1 << bits) - 1
    if number < most:
        return bytes((number,))
    out, number = bytearray((most,)), number - most
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _string(text: str) -> bytes:
    octets = text.encode("latin-1")
    return _integer(len(octets), 7) + octets


class HeaderDecoder:
    """Does what the compiled one does (fastpath/_native.pyi), by the library hpack."""

    def __init__(self, limit: int) -> None:
        import hpack  # noqa: PLC0415 - which the compiled one does not need

        self.changes = 0
        self._decoder, self._library = hpack.Decoder(limit), hpack

    def decode(self, block: bytes) -> Fields:
        """Decode a whole block; raise OverflowError if its fields are too long, else ValueError."""
        table = self._decoder.header_table
        before = [*table.dynamic_entries], table.maxsize
        try:
            fields: Fields = [*self._decoder.decode(block, raw=True)]
        except self._library.OversizedHeaderListError as error:
            raise OverflowError from error
        except (self._library.HPACKError, IndexError) as error:
            raise ValueError(str(error)) from error
        self.changes += before != ([*table.dynamic_entries], table.maxsize)
        return fields


class Stream(Generic[Meaning]):
    """An open stream: what has come on it, and what has not been sent."""

    __slots__ = ("body", "has_ended", "head", "number", "room", "since", "unsent", "window")

    def __init__(self, number: int, window: int) -> None:
        self.number = number
        self.window = window  # octets that the other end accepts
        self.room = DEFAULT_WINDOW  # octets that it may send
        self.head: Meaning | None = None  # what its header block says
        self.body = bytearray()
        self.has_ended = False  # the other end sends no more
        self.unsent = b""
        self.since = 0.0  # when `unsent` was made


class Connection(Generic[Meaning]):
    """One end of a connection; a subclass says what header blocks mean, and what happens to streams."""

    def __init__(self, opening: bytes, settings: Iterable[tuple[int, int]]) -> None:
        told = b"".join(_SETTING.pack(*each) for each in settings)
        self.out = bytearray(opening + frame(SETTINGS, 0, 0, told))
        self.streams: dict[int, Stream[Meaning]] = {}
        self.last = 0  # the highest stream so far
        self.has_settings = False  # those of the other end have come
        self.max_streams = LAST_STREAM
        self.unsent_len = 0
        self._unsent: dict[int, Stream[Meaning]] = {}  # in the order of time
        self._window = self._initial = DEFAULT_WINDOW
        self._room = DEFAULT_WINDOW
        self._max_frame = MAX_FRAME_LEN
        # Stream, flags and octets of one without its end.
        self._block: tuple[int, int, bytes] | None = None
        self._decoder = (fastpath.HeaderDecoder or HeaderDecoder)(MAX_BLOCK_LEN)
        self._known: dict[bytes, Meaning] = {}
        self._table = NO_TABLE  # said once, before our first field

    def read_fields(self, fields: Fields) -> Meaning:
        """What a header block says; raise Violation."""
        raise NotImplementedError

    def take_head(self, number: int, head: Meaning, *, ends: bool) -> None:
        """A header block has come on a stream, of any number."""
        raise NotImplementedError

    def take_body(self, stream: Stream[Meaning], data: bytes, *, ends: bool) -> None:
        """A part of a body has come on an open stream."""
        raise NotImplementedError

    def take_late(self, number: int) -> None:
        """A part of a body has come on a stream that is not open any more."""

    def take_reset(self, stream: Stream[Meaning], code: int) -> None:
        """The other end has reset a stream, which is closed now."""

    def take_goaway(self, last: int, code: int) -> None:
        """The other end goes away; it processes streams up to the last one."""

    def sent(self, stream: Stream[Meaning]) -> None:
        """All of a body has been sent."""

    def take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """Process a frame; raise Violation."""
        if self._block is not None and kind != CONTINUATION:
            raise wrong("a header block that is broken off")
        if not self.has_settings and (kind != SETTINGS or flags & ACK):
            raise wrong("no SETTINGS at the beginning")
        if kind < len(_TAKE):  # unknown ones are ignored
            _TAKE[kind](self, flags, number, payload)

    def open(self, number: int) -> Stream[Meaning]:
        """Open a stream."""
        self.last = number
        stream = self.streams[number] = Stream(number, self._initial)
        return stream

    def close(self, number: int) -> Stream[Meaning] | None:
        """Forget a stream."""
        stream = self.streams.pop(number, None)
        if stream is not None and self._unsent.pop(number, None) is not None:
            self.unsent_len -= len(stream.unsent)
        return stream

    def send_head(self, number: int, fields: bytes, *, ends: bool) -> None:
        """Send the fields of a message."""
        table, self._table = self._table, b""
        self.out += frame(
            HEADERS, END_HEADERS | (END_STREAM if ends else 0), number, table + fields
        )

    def send_body(self, stream: Stream[Meaning], body: bytes, now: float) -> None:
        """Send a body and end the stream, as soon as the other end's windows allow."""
        stream.unsent, stream.since = body, now
        self._unsent[stream.number] = stream
        self.unsent_len += len(body)
        self._send_on(stream)

    def reset(self, number: int, code: ErrorCode) -> None:
        """Close a stream and say so."""
        self.close(number)
        self.out += frame(RST_STREAM, 0, number, code.to_bytes(4, "big"))

    def go_away(self, code: ErrorCode, last: int) -> None:
        """Tell the other end that streams after the last one are not processed."""
        self.out += frame(GOAWAY, 0, 0, last.to_bytes(4, "big") + code.to_bytes(4, "big"))

    def take_out(self) -> bytes:
        """Return and clear the octets to send."""
        out, self.out = bytes(self.out), bytearray()
        return out

    @property
    def unsent_since(self) -> float | None:
        """When the oldest body was made that waits for the other end's windows; None if none waits."""
        return next(iter(self._unsent.values())).since if self._unsent else None

    def _is_idle(self, number: int) -> bool:
        """Whether a stream was never open; all are of the client, because nothing is pushed."""
        return number > self.last or not number & 1

    def _take_data(self, flags: int, number: int, payload: bytes) -> None:
        if self._is_idle(number):
            raise wrong("DATA on an idle stream")
        self._room = self._admit(0, self._room, len(payload))
        data = _unpadded(flags, payload)
        stream, ends = self.streams.get(number), bool(flags & END_STREAM)
        if stream is None or stream.has_ended:
            self.take_late(number)
            return
        stream.room = self._admit(number, stream.room, len(payload), ends=ends)
        stream.has_ended = ends
        self.take_body(stream, data, ends=ends)

    def _admit(self, number: int, room: int, size: int, *, ends: bool = False) -> int:
        """Return the room that a window has after so many octets, and widen it in time."""
        room -= size
        if room < 0:
            raise Violation(ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the window admits")
        if room >= DEFAULT_WINDOW // 2 or ends:
            return room
        self.out += frame(WINDOW_UPDATE, 0, number, (DEFAULT_WINDOW - room).to_bytes(4, "big"))
        return DEFAULT_WINDOW

    def _take_headers(self, flags: int, number: int, payload: bytes) -> None:
        if not number & 1:
            raise wrong("HEADERS on a stream that no client opens")
        block = _unpadded(flags, payload)
        if flags & HAS_PRIORITY:
            if len(block) < _PRIORITY_LEN:
                raise Violation(ErrorCode.FRAME_SIZE_ERROR, "HEADERS too short for their priority")
            block = block[_PRIORITY_LEN:]
        if flags & END_HEADERS:
            self.take_head(number, self._read(block), ends=bool(flags & END_STREAM))
        else:
            self._block = number, flags, block

    def _take_continuation(self, flags: int, number: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != number:
            raise wrong("CONTINUATION without a header block")
        _, first, block = self._block
        block += payload
        if len(block) > MAX_BLOCK_LEN:
            raise Violation(
                ErrorCode.ENHANCE_YOUR_CALM, "a header block that is too long", "header octets"
            )
        self._block = number, first, block
        if flags & END_HEADERS:
            self._block = None
            self.take_head(number, self._read(block), ends=bool(first & END_STREAM))

    def _read(self, block: bytes) -> Meaning:
        known, decoder = self._known.get(block), self._decoder
        if known is not None:
            return known
        before = decoder.changes
        try:
            fields = decoder.decode(block)
        except OverflowError:
            raise Violation(
                ErrorCode.ENHANCE_YOUR_CALM, "header fields that are too long", "header octets"
            ) from None
        except ValueError as error:
            raise Violation(
                ErrorCode.COMPRESSION_ERROR, f"a header block that cannot be read: {error}"
            ) from None
        meaning = self.read_fields(fields)
        if decoder.changes != before or len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        elif len(block) <= _MAX_KNOWN_LEN:
            self._known[block] = meaning
        return meaning

    def _take_priority(self, flags: int, number: int, payload: bytes) -> None:
        del flags
        if not number:
            raise wrong("PRIORITY without a stream")
        _check_length("PRIORITY", payload, _PRIORITY_LEN)

    def _take_rst_stream(self, flags: int, number: int, payload: bytes) -> None:
        del flags
        if self._is_idle(number):
            raise wrong("RST_STREAM on an idle stream")
        _check_length("RST_STREAM", payload, 4)
        stream = self.close(number)
        if stream is not None:
            self.take_reset(stream, int.from_bytes(payload, "big"))

    def _take_settings(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise wrong("SETTINGS of a stream")
        if len(payload) % _SETTING.size or (flags & ACK and payload):
            raise Violation(ErrorCode.FRAME_SIZE_ERROR, f"SETTINGS of {len(payload)} octets")
        if flags & ACK:
            return
        self.has_settings = True
        for setting, value in _SETTING.iter_unpack(payload):
            self._take_setting(setting, value)
        self.out += frame(SETTINGS, ACK, 0)

    def _take_setting(self, setting: int, value: int) -> None:
        if setting == MAX_STREAMS:
            self.max_streams = value
        elif setting == INITIAL_WINDOW:
            if value > LAST_STREAM:
                raise _too_wide()
            for stream in self.streams.values():
                stream.window += value - self._initial
                if stream.window > LAST_STREAM:
                    raise _too_wide()
            self._initial = value
            self._send_all()
        elif setting == FRAME_SIZE:
            if not MAX_FRAME_LEN <= value <= _MAX_MAX_FRAME:
                raise wrong(f"a maximum of {value} octets for a frame")
            self._max_frame = value
        elif setting == ENABLE_PUSH and value > 1:
            raise wrong("ENABLE_PUSH that is neither 0 nor 1")

    def _take_push_promise(self, flags: int, number: int, payload: bytes) -> None:
        del flags, number, payload
        raise wrong("PUSH_PROMISE, which was not allowed")

    def _take_ping(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise wrong("PING of a stream")
        _check_length("PING", payload, 8)
        if not flags & ACK:
            self.out += frame(PING, ACK, 0, payload)

    def _take_goaway(self, flags: int, number: int, payload: bytes) -> None:
        del flags
        if number:
            raise wrong("GOAWAY of a stream")
        if len(payload) < 8:
            raise Violation(ErrorCode.FRAME_SIZE_ERROR, f"GOAWAY of {len(payload)} octets")
        self.take_goaway(*struct.unpack_from(">II", payload))

    def _take_window_update(self, flags: int, number: int, payload: bytes) -> None:
        del flags
        if number and self._is_idle(number):
            raise wrong("WINDOW_UPDATE of an idle stream")
        _check_length("WINDOW_UPDATE", payload, 4)
        more = int.from_bytes(payload, "big") & LAST_STREAM
        if not more:
            raise wrong("WINDOW_UPDATE by nothing")
        if not number:
            self._window += more
            if self._window > LAST_STREAM:
                raise _too_wide()
            self._send_all()
        elif number in self.streams:
            stream = self.streams[number]
            stream.window += more
            if stream.window > LAST_STREAM:
                raise _too_wide()
            if number in self._unsent:
                self._send_on(stream)

    def _send_all(self) -> None:
        for stream in tuple(self._unsent.values()):
            if self._window <= 0:
                return
            self._send_on(stream)

    def _send_on(self, stream: Stream[Meaning]) -> None:
        """Send as much of a body as the windows admit."""
        body, number, size = stream.unsent, stream.number, len(stream.unsent)
        while (room := min(self._window, stream.window, self._max_frame)) < size and room > 0:
            self.out += frame(DATA, 0, number, body[:room])
            body, size = body[room:], size - room
            self._spend(stream, room)
        stream.unsent = body
        if size <= room or not size:
            self.out += frame(DATA, END_STREAM, number, body)
            self._spend(stream, size)
            stream.unsent = b""
            del self._unsent[number]
            self.sent(stream)

    def _spend(self, stream: Stream[Meaning], size: int) -> None:
        self._window -= size
        stream.window -= size
        self.unsent_len -= size


class Client(Connection[str]):
    """The end that asks; the meaning of a header block is why no message follows it, "" if one does."""

    def __init__(self, *settings: tuple[int, int]) -> None:
        super().__init__(PREFACE, [(ENABLE_PUSH, 0), *settings])
        self.takes = True  # the server accepts queries
        self.broken = ""  # what is wrong with its octets
        self._data = bytearray()

    def finish(self, number: int, message: bytes | None, why: str = "") -> None:
        """A stream has ended; without a message and a reason, the server has not processed the query."""
        raise NotImplementedError

    def receive(self, octets: bytes) -> None:
        """Process octets of the server."""
        self._data += octets
        # Checked here, because "HTT" would be a frame length of 4 MB.
        if not self.has_settings and self._data[_TYPE_AT:] and self._data[_TYPE_AT] != SETTINGS:
            self.broken = "does not speak HTTP/2"
        try:
            for each in () if self.broken else split(self._data):
                self.take(*each)
        except Violation as violation:
            self.go_away(violation.code, 0)
            self.broken = f"violates the HTTP/2 protocol: {violation}"

    def read_fields(self, fields: Fields) -> str:
        """Why no message follows a header block; trailers have no status."""
        found = dict(fields)
        status = found.get(b":status", b"").decode("ascii", "replace")
        if status != "200":
            return f"HTTP status {status}" if status else _NO_STATUS
        kind = found.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != MEDIA_TYPE.encode():
            return f'HTTP content type "{kind.decode("ascii", "replace")[:80]}"'
        return ""

    def take_head(self, number: int, head: str, *, ends: bool) -> None:
        """A reply begins, or its trailers have come."""
        stream = self.streams.get(number)
        if stream is None or (head.startswith(_INTERIM) and not ends):  # it was cancelled
            return
        if stream.head is None and head:  # this is known before the body has come
            self._fail(stream, head)
            return
        stream.head = head
        if ends:
            self._end(stream)

    def take_body(self, stream: Stream[str], data: bytes, *, ends: bool) -> None:
        """A part of a reply has come."""
        stream.body += data
        if stream.head is None:
            self._fail(stream, _NO_STATUS)
        elif len(stream.body) > MAX_REPLY:
            self._fail(stream, f"HTTP content of more than {MAX_REPLY} octets")
        elif ends:
            self._end(stream)

    def take_reset(self, stream: Stream[str], code: int) -> None:
        """The server does not answer a query."""
        is_refused = code == ErrorCode.REFUSED_STREAM
        self.finish(stream.number, None, "" if is_refused else f"RST_STREAM ({code_to_text(code)})")

    def take_goaway(self, last: int, code: int) -> None:
        """The server accepts no more queries, and processes none after the last one."""
        del code
        self.takes = False
        for number in [each for each in self.streams if each > last & LAST_STREAM]:
            self.close(number)
            self.finish(number, None)

    def _end(self, stream: Stream[str]) -> None:
        self.close(stream.number)
        self.finish(stream.number, bytes(stream.body))

    def _fail(self, stream: Stream[str], why: str) -> None:
        self.reset(stream.number, ErrorCode.CANCEL)
        self.finish(stream.number, None, why)


def code_to_text(code: int) -> str:
    """The name of an error code, or its number."""
    return ErrorCode(code).name if code in list(ErrorCode) else f"code {code}"


_TAKE: Final = (
    Connection._take_data, Connection._take_headers, Connection._take_priority, Connection._take_rst_stream,
    Connection._take_settings, Connection._take_push_promise, Connection._take_ping, Connection._take_goaway,
    Connection._take_window_update, Connection._take_continuation,
)  # fmt: skip


def wrong(what: str) -> Violation:
    """An error of the protocol."""
    return Violation(ErrorCode.PROTOCOL_ERROR, what)


def _too_wide() -> Violation:
    return Violation(ErrorCode.FLOW_CONTROL_ERROR, f"a window of more than {LAST_STREAM} octets")


def _check_length(what: str, payload: bytes, length: int) -> None:
    if len(payload) != length:
        raise Violation(ErrorCode.FRAME_SIZE_ERROR, f"{what} of {len(payload)} octets")


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & PADDED:
        return payload
    if not payload:
        raise Violation(ErrorCode.FRAME_SIZE_ERROR, "a frame too short for its padding")
    if payload[0] >= len(payload):
        raise wrong("padding that is longer than its frame")
    return payload[1 : len(payload) - payload[0]]
