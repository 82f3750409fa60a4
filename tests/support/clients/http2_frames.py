"""Frames of HTTP/2 as a client writes them, without a library that would refuse to."""

from __future__ import annotations

from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 2, 3, 4, 6, 7
WINDOW_UPDATE, CONTINUATION = 8, 9
END_STREAM, END_HEADERS, PADDED = 1, 4, 8


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Write a frame (RFC 9113 section 4.1)."""
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big")
    return head + payload


def get_headers(path: str) -> bytes:
    """Write the header block of a GET that changes no table of HPACK, so that it may be sent again."""
    target = path.encode()
    assert len(target) < 127 + 128
    length = bytes((len(target),)) if len(target) < 127 else bytes((127, len(target) - 127))
    # Indexed: method GET (2), scheme https (7).  Literal: path (4), authority (1).
    return b"\x82\x87\x04" + length + target + b"\x01\x01x"


def split(octets: bytes) -> list[bytes]:
    """Split what a server has written into frames."""
    found = []
    while octets:
        end = 9 + int.from_bytes(octets[:3], "big")
        found.append(octets[:end])
        octets = octets[end:]
    return found
