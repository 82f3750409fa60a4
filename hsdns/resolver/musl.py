"""The resolver of musl, as used by getaddrinfo, and that of busybox's nslookup: Alpine images.

Path: model.look_up() -> here.
Source: measured with 1.2.6 and 1.2.3; musl src/network/res_msend.c, lookup_name.c and resolvconf.c.
Rule 1: each query is sent to every nameserver at once, and the first NOERROR or NXDOMAIN counts.  After SERVFAIL it is
        sent again at once, within a limit; all other replies are ignored.
Rule 2: `timeout` is the total for a name, and unanswered queries are sent again every `timeout / attempts`.
Rule 3: only NXDOMAIN leads to the next suffix, and a name with `ndots` dots gets no suffixes.

nslookup sends its queries as musl does, but to one nameserver after the other, and with all suffixes at once.
Source: measured with busybox 1.35; networking/nslookup.c.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, ClassVar, Final

from hsdns.resolver.model import (
    ADDRESS_LEN,
    LIBC_TYPES,
    Answer,
    Arrival,
    Model,
    Packet,
    Result,
    Waiting,
    found_at,
    within,
)
from hsdns.resolver.resolv_conf import Reader
from hsdns.wire.iana import Rcode, rcode_to_text, type_to_text

MOST_ADDRESSES: Final = 48
LINE_LEN: Final = 254  # octets of a line of resolv.conf that is read, without its end
ROUNDING: Final = 0.002  # seconds by which the last interval may be shorter
NONAME: Final = "Name does not resolve"
NODATA: Final = "Name has no usable address"
AGAIN: Final = "Try again"
NO_ANSWER: Final = "No answer"  # of nslookup
READER: Final = Reader("musl", {}, most_timeout=60, most_attempts=10, line_len=LINE_LEN)


class Musl(Model):
    """musl 1.2.6, measured."""

    name = "musl"
    reader = READER
    used_by = "Alpine images with musl 1.2.4 or newer"
    checks_question = False
    uses_tcp: ClassVar[bool] = True
    nodata: ClassVar[str] = NODATA
    answer_len: ClassVar[int] = 4800  # octets of a reply that are read

    def names(self, name: str, types: Sequence[int]) -> list[str]:
        """Only addresses are looked up through the search list: res_search() is res_query()."""
        return super().names(name, types) if types[0] in ADDRESS_LEN else [name]

    def send(self, *packet: Any, **form: Any) -> None:
        """Put a packet into the outbox; res_query() has the AD bit."""
        super().send(*packet, **form)
        if self.outbox[-1].rrtype not in LIBC_TYPES:
            self.outbox[-1] = self.outbox[-1]._replace(ad=True)

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Try the names until one is not NXDOMAIN."""
        tried = self.names(name, types)
        as_it_is = tried[0] == name
        if as_it_is:
            tried = tried[:1]
        result = Result((), NONAME, "")
        for each in tried:
            result, goes_on = yield from self._query(each, types)
            if not goes_on:
                return result
        if as_it_is and self.conf.search and not name.endswith("."):
            why = f"musl tries no suffix for a name with as many dots as ndots, {self.conf.ndots}"
            return result._replace(why=f"{result.why}; {why}")
        return result

    def _query(
        self, name: str, types: Sequence[int]
    ) -> Generator[float | None, Arrival | None, tuple[Result, bool]]:
        """Query one name; the second value tells whether the next one is tried."""
        port = self.new_port("udp")
        qids = {rrtype: self.new_qid() for rrtype in types}
        end = self.now + self.conf.timeout
        interval = self.conf.timeout / self.conf.attempts
        taken: dict[int, tuple[Packet, Answer]] = {}
        connections: dict[str, int] = {}
        next_round = self.now
        budget = 0
        while len(taken) < len(qids):
            if self.now >= end - ROUNDING:
                break
            if self.now >= next_round - ROUNDING:
                for rrtype, qid in qids.items():
                    if rrtype not in taken and rrtype not in connections.values():
                        for server in range(len(self.conf.nameservers)):
                            self.send("udp", server, port, qid, rrtype, name)
                next_round = self.now + interval
                budget = 2 * len(qids)
            arrival = yield min(next_round, end)
            if arrival is None:
                continue
            packet, answer = arrival
            rrtype = packet.rrtype
            if packet.port in connections:
                if answer.is_closed:
                    why = f"the TCP connection for {name} was closed"
                    return Result((), AGAIN, why), False
                taken[rrtype] = arrival
            elif packet.port != port or rrtype in taken or rrtype in connections.values():
                pass
            elif answer.rcode == Rcode.SERVFAIL:
                if budget:
                    budget -= 1
                    self.send("udp", packet.server, port, packet.qid, rrtype, name)
            elif answer.rcode not in (Rcode.NOERROR, Rcode.NXDOMAIN):
                pass
            elif answer.tc and self.uses_tcp:
                connection = self.new_port("tcp")
                connections[connection] = rrtype
                self.send("tcp", packet.server, connection, packet.qid, rrtype, name)
            else:
                taken[rrtype] = arrival
        return self._result(name, types, taken)

    def _result(
        self, name: str, types: Sequence[int], taken: dict[int, tuple[Packet, Answer]]
    ) -> tuple[Result, bool]:
        for rrtype in types:
            if rrtype not in taken:
                why = f"{name} {type_to_text(rrtype)} had no usable answer in {self.conf.timeout} seconds"
                others = [type_to_text(each) for each in taken if taken[each][1].addresses]
                why += f", though {others[0]} had one" if others else ""
                return Result((), AGAIN, why), False
            if taken[rrtype][1].rcode == Rcode.NXDOMAIN:
                why = f"{name} {type_to_text(rrtype)} is NXDOMAIN"
                if any(answer.addresses for _, answer in taken.values()):
                    why += ", which musl takes as final, even though there are addresses"
                return Result((), NONAME, why), True
        found: list[str] = []
        for packet, answer in sorted(taken.values(), key=lambda each: -each[0].rrtype):
            found += self._read(packet, answer)
        if not found:
            why = f"{name} exists, but has no address"
            if any(suffix and name.endswith(f".{suffix}") for suffix in self.conf.search):
                why += "; musl tries no other suffix then"
            return Result((), self.nodata, why), False
        why = found_at(name, found, types).why
        if len(found) > MOST_ADDRESSES:
            why = f"{name} has {len(found)} addresses, of which musl takes {MOST_ADDRESSES}"
        return Result(tuple(found[:MOST_ADDRESSES]), "", why), False

    def _read(self, packet: Packet, answer: Answer) -> tuple[str, ...]:
        return within(answer, packet.rrtype, packet.name, self.answer_len)


