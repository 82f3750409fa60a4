"""Framing of DNS over TCP: a two-octet length before each message (RFC 1035 section 4.2.2, RFC 7766 section 8).

Path: server/tcp.py and upstream/connection.py pass bytes in and get messages; sans I/O.
"""

from __future__ import annotations


class FrameBuffer:
    """Splits a byte stream into messages; buffers at most one incomplete message."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes; return the messages that are complete, in order."""
        buffer = self._buffer
        if not buffer and len(data) >= 2 and data[0] << 8 | data[1] == len(data) - 2:
            return [data[2:]]  # exactly one message, as most clients send it
        buffer += data
        found, at, size = [], 0, len(buffer)
        while size - at >= 2:
            end = at + 2 + (buffer[at] << 8 | buffer[at + 1])
            if end > size:
                break
            found.append(bytes(buffer[at + 2 : end]))
            at = end
        if at:
            del buffer[:at]
        return found

    @property
    def is_partial(self) -> bool:
        """Whether an incomplete message is buffered."""
        return bool(self._buffer)


def frame(message: bytes) -> bytes:
    """Prepend the length to a message of at most 65,535 octets."""
    return len(message).to_bytes(2, "big") + message
