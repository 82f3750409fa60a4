"""systemd-resolved as the nameserver 127.0.0.53 of a host, or of pods that have the resolv.conf of their node.

Path: forwarder.py -> here.
Source: measured with 252; src/resolve/resolved-dns-transaction.c, resolved-dns-server.c, resolved-dns-cache.c,
        resolved-dns-scope.c.
Rule 1: all queries go to one nameserver, and to the next one after a silence, an error, or the end of a connection.  A
        query that is not answered is sent again for two minutes, whoever still waits for it.
Rule 2: after FORMERR, NOTIMP, a second SERVFAIL, NXDOMAIN, and three silences a query is sent without EDNS.
Rule 3: answers are kept for their TTL, and SERVFAIL for 10 s, but none of a nameserver on the host itself.
Rule 4: names under local that are in no search domain, and those of one label, are not asked of nameservers.  The LLMNR
        queries for the latter are left out.
"""

from __future__ import annotations

from ipaddress import ip_address
from math import inf
from typing import Final

from hsdns.resolver.forwarders.forwarder import Forwarder, Task
from hsdns.resolver.model import ADDRESS_LEN, CLOSED, FAILURES, Answer, Exchange, Keeps, Packet
from hsdns.resolver.resolv_conf import Reader
from hsdns.wire.iana import Rcode

ATTEMPTS: Final = 24
TIMEOUT: Final = 5.0  # seconds for a reply
ACCURACY: Final = 0.25  # seconds by which its timers may be late
IDLE: Final = 10.0  # seconds for which a connection is kept
NONE, TCP, UDP, EDNS = range(-1, 3)  # what a nameserver supports
FEW_SILENCES: Final = 3  # after which it is taken to support less
# Octets of the reply: those of an Ethernet, and of the host itself.
EDNS_SIZE, OWN_EDNS_SIZE = 1472, 65508
MOST_TTL, FAILURE_TTL = 7200, 10  # seconds


class _Server:
    """What a nameserver supports at most, and for sure; `connection` with the time of its last octet."""

    def __init__(self, address: str) -> None:
        self.is_own = ip_address(address.partition("%")[0]).is_loopback
        self.level, self.verified = EDNS, NONE
        self.silences = 0
        self.connection, self.used_at = "", -inf

    def lowered(self) -> int:
        """What it supports, in the light of its silences."""
        if self.level > self.verified and self.silences >= FEW_SILENCES:
            self.lower(UDP if self.level == TCP else self.level - 1)
        return self.level

    def lower(self, level: int) -> None:
        """Note that it supports no more."""
        self.level, self.silences = level, 0
        self.verified = min(self.verified, level)


