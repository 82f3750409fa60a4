"""The resolver of c-ares, of its ares_getaddrinfo, and for other types of ares_query: aiodns, some builds of curl.

Path: model.look_up() -> here; programs.py has those with other settings: Node, Envoy.
Source: measured with 1.34; c-ares src/lib: ares_process.c, ares_getaddrinfo.c, ares_metrics.c, ares_cookie.c.
Rule 1: each query is tried three times with each server; the next server is the one with the fewest failures.
Rule 2: as soon as A has addresses, the query for AAAA is not sent again.
Rule 3: answers are cached in the process: for their TTL, NXDOMAIN as its SOA record says, and NODATA for an hour.
Rule 4: only addresses are looked up through the search list.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import ceil
from random import Random
from typing import ClassVar, Final

from hsdns.resolver.model import (
    FAILURES,
    Answer,
    Arrival,
    Keeps,
    Model,
    Result,
    Waiting,
    found_at,
)
from hsdns.resolver.resolv_conf import Reader, switches
from hsdns.wire.iana import Rcode, RRType

EDNS_SIZE: Final = 1232
NODATA_TTL: Final = 3600  # seconds
EARLIER: Final = 0.002  # seconds by which a look at what is late is late itself
LATER: Final = 0.004  # the same, and until the first reply of a server
BEHIND: Final = 0.05  # seconds that the clock of an event loop is behind, at most
LEAST_TIMEOUT, MOST_TIMEOUT = 0.25, 5.0  # seconds, after replies have shown how long a server takes
FEW_REPLIES: Final = 3  # replies that are not enough to show it
OK: Final = ""
NODATA: Final = "DNS server returned answer with no data"
NOT_FOUND: Final = "Domain name not found"
TIMEOUT: Final = "Timeout while contacting DNS servers"
NO_CONTACT: Final = "Could not contact DNS servers"
MISFORMATTED: Final = "DNS server claims query was misformatted"
ERRORS: Final = {
    Rcode.SERVFAIL: "DNS server returned general failure",
    Rcode.NOTIMP: "DNS server does not implement requested operation",
    Rcode.REFUSED: "DNS server refused query",
    Rcode.FORMERR: MISFORMATTED,
    Rcode.NXDOMAIN: NOT_FOUND,
}
# The program's own flags decide about use-vc.
READER: Final = Reader("c-ares", switches("rotate"), timeout=2, attempts=3, most_servers=1 << 30)


class _Query:
    """One query: its server, its number of tries, and its timeout; `error` is that of its last try."""

    def __init__(self, rrtype: int, qid: int, *, has_edns: bool) -> None:
        self.rrtype = rrtype
        self.qid = qid
        self.tries = 0
        self.server = 0
        self.port = ""
        self.until = 0.0
        self.sent_at = 0.0
        self.is_tcp = False
        self.has_edns = has_edns
        self.may_retry = True


class CAres(Model):
    """c-ares 1.34, measured; one channel."""

    name = "c-ares"
    reader = READER
    used_by = "aiodns, some builds of curl"
    searches_addresses_alone = True
    keeps = Keeps(
        0, NODATA_TTL, "c-ares keeps an answer for its TTL, and one without data for an hour"
    )
    has_edns: ClassVar[bool] = True
    caches: ClassVar[bool] = True
    checks_replies: ClassVar[bool] = True  # a failure is no answer
    leaves_late_socket: ClassVar[bool] = True  # after a timeout
    tick: ClassVar[float] = 0  # seconds between looks at what is late, 0 for a timer of each query
    behind: ClassVar[float] = BEHIND

    def __init__(self, text: str, random: Random) -> None:
        super().__init__(text, random)
        # Until whole seconds of the clock, which began at some part of one.
        self._cache: dict[tuple[str, int], tuple[int, str, tuple[str, ...]]] = {}
        self._phase = random.uniform(0, 1.0) if self.caches else 0.0
        self._begin()

    def _begin(self) -> None:
        """Begin a channel, which knows nothing of its servers."""
        count = len(self.conf.nameservers)
        self._failures = [0] * count
        # Increasing numbers, to choose among servers with equal failures.
        self._last_failed = list(range(-count, 0))
        self._latencies: list[list[float]] = [[] for _ in range(count)]
        self._without_cookie: set[int] = set()  # servers that have replied without cookies
        self._sockets: dict[tuple[str, int], str] = {}

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Try the names until one exists and has an address."""
        self._sockets.clear()  # connections of the previous lookup were idle
        result = yield from self._walk(name, types)
        if result.error and types[0] == RRType.PTR:  # gethostbyaddr() has no other error
            return result._replace(error=NOT_FOUND)
        return result

    def _walk(self, name: str, types: Sequence[int]) -> Waiting:
        behind = self.random.uniform(0, self.behind) if self.tick and self.behind else 0.0
        self._began = self.now - behind
        has_nodata = False
        error = why = ""
        for tried in self.names(name, types):
            found, error = yield from self._query(tried, types)
            if found:
                return found_at(tried, found, types)
            why = f"{tried}: {error}"
            if error not in (NOT_FOUND, NODATA):
                break
            has_nodata |= error == NODATA
            error = NODATA if has_nodata else error
        if error == NOT_FOUND:
            why = "NXDOMAIN for every name tried"
        return Result((), error, why)

    def _query(
        self, name: str, types: Sequence[int]
    ) -> Generator[float | None, Arrival | None, tuple[tuple[str, ...], str]]:
        """Query one name; the error is that of the query that ended last."""
        found: list[str] = []
        error = ""
        running: dict[int, _Query] = {}
        for rrtype in types:
            expires, error, addresses = self._cache.get((name, rrtype), (0, "", ()))
            if expires > int(self.now + self._phase):
                found += addresses
                continue
            running[rrtype] = _Query(rrtype, self.new_qid(), has_edns=self.has_edns)
            self._send(running[rrtype], name)
        while running:
            arrival = yield min(query.until for query in running.values())
            again: list[_Query] = []
            if arrival is None:
                late = [query for query in running.values() if query.until <= self.now]
                for query in late:
                    self._fail(query.server)
                    key = "udp", query.server
                    if self.leaves_late_socket and self._sockets.get(key) == query.port:
                        del self._sockets[key]
                    again.append(query)
                error = TIMEOUT
            else:
                packet, answer = arrival
                query_or_none = running.get(packet.rrtype)
                if query_or_none is None or query_or_none.port != packet.port:
                    continue
                query = query_or_none
                if answer.is_closed:
                    again = [each for each in running.values() if each.port == packet.port]
                    self._fail(query.server)
                    # The lookup of the other type may have closed it already.
                    self._sockets.pop(("tcp", query.server), None)
                    error = NO_CONTACT
                else:
                    self._note(query)
                    if answer.tc and not query.is_tcp:
                        query.is_tcp = True
                        self._send(query, name)
                    elif answer.rcode == Rcode.FORMERR and query.has_edns:
                        query.has_edns = False
                        self._send(query, name)
                    elif answer.rcode in FAILURES and self.checks_replies:
                        self._fail(query.server)
                        again = [query]
                        error = ERRORS[answer.rcode]
                    else:
                        error = self._take(name, query, answer)
                        self._failures[query.server] = 0
                        found += answer.addresses
                        del running[query.rrtype]
                        if answer.addresses and query.rrtype != RRType.AAAA:
                            for other in running.values():
                                other.may_retry = False
            for query in again:
                query.tries += 1
                if query.may_retry and query.tries < self.conf.attempts * len(self._failures):
                    self._send(query, name)
                else:
                    del running[query.rrtype]
            if running:  # else the next name is sent first
                self._close_idle(running)
        return tuple(found), error

    def _send(self, query: _Query, name: str) -> None:
        """Send a query, to another server if that one has fewer failures."""
        count = len(self._failures)
        if "rotate" in self.conf.flags:
            server = self.random.randrange(count)
        else:
            server = min(
                range(count), key=lambda each: (self._failures[each], self._last_failed[each])
            )
        transport = "tcp" if query.is_tcp else "udp"
        key = transport, server
        if key not in self._sockets:
            self._sockets[key] = self.new_port(transport)
        query.server, query.port, query.sent_at = server, self._sockets[key], self.now
        query.until = self.now + self._timeout(server, query.tries // count)
        if self.tick:
            # A connection begins after a reply, so later than a tick.
            ticks = ceil((query.until - self._began) / self.tick - EARLIER + LATER * query.is_tcp)
            query.until = self._began + ticks * self.tick
        cookie = query.has_edns and server not in self._without_cookie and not query.is_tcp
        size = EDNS_SIZE if query.has_edns else 0
        self.send(transport, server, query.port, query.qid, query.rrtype, name, edns=size, cookie=cookie)  # fmt: skip

    def _timeout(self, server: int, rounds: int) -> float:
        """Seconds for a try: doubled in each round, minus a random part."""
        latencies = self._latencies[server]
        start = float(self.conf.timeout)
        if len(latencies) >= FEW_REPLIES:
            average = sum(latencies) / len(latencies)
            start = min(MOST_TIMEOUT, max(LEAST_TIMEOUT, 5 * average))
        if not rounds:
            return start
        longest = start * (1 << rounds)
        return max(start, self.random.uniform(longest / 2, longest))

    def _fail(self, server: int) -> None:
        self._failures[server] += 1
        self._last_failed[server] = max(self._last_failed) + 1

    def _note(self, query: _Query) -> None:
        """Record what a reply shows about its server."""
        self._without_cookie.add(query.server)
        self._latencies[query.server].append(self.now - query.sent_at)

    def _take(self, name: str, query: _Query, answer: Answer) -> str:
        """Return the error of a reply, OK if it has addresses; cache the reply."""
        if answer.is_nodata:
            error, ttl = NODATA, NODATA_TTL
        else:
            error, ttl = ERRORS.get(answer.rcode, OK), answer.ttl
        if error in (OK, NODATA, NOT_FOUND) and self.caches:
            self._cache[name, query.rrtype] = (
                int(self.now + self._phase) + ttl,
                error,
                answer.addresses,
            )
        return error

    def _close_idle(self, running: dict[int, _Query]) -> None:
        """Close sockets that no query waits for."""
        used = {query.port for query in running.values()}
        for key, port in list(self._sockets.items()):
            if port not in used:
                del self._sockets[key]
