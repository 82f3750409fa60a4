"""CoreDNS as a forwarder, with `forward` and `cache`, and NodeLocal DNSCache, which is a CoreDNS with force_tcp.

Path: forwarder.py -> here.
Source: measured with 1.14.7; plugin/forward/forward.go, plugin/pkg/proxy/connect.go and health.go, plugin/cache.
Rule 1: each query goes to the nameservers in random order, two seconds each, twice at most and for five seconds.  Only
        silence and the end of a connection lead to the next one; any reply is taken.
Rule 2: after a silence its nameserver is probed with NS of the root until it answers; with more than two probes without
        an answer it is asked only if all are so.
Rule 3: answers are kept for their TTL, but five seconds at least; truncated ones and most errors are not kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from hsdns.resolver.forwarders.forwarder import FAILED, Forwarder, Task
from hsdns.resolver.model import Answer, Exchange, Keeps, Packet
from hsdns.wire.iana import Rcode, RRType

TRY: Final = 2.0  # seconds for a reply
LONGEST: Final = 5.0  # seconds after which no further nameserver is asked
TRIES: Final = 2  # for each nameserver
MOST_FAILS: Final = 2  # probes
PROBE, PAUSE = 1.0, 0.5  # seconds for the reply to a probe, and until the next one
IDLE: Final = 10.0  # seconds for which a socket without a query is kept
LEAST_TTL, MOST_TTL, FAILURE_TTL = 5, 30, 5  # seconds
REVERSE: Final = (".in-addr.arpa", ".ip6.arpa")
KEPT: Final = {Rcode.SERVFAIL: FAILURE_TTL, Rcode.NOTIMP: FAILURE_TTL}


class Route(NamedTuple):
    """Numbers of nameservers, the transport to them, "" for that of the query, and the longest TTL of denials."""

    servers: Sequence[int]
    forced: str = ""
    denial: int = MOST_TTL


class CoreDns(Forwarder):
    """CoreDNS 1.14 with `forward . /etc/resolv.conf` and `cache 30`, measured."""

    name = "coredns"
    used_by = "CoreDNS on a node or in a pod"
    keeps = Keeps(LEAST_TTL, 30, "it keeps an answer for its TTL, from 5 s to the limit of `cache`")

    def begin(self) -> None:
        """Begin without anything known."""
        self._idle: dict[tuple[str, int], list[tuple[float, str]]] = defaultdict(list)
        self._fails = [0] * len(self.conf.nameservers)
        self._probed: set[int] = set()
        self._cache: dict[tuple[str, int, bool], tuple[float, Answer]] = {}

    def route(self, query: Packet) -> Route:
        """How a query is passed on."""
        return Route(range(len(self.conf.nameservers)))

    def pass_on(self, query: Packet) -> Task:
        """Answer from the cache, or ask the nameservers."""
        key = query.name.lower(), query.rrtype, bool(query.edns)
        until, known = self._cache.get(key, (0.0, FAILED))
        if until > self.now:
            self.tell(query, known._replace(ttl=int(until - self.now)))
            return
        route = self.route(query)
        answer = yield from self._forward(query, route)
        if answer is not None and not answer.tc:
            most = MOST_TTL if answer.addresses or answer.is_lame else route.denial
            if answer.rcode in (Rcode.NOERROR, Rcode.NXDOMAIN, *KEPT):
                ttl = KEPT.get(answer.rcode, min(max(answer.ttl, LEAST_TTL), most))
                answer = answer._replace(ttl=ttl)
                self._cache[key] = self.now + ttl, answer
        self.tell(query, answer or FAILED)

    def _forward(self, query: Packet, route: Route) -> Exchange:
        """Ask the nameservers; None without a reply."""
        count, end = len(route.servers), self.now + LONGEST
        servers = self._shuffled(route)
        turn = down = tries = 0
        while self.now < end and tries < TRIES * count and down < count:
            if turn == count:
                turn = down = 0
            server = servers[turn]
            turn += 1
            if self._fails[server] > MOST_FAILS:
                down += 1
                if down < count:
                    continue
                server = self._shuffled(route)[0]
            answer = yield from self._try(query, server, route.forced or query.transport)
            if answer is not None:
                return answer
            tries += 1
            if server not in self._probed:
                self._probed.add(server)
                self.run(self._probe(server, route.forced or "udp"))
        return None

    def _shuffled(self, route: Route) -> list[int]:
        servers = list(route.servers)
        self.random.shuffle(servers)
        return servers

    def _try(self, query: Packet, server: int, over: str) -> Exchange:
        """Ask one nameserver, over the socket that is idle for the longest time, or a new one."""
        while True:
            idle = self._idle[over, server]
            idle[:] = [each for each in idle if self.now - each[0] <= IDLE]
            is_new = not idle
            port = self.new_port(over) if is_new else idle.pop(0)[1]
            own = query._replace(
                transport=over, server=server, port=port, qid=self.new_qid(), ad=True
            )
            answer = yield from self.ask(own, self.now + TRY)
            if answer is None or (answer.is_closed and is_new):
                return None
            if not answer.is_closed:
                idle.append((self.now, port))
                return answer

    def _probe(self, server: int, over: str) -> Task:
        """Ask until a reply comes."""
        while True:
            port, qid, end = self.new_port(over), self.new_qid(), self.now + PROBE
            own = Packet(self.now, over, server, port, qid, RRType.NS, ".")
            answer = yield from self.ask(own, end)
            if answer is not None and not answer.is_closed:
                break
            self._fails[server] += 1
            yield self.now + PAUSE
        self._fails[server] = 0
        self._probed.discard(server)


class NodeLocalDns(CoreDns):
    """NodeLocal DNSCache as a CoreDNS 1.14 with `force_tcp`, measured; its zones are those of its stock configuration.

    Names of the cluster and reverse names go to the cluster's DNS, over TCP; others go to the node's nameservers.
    """

    name = "nodelocaldns"
    forced = "tcp"
    splits = True
    used_by = "NodeLocal DNSCache, GKE's node-local-dns"

    def route(self, query: Packet) -> Route:
        """How a query is passed on: by the zones of its configuration, if it is known which nameserver is whose."""
        found, name = super().route(query), f".{query.name.lower()}"
        if self.domain and not name.endswith((f".{self.domain}", *REVERSE)):
            return found._replace(servers=found.servers[1:])
        own = found.servers[:1] if self.domain else found.servers
        return Route(own, self.forced, MOST_TTL if name.endswith(REVERSE) else LEAST_TTL)
