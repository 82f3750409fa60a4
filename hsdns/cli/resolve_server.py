"""Answers for `hsdns resolve` from a running server: a model's packets are sent over sockets, and its waits are real.

Path: cli/resolve.py -> here -> a DNS server.
Rule 1: a lookup ends after LONGEST seconds, even if the model would wait longer.
Rule 2: a reply counts if it comes from the server's address, has the ID and, where the library checks it, the question.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from hsdns.resolver.model import (
    CLOSED,
    Arrival,
    Ended,
    Model,
    Packet,
    Received,
    Result,
    Sent,
    Step,
    answer_of,
    query_of,
    wire_of,
)
from hsdns.wire.decode import HEADER_LEN, BadReply, answers_question

LONGEST: Final = 60.0  # seconds for a lookup
CONNECTING: Final = 5.0  # seconds to connect over TCP
KEPT: Final = "udp"  # the name of the socket to keep


def server_steps(
    model: Model,
    name: str,
    types: Sequence[int],
    server: tuple[str, int],
    random: Random,
    at: float = 0.0,
    kept: dict[str, socket.socket] | None = None,
) -> Iterator[Step]:
    """Run a lookup against a server (address, port); it begins at `at` seconds on the clock of the model's steps.

    With `kept`, all UDP queries use the socket in it, which is opened if it is missing, and stays open.
    """
    wire = _Sockets(server, model.checks_question, random, kept)
    began = time.monotonic() - at
    longest = at + LONGEST
    model.now = at
    lookup = model.lookup(name, types)
    arrival: Arrival | None = None
    try:
        while True:
            try:
                deadline = lookup.send(arrival)
            except StopIteration as end:
                yield Ended(model.now, end.value)
                return
            for packet in model.outbox:
                yield Sent(packet)
                wire.send(packet)
            model.outbox.clear()
            until = longest if deadline is None else min(deadline, longest)
            arrival = wire.receive(began + until)
            model.now = time.monotonic() - began
            if arrival is not None:
                yield Received(model.now, *arrival)
            elif until == longest:
                why = f"stopped after {LONGEST:g} seconds, the resolver would go on waiting"
                yield Ended(model.now, Result((), "no result: still waiting", why))
                return
            else:
                model.now = max(model.now, until)
    finally:
        wire.close()


class _Sockets:
    """The sockets of one lookup, by their names in the model."""

    def __init__(
        self,
        server: tuple[str, int],
        checks_question: bool,
        random: Random,
        kept: dict[str, socket.socket] | None,
    ) -> None:
        self._server = server
        self._kept = kept
        self._checks_question = checks_question
        self._random = random
        self._cookie = random.randbytes(8)
        self._sockets: dict[str, socket.socket] = dict(kept or {})
        self._buffers: dict[str, bytes] = {}  # of TCP connections
        self._ids: dict[int, int] = {}
        self._sent: dict[tuple[str, int], Packet] = {}  # by socket and ID
        self._ready: list[Arrival] = []

    def send(self, packet: Packet) -> None:
        """Send a packet; on an error it is lost, or closes its connection."""
        query_id = self._ids.setdefault(packet.qid, self._random.randrange(1 << 16))
        message = wire_of(packet, query_id, self._cookie)
        is_kept = self._kept is not None and packet.transport == "udp"
        port = KEPT if is_kept else packet.port
        try:
            if port not in self._sockets:
                self._sockets[port] = self._open(packet.transport)
                if self._kept is not None and is_kept:
                    self._kept[port] = self._sockets[port]
            self._sent[port, query_id] = packet
            if packet.transport == "tcp":
                message = len(message).to_bytes(2, "big") + message
                self._sockets[port].sendall(message)
            else:
                self._sockets[port].send(message)
        except OSError:
            if packet.transport == "tcp":
                self._ready.append((packet, CLOSED))

    def receive(self, until: float) -> Arrival | None:
        """Wait for the next answer, until a time in monotonic seconds."""
        while not self._ready:
            left = until - time.monotonic()
            if left <= 0:
                return None
            readable, _, _ = select.select(list(self._sockets.values()), [], [], left)
            for port, sock in list(self._sockets.items()):
                if sock in readable:
                    self._read(port, sock)
        return self._ready.pop(0)

    def close(self) -> None:
        """Close all sockets except the kept one."""
        for port, sock in self._sockets.items():
            if port not in (self._kept or ()):
                sock.close()

    def _open(self, transport: str) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._server[0] else socket.AF_INET
        kind = socket.SOCK_STREAM if transport == "tcp" else socket.SOCK_DGRAM
        sock = socket.socket(family, kind)
        try:
            sock.settimeout(CONNECTING)
            sock.connect(self._server)
        except OSError:
            sock.close()
            raise
        return sock

    def _read(self, port: str, sock: socket.socket) -> None:
        try:
            data = sock.recv(65535)
        except OSError:  # for example, the server's port is closed
            data = b""
        if port.startswith("u"):
            if data:
                self._take(port, data)
            return
        if not data:
            sock.close()
            del self._sockets[port]
            self._ready += [(each, CLOSED) for key, each in self._sent.items() if key[0] == port]
            return
        buffer = self._buffers.get(port, b"") + data
        while len(buffer) >= 2 and len(buffer) >= 2 + (size := int.from_bytes(buffer[:2], "big")):
            self._take(port, buffer[2 : 2 + size])
            buffer = buffer[2 + size :]
        self._buffers[port] = buffer

    def _take(self, port: str, message: bytes) -> None:
        packet = self._sent.get((port, int.from_bytes(message[:2], "big")))
        if packet is None or len(message) < HEADER_LEN:
            return
        if self._checks_question and not answers_question(message, query_of(packet).question_wire):
            return
        with contextlib.suppress(BadReply):
            self._ready.append((packet, answer_of(message, packet)))
