"""The name servers of a cluster zone: the NS records at the apex and the addresses of `ns.dns.ZONE`.

Path: answer.py calls it for these two names, plugins/k8s_external.py for the external addresses.
Source: CoreDNS 1.14.7 plugin/kubernetes/ns.go, local.go.  If an address of this host is an endpoint of a Service, that
Service is the name server (kube-dns in a cluster), else `ns.dns.ZONE` with the addresses of this host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hsdns.cluster import schema
from hsdns.cluster.address import pack_address
from hsdns.cluster.earlier import ClusterView
from hsdns.cluster.question import SVC, ParsedName
from hsdns.cluster.value import CLUSTER_IP, HEADLESS, ServiceValue, SliceKey
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR
from hsdns.wire.name import Name

_DEFAULT: Final = b"\2ns\3dns"


class Nameserver:
    """NS records and their addresses, computed from the store for each query."""

    def __init__(self, store: ClusterView, ttl: int, local_addresses: Sequence[str]) -> None:
        self._services = store.services
        self._ttl = ttl
        self._local = [
            packed for text in local_addresses if (packed := pack_address(text)) is not None
        ]

    @staticmethod
    def is_default(qname: Name, zone: Name) -> bool:
        """Whether a name is `ns.dns.ZONE`."""
        return qname.lower == _DEFAULT + zone.lower

    def records(self, zone: Name) -> tuple[tuple[RR, ...], tuple[RR, ...]]:
        """The NS RRset and the addresses of its names: each name once, an address once for each occurrence."""
        found = list(self._found(zone))
        names = dict.fromkeys(name for name, _ in found)
        answer = tuple(RR(zone, RRType.NS, self._ttl, name.wire) for name in names)
        glue = tuple(
            RR(name, schema.address_type(address), self._ttl, address) for name, address in found
        )
        return answer, glue

    def addresses(self, qname: Name, qtype: int, zone: Name) -> tuple[RR, ...]:
        """A or AAAA records of `ns.dns.ZONE`."""
        owner = qname.lowered()
        addresses = dict.fromkeys(address for _, address in self._found(zone))
        return tuple(
            RR(owner, qtype, self._ttl, address)
            for address in addresses
            if schema.address_type(address) == qtype
        )

    def external(self, *, headless: bool) -> list[bytes]:
        """The external addresses of this server: those of the Services of which it is an endpoint.

        With `headless`, the endpoints of a headless Service count as external.  A server that is not an endpoint of any
        Service has the addresses of its host.
        """
        found, is_endpoint = dict[bytes, None](), False
        for owner, value in self._endpoints():
            is_endpoint = True
            if headless and value.kind == HEADLESS:
                for part in value.slices:
                    if part.name == owner[2] and part.width:
                        hosts = (part.host(index) for index in range(part.host_count))
                        found.update((host, None) for host in hosts if isinstance(host, bytes))
            elif value.kind is not None:
                found.update((each, None) for each in value.external if isinstance(each, bytes))
        return list(found) if is_endpoint else list(dict.fromkeys(self._local))

    def _endpoints(self) -> Iterator[tuple[SliceKey, ServiceValue]]:
        """The slices that have an address of this host, and the values of their Services.

        In the middle of an event the index has an address that its slice has no longer.
        """
        services = self._services
        for local in self._local:
            for owner in services.endpoint_ips.lookup(local):
                value = services.values.get((owner[0], owner[1]))
                if value is not None and any(
                    part.name == owner[2] and local in part.separate for part in value.slices
                ):
                    yield owner, value

    def _found(self, zone: Name) -> Iterator[tuple[Name, bytes]]:
        is_endpoint = False
        for owner, value in self._endpoints():
            is_endpoint = True
            parsed = ParsedName(SVC, owner[0], owner[1])
            if value.kind == HEADLESS:
                for part in value.slices:
                    if part.name == owner[2] and part.width:
                        for index in range(part.host_count):
                            host = part.host(index)
                            name = schema.target_name(part.label(index), parsed, zone)
                            if name is not None and isinstance(host, bytes):
                                yield name, host
            elif value.kind == CLUSTER_IP:
                name = schema.target_name(None, parsed, zone)
                if name is not None:
                    for address in value.cluster_ips:
                        yield name, address
        if not is_endpoint:
            default = Name(_DEFAULT + zone.lower)
            for address in self._local:
                yield default, address
