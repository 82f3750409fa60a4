"""The synthetic cluster of all servers: its names, also as a zone file, and behind an API server for CoreDNS.

    python -m loadtest.answering.cluster PORT SERVICES ENDPOINTS CHANGES

Path: mixes.py, servers.py -> here -> hsdns.sources.synthetic, hsdns/load/cluster/api.py.
Rule 1: all Services are headless, so each Service and each endpoint has a name, and each port has SRV records.
Rule 2: the zone file has the records that hsdns and CoreDNS answer: the same owners, types, TTL and addresses.
Rule 3: objects and changes of the API server are those of hsdns's `source synthetic`: the same names, addresses and
        seed.  The CPU time for making a change is that of its process; CoreDNS only reads the watch.
Source: Kubernetes DNS-Based Service Discovery, sections 2.4.1 and 2.4.2.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import NamedTuple

import uvloop

from hsdns.cluster.objects import SERVICE_NAME_LABEL, EndpointSlice
from hsdns.load.cluster.api import ClusterApi
from hsdns.load.cluster.churn import due_changes
from hsdns.load.cluster.history import ApiHistory
from hsdns.sources.synthetic import SERVICES_PER_NAMESPACE, Shape, SyntheticCluster

ZONE = "cluster.local"
SERVICES_ZONE = f"svc.{ZONE}"
CACHED_ZONE = "cached.example"  # outside the cluster; answered by `template`, and then by `cache`
TTL = 30
_WEIGHT = 100  # CoreDNS shares it among the endpoints


class Question(NamedTuple):
    """A name without its trailing dot, and a type in dnsperf's notation."""

    name: str
    rrtype: str


class Cluster(NamedTuple):
    """Headless Services and the number of endpoints of each."""

    services: int = 10_000
    endpoints: int = 10

    @property
    def source(self) -> str:
        """The words after `source` in a Corefile."""
        return f"synthetic services={self.services} endpoints={self.endpoints} headless=1"

    def shape(self) -> Shape:
        """The parameters with which the source generates the same cluster."""
        return Shape(services=self.services, endpoints=self.endpoints, headless=1.0)

    def cached_block(self) -> str:
        """The lines of a Corefile that answer the names of CACHED_ZONE, with as many addresses as a Service has."""
        answers = "".join(
            f'        answer "{{{{ .Name }}}} 30 IN A 192.0.2.{each + 1}"\n'
            for each in range(self.endpoints)
        )
        return f"template IN A {CACHED_ZONE} {{\n{answers}    }}"

    def service(self, index: int) -> str:
        """Name of a Service."""
        return f"svc-{index}.ns-{index // SERVICES_PER_NAMESPACE}.{SERVICES_ZONE}"

    def pod(self, index: int, endpoint: int) -> str:
        """Name of an endpoint of a Service."""
        return f"svc-{index}-{endpoint}.{self.service(index)}"

    def port(self, index: int) -> str:
        """Name of the port of a Service."""
        return f"_http._tcp.{self.service(index)}"

    def zone_lines(self) -> Iterator[str]:
        """The zone file, line by line."""
        yield f"$ORIGIN {ZONE}."
        yield f"$TTL {TTL}"
        yield f"@ SOA ns.dns hostmaster 1 7200 1800 86400 {TTL}"
        yield "@ NS ns.dns"
        yield "ns.dns A 127.0.0.1"
        for each in SyntheticCluster(self.shape()).objects():
            if isinstance(each, EndpointSlice):
                service = (each.metadata.labels or {})[SERVICE_NAME_LABEL]
                yield from _slice_lines(f"{service}.{each.metadata.namespace}.svc", each)


def _slice_lines(owner: str, each: EndpointSlice) -> Iterator[str]:
    endpoints = each.endpoints or ()
    for endpoint in endpoints:
        for address in endpoint.addresses or ():
            yield f"{owner} A {address}"
            yield f"{endpoint.hostname}.{owner} A {address}"
    weight = _WEIGHT // max(1, len(endpoints))
    for port in each.ports or ():
        for endpoint in endpoints:
            target = f"{endpoint.hostname}.{owner}"
            yield f"_{port.name}._tcp.{owner} SRV 0 {weight} {port.port} {target}"


async def serve(port: int, cluster: Cluster, changes: float) -> None:
    """Serve the cluster, and change it at a steady rate, until the process is terminated."""
    made, history = SyntheticCluster(cluster.shape()), ApiHistory()
    for each in made.objects():
        history.put(each)
    api = ClusterApi(history, "127.0.0.1", port)
    await api.start()
    if not changes:
        await asyncio.Event().wait()
    async for count in due_changes([(1.0, changes)], asyncio.get_running_loop().time):
        for _ in range(count):
            history.put(made.change())
        api.changed()


if __name__ == "__main__":
    _port, _services, _endpoints, _changes = map(int, sys.argv[1:])
    uvloop.run(serve(_port, Cluster(_services, _endpoints), _changes))
