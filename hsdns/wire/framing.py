"""Framing of DNS over TCP: a two-octet length before each message (RFC 1035 section 4.2.2, RFC 7766 section 8).

Path: server/transport/tcp.py and upstream/connection.py pass bytes in and get messages; sans I/O.
"""

from __future__ import annotations


class FrameBuffer:
    """Splits a byte stream into messages, one by one or all at once."""

    __slots__ = ("_at", "_buffer")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0  # where the next message begins

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes; return the messages that are complete, in order."""
        if not self._buffer and len(data) >= 2 and data[0] << 8 | data[1] == len(data) - 2:
            return [data[2:]]  # exactly one message, as most clients send it
        self.add(data)
        found = []
        while (message := self.take()) is not None:
            found.append(message)
        return found

    def add(self, data: bytes) -> None:
        """Add received bytes; their messages wait for take()."""
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data

    def take(self) -> bytes | None:
        """Take the next message that is complete."""
        end = self._end()
        if end < 0:
            return None
        buffer = self._buffer
        message = bytes(buffer[self._at + 2 : end])
        if end == len(buffer):
            buffer.clear()
            end = 0
        self._at = end
        return message

    def clear(self) -> None:
        """Forget what was received."""
        self._buffer.clear()
        self._at = 0

    @property
    def octets(self) -> int:
        """The number of octets that are kept."""
        return len(self._buffer)

    @property
    def has_message(self) -> bool:
        """Whether a complete message waits."""
        return self._end() >= 0

    @property
    def is_partial(self) -> bool:
        """Whether octets wait that are no complete message."""
        return bool(self._buffer) and self._end() < 0

    def _end(self) -> int:
        """Where the next message ends; below 0 if it is not complete."""
        buffer, at = self._buffer, self._at
        size = len(buffer)
        if size - at < 2:
            return -1
        end = at + 2 + (buffer[at] << 8 | buffer[at + 1])
        return end if end <= size else -1


def frame(message: bytes) -> bytes:
    """Prepend the length to a message of at most 65,535 octets."""
    return len(message).to_bytes(2, "big") + message
