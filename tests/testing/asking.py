"""Queries of a cluster by UDP, written and read by dnspython."""

from __future__ import annotations

import dns.message
import dns.query
import dns.rcode

from hsdns.testing import Cluster


def ask(cluster: Cluster, name: str, rrtype: str = "A", *, tcp: bool = False) -> list[str]:
    """The records of the answer, sorted, each as its type's text; the rcode in place of none."""
    query = dns.message.make_query(name, rrtype)
    send = dns.query.tcp if tcp else dns.query.udp
    reply = send(query, cluster.address, port=cluster.port, timeout=30)
    found = sorted(record.to_text() for rrset in reply.answer for record in rrset)
    return found or [dns.rcode.to_text(reply.rcode())]


def ask_web(cluster: Cluster) -> str:
    """The addresses of the Service `web`, on one line."""
    return " ".join(ask(cluster, "web.default.svc.cluster.local"))
