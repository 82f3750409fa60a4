"""dnsmasq as a node's or a pod's nameserver, as it runs without options about nameservers.

Path: forwarder.py -> here.
Source: measured with 2.90; src/forward.c, src/cache.c, src/config.h.
Rule 1: the nameserver that answered last is asked; all of them for the first query, each fiftieth, after 20 s, after a
        SERVFAIL or REFUSED, and when the program asks again.  The first reply counts, but REFUSED is the last choice.
Rule 2: a query that is not answered waits for another 40 s, for all who ask the same; it never ends it itself.
Rule 3: answers are kept for their TTL by a clock of whole seconds, errors are not; NXDOMAIN is of all types.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final

from hsdns.resolver.forwarders.forwarder import Forwarder, Task
from hsdns.resolver.model import CLOSED, Answer, Keeps, Packet
from hsdns.wire.iana import Rcode

MOST_QUERIES: Final = 50  # to one nameserver, before all are tried
MOST_SECONDS: Final = 20
SOON: Final = 2  # seconds in which two programs that ask the same need one query
LONGEST: Final = 40.0  # seconds
SAFE_SIZE: Final = 1232  # octets of EDNS when a query is sent again


class _Record:
    """A query that was sent on: `left` counts the replies to come, plus one, if all nameservers were asked, else 0."""

    def __init__(self, began: float, query: Packet, qid: int, task: Task) -> None:
        self.began, self.query, self.qid, self.task = began, query, qid, task
        self.clients = [query]
        self.left = 0
        self.ports: dict[int, str] = {}


class Dnsmasq(Forwarder):
    """dnsmasq 2.90, measured."""

    name = "dnsmasq"
    used_by = "dnsmasq on a node or in a pod"
    keeps = Keeps(0, inf, "it keeps an answer for its TTL")

    def begin(self) -> None:
        """Begin without anything known."""
        self._phase = self.random.uniform(0, 1.0)  # of a second, at which its clock began
        self._records: dict[tuple[object, ...], _Record] = {}
        self._cache: dict[tuple[str, int], tuple[int, Answer]] = {}
        # A process of its own serves a connection of the program: its connections, and its last nameserver.
        self._connections: dict[tuple[str, int], str] = {}
        self._children: dict[str, int] = {}
        self._last: int | None = None  # the nameserver that answered last
        self._count, self._tested = 0, -inf

    def pass_on(self, query: Packet) -> Task:
        """Answer from the cache, or ask the nameservers."""
        name, clock = query.name.lower(), int(self.now + self._phase)
        for rrtype in (query.rrtype, 0):
            until, answer = self._cache.get((name, rrtype), (0, Answer()))
            if until > clock:
                self.tell(query, answer._replace(ttl=until - clock))
                return
        if query.transport == "tcp":
            yield from self._over_tcp(query)
            return
        key = name, query.rrtype, bool(query.edns), query.ad
        record = self._records.get(key)
        if record is None:
            assert self.running is not None, "this is a task"
            record = _Record(self.now, query, self.new_qid(), self.running)
            self._records[key] = record
            yield from self._wait(key, record)
            return
        if all((each.port, each.qid) != (query.port, query.qid) for each in record.clients):
            record.clients.append(query)
            if clock - int(record.began + self._phase) < SOON:
                return
        self._send_to_all(record)

    def _wait(self, key: tuple[object, ...], record: _Record) -> Task:
        self._count += 1
        if self._last is None or self._count > MOST_QUERIES + 1 or self.now - self._tested > MOST_SECONDS:  # fmt: skip
            self._count, self._tested = 0, self.now
            self._send_to_all(record, record.query.edns)
        else:
            self._send(record, [self._last], record.query.edns)
        while (arrival := (yield record.began + LONGEST)) is not None:
            packet, answer = arrival
            if answer.rcode != Rcode.REFUSED:
                self._last = packet.server
            elif self._last == packet.server:
                self._last = None
            is_failure = answer.rcode in (Rcode.REFUSED, Rcode.SERVFAIL)
            if is_failure and not record.left and not packet.cookie:
                self._send_to_all(record)
                continue
            record.left -= bool(record.left)
            if record.left > 1 and answer.rcode == Rcode.REFUSED:
                continue
            for client in record.clients:
                self.tell(client, self._taken(packet, answer))
            break
        del self._records[key]
        for port in record.ports.values():
            del self.askers[port, record.qid]

    def _send_to_all(self, record: _Record, edns: int = SAFE_SIZE) -> None:
        servers = range(len(self.conf.nameservers))
        record.left = len(servers) + 1
        self._send(record, servers, edns)

    def _send(self, record: _Record, servers: Iterable[int], edns: int) -> None:
        query = record.query._replace(at=self.now, qid=record.qid)
        for server in servers:
            if server not in record.ports:
                port = record.ports[server] = self.new_port("udp")
                self.askers[port, record.qid] = record.task
            size = edns if query.edns else 0
            self.outbox.append(query._replace(server=server, port=record.ports[server], edns=size))

    def _taken(self, packet: Packet, answer: Answer) -> Answer:
        """The reply for the program, which is kept."""
        if answer.tc:
            return answer._replace(addresses=())
        if answer.rcode in (Rcode.NOERROR, Rcode.NXDOMAIN):
            rrtype = 0 if answer.rcode else packet.rrtype
            until = int(self.now + self._phase) + answer.ttl
            self._cache[packet.name.lower(), rrtype] = until, answer
        return answer

    def _over_tcp(self, query: Packet) -> Task:
        """Ask over TCP, without a time limit, until a nameserver does not end the connection."""
        servers = list(range(len(self.conf.nameservers)))
        start = self._children.get(query.port, self._last or 0)
        for server in servers[start:] + servers[:start]:
            key, is_new = (query.port, server), False
            while not is_new:
                is_new = key not in self._connections
                if is_new:
                    self._connections[key] = self.new_port("tcp")
                sent = query._replace(server=server, port=self._connections[key])
                answer = yield from self.ask(sent, None)
                if answer is not None and not answer.is_closed:
                    self._children[query.port] = server
                    self.tell(query, self._taken(sent, answer))
                    return
                del self._connections[key]
        self.tell(query, CLOSED)
