"""Models of programs that stand between a program and the cluster's DNS, and pass its queries on.

Path: resolver/__init__.py -> here.
Rule 1: as in resolver/: no sockets, no clocks, and the packets that the program was measured to send.
Rule 2: FORWARDERS is the only list of them.
"""

from __future__ import annotations

from typing import Final

from hsdns.resolver.forwarders.coredns import CoreDns, NodeLocalDns
from hsdns.resolver.forwarders.dnsmasq import Dnsmasq
from hsdns.resolver.forwarders.forwarder import Forwarder
from hsdns.resolver.forwarders.istio import Istio
from hsdns.resolver.forwarders.resolved import Resolved

FORWARDERS: Final[dict[str, type[Forwarder]]] = {
    each.name: each for each in (NodeLocalDns, CoreDns, Dnsmasq, Resolved, Istio)
}


def class_of(through: str) -> type[Forwarder]:
    """The class of a forwarder; for "" one that changes nothing."""
    return FORWARDERS.get(through, Forwarder)
