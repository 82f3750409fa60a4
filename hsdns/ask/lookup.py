"""The network of a resolver model on an event loop, whose time may be real or virtual: the sockets of its lookups.

Path: resolver/cli.py, fault_scenarios/cli.py, testing/patch.py -> resolver.model.look_up() -> Sockets -> a DNS
server; fault_scenarios/play.py has servers in memory instead.
Rule 1: a lookup over sockets ends after LONGEST seconds, even if the model would wait longer.
Rule 2: a reply counts if it comes from the server's address, has the ID and, where the library checks it, the question.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from random import Random
from typing import Any, Final

from hsdns.ask.question import Refused
from hsdns.resolver.model import (
    CLOSED,
    Arrival,
    Model,
    Packet,
    Transport,
    Unfinished,
    answer_of,
    query_of,
    wire_of,
)
from hsdns.wire.decode import HEADER_LEN, BadReply, answers_question
from hsdns.wire.framing import FrameBuffer, frame

LONGEST: Final = 60.0  # seconds for a lookup
CONNECTING: Final = 5.0  # seconds to connect over TCP
INSTANT: Final = 1e-6  # seconds: a reply that is due at a timeout comes before it


class LoopTransport(Transport):
    """Carries packets on the running loop; its time begins with 0.  `arrivals` are answers in their order."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self.arrivals: asyncio.Queue[Arrival] = asyncio.Queue()

    def now(self) -> float:
        """Seconds since it was made."""
        return self._loop.time() - self._began

    async def next_arrival(self, until: float) -> Arrival | None:
        """Wait for the next answer; None if there is none until a time."""
        with contextlib.suppress(TimeoutError):
            wait = max(until - self.now(), INSTANT)
            return await asyncio.wait_for(self.arrivals.get(), wait)
        return None

    def close(self) -> None:
        """Close what stays open after a lookup."""


class Sockets(LoopTransport):
    """The sockets of a model, which asks a server (address, port).

    With `keeps_socket`, all UDP queries of all lookups use one socket, until close().  With `needs_server`, a lookup
    ends with Refused once the host reports that nothing listens there.
    """

    def __init__(
        self,
        model: Model,
        server: tuple[str, int],
        random: Random,
        *,
        keeps_socket: bool = False,
        needs_server: bool = False,
    ) -> None:
        super().__init__()
        self._needs_server, self._is_refused = needs_server, False
        self._server, self._random, self._keeps_socket = server, random, keeps_socket
        self._checks_question = model.checks_question
        self._cookie = random.randbytes(8)
        self._flows: dict[str, _Flow] = {}  # by their names in the model
        self._ids: dict[int, int] = {}
        self._sent: dict[tuple[str, int], Packet] = {}  # by socket and ID
        self._end: float | None = None

    async def send(self, packet: Packet) -> None:
        """Send a packet; on an error it is lost, or closes its connection."""
        if self._end is None:
            self._end = self.now() + LONGEST
        query_id = self._ids.setdefault(packet.qid, self._random.randrange(1 << 16))
        message = wire_of(packet, query_id, self._cookie)
        port = "udp" if self._keeps_socket and packet.transport == "udp" else packet.port
        self._sent[port, query_id] = packet
        try:
            flow = self._flows.get(port) or await self._open(port, packet.transport)
        except OSError:
            if packet.transport == "tcp":
                self.arrivals.put_nowait((packet, CLOSED))
            return
        flow.send(message)

    async def receive(self, until: float | None) -> Arrival | None:
        """Wait for the next answer; raise Unfinished after LONGEST seconds, or Refused."""
        end = self.now() + LONGEST if self._end is None else self._end
        found = await self.next_arrival(end if until is None else min(until, end))
        if self._is_refused:
            host, port = self._server
            raise Refused(f"nothing listens on UDP at {host} port {port}")
        if found is None and (until is None or until > end):
            raise Unfinished(f"stopped after {LONGEST:g} seconds; the resolver would wait longer")
        return found

    async def finish(self) -> None:
        """End a lookup: close its sockets, except the kept one."""
        self._ids.clear()
        self._sent.clear()
        self.arrivals = asyncio.Queue()
        self._end = None
        for port in [*self._flows]:
            if port != "udp":
                self._flows.pop(port).close()

    def close(self) -> None:
        """Close all sockets."""
        while self._flows:
            self._flows.popitem()[1].close()

    async def _open(self, port: str, transport: str) -> _Flow:
        flow = _Flow(
            lambda message: self._take(port, message),
            lambda: self._lose(port),
            lambda: self._refuse(port),
        )
        self._flows[port] = flow  # before it is open, as the other end may close it at once
        try:
            if transport == "udp":
                await self._loop.create_datagram_endpoint(lambda: flow, remote_addr=self._server)
            else:
                connecting = self._loop.create_connection(lambda: flow, *self._server)
                await asyncio.wait_for(connecting, CONNECTING)
        except BaseException:
            self._flows.pop(port, None)
            raise
        return flow

    def _take(self, port: str, message: bytes) -> None:
        packet = self._sent.get((port, int.from_bytes(message[:2], "big")))
        if packet is None or len(message) < HEADER_LEN:
            return
        if self._checks_question and not answers_question(message, query_of(packet).question_wire):
            return
        with contextlib.suppress(BadReply):
            self.arrivals.put_nowait((packet, answer_of(message, packet)))

    def _refuse(self, port: str) -> None:
        """Nothing listens at the port of the server."""
        if self._needs_server:
            self._is_refused = True
            flow = self._flows.get(port)
            self._lose(port)
            if flow is not None:
                flow.close()

    def _lose(self, port: str) -> None:
        """The other end has closed a connection."""
        if self._flows.pop(port, None) is not None:
            for (of, _), packet in self._sent.items():
                if of == port:
                    self.arrivals.put_nowait((packet, CLOSED))


class _Flow(asyncio.DatagramProtocol, asyncio.Protocol):
    """The messages of a UDP socket or a TCP connection."""

    def __init__(
        self,
        take: Callable[[bytes], None],
        lose: Callable[[], None],
        refuse: Callable[[], None],
    ) -> None:
        self._take, self._lose, self._refuse = take, lose, refuse
        self._frames = FrameBuffer()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._is_udp = transport.get_extra_info("socket").type == socket.SOCK_DGRAM

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._take(data)

    def error_received(self, exc: Exception) -> None:
        if isinstance(exc, ConnectionRefusedError):
            self._refuse()

    def data_received(self, data: bytes) -> None:
        for message in self._frames.feed(data):
            self._take(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose()

    def send(self, message: bytes) -> None:
        """Send a message."""
        if self._is_udp:
            self._transport.sendto(message)
        else:
            self._transport.write(frame(message))

    def close(self) -> None:
        """Close the socket."""
        self._transport.close()
