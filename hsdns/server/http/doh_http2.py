"""HTTP/2 on one connection, without sockets: octets in, requests out; replies in, octets out.

Path: doh.py passes in the octets; Frames counts the frames, and http2.py interprets them (RFC 9113).
Rule 1: the number of open streams (MAX_STREAMS) and the size of a body (MAX_BODY_LEN) are bounded, and so is the memory
        for them.
Rule 2: replies are sent as fast as the client's flow-control windows allow (RFC 9113 section 5.2); at most MAX_UNSENT
        octets of them wait.
Rule 3: frames are handled one by one, so that the caller decides how many to handle before other connections.
Rule 4: a malformed request (RFC 9113 section 8.1.1) ends the connection, as any violation does.
Rule 5: each kind of frame that costs work without requesting anything has a limit per connection and time (RFC 9113
        section 10.5): resets (CVE-2023-44487), PING and SETTINGS (CVE-2019-9512, -9515), empty frames (CVE-2019-9518),
        header octets in any number of CONTINUATION frames (CVE-2024-27316).
Rule 6: frames are counted in pieces of at most COUNTED, because a read may consist of 15,000 frames (10 ms).  All those
        of a read are counted before the first of them is interpreted, so neither a frame that exceeds a limit nor those
        before it in the same read ever are.
"""

from __future__ import annotations

import functools
import re
import time
from collections import deque
from typing import Final, NamedTuple

from hsdns import http2
from hsdns.http2 import ErrorCode, Fields, Frame, Stream, Violation, field, wrong
from hsdns.server.http.request import Request, Response, date

COUNTED: Final = 64  # frames in one step
_SETTING_LEN: Final = 6  # octets


class Rate(NamedTuple):
    """A burst, and the amount that is added to the allowance each second."""

    burst: float
    per_second: float


# Per connection.  A client that stays below MAX_STREAMS and sends the frames that browsers and resolvers send is far
# from these limits, even if it cancels all its requests every two seconds.  A busy server pauses reading, and a single
# read then returns the frames of a second or more, so the bursts allow as many.
RATES: Final = {
    "streams": Rate(5000, 5000),
    "resets": Rate(400, 100),
    "pings": Rate(50, 5),
    "settings": Rate(100, 10),  # their parameters, or frames without any
    "empty frames": Rate(10, 1),
    "header octets": Rate(512 * 1024, 1024 * 1024),
    "window updates": Rate(5000, 5000),
    "other frames": Rate(100, 10),  # PRIORITY, GOAWAY, and unknown types
    "data frames": Rate(5000, 5000),
}
_PERIOD: Final = 0.1  # seconds after which allowances are added to
_KIND: Final = {
    http2.DATA: "data frames",
    http2.HEADERS: "streams",
    http2.RST_STREAM: "resets",
    http2.PING: "pings",
    http2.WINDOW_UPDATE: "window updates",
}


def excess(limit: str) -> Violation:
    """A client exceeded a limit."""
    return Violation(ErrorCode.ENHANCE_YOUR_CALM, f"too many {limit}", limit)


