"""The UDP and TCP servers of one address.

Path: opener.py makes both parts, listeners.py starts and drains them; the parts do steps 1 and 7.
Rule 1: a draining listener answers until no query is in progress or DRAIN_TIMEOUT is over; then it processes what has
        arrived meanwhile, and closes.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final, NamedTuple

from hsdns.chain import Endpoint
from hsdns.query import QueryProcessor
from hsdns.server.tcp_listener import TcpListener
from hsdns.server.udp_listener import UdpListener

DRAIN_TIMEOUT: Final = 5.0  # seconds for queries in progress when the sockets close, as in CoreDNS
LINGER_TIMEOUT: Final = 1.0  # seconds for clients to close half-closed connections
POLL_INTERVAL: Final = 0.01  # seconds


class DrainConditions(NamedTuple):
    """How long a draining listener waits: while `is_needed`, unless `is_forced`, and at most for its timeouts."""

    clock: Callable[[], float]
    is_forced: Callable[[], bool]
    is_needed: Callable[[], bool]

    async def wait_while(self, condition: Callable[[], bool], deadline: float) -> None:
        """Wait until a condition no longer holds, or the deadline has passed."""
        while condition() and not self.is_forced():
            if self.clock() >= deadline:
                break
            await asyncio.sleep(POLL_INTERVAL)


class Listener(NamedTuple):
    """The two parts: tls:// and https:// have no UDP, and UDP workers whose number changed drain without TCP."""

    udp: UdpListener | None
    tcp: TcpListener | None

    @property
    def parts(self) -> list[UdpListener | TcpListener]:
        """The existing parts, at least one."""
        return [each for each in (self.udp, self.tcp) if each is not None]

    @property
    def local(self) -> Endpoint:
        """The bound address."""
        return Endpoint(*self.sockets[-1].getsockname()[:2])

    @property
    def processor(self) -> QueryProcessor:
        """The query processor."""
        return self.parts[-1].processor

    @property
    def sockets(self) -> list[socket.socket]:
        """All sockets of the address."""
        udp = self.udp.sockets if self.udp is not None else []
        return [*udp, self.tcp.sock] if self.tcp is not None else udp

    @property
    def pending(self) -> int:
        """The number of queries in progress."""
        return sum(part.pending for part in self.parts)

    @property
    def connections(self) -> int:
        """The number of open TCP connections."""
        return len(self.tcp.connections) if self.tcp is not None else 0

    def exchange(self, processor: QueryProcessor) -> None:
        """Use another processor from the next query on."""
        for part in self.parts:
            part.processor = processor

    async def start(self) -> None:
        """Start reading."""
        if self.udp is not None:
            self.udp.start()
        if self.tcp is not None:
            await self.tcp.start()

    async def drain(self, conditions: DrainConditions) -> None:
        """Answer the queries in progress, then close; close also if an error is raised."""
        clock, wait_while = conditions.clock, conditions.wait_while
        try:
            if self.tcp is not None:
                self.tcp.stop_accepting()
            await wait_while(conditions.is_needed, clock() + DRAIN_TIMEOUT)
            self.stop_reading()
            deadline = clock() + LINGER_TIMEOUT
            await wait_while(conditions.is_needed, deadline)
            await wait_while(lambda: bool(self.connections), deadline)
            if self.tcp is None and self.udp is not None:
                self.udp.stop_reading()  # the successor answers the queries that have arrived meanwhile
        finally:
            self.close()

    def stop_reading(self) -> None:
        """Answer the UDP queries that have already arrived, and read no more; let the TCP connections end."""
        if self.udp is not None:
            self.udp.stop_reading()
        if self.tcp is not None:
            self.tcp.end()

    def kill(self) -> None:
        """Close the sockets and connections, as the kernel does for a process that has ended."""
        for part in self.parts:
            part.kill()

    def close(self) -> None:
        """Close the sockets; queries in progress get no reply."""
        for part in self.parts:
            part.close()
