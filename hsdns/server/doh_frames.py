"""Counts the frames of HTTP/2 before they are interpreted; without sockets and clocks.

Path: doh_http2.py passes in the octets of a client and takes whole frames out.
Rule 1: it only splits and counts frames (RFC 9113 section 4.1); http2.py interprets them.
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

from hsdns.http2 import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEAD_LEN,
    HEADERS,
    MAX_BLOCK_LEN,
    PADDED,
    PING,
    PREFACE,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ErrorCode,
    Frame,
    Violation,
    split,
)

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
_KIND: Final = {
    DATA: "data frames",
    HEADERS: "streams",
    RST_STREAM: "resets",
    PING: "pings",
    WINDOW_UPDATE: "window updates",
}


def excess(limit: str) -> Violation:
    """A client exceeded a limit."""
    return Violation(ErrorCode.ENHANCE_YOUR_CALM, f"too many {limit}", limit)


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
        """Use up a part of the allowance; raise Violation if less is left."""
        left = self._left[what] - amount
        if left < 0:
            raise excess(what)
        self._left[what] = left


class Frames:
    """The frames of one connection; `now` in seconds."""

    def __init__(self, now: float) -> None:
        self.waiting: deque[Frame] = deque()
        self.reset: set[int] = set()  # streams whose reset waits
        self.counted = self.fed = 0  # frames, octets
        self._waiting_len = 0
        self.is_counted = True  # no whole frame is left that count() has not seen
        self._allowance = Allowance(now)
        self._data = bytearray()
        self._preface = PREFACE  # its rest
        self._block_len = 0  # octets of a header block whose end has not arrived

    def feed(self, data: bytes, now: float) -> None:
        """Accept octets of the client; their frames wait for count()."""
        self._allowance.pass_time(now)
        self.fed += len(data)
        self._data += data
        self.is_counted = self.is_counted and len(self._data) < HEAD_LEN

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
        found = split(self._data, COUNTED)
        for each in found:
            self._count(each)
            self._waiting_len += HEAD_LEN + len(each.payload)
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
        self._waiting_len -= HEAD_LEN + len(frame.payload)
        if frame.kind == RST_STREAM:
            self.reset.discard(frame.stream)
        return frame

    def clear(self) -> None:
        """Discard the waiting frames."""
        self.waiting.clear()
        self._waiting_len = 0
        self.is_counted = True
        self.reset.clear()
        self._data.clear()

    def _count(self, frame: Frame) -> None:
        """Count a frame; raise Violation."""
        self.counted += 1
        kind, flags, stream, payload = frame
        length, take = len(payload), self._allowance.take
        if kind == SETTINGS:
            take("settings", max(1, length // _SETTING_LEN))
            return
        if kind in (HEADERS, CONTINUATION, PUSH_PROMISE):
            take("header octets", length)
            self._block_len += length
            if self._block_len > MAX_BLOCK_LEN:
                raise excess("header octets")
            if flags & END_HEADERS:
                self._block_len = 0
        if kind == CONTINUATION:
            # A request fits in one frame, so further frames are rarely useful, and empty ones never.
            take("other frames" if length else "empty frames")
            return
        take(_KIND.get(kind, "other frames"))
        if kind == RST_STREAM:
            self.reset.add(stream)
        elif kind == DATA and not flags & END_STREAM and _is_empty(flags, payload):
            take("empty frames")


def _is_empty(flags: int, payload: bytes) -> bool:
    """Whether a DATA frame contains only padding."""
    if payload and flags & PADDED:
        return len(payload) <= 1 + payload[0]
    return not payload
