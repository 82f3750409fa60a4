"""DNS messages over a connection, sans I/O: matches replies with queries.

Path: connection.py passes octets in both directions -> here; http2.py is the other session.
Source: RFC 1035 section 4.2.2, RFC 7766 sections 6.2.1.1 (any order of replies) and 8, RFC 7858.
Rule 1: octets of a server never raise an exception: `broken` says what is wrong, and later octets are ignored.
Rule 2: IDs increase, and an ID that waits for its reply is not reused.
"""

from __future__ import annotations

from typing import Final

from hsdns.load.asked import Asked, Heard
from hsdns.wire.framing import FrameBuffer

HEADER_LEN: Final = 12
IDS: Final = 65_536
MOST_IN_FLIGHT: Final = 60_000


class Session:
    """The interface of a session for connection.py: queries in flight by key, octets to send, and room."""

    def __init__(self) -> None:
        self.in_flight: dict[int, Asked] = {}
        self.out = bytearray()
        self.takes = True
        self.broken = ""
        self.leaves = ""  # why the server ends it, once it has announced that

    @property
    def has_room(self) -> bool:
        """Whether another query can be sent now."""
        raise NotImplementedError

    def ask(self, asked: Asked) -> int:
        """Send a query; return its key."""
        raise NotImplementedError

    def feed(self, octets: bytes) -> list[Heard]:
        """Process octets of the server."""
        raise NotImplementedError

    def forget(self, key: int) -> None:
        """Stop waiting for a reply."""
        self.in_flight.pop(key, None)

    def end(self) -> None:
        """Announce the end, if the protocol can."""


class FramedSession(Session):
    """Messages with a length prefix, over TCP or TLS."""

    def __init__(self) -> None:
        super().__init__()
        self._frames = FrameBuffer()
        self._next = 0

    @property
    def has_room(self) -> bool:
        """Whether another query can be sent now."""
        return len(self.in_flight) < MOST_IN_FLIGHT

    def ask(self, asked: Asked) -> int:
        """Send a query; return its ID."""
        in_flight, key = self.in_flight, self._next
        while key in in_flight:
            key = (key + 1) % IDS
        self._next = (key + 1) % IDS
        in_flight[key] = asked
        octets = asked.octets
        self.out += (len(octets) + 2 << 16 | key).to_bytes(4, "big") + octets
        return key

    def feed(self, octets: bytes) -> list[Heard]:
        """Process octets of the server."""
        found, in_flight = [], self.in_flight
        for message in self._frames.feed(octets):
            if len(message) < HEADER_LEN:
                self.broken = "sends what is no DNS message"
                break
            asked = in_flight.pop(message[0] << 8 | message[1], None)
            found.append(Heard(asked, message))
        return found
