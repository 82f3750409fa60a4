"""The resolver of Netty, DnsNameResolver: Spring WebFlux, Vert.x, Cassandra's and Azure's drivers.

Path: model.look_up() -> here.
Source: measured with 4.1; resolver-dns/src/main/java/io/netty/resolver/dns/DnsResolveContext.java.
Rule 1: A and AAAA leave together from one socket; a server gets each query once, and again over TCP if its reply is
        truncated.  After a timeout or an error the next server is asked; without any record, it is for the last type.
Rule 2: any error leads to the next suffix, except a timeout.  Only addresses are looked up through the search list.
Rule 3: addresses are kept for their TTL, and errors are not kept.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import inf
from random import Random
from typing import Final

from hsdns.resolver.model import (
    ADDRESS_LEN,
    Answer,
    Arrival,
    Keeps,
    Model,
    Result,
    Waiting,
    found_at,
)
from hsdns.resolver.resolv_conf import Reader, switches
from hsdns.wire.iana import Rcode

EDNS_SIZE: Final = 4096
NODATA: Final = "UnknownHostException"
REFUSED: Final = "DnsErrorCauseException"
TIMEOUT: Final = "DnsNameResolverTimeoutException"
READER: Final = Reader("Netty", switches("rotate"), most_servers=1 << 30, options_lines=1)

_Found = Generator[float | None, Arrival | None, tuple[list[str], str]]


class Netty(Model):
    """Netty 4.1, measured."""

    name = "netty"
    reader = READER
    used_by = "Netty's DnsNameResolver: Spring WebFlux, Vert.x"
    looks_at_own_address = True
    searches_addresses_alone = True
    keeps = Keeps(0, inf, "its cache keeps addresses for their TTL")

    def __init__(self, text: str, random: Random) -> None:
        super().__init__(text, random)
        self._next = 0  # server, with `rotate`
        self._ports: dict[int, str] = {}
        self._kept: dict[tuple[str, int], tuple[float, tuple[str, ...]]] = {}

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Try the names until one has an address."""
        tried, error, types = "", "", self.own(types)
        for tried in self.names(name, types):
            kept = [self._kept.get((tried, each), (0.0, ())) for each in types]
            found = [each for until, records in kept if until > self.now for each in records]
            if not found:
                found, error = yield from self._query(tried, types)
                if error == TIMEOUT and not found:
                    break
            if found:
                return found_at(tried, found, types)
        return Result((), error, f"{tried}: {error}")

    def _query(self, name: str, types: Sequence[int]) -> _Found:
        """Query the types at the same time; the error is that without records."""
        servers = list(range(len(self.conf.nameservers)))
        if "rotate" in self.conf.flags:
            start = self._next % len(servers)
            self._next += 1
            servers = servers[start:] + servers[:start]
        left = {rrtype: list(servers) for rrtype in types}
        running: dict[int, tuple[str, int, float]] = {}  # by type: socket, ID, end
        taken: dict[int, Answer] = {}
        late: set[int] = set()
        rcodes: list[int] = []

        def ask(rrtype: int) -> None:
            server = left[rrtype].pop(0)
            if server not in self._ports:
                self._ports[server] = self.new_port("udp")
            port = self._ports[server]
            running[rrtype] = port, self.new_qid(), self.now + self.conf.timeout
            self.send("udp", server, port, running[rrtype][1], rrtype, name, edns=EDNS_SIZE)

        for rrtype in types:
            ask(rrtype)
        while running:
            arrival = yield min(end for _, _, end in running.values())
            again: list[int] = []
            if arrival is None:
                again = [each for each, (_, _, end) in running.items() if end <= self.now]
                late.update(again)
            else:
                packet, answer = arrival
                rrtype = packet.rrtype
                port, qid, end = running.get(rrtype, ("", 0, 0.0))
                if (packet.port, packet.qid) != (port, qid) or answer.is_closed:
                    continue
                if answer.tc and packet.transport == "udp":
                    running[rrtype] = self.new_port("tcp"), self.new_qid(), end
                    port, qid, _ = running[rrtype]
                    self.send("tcp", packet.server, port, qid, rrtype, name)
                elif answer.rcode in (Rcode.NOERROR, Rcode.NXDOMAIN):
                    late.discard(rrtype)
                    taken[rrtype] = answer
                    if rrtype in ADDRESS_LEN:
                        self._kept[name, rrtype] = self.now + answer.ttl, answer.addresses
                    del running[rrtype]
                    if not running and not any(each.addresses for each in taken.values()):
                        again = [rrtype] if left[rrtype] else []
                else:
                    again = [rrtype]
                rcodes.append(answer.rcode)
            for rrtype in again:
                if left[rrtype]:
                    ask(rrtype)
                else:
                    del running[rrtype]
        found = [each for rrtype in types if rrtype in taken for each in taken[rrtype].addresses]
        error = NODATA if {*rcodes} - {Rcode.NXDOMAIN, Rcode.SERVFAIL} else REFUSED
        return found, TIMEOUT if late else error
