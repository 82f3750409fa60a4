"""The DNS capture of Istio's agent: it takes all queries of a pod, whatever their nameserver.

Path: forwarder.py -> here.
Source: measured with 1.27; pkg/dns/client/dns.go, pkg/dns/server/name_table.go.
Rule 1: addresses of a Service in the registry, and of its endpoints with a host name, are answered without a query, by
        the whole name, NAME.NAMESPACE, NAME.NAMESPACE.svc, in its namespace NAME, and each of these with the first
        search domain.
Rule 2: other queries go to one nameserver after the other in random order, with the program's ID and from a new socket
        each.  Any reply is taken.  Nothing is cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hsdns.resolver.forwarders.forwarder import FAILED, Forwarder, Registry, Task
from hsdns.resolver.model import ADDRESS_LEN, Answer, Keeps, Packet
from hsdns.wire.iana import RRType

TIMEOUT: Final = 5.0  # seconds for each nameserver
TTL: Final = 30  # seconds


class Istio(Forwarder):
    """DNS capture of Istio's agent, a build of August 2026, measured."""

    name = "istio"
    used_by = "pods of an Istio mesh whose proxy has ISTIO_META_DNS_CAPTURE, or of its ambient mode"
    captures = True
    keeps = Keeps(why="it keeps no answers; it knows Services as istiod last sent them")

    def pass_on(self, query: Packet) -> Task:
        """Answer from the registry, or ask the nameservers."""
        _, known = told_of(query.name, self.program.conf.search, self.registry)
        if known and query.rrtype in ADDRESS_LEN:
            is_v6 = query.rrtype == RRType.AAAA
            own = tuple(each for each in known if (":" in each) == is_v6)
            self.tell(query, Answer(addresses=own, ttl=TTL))
            return
        servers = list(range(len(self.conf.nameservers)))
        self.random.shuffle(servers)
        for server in servers:
            sent = query._replace(server=server, port=self.new_port(query.transport))
            answer = yield from self.ask(sent, self.now + TIMEOUT)
            if answer is not None and not answer.is_closed:
                self.tell(query, answer)
                return
        self.tell(query, FAILED)


def told_of(name: str, search: Sequence[str], registry: Registry) -> tuple[str, Sequence[str]]:
    """The whole name that the agent takes a name for, by the search list of its pod, and its addresses, if any."""
    first = search[0].removesuffix(".").lower() if search else ""
    own, _, domain = first.partition(".svc.")
    name = name.lower()
    for each in dict.fromkeys((name, name.removesuffix(f".{first}"))):
        for ending in ("", f".svc.{domain}", f".{domain}", f".{own}.svc.{domain}"):
            label, _, service = (whole := f"{each}{ending}").partition(".")
            found = registry.get(whole, {}).get("") or registry.get(service, {}).get(label)
            if found:
                return whole, found
    return "", ()
