"""Asks a server for the same Services over many sockets at once, and counts answers that go back in time.

Path: measure.py -> here -> `hsdns serve` or another server, which watches the API server of loadtest/apiserver.
Rule 1: each change gives a Service an address that is higher than all before, so that an answer tells its state.
Rule 2: an answer is back in time if it is older than one that had arrived, at any socket and for any name of the
        Service, before its query was sent.
"""

from __future__ import annotations

import re
import selectors
import socket
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from loadtest.apiserver.objects import namespace_of
from loadtest.dns import service_name

SERVICES: Final = 5
OVER_UDP: Final = 12  # sockets
OVER_TCP: Final = 4
TIMEOUT: Final = 1.0  # seconds
# An A record whose address objects.py gives.
_CHANGED: Final = re.compile(rb"\x00\x04(\xac[\x10-\xff].{2})", re.DOTALL)


class Newest:
    """The newest state of each Service that any answer has shown."""

    def __init__(self) -> None:
        self.answers = self.back = 0
        self.worst = 0.0  # seconds between the newer answer and the older one
        self._seen: dict[int, tuple[bytes, float]] = {}

    def at(self, service: int) -> bytes:
        """The newest state that has arrived, for a query that is sent now."""
        return self._seen.get(service, (b"", 0.0))[0]

    def judge(self, service: int, newest: bytes, reply: bytes, now: float) -> None:
        """Count an answer to a query that was sent when `newest` was the newest state."""
        shown = max(_CHANGED.findall(reply), default=b"")
        last, since = self._seen.get(service, (b"", now))
        self.answers += 1
        if shown < newest:
            self.back += 1
            self.worst = max(self.worst, now - since)
        if shown > last:
            self._seen[service] = shown, now


class _Asker:
    """A socket with one query at a time."""

    def __init__(self, port: int, number: int, is_tcp: bool) -> None:
        self.is_tcp, self._number, self._sent = is_tcp, number, 0
        kind = socket.SOCK_STREAM if is_tcp else socket.SOCK_DGRAM
        self.sock = socket.socket(socket.AF_INET, kind)
        self.sock.connect(("127.0.0.1", port))
        self.service, self.newest, self.at = 0, b"", 0.0

    def ask(self, questions: Sequence[Sequence[bytes]], newest: Newest, now: float) -> None:
        """Send the next query."""
        self._sent += 1
        turn = self._sent + self._number
        self.service = turn % len(questions)
        forms = questions[self.service]
        wire = self._id() + forms[turn // len(questions) % len(forms)]
        self.newest, self.at = newest.at(self.service), now
        self.sock.send(len(wire).to_bytes(2, "big") + wire if self.is_tcp else wire)

    def answer(self) -> bytes | None:
        """The reply to the last query; None for another one."""
        reply = self.sock.recv(4096)
        reply = reply[2:] if self.is_tcp else reply
        return reply if reply[:2] == self._id() else None

    def _id(self) -> bytes:
        return (self._sent & 0xFFFF).to_bytes(2, "big")


def name_of(service: int) -> str:
    """The name of a Service."""
    return service_name(namespace_of(service), f"web-{service}")


def questions(service: int) -> list[bytes]:
    """Queries about a Service, without ID: for its addresses, its ports and its endpoint, each in two forms."""
    name = name_of(service)
    endpoint, port = f"web-{service}-0.{name}", f"_http._tcp.{name}"
    asked = [(name, RRType.A), (name, RRType.SRV), (port, RRType.SRV), (endpoint, RRType.A)]
    return [
        encode_query(Query.ask(Name.from_text(each), qtype, edns=edns), 0)[2:]
        for each, qtype in asked
        for edns in (None, Edns(1232, do=True))
    ]


def watch(port: int, answers: int, seconds: float) -> tuple[Newest, Counter[str]]:
    """Ask until there are so many answers, or for so long; return what was seen, and the queries without answer."""
    newest, lost = Newest(), Counter[str]()
    asked = [questions(service) for service in range(SERVICES)]
    askers = [_Asker(port, each, is_tcp=each >= OVER_UDP) for each in range(OVER_UDP + OVER_TCP)]
    end = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for asker in askers:
            selector.register(asker.sock, selectors.EVENT_READ, asker)
            asker.ask(asked, newest, time.monotonic())
        while newest.answers < answers and (now := time.monotonic()) < end:
            for key, _ in selector.select(TIMEOUT):
                asker, now = key.data, time.monotonic()
                reply = asker.answer()
                if reply is not None:
                    newest.judge(asker.service, asker.newest, reply, now)
                    asker.ask(asked, newest, now)
            for asker in askers:
                if now - asker.at > TIMEOUT:
                    lost["tcp" if asker.is_tcp else "udp"] += 1
                    asker.ask(asked, newest, now)
    for asker in askers:
        asker.sock.close()
    return newest, lost
