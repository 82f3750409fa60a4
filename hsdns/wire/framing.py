"""Framing of DNS over TCP: a two-octet length before each message (RFC 1035 section 4.2.2, RFC 7766 section 8).

Path: server/transport/tcp.py and upstream/connection.py pass bytes in and get messages; sans I/O.
"""

from __future__ import annotations


class FrameBuffer:
    """Splits a byte stream into messages, one by one or all at once."""

    __slots__ = ("_at", "_buffer", "_end", "has_message")

    def __init__(self) -> None:
        self.has_message = False  # a complete message waits
        self._buffer = bytearray()
        self._at = self._end = 0  # where the next message begins, and ends if it is complete

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
        self._look()

    def take(self) -> bytes | None:
        """Take the next message that is complete."""
        if not self.has_message:
            return None
        message = bytes(self._buffer[self._at + 2 : self._end])
        if self._end == len(self._buffer):
            self.clear()
        else:
            self._at = self._end
            self._look()
        return message

    def clear(self) -> None:
        """Forget what was received."""
        self._buffer.clear()
        self._at = 0
        self.has_message = False

    @property
    def octets(self) -> int:
        """The number of octets that are kept."""
        return len(self._buffer)

    @property
    def is_partial(self) -> bool:
        """Whether octets wait that are no complete message."""
        return bool(self._buffer) and not self.has_message

    def _look(self) -> None:
        """Find the end of the next message."""
        buffer, at = self._buffer, self._at
        left = len(buffer) - at - 2
        length = buffer[at] << 8 | buffer[at + 1] if left >= 0 else 0
        self.has_message = length <= left
        self._end = at + 2 + length


def frame(message: bytes) -> bytes:
    """Prepend the length to a message of at most 65,535 octets."""
    return len(message).to_bytes(2, "big") + message
