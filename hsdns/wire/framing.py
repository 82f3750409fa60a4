"""Framing of DNS over TCP: a two-octet length before each message (RFC 1035 section 4.2.2, RFC 7766 section 8).

Path: server/transport/tcp.py and upstream/connection.py pass bytes in and get messages; sans I/O.
"""

from __future__ import annotations


class FrameBuffer:
    """Splits a byte stream into messages, one by one or all at once."""

    __slots__ = ("_end", "at", "has_message", "octets")

    def __init__(self) -> None:
        self.has_message = False  # a complete message waits
        self.octets = b""  # those that are kept
        self.at = self._end = 0  # where the next message begins, and ends if it is complete

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes; return the messages that are complete, in order."""
        if not self.octets and len(data) >= 2 and data[0] << 8 | data[1] == len(data) - 2:
            return [data[2:]]  # exactly one message, as most clients send it
        self.add(data)
        found = []
        while (message := self.take()) is not None:
            found.append(message)
        return found

    def add(self, data: bytes) -> None:
        """Add received bytes; their messages wait for take()."""
        self.octets = self.octets[self.at :] + data if self.octets else data
        self.skip_to(0)

    def take(self) -> bytes | None:
        """Take the next message that is complete."""
        if not self.has_message:
            return None
        message = self.octets[self.at + 2 : self._end]
        self.skip_to(self._end)
        return message

    def clear(self) -> None:
        """Forget what was received."""
        self.octets = b""
        self.skip_to(0)

    @property
    def is_partial(self) -> bool:
        """Whether octets wait that are no complete message."""
        return bool(self.octets) and not self.has_message

    def skip_to(self, at: int) -> None:
        """Go on with the message that begins there in those octets."""
        buffer = self.octets
        left = len(buffer) - at - 2
        if left == -2:  # nothing is left
            self.octets, at = b"", 0
        length = buffer[at] << 8 | buffer[at + 1] if left >= 0 else 0
        self.at, self._end = at, at + 2 + length
        self.has_message = length <= left


def frame(message: bytes) -> bytes:
    """Prepend the length to a message of at most 65,535 octets."""
    return len(message).to_bytes(2, "big") + message
