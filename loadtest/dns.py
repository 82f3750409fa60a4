"""The DNS clients of the benchmarks: queries in wire format, what is read of replies, and who sends and receives them.

Path: the benchmarks -> here -> hsdns.wire.
Rule 1: queries are made once, with the ID 0; who sends them puts its own before query[2:].
Rule 2: ask_all() never has more queries in flight than the receive buffer of every server holds.  A query without a
        reply is sent again; one that still has none is counted as unanswered.
Source: RFC 1035 section 4.1, RFC 6891 section 6.1.2.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Address
from typing import Final, Self

from hsdns.wire.decode import decode_reply
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode_query
from hsdns.wire.framing import FrameBuffer, frame
from hsdns.wire.iana import RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name

ZONE: Final = "cluster.local"
PAYLOAD_SIZE: Final = 4096  # as in the queries of dnsperf -e
_TYPES = {"A": RRType.A, "AAAA": RRType.AAAA, "SRV": RRType.SRV}
WINDOW: Final = 100  # and less than 65,536 so that the ID tells queries apart
ASK_EVERY: Final = 0.001  # seconds between two queries of a Prober
_TIMEOUT = 2.0  # seconds
_AGAIN = 0.05  # seconds without any reply until the queries in flight are sent again
_RECEIVE_BUFFER = 4 << 20
_MAX_MESSAGE_LEN = 65_535


def service_name(namespace: str, service: str) -> str:
    """The name of a Service."""
    return f"{service}.{namespace}.svc.{ZONE}"


def query_of(name: str, rrtype: str, *, edns: bool = False) -> bytes:
    """Write a query, as dnsperf does."""
    asked = Edns(PAYLOAD_SIZE) if edns else None
    return encode_query(Query.ask(Name.from_text(name), _TYPES[rrtype], edns=asked), 0)


def question(name: str) -> bytes:
    """A query for the A records of a name, without its two octets of ID."""
    return query_of(name, "A")[2:]


def a_record_of(address: str) -> bytes:
    """The octets of an A record with this address in a reply: RDLENGTH and RDATA."""
    return b"\0\4" + IPv4Address(address).packed


@lru_cache
def _query_for_addresses(name: str) -> Query:
    return Query.ask(Name.from_text(name), RRType.A)


def addresses(name: str, reply: bytes) -> frozenset[str]:
    """The addresses of the A records of a reply; raise BadReply if it is not a reply to this question."""
    records = decode_reply(reply, _query_for_addresses(name)).answer
    return frozenset(
        str(IPv4Address(record.rdata)) for record in records if record.rrtype == RRType.A
    )


class Unreachable(OSError):
    """The server does not answer at all."""


def ask_all(
    port: int,
    queries: Sequence[bytes],
    *,
    tcp: bool = False,
    on_progress: Callable[[int], None] = lambda done: None,
) -> list[bytes | None]:
    """Send all queries; return the replies in the same order, or None; call `on_progress` with the number done."""
    replies: list[bytes | None] = [None] * len(queries)
    kind = socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM
    with socket.socket(type=kind) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        sock.settimeout(_TIMEOUT)
        sock.connect(("127.0.0.1", port))
        for first in range(0, len(queries), WINDOW):
            (_over_tcp if tcp else _over_udp)(sock, queries, replies, first)
            on_progress(first)
    return replies


def _over_udp(
    sock: socket.socket, queries: Sequence[bytes], replies: list[bytes | None], first: int
) -> None:
    missing = set(range(first, min(first + WINDOW, len(queries))))
    for _ in range(int(_TIMEOUT / _AGAIN)):
        try:
            for index in missing:
                sock.send((index & 0xFFFF).to_bytes(2, "big") + queries[index][2:])
            while missing and select.select([sock], [], [], _AGAIN)[0]:
                reply = sock.recv(_MAX_MESSAGE_LEN)
                index = first + (int.from_bytes(reply[:2], "big") - first) % 0x10000
                if index in missing:
                    missing.discard(index)
                    replies[index] = reply
        except ConnectionRefusedError:  # not yet listening, or no longer
            continue
        if not missing:
            return


def _over_tcp(
    sock: socket.socket, queries: Sequence[bytes], replies: list[bytes | None], first: int
) -> None:
    asked = queries[first : first + WINDOW]
    sock.sendall(b"".join(frame(at.to_bytes(2, "big") + each[2:]) for at, each in enumerate(asked)))
    frames, missing = FrameBuffer(), len(asked)
    while missing:
        data = sock.recv(_MAX_MESSAGE_LEN)
        if not data:
            raise Unreachable("the server ended the connection")
        for reply in frames.feed(data):
            replies[first + int.from_bytes(reply[:2], "big")] = reply
            missing -= 1


def is_answering(port: int, query: bytes, *, tcp: bool = False, records: bool = True) -> bool:
    """Whether the server answers a query; with `records`, whether the answer has records."""
    kind = socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM
    try:
        with socket.socket(type=kind) as sock:
            sock.settimeout(_TIMEOUT / 8)
            sock.connect(("127.0.0.1", port))
            sock.sendall(frame(query) if tcp else query)
            reply = sock.recv(_MAX_MESSAGE_LEN)[2 if tcp else 0 :]
    except OSError:
        return False
    return len(reply) >= 12 and bool(reply[2] & 0x80) and (reply[6:8] != b"\0\0" or not records)


class Prober:
    """A UDP socket with one query at a time; a context manager."""

    def __init__(self, port: int) -> None:
        self.sock = socket.socket(type=socket.SOCK_DGRAM)
        self.sock.connect(("127.0.0.1", port))
        self.sock.settimeout(1.0)
        self._id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.sock.close()

    def ask(self, query: bytes) -> float:
        """Send a query, which has no ID; return the time."""
        self._id = (self._id + 1) & 0xFFFF
        self.sock.send(self._id.to_bytes(2, "big") + query)
        return time.monotonic()

    def reply(self) -> bytes | None:
        """Receive; None if it is not the reply to the last query; raise TimeoutError."""
        reply = self.sock.recv(_MAX_MESSAGE_LEN)
        return reply if reply[:2] == self._id.to_bytes(2, "big") else None

    def replies(self, query: bytes, seconds: float) -> Iterator[bytes]:
        """Ask the same every millisecond, for so long."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            self.ask(query)
            try:
                while (reply := self.reply()) is None:
                    pass  # one that came too late
            except OSError:  # none, or the server does not listen
                continue
            yield reply
            time.sleep(max(0.0, now + ASK_EVERY - time.monotonic()))

    def wait_for(self, name: str, address: str, seconds: float) -> float | None:
        """Ask for a name until a reply has an address; return the time, or None."""
        wanted = a_record_of(address)
        shown = (
            time.monotonic() for reply in self.replies(question(name), seconds) if wanted in reply
        )
        return next(shown, None)