class Resolved(Forwarder):
    """systemd-resolved 252 without DNSSEC, as in Debian, measured."""

    name = "systemd-resolved"
    reader = Reader("systemd-resolved", {}, most_servers=1 << 30, numbers=())
    used_by = "Ubuntu and Fedora hosts: nameserver 127.0.0.53"
    answers_in_turn = False
    keeps = Keeps(0, MOST_TTL, "it keeps an answer for its TTL, at most for two hours")

    def begin(self) -> None:
        """Begin without anything known."""
        self._servers = [_Server(each) for each in self.conf.nameservers]
        self._current = self._servers[0]
        self._waiting: dict[tuple[str, int], list[Packet]] = {}
        self._cache: dict[tuple[str, int], tuple[float, Answer]] = {}

    def pass_on(self, query: Packet) -> Task:
        """Answer from the cache, or ask the nameservers, once for all who wait."""
        name = query.name.lower()
        if self._is_local(name, query.rrtype):
            self.tell(query, Answer(Rcode.REFUSED))
            return
        for key in ((name, query.rrtype), (name, 0)):
            until, known = self._cache.get(key, (0.0, Answer()))
            if until > self.now:
                self.tell(query, known._replace(ttl=int(until - self.now)))
                return
        waiting = self._waiting.setdefault((name, query.rrtype), [])
        if all((each.port, each.qid) != (query.port, query.qid) for each in waiting):
            waiting.append(query)
        if query.transport == "tcp":
            self.run(self._close(query, waiting))
        if len(waiting) > 1 or waiting[0] is not query:
            return
        answer = yield from self._ask_servers(query)
        del self._waiting[name, query.rrtype]
        for each in waiting if answer is not None else ():
            assert answer is not None
            self.tell(each, answer)

    def _close(self, query: Packet, waiting: list[Packet]) -> Task:
        """End a connection of the program that is idle for too long."""
        yield self.now + IDLE + self.random.uniform(0, ACCURACY)
        if waiting is self._waiting.get((query.name.lower(), query.rrtype)):
            self.tell(query, CLOSED)

    def _is_local(self, name: str, rrtype: int) -> bool:
        if "." not in name:
            return rrtype in ADDRESS_LEN
        return f".{name}".endswith(".local") and not any(
            f".{name}".endswith(f".{each}") for each in self.conf.search
        )

    def _ask_servers(self, query: Packet) -> Exchange:
        """Ask until there is a reply to give; None without one."""
        qid, server, port, picked = self.new_qid(), None, "", 0
        most, failed = EDNS, False
        for _ in range(ATTEMPTS):
            if server is not self._current:
                server, port, most, failed, picked = self._current, "", EDNS, False, picked + 1
            level = min(server.lowered(), most)
            over = "tcp" if level == TCP else "udp"
            until = self.now + TIMEOUT + self.random.uniform(0, ACCURACY)
            while True:
                port = port if port and over == "udp" else self._port(server, over)
                sent = query._replace(
                    transport=over,
                    server=self._servers.index(server),
                    port=port,
                    qid=qid,
                    edns=0 if level < EDNS else OWN_EDNS_SIZE if server.is_own else EDNS_SIZE,
                )
                answer = yield from self.ask(sent, until)
                if over == "tcp" or answer is None or not answer.tc:
                    break
                over = "tcp"
            port = port if over == "udp" else ""
            if answer is None or answer.is_closed:
                server.silences += answer is None and level == server.level
                server.connection = server.connection if answer is None else ""
                self._switch(server)
                continue
            server.used_at = self.now if over == "tcp" else server.used_at
            is_failure = answer.rcode in (Rcode.FORMERR, Rcode.SERVFAIL, Rcode.NOTIMP)
            if is_failure and level > UDP:
                most = level if answer.rcode == Rcode.SERVFAIL and not failed else UDP
                failed = True
                continue
            if answer.rcode in FAILURES or is_failure:
                if picked < len(self._servers):
                    self._switch(server)
                    continue
            elif failed:
                server.lower(min(server.level, most))
            if answer.rcode == Rcode.NXDOMAIN and level == EDNS:
                most = UDP
                continue
            server.verified = max(server.verified, TCP if over == "tcp" else level)
            server.silences = 0 if level == server.level else server.silences
            if not server.is_own:
                self._keep(query, answer)
            return answer
        return None

    def _keep(self, query: Packet, answer: Answer) -> None:
        ttl = FAILURE_TTL if answer.rcode == Rcode.SERVFAIL else min(answer.ttl, MOST_TTL)
        if answer.rcode in (Rcode.NOERROR, Rcode.SERVFAIL, Rcode.NXDOMAIN):
            rrtype = 0 if answer.rcode == Rcode.NXDOMAIN else query.rrtype
            self._cache[query.name.lower(), rrtype] = self.now + ttl, answer

    def _port(self, server: _Server, over: str) -> str:
        """A new socket, or the connection that there is."""
        if over == "udp":
            return self.new_port(over)
        if not server.connection or self.now - server.used_at >= IDLE:
            server.connection, server.used_at = self.new_port(over), self.now
        return server.connection

    def _switch(self, server: _Server) -> None:
        """Turn from a nameserver to the next one."""
        if self._current is server:
            at = self._servers.index(server) + 1
            self._current = self._servers[at % len(self._servers)]