class Frames:
    """The frames of one connection; `now` in seconds."""

    def __init__(self, now: float) -> None:
        self.waiting: deque[Frame] = deque()
        self.reset: set[int] = set()  # streams whose reset waits
        self.counted = self.fed = 0  # frames, octets
        self._waiting_len = 0
        self.is_counted = True  # no whole frame is left that count() has not seen
        # The rest of the allowance for each kind of frame, and when it was last added to.
        self._left = {what: rate.burst for what, rate in RATES.items()}
        self._now = now
        self._data = bytearray()
        self._preface = http2.PREFACE  # its rest
        self._block_len = 0  # octets of a header block whose end has not arrived

    def feed(self, data: bytes, now: float) -> None:
        """Accept octets of the client; their frames wait for count()."""
        elapsed = now - self._now
        if elapsed > _PERIOD:
            self._now = now
            for what, (burst, per_second) in RATES.items():
                self._left[what] = min(burst, self._left[what] + elapsed * per_second)
        self.fed += len(data)
        self._data += data
        self.is_counted = self.is_counted and len(self._data) < http2.HEAD_LEN

    def count(self) -> bool:
        """Count the next frames, which then wait for take(); return whether all are counted, or raise Violation."""
        if self.is_counted:
            return True
        if self._preface:
            begun = bytes(self._data[: len(self._preface)])
            if not self._preface.startswith(begun):
                raise Violation(ErrorCode.PROTOCOL_ERROR, "no preface of HTTP/2")
            self._preface = self._preface[len(begun) :]
            del self._data[: len(begun)]
        found = http2.split(self._data, COUNTED)
        for each in found:
            self._count(each)
            self._waiting_len += http2.HEAD_LEN + len(each.payload)
        self.waiting += found
        self.is_counted = len(found) < COUNTED
        return self.is_counted

    @property
    def octets(self) -> int:
        """The number of octets that are kept."""
        return self._waiting_len + len(self._data)

    def take(self) -> Frame:
        """Return the frame that has waited longest."""
        frame = self.waiting.popleft()
        self._waiting_len -= http2.HEAD_LEN + len(frame.payload)
        if frame.kind == http2.RST_STREAM:
            self.reset.discard(frame.stream)
        return frame

    def clear(self) -> None:
        """Discard the waiting frames."""
        self.waiting.clear()
        self._waiting_len = 0
        self.is_counted = True
        self.reset.clear()
        self._data.clear()

    def _take(self, what: str, amount: float = 1) -> None:
        """Use up a part of the allowance; raise Violation if less is left."""
        left = self._left[what] - amount
        if left < 0:
            raise excess(what)
        self._left[what] = left

    def _count(self, frame: Frame) -> None:
        """Count a frame; raise Violation."""
        self.counted += 1
        kind, flags, stream, payload = frame
        length, take = len(payload), self._take
        if kind == http2.SETTINGS:
            take("settings", max(1, length // _SETTING_LEN))
            return
        if kind in (http2.HEADERS, http2.CONTINUATION, http2.PUSH_PROMISE):
            take("header octets", length)
            self._block_len += length
            if self._block_len > http2.MAX_BLOCK_LEN:
                raise excess("header octets")
            if flags & http2.END_HEADERS:
                self._block_len = 0
        if kind == http2.CONTINUATION:
            # A request fits in one frame, so further frames are rarely useful, and empty ones never.
            take("other frames" if length else "empty frames")
            return
        take(_KIND.get(kind, "other frames"))
        if kind == http2.RST_STREAM:
            self.reset.add(stream)
        elif kind == http2.DATA and not flags & http2.END_STREAM and _is_empty(flags, payload):
            take("empty frames")


def _is_empty(flags: int, payload: bytes) -> bool:
    """Whether a http2.DATA frame contains only padding."""
    if payload and flags & http2.PADDED:
        return len(payload) <= 1 + payload[0]
    return not payload


MAX_STREAMS: Final = 128
MAX_BODY_LEN: Final = 65_536
STREAM_LEN: Final = 1024  # octets that are kept for an open stream, beside its path and body
MAX_UNSENT: Final = 1024 * 1024  # octets of replies that wait for the client's windows

_PSEUDO: Final = frozenset({b":method", b":scheme", b":authority", b":path"})
_NAME: Final = re.compile(rb"[!-9;-@\[-~]+")
_VALUE: Final = re.compile(rb"(?:[^\0\r\n\t ](?:[^\0\r\n]*[^\0\r\n\t ])?)?")
# Connection-specific, which HTTP/2 does not have (RFC 9113 section 8.2.2).
_FORBIDDEN: Final = frozenset(
    {b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"}
)


class _Head(NamedTuple):
    """What the fields of a request say; trailers have no `method`."""

    method: str
    target: str
    length: int | None  # of the body


class Http2(http2.Connection[_Head]):
    """The server's side of one connection; `now` in seconds.  `excess` is the limit that its client has exceeded.

    `has_fault` is set after that, and after the client has violated HTTP/2.  `frames` counts what has arrived.
    """

    def __init__(self, now: float) -> None:
        super().__init__(
            b"", [(http2.MAX_STREAMS, MAX_STREAMS), (http2.HEADERS_SIZE, http2.MAX_BLOCK_LEN)]
        )
        self.frames = Frames(now)
        self._arriving_len = 0
        self._request: Request | None = None
        self.is_over = False
        self.has_fault = False
        self.excess = ""

    def feed(self, data: bytes, now: float) -> None:
        """Accept octets of the client; their frames wait for step()."""
        self.frames.feed(data, now)

    @property
    def has_waiting(self) -> bool:
        """Whether frames wait for step()."""
        return bool(self.frames.waiting) or not self.frames.is_counted

    def step(self) -> Request | None:
        """Handle the next frame, when all are counted; return the request that it completes."""
        try:
            if not self.frames.count() or not self.frames.waiting:
                return None
            self.take(*self.frames.take())
        except Violation as violation:
            self._send_away(violation)
            return None
        request, self._request = self._request, None
        return request

    def read_fields(self, fields: Fields) -> _Head:
        """What a header block says; raise Violation."""
        return read_head(fields)

    def take_head(self, number: int, head: _Head, *, ends: bool) -> None:
        """A request has begun, or its trailers have come."""
        stream = self.streams.get(number)
        if stream is not None and not stream.has_ended:
            if head.method or not ends:
                raise wrong("trailers with the fields of a request, or without the end of it")
            stream.has_ended = True
            self._complete(stream)
            return
        if number <= self.last:
            code = ErrorCode.PROTOCOL_ERROR if stream is None else ErrorCode.STREAM_CLOSED
            raise Violation(code, "HEADERS on a stream that has ended")
        if not head.method:
            raise wrong("a request without a method")
        if len(self.streams) >= MAX_STREAMS:
            raise Violation(ErrorCode.PROTOCOL_ERROR, f"more than {MAX_STREAMS} streams at once")
        stream = self.open(number)
        stream.head = head
        self._arriving_len += _octets_of(stream)
        if ends:
            stream.has_ended = True
            self._complete(stream)

    def take_body(self, stream: Stream[_Head], data: bytes, *, ends: bool) -> None:
        """Add to the body of a request; of one that is too long, only one octet more than allowed is kept."""
        kept = data[: MAX_BODY_LEN + 1 - len(stream.body)]
        stream.body += kept
        self._arriving_len += len(kept)
        if not ends:
            return
        length = stream.head.length if stream.head is not None else None
        if length not in (None, len(stream.body)) and len(stream.body) <= MAX_BODY_LEN:
            raise wrong("a body of another length than its content-length")
        self._complete(stream)

    def take_late(self, number: int) -> None:
        """Tell the client that a stream is not open any more."""
        self.reset(number, ErrorCode.STREAM_CLOSED)

    def take_reset(self, stream: Stream[_Head], code: int) -> None:
        """Forget a request that its client has cancelled."""
        del code
        if not stream.has_ended:
            self._arriving_len -= _octets_of(stream)

    def take_goaway(self, *_: int) -> None:
        """Close the connection after the replies in progress."""
        self.is_over = True

    def sent(self, stream: Stream[_Head]) -> None:
        """Close a stream whose reply has been sent."""
        self.close(stream.number)

    def _complete(self, stream: Stream[_Head]) -> None:
        """Return a complete request from step(), unless a waiting frame cancels it."""
        self._arriving_len -= _octets_of(stream)
        head = stream.head
        if head is not None and stream.number not in self.frames.reset:
            self._request = Request(
                head.method, head.target, body=bytes(stream.body), stream=stream.number
            )

    def reply(self, stream: int, reply: Response, now: float, *, head_only: bool = False) -> None:
        """Answer a request; does nothing if the client has cancelled it."""
        found = self.streams.get(stream)
        if found is None:
            return
        fields = _fields(reply.status, reply.headers, int(time.time()))
        self.send_head(stream, fields, ends=head_only)
        if head_only:
            self.sent(found)
            return
        self.send_body(found, reply.body, now)
        if self.unsent_len > MAX_UNSENT:
            self._send_away(excess("unsent octets"))

    def _send_away(self, violation: Violation) -> None:
        self.excess = violation.limit
        self.has_fault = True
        self.frames.clear()
        for number in tuple(self.streams):
            self.close(number)
        self._arriving_len = 0
        self.end(violation.code)

    def end(self, reason: ErrorCode = ErrorCode.NO_ERROR) -> None:
        """Tell the client that no more requests are accepted (GOAWAY)."""
        if not self.is_over:
            self.is_over = True
            self.go_away(reason, self.last)

    @property
    def octets(self) -> int:
        """The number of octets that are kept: of frames, of incomplete requests, and of replies."""
        return self.frames.octets + self._arriving_len + self.unsent_len


def read_head(fields: Fields) -> _Head:
    """Check the fields of a request, or of its trailers (RFC 9113 sections 8.2 and 8.3); raise Violation."""
    pseudo: dict[bytes, bytes] = {}
    host = length = None
    for number, (name, value) in enumerate(fields):
        if not _VALUE.fullmatch(value):
            raise wrong("a field value with octets that are not allowed")
        if name[:1] == b":":
            if name not in _PSEUDO or number != len(pseudo) or name in pseudo:
                raise wrong("a pseudo-header field that is unknown, repeated, or behind others")
            pseudo[name] = value
            continue
        if not _NAME.fullmatch(name):
            raise wrong("a field name with octets that are not allowed")
        if name in _FORBIDDEN or (name == b"te" and value.lower() != b"trailers"):
            raise wrong("a field that is specific to a connection")
        if name == b"host":
            if host is not None:
                raise wrong("two Host fields")
            host = value
        elif name == b"content-length":
            if not value.isdigit() or length not in (None, value):
                raise wrong("a content-length that is no number")
            length = value
    if pseudo:
        _check_request(pseudo, host)
    method, path = (
        pseudo.get(name, b"").decode("ascii", "replace") for name in (b":method", b":path")
    )
    return _Head(method, path, None if length is None else int(length[-20:]))


def _check_request(pseudo: dict[bytes, bytes], host: bytes | None) -> None:
    method = pseudo.get(b":method")
    if not method:
        raise wrong("a request without a method")
    if method == b"CONNECT":
        if b":scheme" in pseudo or b":path" in pseudo:
            raise wrong("CONNECT with a scheme or a path")
    elif not pseudo.get(b":path") or b":scheme" not in pseudo:
        raise wrong("a request without a path or a scheme")
    authority = pseudo.get(b":authority", host)
    if authority is None or host not in (None, authority):
        raise wrong("a request without a host, or with two")


def _octets_of(stream: Stream[_Head]) -> int:
    """The octets that are kept for a request whose end has not arrived."""
    return (
        STREAM_LEN + len(stream.body) + (len(stream.head.target) if stream.head is not None else 0)
    )


@functools.lru_cache(maxsize=256)
def _fields(status: int, headers: tuple[tuple[str, str], ...], second: int) -> bytes:
    """The header block of a response, which many have."""
    fields = (":status", str(status)), *headers, ("date", date(second))
    return b"".join(field(*each) for each in fields)
