"""The resolver of nginx, of the directive `resolver` and names that are only known when a request comes.

Path: model.look_up() -> here.
Source: measured with 1.22; src/core/ngx_resolver.c.
Rule 1: A and AAAA leave together; what is not answered is sent again every five seconds, to the next server.  A TCP
        connection ends after five seconds.
Rule 2: an error for one family is the result, even if the other has addresses.
Rule 3: addresses are kept for their TTL, to the second; errors are not kept.  Each name begins with the next server.
Rule 4: the resolv.conf is not read: `resolver` has the servers, which here are those of the resolv.conf.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from random import Random
from typing import Final

from hsdns.resolver.model import Answer, Keeps, Model, Result, Waiting, found_at
from hsdns.resolver.resolv_conf import Reader
from hsdns.wire.iana import ADDRESSES, Rcode

RESEND: Final = 5.0  # seconds
LATER: Final = 0.001  # seconds at least until a reply comes, and its TCP connection begins
LONGEST: Final = 30.0  # seconds, resolver_timeout
NOT_FOUND: Final = "Host not found"
TIMEOUT: Final = "Operation timed out"
ERRORS: Final = {
    Rcode.SERVFAIL: "Server failure",
    Rcode.NXDOMAIN: NOT_FOUND,
    Rcode.NOTIMP: "Unimplemented",
    Rcode.REFUSED: "Operation refused",
}
READER: Final = Reader("nginx", {}, most_servers=1 << 30, searches=False, numbers=())


class Nginx(Model):
    """nginx 1.22, measured."""

    name = "nginx"
    reader = READER
    used_by = "nginx with `resolver` and a variable in proxy_pass, or `resolve` in an upstream"
    types = ADDRESSES
    keeps = Keeps(0, inf, "`resolver` keeps addresses for their TTL; valid= sets another time")

    def __init__(self, text: str, random: Random) -> None:
        super().__init__(text, random)
        self._next = 0  # server
        self._ports: dict[tuple[str, int], str] = {}
        self._ends: dict[str, float] = {}  # of TCP connections
        self._phase = random.uniform(0, 1.0)  # of a second, at which its clock began
        self._kept: dict[str, tuple[float, tuple[str, ...]]] = {}

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Look a name up without suffixes, unless its addresses are known."""
        until, known = self._kept.get(name, (0, ()))
        if known and until >= int(self.now + self._phase):
            return found_at(name, known, types)
        count, server, end = len(self.conf.nameservers), self._next, self.now + LONGEST
        self._next = (server + 1) % count
        qids = {rrtype: self.new_qid() for rrtype in types}
        over: dict[int, str] = dict.fromkeys(types, "udp")
        taken: dict[int, Answer] = {}
        unsent, again, arrival = list(types), self.now + RESEND, None
        while len(taken) < len(types):
            for rrtype in unsent:
                key = over[rrtype], server
                if key not in self._ports or self._ends.get(self._ports[key], inf) <= self.now:
                    self._ports[key] = self.new_port(key[0])
                    if key[0] == "tcp":
                        later = LATER if arrival is not None else 0.0
                        self._ends[self._ports[key]] = self.now + RESEND + later
                self.send(over[rrtype], server, self._ports[key], qids[rrtype], rrtype, name)
            unsent = []
            arrival = yield min(again, end)
            if arrival is None:
                if self.now >= end:
                    return Result(
                        (), TIMEOUT, f"{name} had no usable answer in {LONGEST:g} seconds"
                    )
                server, again = (server + 1) % count, self.now + RESEND
                unsent = [rrtype for rrtype in types if rrtype not in taken]
                continue
            packet, answer = arrival
            if answer.is_closed:
                self._ports.pop(("tcp", packet.server), None)
            elif packet.qid == qids.get(packet.rrtype) and packet.rrtype not in taken:
                if answer.tc and packet.transport == "udp":
                    over[packet.rrtype], unsent = "tcp", [packet.rrtype]
                elif not answer.tc and answer.rcode != Rcode.FORMERR:
                    taken[packet.rrtype] = answer
        for rcode in [each.rcode for each in taken.values() if each.rcode]:
            error = ERRORS.get(rcode, "Unknown error")
            return Result((), error, f"{name}: {error}, for one family at least")
        found = [each for rrtype in types for each in taken[rrtype].addresses]
        if not found:
            return Result((), NOT_FOUND, f"{name} exists, but has no address")
        ttl = min(each.ttl for each in taken.values() if each.addresses)
        until = int(self.now + self._phase) + self.keeps.seconds(ttl)
        self._kept[name] = until, tuple(found)
        return found_at(name, found, types)


class NginxValid(Nginx):
    """nginx 1.22 with `resolver ... valid=10s`, measured."""

    name = "nginx-valid"
    used_by = "nginx with `resolver` and valid=10s"
    keeps = Keeps(10, 10, "valid=10s of `resolver` is in place of the TTL")
