"""The resolver of hickory, a library of Rust programs: reqwest with its feature, Linkerd's proxy.

Path: model.look_up() -> here.
Source: measured with 0.26.3; hickory-resolver name_server_pool.rs, name_server.rs, caching_client.rs, hickory-net
        udp_client_stream.rs.
Rule 1: AAAA and A leave together, each to the two fastest servers at once.  Without a reply a query leaves three times
        in `timeout`, with pauses that grow as the server gets slower; a lookup has `attempts` + 1 such rounds.
Rule 2: the first reply counts, whatever its code is, and an error begins the next round.  Silence and a connection that
        ends do not count while another server may reply.
Rule 3: any error leads to the next suffix.
Rule 4: answers are kept for their TTL, and those without records as their SOA record says.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import exp
from random import Random
from typing import Final

from hsdns.resolver.model import Arrival, Keeps, Model, Result, Waiting, found_at, together
from hsdns.resolver.resolv_conf import Reader, switches
from hsdns.wire.iana import Rcode

AT_ONCE: Final = 2  # servers
TRIES: Final = 3  # of a query in a round
LEAST_PAUSE: Final = 0.333  # seconds
OF_ROUND_TRIP: Final = 1.2  # that a pause takes
# Seconds, for a failure, and for a reply that another one made superfluous.
PENALTY, LATE_PENALTY = 0.15, 0.005
MOST_ROUND_TRIP: Final = 5.0  # seconds
EDNS_SIZE: Final = 1232
NO_RECORDS: Final = "no records found"
TIMEOUT: Final = "request timed out"
CLOSED: Final = "io error"
ERRORS: Final[dict[int, str]] = {
    Rcode.FORMERR: "error response: Form Error",
    Rcode.SERVFAIL: "error response: Server Failure",
    Rcode.NOTIMP: "error response: Not Implemented",
    Rcode.REFUSED: "error response: Query Refused",
}

_Found = Generator[float | None, Arrival | None, tuple[tuple[str, ...], str]]


class _Server:
    """What a nameserver has shown: the seconds that it takes, and when they changed, None for never."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.changed: float | None = None
        self.connection = ""  # over TCP

    def seconds_at(self, now: float) -> float:
        """The seconds that it takes, which fade."""
        return self.seconds * self._faded(now, 180)

    def pause(self, now: float) -> float:
        """The seconds until a query is sent again."""
        return max(LEAST_PAUSE, OF_ROUND_TRIP * self.seconds_at(now))

    def took(self, seconds: float, now: float) -> None:
        """Note a reply."""
        rest = 0.0 if self.changed is None else self._faded(now, 3)
        self._set((1 - rest) * seconds + rest * self.seconds, now)

    def failed(self, now: float) -> None:
        """Note a failure."""
        self._set(PENALTY if self.changed is None else self.seconds + PENALTY, now)

    def _set(self, seconds: float, now: float) -> None:
        self.seconds, self.changed = min(seconds, MOST_ROUND_TRIP), now

    def _faded(self, now: float, weight: float) -> float:
        return 1.0 if self.changed is None else exp(-max(now - self.changed, 1.0) / weight)


class Hickory(Model):
    """hickory-resolver 0.26.3, measured."""

    name = "hickory"
    reader = Reader("hickory", switches("edns0"), most_servers=1 << 30)
    used_by = "Rust programs with hickory-resolver: reqwest with hickory-dns, Linkerd's proxy"
    keeps = Keeps(0, 86400, "its cache keeps an answer for its TTL, at most for a day")

    def __init__(self, text: str, random: Random) -> None:
        super().__init__(text, random)
        self._servers = [_Server(random.random() / 1e5) for _ in self.conf.nameservers]
        self._kept: dict[tuple[str, int], tuple[float, tuple[str, ...]]] = {}

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Try the names until one has records; the error is that of AAAA."""
        tried, error = name, ""
        for tried in self.names(name, types):
            ended = yield from together(
                self, {each: self._ask(tried, each) for each in sorted(types, reverse=True)}
            )
            found = [each for _, (records, _) in ended for each in records]
            if found:
                return found_at(tried, found, types)
            error = max(ended)[1][1]
        return Result((), error, f"{tried}: {error}")

    def _ask(self, name: str, rrtype: int) -> _Found:
        key = name.removesuffix("."), rrtype
        until, records = self._kept.get(key, (0.0, ()))
        if until > self.now:
            return records, "" if records else NO_RECORDS
        qid, error = self.new_qid(), ""
        for _ in range(self.conf.attempts + 1):
            records, error = yield from self._round(key, qid)
            if error in ("", NO_RECORDS):
                break
        return records, error

    def _round(self, key: tuple[str, int], qid: int) -> _Found:
        """Ask the servers, two at once; those whose reply is truncated are asked again over TCP."""
        left = sorted(self._servers, key=lambda each: each.seconds_at(self.now))
        transport, error, deadline = "udp", TIMEOUT, self.now + self.conf.timeout
        while left and self.now < deadline:
            asked, left = left[:AT_ONCE], left[AT_ONCE:]
            began, end = self.now, self.now + self.conf.timeout
            due = [(began + number * each.pause(began), each) for number in range(TRIES) for each in asked]  # fmt: skip
            ports: dict[str, _Server] = {}
            while asked:
                for each in [each for at, each in due if at <= self.now and each in asked]:
                    ports[self._send(key, qid, each, transport)] = each
                due = [each for each in due if transport == "udp" and each[0] > self.now]
                arrival = yield min([end, *(at for at, _ in due)])
                if arrival is None and self.now >= end:
                    for each in asked:
                        each.connection = "" if transport == "tcp" else each.connection
                        each.failed(self.now)
                    break
                if arrival is None or (server := ports.get(arrival[0].port)) not in asked:
                    continue
                asked.remove(server)
                answer = arrival[1]
                if answer.is_closed:
                    error, server.connection = CLOSED, ""
                    server.failed(self.now)
                elif answer.tc and transport == "udp":
                    server.took(self.now - began, self.now)
                    transport = "tcp"
                    left.insert(0, server)
                elif answer.rcode in ERRORS:
                    return (), ERRORS[answer.rcode]
                else:
                    self._kept[key] = self.now + answer.ttl, answer.addresses
                    if not answer.addresses:
                        server.failed(self.now)
                        return (), NO_RECORDS
                    server.took(self.now - began, self.now)
                    for each in asked:
                        each.took(self.now - began + LATE_PENALTY, self.now)
                    return answer.addresses, ""
        return (), error

    def _send(self, key: tuple[str, int], qid: int, server: _Server, transport: str) -> str:
        """Send a query from a new socket, or over the connection that there is; return the socket."""
        number, edns = self._servers.index(server), EDNS_SIZE if "edns0" in self.conf.flags else 0
        port = server.connection if transport == "tcp" else ""
        port = port or self.new_port(transport)
        if transport == "tcp":
            server.connection, qid = port, self.new_qid()
        self.send(transport, number, port, qid, key[1], key[0], edns=edns)
        return port
