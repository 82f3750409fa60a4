"""The listeners of one configuration: bound, started, taken over from the predecessor, drained.

Path: instance.py, beside http/pages.py; the listeners do steps 1 and 7.
Rule 1: sockets outlive configurations: the successor takes over each listener whose address it serves too, between two
        packets; the others are drained.
Rule 2: a listener belongs to one configuration at any time, so a configuration drains all listeners that it still has.

The UDP and TCP servers of one address:
Rule 1: a draining listener answers until no query is in progress or DRAIN_TIMEOUT is over; then it processes what has
        arrived meanwhile, and closes.

Opens the sockets of an address, and makes the servers that read them:
Rule 1: HTTP/2 is imported when the first https:// key is served, because the import takes 10 ms and 1.3 MB, and few
        Corefiles have such a key.
Rule 2: threads read UDP if the compiled fast path is loaded; otherwise the loop does.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hsdns import eager
from hsdns.assemble import ListenAddress, ServedAddress
from hsdns.chain import Endpoint
from hsdns.fastpath import IMPLEMENTATION
from hsdns.metrics import Registry
from hsdns.query import QueryProcessor
from hsdns.server.transport.admission import Admission, Credit, ListenerFaults, Places, Turns
from hsdns.server.transport.sockets import (
    BoundSockets,
    Settings,
    open_all,
    open_more_udp,
    settings_of,
)
from hsdns.server.transport.tcp import TcpListener
from hsdns.server.transport.udp import UdpListener, UdpServer

DRAIN_TIMEOUT: Final = 5.0  # seconds for queries in progress when the sockets close, as in CoreDNS
LINGER_TIMEOUT: Final = 1.0  # seconds for clients to close half-closed connections
POLL_INTERVAL: Final = 0.01  # seconds


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

    async def drain(
        self,
        clock: Callable[[], float],
        is_forced: Callable[[], bool],
        is_needed: Callable[[], bool],
    ) -> None:
        """Answer while that `is_needed`, in the timeouts and unless `is_forced`, then close; also after an error."""

        async def wait_while(condition: Callable[[], bool], deadline: float) -> None:
            while condition() and not is_forced() and clock() < deadline:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(POLL_INTERVAL)

        try:
            if self.tcp is not None:
                self.tcp.stop_accepting()
            await wait_while(is_needed, clock() + DRAIN_TIMEOUT)
            self.stop_reading()
            deadline = clock() + LINGER_TIMEOUT
            await wait_while(is_needed, deadline)
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


class Opener:
    """Opens the query sockets of the process.

    `workers` threads answer at each UDP address for which the Corefile gives no number; `places` counts the TCP
    connections of all listeners; `faults` has the effects of rules of faults on them.  With `reuseport`, which is set
    before the first is opened, other servers of this user may have the same ports.
    """

    def __init__(
        self,
        metrics: Registry,
        spawn: eager.Spawn,
        clock: Callable[[], float],
        workers: int,
        places: Places,
    ) -> None:
        self.clock = clock
        self.faults = ListenerFaults()
        self.reuseport = False
        # The ports that the kernel chose before a restart, so that they stay the same.
        self.ports: Mapping[ListenAddress, int] = {}
        self._workers = workers
        rejected = metrics.counter("hsdns_tcp_rejected_total")
        self._doh_counters = (
            metrics.counter("coredns_dns_https_responses_total", ("server", "status")),
            metrics.counter("hsdns_https_sent_away_total", ("server", "limit")),
        )
        # The loop runs when the first connection takes a step; all connections of the process share the turns.
        turns = Turns(clock, lambda call: asyncio.get_running_loop().call_soon(call))
        self.shared = shared = Admission(spawn, clock, places, turns, rejected)
        # What HTTPS costs is not charged to TLS.
        self._over_tls = {each: shared._replace(credit=Credit()) for each in ("tls", "https")}

    def count_workers(self, settings: Settings) -> int:
        """The number of UDP sockets of an address; one if the loop reads."""
        if IMPLEMENTATION != "rust":
            return 1
        return settings.workers or self._workers

    def open_all(
        self, listen: ListenAddress, beside: Collection[socket.socket], workers: int
    ) -> BoundSockets:
        """Bind an address; raise ListenError."""
        place = listen._replace(port=self.ports.get(listen, listen.port))
        return open_all(place, beside, workers, reuseport=self.reuseport)

    def open_more_udp(
        self, listen: ListenAddress, beside: Collection[socket.socket], count: int
    ) -> list[socket.socket]:
        """Bind more sockets to an address that this process has; raise ListenError."""
        return open_more_udp(listen, beside, count, reuseport=self.reuseport)

    def make(
        self, sockets: BoundSockets, processor: QueryProcessor, settings: Settings
    ) -> Listener:
        """Make the servers for bound sockets, without starting them."""
        udp = self.make_udp(sockets.udp, processor) if sockets.udp else None
        tcp = self.make_tcp(sockets.tcp, processor, settings) if sockets.tcp is not None else None
        listener = Listener(udp, tcp)
        for part in listener.parts:
            part.faults = self.faults
        return listener

    def make_udp(self, sockets: Sequence[socket.socket], processor: QueryProcessor) -> UdpListener:
        """Make the UDP server."""
        if IMPLEMENTATION == "rust":
            from hsdns.server.transport.udp import UdpWorkers  # noqa: PLC0415 - it needs the compiled module

            return UdpWorkers(sockets, processor, self.shared)
        return UdpServer(sockets[0], processor, self.shared)

    def make_tcp(
        self, sock: socket.socket, processor: QueryProcessor, settings: Settings
    ) -> TcpListener:
        """Make the TCP server."""
        scheme = processor.server.partition("://")[0]
        args = (sock, processor, self._over_tls.get(scheme, self.shared), settings)
        if scheme == "https":
            from hsdns.server.http.doh import DohServer  # noqa: PLC0415 - Rule 1

            return DohServer(*args, counters=self._doh_counters)
        return TcpListener(*args)


class Listeners:
    """The listeners of one configuration, by their address in the Corefile."""

    def __init__(self, opener: Opener, served: tuple[ServedAddress, ...]) -> None:
        self.closed = asyncio.Event()  # set when all have been drained
        self._opener = opener
        self._settings = {each.listen: settings_of(each) for each in served}
        self._bound: dict[ListenAddress, BoundSockets] = {}
        self._started: dict[ListenAddress, Listener] = {}  # not yet serving
        self._serving: dict[ListenAddress, Listener] = {}

    def __getitem__(self, listen: ListenAddress) -> Listener:
        return self._serving[listen]

    def __iter__(self) -> Iterator[Listener]:
        return iter((*self._started.values(), *self._serving.values()))

    def __len__(self) -> int:
        return len(self._started) + len(self._serving)

    @property
    def addresses(self) -> dict[ListenAddress, Endpoint]:
        """The address of each listener, with the port that the kernel chose for port 0."""
        return {listen: each.local for listen, each in self._serving.items()}

    @property
    def udp(self) -> dict[ListenAddress, UdpListener]:
        """The UDP part of each address that has one."""
        return {listen: each.udp for listen, each in self._serving.items() if each.udp is not None}

    def bind(self, predecessor: Listeners | None) -> dict[str, Endpoint]:
        """Bind the addresses that the predecessor does not have; return each server's address.  Raise ListenError."""
        known = predecessor._serving if predecessor is not None else {}
        addresses = {}
        for listen, settings in self._settings.items():
            wanted = self._opener.count_workers(settings)
            running = known.get(listen)
            if running is None:
                sockets = self._opener.open_all(listen, self._on_port(listen.port, known), wanted)
                self._bound[listen] = sockets
                addresses[listen.server] = sockets.local
                continue
            addresses[listen.server] = running.local
            if running.udp is not None and len(running.udp.sockets) != wanted:
                place = listen._replace(port=running.local.port)
                beside = self._on_port(place.port, known)
                more = self._opener.open_more_udp(place, beside, wanted)
                self._bound[listen] = BoundSockets(more, None)
        return addresses

    async def start(self, processors: Mapping[str, QueryProcessor]) -> None:
        """Start reading from the bound sockets; raise if a part does not start, and leave the rest to release()."""
        for listen, sockets in self._bound.items():
            processor = processors[listen.server]
            settings = self._settings[listen]
            self._started[listen] = listener = self._opener.make(sockets, processor, settings)
            await listener.start()

    def take_over(
        self, predecessor: Listeners | None, processors: Mapping[str, QueryProcessor]
    ) -> None:
        """Serve at all addresses from the next packet on; the predecessor keeps the listeners that it has to drain."""
        known = predecessor._serving if predecessor is not None else {}
        for listen, settings in self._settings.items():
            started = self._started.pop(listen, None)
            running = known.pop(listen, None)
            if running is None:
                assert started is not None, "bound, since the predecessor has not got it"
                self._serving[listen] = started
                continue
            if running.tcp is not None:
                running.tcp.settings = settings
            running.exchange(processors[listen.server])
            if started is None or started.udp is None or running.udp is None:
                self._serving[listen] = running
            else:  # another number of workers
                running.udp.drain_to(started.udp)
                known[listen] = Listener(running.udp, None)
                self._serving[listen] = Listener(started.udp, running.tcp)
        self._bound.clear()
        for listen, draining in known.items():
            if listen in self._serving:
                continue
            for other in self._serving:
                # On another host: the old socket receives some of its queries.
                if (other.port, other.scheme) == (listen.port, listen.scheme):
                    draining.exchange(processors[other.server])

    def exchange(self, processors: Mapping[str, QueryProcessor]) -> None:
        """Replace the processors of the listeners."""
        for listen, each in self._serving.items():
            each.exchange(processors[listen.server])

    async def drain(self, is_forced: Callable[[], bool]) -> None:
        """Close each listener once its own queries are answered; `is_forced` ends the wait at once.

        Errors of listeners are raised after all have closed.
        """
        await self._close_when(lambda each: lambda: each.pending > 0, is_forced)

    async def shut_down(self, is_forced: Callable[[], bool], draining: Sequence[Listeners]) -> None:
        """Close all listeners once all their queries are answered and draining listeners have closed; as drain()."""

        def is_needed() -> bool:
            return any(each.pending for each in self) or not all(
                each.closed.is_set() for each in draining
            )

        await self._close_when(lambda each: is_needed, is_forced)

    async def _close_when(
        self, is_needed: Callable[[Listener], Callable[[], bool]], is_forced: Callable[[], bool]
    ) -> None:
        clock = self._opener.clock
        drains = [each.drain(clock, is_forced, is_needed(each)) for each in self]
        try:
            faults = await asyncio.gather(*drains, return_exceptions=True)
        finally:
            self._started.clear()
            self._serving.clear()
            self.closed.set()
        for fault in faults:
            if fault is not None:
                raise fault

    async def release(self, is_forced: Callable[[], bool]) -> None:
        """Close the sockets and listeners of a configuration that does not start."""
        try:
            await self.drain(is_forced)
        finally:
            for sockets in self._bound.values():
                sockets.close()
            self._bound.clear()

    def _on_port(self, port: int, known: Mapping[ListenAddress, Listener]) -> list[socket.socket]:
        """The sockets that this process already has on a port; with port 0 each has another port."""
        both: dict[ListenAddress, BoundSockets | Listener] = {**self._bound, **known}
        return [
            sock
            for listen, each in both.items()
            if port and listen.port == port
            for sock in each.sockets
        ]
