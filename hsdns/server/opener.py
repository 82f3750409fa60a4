"""Opens the sockets of an address, and makes the servers that read them.

Path: lifecycle.py makes one for the process, listeners.py calls it; tests pass in one without sockets.
Rule 1: HTTP/2 is imported when the first https:// key is served, because the import takes 10 ms and 1.3 MB, and few
        Corefiles have such a key.
Rule 2: threads read UDP if the compiled fast path is loaded; otherwise the loop does.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection, Mapping, Sequence

from hsdns import eager
from hsdns.assemble import ListenAddress
from hsdns.fastpath import IMPLEMENTATION
from hsdns.metrics import Registry
from hsdns.query import QueryProcessor
from hsdns.server.admission import Admission, Credit, ListenerFaults, Places, Turns
from hsdns.server.listener import Listener
from hsdns.server.settings import Settings
from hsdns.server.sockets import BoundSockets, open_all, open_more_udp
from hsdns.server.tcp import TcpServer
from hsdns.server.tcp_listener import TcpListener
from hsdns.server.udp import UdpServer
from hsdns.server.udp_listener import UdpListener


class Opener:
    """Opens the query sockets of the process.

    `workers` threads answer at each UDP address for which the Corefile gives no number; `places` counts the TCP
    connections of all listeners; `faults` has the effects of rules of faults on them.
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
        # The ports that the kernel chose before a restart, so that they stay the same.
        self.ports: Mapping[ListenAddress, int] = {}
        self._spawn = spawn
        self._workers = workers
        rejected = metrics.counter(
            "hsdns_tcp_rejected_total",
            "Connections closed at once because too many were open, or came from one address over TLS.",
        )
        self._doh_responses = metrics.counter(
            "coredns_dns_https_responses_total",
            "Counter of DoH responses per server and http status code.",
            ("server", "status"),
        )
        self._doh_excesses = metrics.counter(
            "hsdns_https_sent_away_total",
            "Connections that were closed because their client exceeded a limit of HTTP/2.",
            ("server", "limit"),
        )
        # The loop runs when the first connection takes a step; all connections of the process share the turns.
        self._turns = Turns(clock, lambda call: asyncio.get_running_loop().call_soon(call))
        shared = Admission(places, self._turns, rejected)
        # What HTTPS costs is not charged to TLS.
        over_tls = {scheme: shared._replace(credit=Credit()) for scheme in ("tls", "https")}
        self._admission = {"dns": shared, **over_tls}

    def count_workers(self, settings: Settings) -> int:
        """The number of UDP sockets of an address; one if the loop reads."""
        if IMPLEMENTATION != "rust":
            return 1
        return settings.workers or self._workers

    def open_all(
        self, listen: ListenAddress, beside: Collection[socket.socket], workers: int
    ) -> BoundSockets:
        """Bind an address; raise ListenError."""
        return open_all(listen._replace(port=self.ports.get(listen, listen.port)), beside, workers)

    def open_more_udp(
        self, listen: ListenAddress, beside: Collection[socket.socket], count: int
    ) -> list[socket.socket]:
        """Bind UDP sockets to an address that this process already serves; raise ListenError."""
        return open_more_udp(listen, beside, count)

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
            from hsdns.server.workers import UdpWorkers  # noqa: PLC0415 - it needs the compiled module

            return UdpWorkers(sockets, processor, self._spawn, self.clock)
        return UdpServer(sockets[0], processor, self._spawn, self.clock, self._turns)

    def make_tcp(
        self, sock: socket.socket, processor: QueryProcessor, settings: Settings
    ) -> TcpListener:
        """Make the TCP server."""
        scheme = processor.server.partition("://")[0]
        admission = self._admission.get(scheme, self._admission["dns"])
        args = (sock, processor, self._spawn, self.clock, admission, settings)
        if scheme == "https":
            from hsdns.server.doh import DohCounters, DohServer  # noqa: PLC0415 - Rule 1

            return DohServer(*args, counters=DohCounters(self._doh_responses, self._doh_excesses))
        return TcpServer(*args)
