"""The resolver of glibc, as getaddrinfo and res_search use it: Debian, Ubuntu, RHEL and distroless images.

Path: model.look_up() -> here.
Source: measured with 2.36; glibc resolv/res_send.c, res_query.c and nss_dns/dns-host.c, as of that version.
Rule 1: A and AAAA leave together from one socket.  If only one is answered, both are sent again, one after the other;
        if that fails too, from a socket each.  The process stays in these modes.
Rule 2: a result that does not fit its buffer is discarded, and the whole lookup is repeated with a buffer of twice the
        size.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from random import Random
from typing import Final, NamedTuple

from hsdns.resolver.model import FAILURES, Answer, Arrival, Model, Result, Waiting, found_at
from hsdns.resolver.resolv_conf import Reader, switches
from hsdns.wire.iana import Rcode, RRType, rcode_to_text

BUFFER_LEN: Final = 1024  # octets, the first time
ADDRESS_TUPLE_LEN: Final = 40  # octets for each address
EDNS_SIZE: Final = 1200  # with the option edns0
NONAME: Final = "Name or service not known"
NODATA: Final = "No address associated with hostname"
AGAIN: Final = "Temporary failure in name resolution"
READER: Final = Reader(
    "glibc",
    switches(
        "rotate", "single-request", "single-request-reopen", "use-vc", "edns0", "trust-ad", "no-aaaa", "no-reload"
    ),
    most_timeout=30,
    most_attempts=5,
)  # fmt: skip


class _Outcome(NamedTuple):
    """The result for one name: its addresses, or the error; `goes_on` tells whether the next suffix is tried."""

    addresses: tuple[str, ...]
    error: str = ""
    why: str = ""
    goes_on: bool = True


_Good = dict[int, Answer]
_Replies = Generator[float | None, Arrival | None, _Good | None]


class Glibc(Model):
    """glibc 2.36, measured."""

    name = "glibc"
    reader = READER
    used_by = "images of Debian, Ubuntu and RHEL, distroless images"

    def __init__(self, text: str, random: Random) -> None:
        super().__init__(text, random)
        self._is_single = "single-request" in self.conf.flags
        self._reopens = "single-request-reopen" in self.conf.flags
        self._is_tcp = False  # of the queried name
        rotates = "rotate" in self.conf.flags
        self._turn = random.randrange(len(self.conf.nameservers)) if rotates else 0
        self._rcode: int | None = None  # of the last reply that counts as a failure

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Look a name up, as often as its buffer has to grow."""
        if "no-aaaa" in self.conf.flags:
            types = [each for each in types if each != RRType.AAAA]
            if not types:
                return Result((), NODATA, "the option no-aaaa answers AAAA without a query")
        room = BUFFER_LEN
        while True:
            outcome = yield from self._search(name, types)
            needed = ADDRESS_TUPLE_LEN * len(outcome.addresses) + len(name) + 1
            if len(types) == 1 or needed <= room:
                return Result(outcome.addresses, outcome.error, outcome.why)
            room *= 2

    def _search(
        self, name: str, types: Sequence[int]
    ) -> Generator[float | None, Arrival | None, _Outcome]:
        as_it_is = name.removesuffix(".")
        left = self.names(name, types)
        first = left[0]
        failed: dict[str, _Outcome] = {}
        while left:
            tried = left.pop(0)
            outcome = yield from self._query(tried, types)
            if outcome.addresses:
                return outcome
            failed[tried] = outcome
            if not outcome.goes_on and tried != as_it_is:
                # Not with another suffix, but without one, if that was not tried.
                left = left[-1:] if left[-1:] == [as_it_is] else []
        if first in (name, as_it_is):
            return failed[first]
        for error in (NODATA, AGAIN):
            for outcome in failed.values():
                if outcome.error == error and outcome.goes_on:
                    return outcome
        return list(failed.values())[-1]

    def _query(
        self, name: str, types: Sequence[int]
    ) -> Generator[float | None, Arrival | None, _Outcome]:
        """Query the servers in turn for one name."""
        self._rcode = None
        qids = {rrtype: self.new_qid() for rrtype in types}
        sockets: dict[int, str] = {}
        servers = list(range(len(self.conf.nameservers)))
        if "rotate" in self.conf.flags:
            start = self._turn % len(servers)
            self._turn += 1
            servers = servers[start:] + servers[:start]
        self._is_tcp = "use-vc" in self.conf.flags
        good: _Good | None = None
        for _ in range(self.conf.attempts):
            for number, server in enumerate(servers):
                if not self._is_tcp:
                    wait = self.conf.timeout << number
                    wait = max(1, wait // len(servers) if number else wait)
                    good = yield from self._udp(server, wait, name, qids, sockets)
                if self._is_tcp and good is None:
                    good = yield from self._tcp(server, name, qids)
                if good is not None:
                    return _outcome(name, good)
            if self._is_tcp:  # one attempt for each server
                break
        return self._failure(name)

    def _failure(self, name: str) -> _Outcome:
        if self._rcode is None:
            return _Outcome((), AGAIN, f"no reply for {name}", goes_on=False)
        why = f"each server failed for {name}: {rcode_to_text(self._rcode)}"
        return _Outcome((), AGAIN, why, goes_on=self._rcode == Rcode.SERVFAIL)

    def _udp(
        self, server: int, wait: float, name: str, qids: dict[int, int], sockets: dict[int, str]
    ) -> _Replies:
        """Query one server, or again in another mode; None if it has no usable answer, or a truncated one."""
        types = list(qids)
        while True:
            good: _Good = {}
            in_turn = len(types) == 2 and (self._is_single or self._reopens)
            if server not in sockets:
                sockets[server] = self.new_port("udp")
            unsent = types[1:] if in_turn else []
            for rrtype in types[:1] if in_turn else types:
                self._send("udp", server, sockets[server], qids[rrtype], rrtype, name)
            waiting = set(types)
            until = self.now + wait
            while waiting:
                arrival = yield until
                if arrival is None:
                    break
                packet, answer = arrival
                if packet.port != sockets[server] or packet.rrtype not in waiting:
                    continue
                if answer.tc:
                    self._is_tcp = True
                    return None
                waiting.discard(packet.rrtype)
                if answer.rcode in FAILURES or answer.is_lame:
                    self._rcode = answer.rcode
                    if good:
                        return good
                    if len(types) == 1 or in_turn:
                        del sockets[server]
                        return None
                else:
                    good[packet.rrtype] = answer
                if unsent:
                    if self._reopens:
                        sockets[server] = self.new_port("udp")
                    rrtype = unsent.pop()
                    self._send("udp", server, sockets[server], qids[rrtype], rrtype, name)
                    until = self.now + wait
            if not waiting or not good or (self._reopens and in_turn):
                if not good and waiting:
                    self._rcode = None
                return good or None
            if self._is_single:
                self._reopens = True
                del sockets[server]
            self._is_single = True

    def _tcp(self, server: int, name: str, qids: dict[int, int]) -> _Replies:
        """Query one server over a new connection, without a timeout."""
        port = self.new_port("tcp")
        good: _Good = {}
        for rrtype, qid in qids.items():
            self._send("tcp", server, port, qid, rrtype, name)
        waiting = set(qids)
        while waiting:
            arrival = yield None
            if arrival is None or arrival[0].port != port:
                continue
            packet, answer = arrival
            if answer.is_closed:
                return good or None
            waiting.discard(packet.rrtype)
            if answer.rcode in FAILURES:
                self._rcode = answer.rcode
            else:
                good[packet.rrtype] = answer
        return good or None

    def _send(
        self, transport: str, server: int, port: str, qid: int, rrtype: int, name: str
    ) -> None:
        edns = EDNS_SIZE if "edns0" in self.conf.flags else 0
        self.send(transport, server, port, qid, rrtype, name, edns=edns)


def _outcome(name: str, good: _Good) -> _Outcome:
    found = [address for answer in good.values() for address in answer.addresses]
    if found:
        return _Outcome(tuple(found), why=found_at(name, found, list(good)).why)
    rcodes = {answer.rcode for answer in good.values()}
    if Rcode.NOERROR in rcodes:
        return _Outcome((), NODATA, f"{name} exists, but has no address")
    if Rcode.NXDOMAIN in rcodes:
        return _Outcome((), NONAME, f"NXDOMAIN for every name tried (last: {name})")
    return _Outcome(
        (), NONAME, f"{name} was answered with an error that ends the search", goes_on=False
    )
