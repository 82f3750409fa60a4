"""Models of programs that stand between a program and the cluster's DNS, and pass its queries on.

Path: resolver/__init__.py -> here.
Rule 1: as in resolver/: no sockets, no clocks, and the packets that the program was measured to send.
Rule 2: STUBS is the only list of them.
"""

from __future__ import annotations

from typing import Final

from hsdns.resolver.stubs.coredns import CoreDns, NodeLocalDns
from hsdns.resolver.stubs.dnsmasq import Dnsmasq
from hsdns.resolver.stubs.istio import Istio
from hsdns.resolver.stubs.resolved import Resolved
from hsdns.resolver.stubs.stub import Stub

STUBS: Final[dict[str, type[Stub]]] = {
    each.name: each for each in (NodeLocalDns, CoreDns, Dnsmasq, Resolved, Istio)
}
