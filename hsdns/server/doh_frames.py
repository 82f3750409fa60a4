"""Counts the frames of HTTP/2 before the library parses them; without sockets and clocks.

Path: doh_http2.py passes in the octets of a client and takes whole frames out.
Rule 1: it reads only the nine octets of a frame's header (RFC 9113 section 4.1); h2 interprets frames.
Rule 2: each kind of frame that costs work without requesting anything has a limit per connection and time (RFC 9113
        section 10.5): resets (CVE-2023-44487), PING and SETTINGS (CVE-2019-9512, -9515), empty frames (CVE-2019-9518),
        header octets in any number of CONTINUATION frames (CVE-2024-27316).
Rule 3: frames are counted in pieces of at most COUNTED, because a read may consist of 15,000 frames (10 ms).  All those
        of a read are counted before the first of them is taken out.
Rule 4: a frame that exceeds a limit is never parsed, and neither are the frames before it in the same read.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from h2.errors import ErrorCodes

PREFACE_LEN: Final = 24  # octets, RFC 9113 section 3.4
HEADER_LEN: Final = 9
COUNTED: Final = 64  # frames in one step
MAX_FRAME_LEN: Final = 16_384  # the default SETTINGS_MAX_FRAME_SIZE
MAX_BLOCK_LEN: Final = (
    16_384  # octets of the header block of a request; a GET has the query in its path
)

_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
_CONTINUATION: Final = 9
_PUSH_PROMISE: Final = 5
_END_STREAM, _END_HEADERS, _PADDED = 1, 4, 8
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
_KIND: Final = {
    _DATA: "data frames",
    _HEADERS: "streams",
    _RST_STREAM: "resets",
    _PING: "pings",
    _WINDOW_UPDATE: "window updates",
}


class Excess(Exception):
    """A client exceeded a limit; `what` names it, with the HTTP/2 error code for GOAWAY."""

    def __init__(self, what: str, code: ErrorCodes = ErrorCodes.ENHANCE_YOUR_CALM) -> None:
        super().__init__(what)
        self.what = what
        self.code = code


class Allowance:
    """The remaining allowance of a connection for each kind of frame; `now` in seconds."""

    def __init__(self, now: float) -> None:
        self._left = {what: rate.burst for what, rate in RATES.items()}
        self._now = now

    def pass_time(self, now: float) -> None:
        """Add the allowance for the time since the last call."""
        elapsed, self._now = now - self._now, now
        left = self._left
        for what, (burst, per_second) in RATES.items():
            if left[what] < burst:
                left[what] = min(burst, left[what] + elapsed * per_second)

    def take(self, what: str, amount: float = 1) -> None:
        """Use up a part of the allowance; raise Excess if less is left."""
        left = self._left[what] - amount
        if left < 0:
            raise Excess(what)
        self._left[what] = left


class Frames:
    """The frames of one connection; `now` in seconds."""

    def __init__(self, now: float) -> None:
        self.waiting: deque[bytes] = deque()  # first the connection preface, in pieces of any size
        self.reset: set[int] = set()  # streams whose reset waits
        self.counted = self.fed = 0  # frames, octets
        self._waiting_len = 0
        self.is_counted = True  # no whole frame is left that count() has not seen
        self._allowance = Allowance(now)
        self._data = bytearray()
        self._preface_left = PREFACE_LEN
        self._block_len = 0  # octets of a header block whose end has not arrived

    def feed(self, data: bytes, now: float) -> None:
        """Accept octets of the client; their frames wait for count()."""
        self._allowance.pass_time(now)
        self.fed += len(data)
        if self._preface_left:
            preface, data = data[: self._preface_left], data[self._preface_left :]
            self._preface_left -= len(preface)
            self._wait(preface)
        self._data += data
        self.is_counted = self.is_counted and len(self._data) < HEADER_LEN

    def count(self) -> bool:
        """Count the next frames, which then wait for take(); return whether all are counted, or raise Excess."""
        if self.is_counted:
            return True
        buffer, at, size = self._data, 0, len(self._data)
        for _ in range(COUNTED):
            if size - at < HEADER_LEN:
                self.is_counted = True
                break
            length = buffer[at] << 16 | buffer[at + 1] << 8 | buffer[at + 2]
            if length > MAX_FRAME_LEN:
                raise Excess("frame length", ErrorCodes.FRAME_SIZE_ERROR)
            end = at + HEADER_LEN + length
            if end > size:
                self.is_counted = True
                break
            frame = bytes(buffer[at:end])
            self._count(frame, length)
            self._wait(frame)
            at = end
        del buffer[:at]
        return self.is_counted

    @property
    def octets(self) -> int:
        """The number of octets that are kept."""
        return self._waiting_len + len(self._data)

    def _wait(self, frame: bytes) -> None:
        self.waiting.append(frame)
        self._waiting_len += len(frame)

    def take(self) -> bytes:
        """Return the frame that has waited longest."""
        frame = self.waiting.popleft()
        self._waiting_len -= len(frame)
        # A piece of the preface may be shorter than a frame's header.
        if self.reset and len(frame) >= HEADER_LEN and frame[3] == _RST_STREAM:
            self.reset.discard(_stream_of(frame))
        return frame

    def clear(self) -> None:
        """Discard the waiting frames."""
        self.waiting.clear()
        self._waiting_len = 0
        self.is_counted = True
        self.reset.clear()
        self._data.clear()

    def _count(self, frame: bytes, length: int) -> None:
        """Count a frame; raise Excess."""
        self.counted += 1
        kind, flags, take = frame[3], frame[4], self._allowance.take
        if kind == _SETTINGS:
            take("settings", max(1, length // _SETTING_LEN))
            return
        if kind in (_HEADERS, _CONTINUATION, _PUSH_PROMISE):
            take("header octets", length)
            self._block_len += length
            if self._block_len > MAX_BLOCK_LEN:
                raise Excess("header octets")
            if flags & _END_HEADERS:
                self._block_len = 0
        if kind == _CONTINUATION:
            # A request fits in one frame, so further frames are rarely useful, and empty ones never.
            take("other frames" if length else "empty frames")
            return
        take(_KIND.get(kind, "other frames"))
        if kind == _RST_STREAM:
            self.reset.add(_stream_of(frame))
        elif kind == _DATA and not flags & _END_STREAM and _is_empty(frame, length):
            take("empty frames")


def _is_empty(frame: bytes, length: int) -> bool:
    """Whether a DATA frame contains only padding."""
    if length and frame[4] & _PADDED:
        return length <= 1 + frame[HEADER_LEN]
    return not length


def _stream_of(frame: bytes) -> int:
    return int.from_bytes(frame[5:9], "big") & 0x7FFFFFFF
