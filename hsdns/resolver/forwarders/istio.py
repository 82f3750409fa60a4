"""The DNS capture of Istio's agent: it takes all queries of a pod, whatever their nameserver.

Path: forwarder.py -> here.
Source: measured with 1.27; pkg/dns/client/dns.go.
Rule 1: addresses of a Service in the registry are answered without a query, by its whole name, NAME.NAMESPACE,
        NAME.NAMESPACE.svc, in its namespace NAME, and each of these with the first search domain.
Rule 2: other queries go to one nameserver after the other in random order, with the program's ID and from a new socket
        each.  Any reply is taken.  Nothing is cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hsdns.resolver.forwarders.forwarder import FAILED, Forwarder, Task
from hsdns.resolver.model import ADDRESS_LEN, Answer, Keeps, Packet
from hsdns.wire.iana import RRType

TIMEOUT: Final = 5.0  # seconds for each nameserver
TTL: Final = 30  # seconds


class Istio(Forwarder):
    """DNS capture of Istio's agent, a build of August 2026, measured."""

    name = "istio"
    used_by = "pods of an Istio mesh whose proxy has ISTIO_META_DNS_CAPTURE, or of its ambient mode"
    captures = True
    keeps = Keeps(why="it keeps no answer; of Services it knows what istiod last said")

    def pass_on(self, query: Packet) -> Task:
        """Answer from the registry, or ask the nameservers."""
        found = self._registered(query.name.lower())
        if found is not None and query.rrtype in ADDRESS_LEN:
            own = tuple(each for each in found if (":" in each) == (query.rrtype == RRType.AAAA))
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

    def _registered(self, name: str) -> Sequence[str] | None:
        """The addresses of the Service that a name means, None for others."""
        search = self.program.conf.search
        first = search[0].removesuffix(".") if search else ""
        names = [name]
        if first and name.endswith(f".{first}"):
            names.append(name.removesuffix(f".{first}"))
        own, _, domain = first.partition(".svc.")
        for each in names:
            tried = [each, f"{each}.svc.{domain}", f"{each}.{domain}"]
            tried += [f"{each}.{own}.svc.{domain}"] if "." not in each else []
            for one in tried:
                if one in self.registry:
                    return self.registry[one]
        return None
