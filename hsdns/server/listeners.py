"""The query sockets of the process: opened, put behind a configuration, let go of.

Path: lifecycle.py, beside http.py's HttpListeners; step 1 and 7 happen in what is made here.
Rule 1: sockets outlive configurations: a reload exchanges what answers between two packets, and opens or closes only
        what the Corefile has more or less than before.
Rule 2: what is let go of answers on until nothing of it is in work, or DRAIN_TIMEOUT is over; then it takes what has
        arrived meanwhile, and closes.
Rule 3: HTTP/2 is imported when the first https:// key is served: it takes 20 ms and 2 MB, and few Corefiles have one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from hsdns import eager
from hsdns.assemble import Configuration, ListenAddress, ServedAddress
from hsdns.chain import Endpoint
from hsdns.fastpath import IMPLEMENTATION
from hsdns.metrics import Registry
from hsdns.query import QueryProcessor
from hsdns.server.settings import Settings, settings_of
from hsdns.server.sockets import BoundSockets, open_all, open_more_udp
from hsdns.server.tcp import TcpServer
from hsdns.server.udp import UdpListener, make_udp

DRAIN_TIMEOUT: Final = (
    5.0  # seconds for what is in work when the sockets close (CoreDNS: 5 s grace)
)
LINGER_TIMEOUT: Final = 1.0  # for clients to close connections, once they were told to
POLL_INTERVAL: Final = 0.01


class Listener:
    """What answers at one address: UDP and TCP, or TCP alone."""

    def __init__(self, udp: UdpListener | None, tcp: TcpServer) -> None:
        self.udp = udp
        self.tcp = tcp

    @property
    def local(self) -> Endpoint:
        """The bound address."""
        return Endpoint(*self.tcp.sock.getsockname()[:2])

    @property
    def processor(self) -> QueryProcessor:
        """What answers."""
        return self.tcp.processor

    @property
    def sockets(self) -> list[socket.socket]:
        """All sockets of the address."""
        return [*(self.udp.sockets if self.udp is not None else ()), self.tcp.sock]

    @property
    def pending(self) -> int:
        """How many queries have no answer yet."""
        return self.tcp.pending + (self.udp.pending if self.udp is not None else 0)

    def exchange(self, processor: QueryProcessor) -> None:
        """Answer with another processor from now on."""
        self.tcp.processor = processor
        if self.udp is not None:
            self.udp.processor = processor

    async def start(self) -> None:
        """Begin to read."""
        if self.udp is not None:
            self.udp.start()
        await self.tcp.start()

    def stop_reading(self) -> None:
        """Take what has already come over UDP, and no more; let the TCP connections end."""
        if self.udp is not None:
            self.udp.stop_reading()
        self.tcp.end()

    def close(self) -> None:
        """Give the address back."""
        if self.udp is not None:
            self.udp.close()
        self.tcp.close()


Leaving = Listener | UdpListener


class Listeners:
    """All of them, by their place in the Corefile."""

    def __init__(
        self, metrics: Registry, spawn: eager.Spawn, clock: Callable[[], float], workers: int
    ) -> None:
        self.workers = workers
        self._open: dict[ListenAddress, Listener] = {}
        self._leaving: list[Leaving] = []
        self._is_clear = asyncio.Event()  # of what is leaving
        self._is_clear.set()
        self._spawn = spawn
        self._clock = clock
        self._rejected = metrics.counter(
            "hsdns_tcp_rejected_total", "Connections closed at once because too many were open."
        )
        self._doh_responses = metrics.counter(
            "coredns_dns_https_responses_total",
            "Counter of DoH responses per server and http status code.",
            ("server", "status"),
        )

    def __getitem__(self, listen: ListenAddress) -> Listener:
        return self._open[listen]

    def __iter__(self) -> Iterator[Listener]:
        return iter(self._open.values())

    @property
    def addresses(self) -> dict[ListenAddress, Endpoint]:
        """The address behind each, with the port that the kernel chose where it was 0."""
        return {listen: each.local for listen, each in self._open.items()}

    @property
    def udp(self) -> dict[ListenAddress, UdpListener]:
        """What reads UDP at each address that has it."""
        return {listen: each.udp for listen, each in self._open.items() if each.udp is not None}

    async def open(
        self, configuration: Configuration, opened: dict[ListenAddress, BoundSockets]
    ) -> dict[str, Endpoint]:
        """Bind what is not open yet, into `opened`; return the address of each server.  Raise ListenError.

        What a reload before this one let go of is waited for: it may be the same address.
        """
        await self._is_clear.wait()
        bound = {}
        for listener in configuration.listeners:
            listen = listener.listen
            wanted = self._count_workers(settings_of(listener))
            if listen not in self._open:
                opened[listen] = open_all(listen, self._on_port(listen.port, opened), wanted)
                bound[listen.server] = Endpoint(*opened[listen].tcp.getsockname()[:2])
                continue
            known = self._open[listen]
            bound[listen.server] = known.local
            if known.udp is not None and len(known.udp.sockets) != wanted:
                place = listen._replace(port=known.local.port)
                beside = self._on_port(place.port, opened)
                opened[listen] = BoundSockets(open_more_udp(place, beside, wanted), known.tcp.sock)
        return bound

    def give_back(self, opened: Mapping[ListenAddress, BoundSockets]) -> None:
        """Close what was opened for a configuration that does not start."""
        for listen, sockets in opened.items():
            for sock in sockets.udp if listen in self._open else (*sockets.udp, sockets.tcp):
                sock.close()

    async def use(
        self,
        listeners: Iterable[ServedAddress],
        processor_of: Callable[[str], QueryProcessor],
        opened: Mapping[ListenAddress, BoundSockets],
    ) -> list[Leaving]:
        """Put processors behind the sockets, and begin to read new ones; return what is no longer wanted.

        That answers on until let_go() has been called with it.  Where something new does not start, it ends, this
        raises, and what was open answers as before.
        """
        wanted = {each.listen: settings_of(each) for each in listeners}
        made = await self._start(wanted, processor_of, opened)
        left: list[Leaving] = []
        for listen, settings in wanted.items():  # nothing is awaited here, and nothing fails
            processor, new = processor_of(listen.server), made.get(listen)
            if isinstance(new, Listener):
                self._open[listen] = new
            known = self._open[listen]
            known.tcp.settings = settings
            known.exchange(processor)
            if isinstance(new, UdpListener) and known.udp is not None:  # another number of workers
                new.processor = processor
                left.append(known.udp)
                known.udp.leave_to(new)
                known.udp = new
        for listen in set(self._open) - set(wanted):
            leaving = self._open.pop(listen)
            for (
                heir
            ) in self._open:  # the old socket may still receive what is now another's to answer
                if (heir.port, heir.scheme) == (listen.port, listen.scheme):
                    leaving.exchange(processor_of(heir.server))
            left.append(leaving)
        self._leaving += left
        if left:
            self._is_clear.clear()
        return left

    async def _start(
        self,
        wanted: Mapping[ListenAddress, Settings],
        processor_of: Callable[[str], QueryProcessor],
        opened: Mapping[ListenAddress, BoundSockets],
    ) -> dict[ListenAddress, Leaving]:
        """Begin to read what was opened; end all of it and raise where a part does not start."""
        made: dict[ListenAddress, Leaving] = {}
        try:
            for listen, settings in wanted.items():
                if listen not in opened:
                    continue
                processor = processor_of(listen.server)
                if listen in self._open:
                    made[listen] = udp = self._make_udp(opened[listen].udp, processor)
                    udp.start()
                else:
                    made[listen] = new = self._make(opened[listen], processor, settings)
                    await new.start()
        except BaseException:
            await self._end(list(made.values()), lambda: False)
            raise
        return made

    def exchange(self, processors: Mapping[str, QueryProcessor]) -> None:
        """Put other processors behind the sockets; what is just being opened gets its own with use()."""
        for listen, each in self._open.items():
            if listen.server in processors:
                each.exchange(processors[listen.server])

    async def let_go(
        self, left: Sequence[Leaving], is_at_once: Callable[[], bool] = lambda: False
    ) -> None:
        """Close what use() returned, when what is in work there has been answered, or `is_at_once`."""
        ends = [self._end([each], is_at_once) for each in left]
        faults = await asyncio.gather(*ends, return_exceptions=True)
        self._leaving = [each for each in self._leaving if each not in left]
        if not self._leaving:
            self._is_clear.set()
        for fault in faults:
            if fault is not None:
                raise fault

    async def close(self, is_at_once: Callable[[], bool]) -> None:
        """Close what is open, when what is in work has been answered; `is_at_once` ends the patience for it."""
        await self._end(list(self._open.values()), is_at_once)
        self._open.clear()

    async def _end(self, leaving: Sequence[Leaving], is_at_once: Callable[[], bool]) -> None:
        try:
            await self._finish(leaving, is_at_once)
        finally:
            for each in leaving:
                each.close()

    async def _finish(self, leaving: Sequence[Leaving], is_at_once: Callable[[], bool]) -> None:
        tcp = [each.tcp for each in leaving if isinstance(each, Listener)]
        for server in tcp:
            server.stop_accepting()

        async def drain(deadline: float) -> None:
            while any(each.pending for each in leaving) and not is_at_once():
                if self._clock() >= deadline:
                    break
                await asyncio.sleep(POLL_INTERVAL)

        await drain(self._clock() + DRAIN_TIMEOUT)
        for each in leaving:
            each.stop_reading()
        deadline = self._clock() + LINGER_TIMEOUT
        await drain(deadline)
        while any(server.connections for server in tcp) and not is_at_once():
            if self._clock() >= deadline:
                break
            await asyncio.sleep(POLL_INTERVAL)
        for each in leaving:
            if isinstance(each, UdpListener):
                each.stop_reading()  # what has come to it meanwhile is for those that stay

    def _make(
        self, sockets: BoundSockets, processor: QueryProcessor, settings: Settings
    ) -> Listener:
        args = (sockets.tcp, processor, self._spawn, self._clock, self._rejected)
        if processor.server.startswith("https://"):
            from hsdns.server.doh import DohServer  # noqa: PLC0415 - Rule 3

            tcp: TcpServer = DohServer(
                *args, self._count_connections, settings, responses=self._doh_responses
            )
        else:
            tcp = TcpServer(*args, self._count_connections, settings)
        udp = self._make_udp(sockets.udp, processor) if sockets.udp else None
        return Listener(udp, tcp)

    def _make_udp(self, sockets: Sequence[socket.socket], processor: QueryProcessor) -> UdpListener:
        return make_udp(sockets, processor, self._spawn, self._clock)

    def _count_workers(self, settings: Settings) -> int:
        """How many UDP sockets an address is to have; the loop reads one alone."""
        if IMPLEMENTATION != "rust":
            return 1
        return settings.workers or self.workers

    def _count_connections(self) -> int:
        leaving = [each for each in self._leaving if isinstance(each, Listener)]
        return sum(len(each.tcp.connections) for each in (*self._open.values(), *leaving))

    def _on_port(
        self, port: int, opened: Mapping[ListenAddress, BoundSockets]
    ) -> list[socket.socket]:
        """Our own sockets on a port; on port 0 each has another."""
        known = {listen: each.sockets for listen, each in self._open.items()}
        fresh = {
            listen: [*sockets.udp, sockets.tcp]
            for listen, sockets in opened.items()
            if listen not in known
        }
        return [
            sock
            for listen, sockets in {**known, **fresh}.items()
            if port and listen.port == port
            for sock in sockets
        ]