class OldMusl(Musl):
    """musl 1.2.3 and older, measured: no TCP, 512 octets of each reply."""

    name = "musl-1.2.3"
    used_by = "Alpine images with an older musl, which has no TCP"
    uses_tcp = False
    nodata = NONAME
    answer_len = 512

    def _read(self, packet: Packet, answer: Answer) -> tuple[str, ...]:
        # It checks a record's end without the ten octets from its type to its length.
        return within(answer, packet.rrtype, packet.name, self.answer_len, lax=10)


class Nslookup(Model):
    """nslookup of busybox 1.35, measured; SERVFAIL as with musl, within the same limit."""

    name = "nslookup-busybox"
    reader = Reader("nslookup", {}, most_servers=1 << 30, numbers=())
    used_by = "nslookup in Alpine and busybox images"
    RETRY: Final = 2.5  # seconds
    LONGEST: Final = 5.0  # seconds for a nameserver
    TIMEOUT: Final = "connection timed out; no servers could be reached"

    def names(self, name: str, types: Sequence[int]) -> list[str]:
        """Only a name without a dot is looked up with suffixes, and then not as it is."""
        return [name] if "." in name else [f"{name}.{each}" for each in self.conf.search] or [name]

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Send all queries to a nameserver, and to the next one if it has answered none of them."""
        queries = {self.new_qid(): (each, of) for each in types for of in self.names(name, types)}
        left, error, why = dict(queries), "", ""
        found: list[str] = []
        for server in range(len(self.conf.nameservers)):
            port, budget = self.new_port("udp"), 0
            again, end = self.now, self.now + self.LONGEST
            while left and self.now < end - ROUNDING:
                if self.now >= again - ROUNDING:
                    for qid, query in left.items():
                        self.send("udp", server, port, qid, *query)
                    again, budget = self.now + self.RETRY, 2 * len(queries)
                arrival = yield min(again, end)
                if arrival is None or arrival[0].port != port or arrival[0].qid not in left:
                    continue
                packet, answer = arrival
                if answer.rcode == Rcode.SERVFAIL and budget:
                    budget -= 1
                    self.send("udp", server, port, packet.qid, *left[packet.qid])
                    continue
                rrtype, tried = left.pop(packet.qid)
                records = within(answer, rrtype, tried, OldMusl.answer_len)
                found += records
                if records or not found:
                    error = rcode_to_text(answer.rcode) if answer.rcode else NO_ANSWER
                    why = found_at(tried, records, [rrtype]).why if records else f"{tried}: {error}"
            if len(left) < len(queries):
                break
        if not found and left:
            error = NO_ANSWER if len(left) < len(queries) else self.TIMEOUT
            why = f"{name}: {error}"
        return Result(tuple(found), "" if found else error, why)
