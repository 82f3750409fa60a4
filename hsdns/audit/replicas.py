"""The DNS servers behind a Service of the cluster: one for each ready endpoint.

Path: cli/audit_servers.py -> here <- the store of the kubernetes block.
Rule: the port is the slice's UDP port named dns, or else its first UDP port: the port of the pods, which need not be
      53.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

from hsdns.cluster.value import Port, ServiceValue


def replicas(value: ServiceValue) -> list[tuple[str, int]]:
    """Address and port of each ready endpoint, sorted; empty if there are none."""
    found = set()
    for part in value.slices:
        port = _port(part.ports)
        if port is not None and part.width:
            found |= {(ip_address(address), port) for address in part.separate}
    ordered = sorted(found, key=lambda each: (each[0].version, int(each[0]), each[1]))
    return [(str(address), port) for address, port in ordered]


def _port(ports: Sequence[Port]) -> int | None:
    over_udp = [each for each in ports if each.protocol == b"udp" and each.number > 0]
    named = [each for each in over_udp if each.name == b"dns"]
    return (named or over_udp)[0].number if over_udp else None
