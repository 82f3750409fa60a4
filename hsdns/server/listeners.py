"""The listeners of one configuration: bound, started, taken over from the predecessor, drained.

Path: instance.py, beside http.py's pages; the listeners do steps 1 and 7.
Rule 1: sockets outlive configurations: the successor takes over each listener whose address it serves too, between two
        packets; the others are drained.
Rule 2: a listener belongs to one configuration at any time, so a configuration drains all listeners that it still has.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence

from hsdns.assemble import ListenAddress, ServedAddress
from hsdns.chain import Endpoint
from hsdns.query import QueryProcessor
from hsdns.server.listener import DrainConditions, Listener
from hsdns.server.opener import Opener
from hsdns.server.settings import settings_of
from hsdns.server.sockets import BoundSockets
from hsdns.server.udp_listener import UdpListener


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
            for (
                other
            ) in self._serving:  # on another host: the old socket receives some of its queries
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
        drains = [each.drain(DrainConditions(clock, is_forced, is_needed(each))) for each in self]
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
        running = [(listen, each.sockets) for listen, each in known.items()]
        bound = [
            (listen, each.sockets) for listen, each in self._bound.items() if listen not in known
        ]
        return [
            sock
            for listen, sockets in (*running, *bound)
            if port and listen.port == port
            for sock in sockets
        ]
