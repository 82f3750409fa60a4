"""ClusterIPs for Services without one, and the address families of each Service.

Path: simulation.py -> here -> endpointslice.py and the store.
Rule: the defaults are those of the API server of a dual-stack cluster whose first family is IPv4.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hsdns.cluster.controllers.address import FAMILIES, AddressPool, family_of
from hsdns.cluster.objects import Service, ServiceSpec

HEADLESS = "None"


def given_cluster_ips(service: Service) -> list[str]:
    """The cluster IPs in the manifest, or the word `None`; the first is clusterIP."""
    return service.spec.cluster_ips or []


def is_headless(service: Service) -> bool:
    """Whether the Service is headless."""
    return given_cluster_ips(service)[:1] == [HEADLESS]


def with_cluster_ips(service: Service, pools: Mapping[str, AddressPool]) -> Service:
    """Fill in families and addresses; if the network is full, the Service has no address."""
    spec = service.spec
    if spec.type == "ExternalName":
        return service
    families = _families(spec, given_cluster_ips(service))
    if is_headless(service):
        addresses = [HEADLESS]
    else:
        given = {family_of(address): address for address in given_cluster_ips(service)}
        owner = f"{service.metadata.namespace}/{service.metadata.name}"
        found = (given.get(family) or pools[family].allocate(owner) for family in families)
        addresses = [address for address in found if address is not None]
    filled = msgspec.structs.replace(
        spec,
        cluster_ip=addresses[0] if addresses else None,
        cluster_ips=addresses,
        ip_families=families,
    )
    return msgspec.structs.replace(service, spec=filled)


def _families(spec: ServiceSpec, given: list[str]) -> list[str]:
    families = [family_of(each) for each in given if each != HEADLESS]
    families += [each for each in spec.ip_families or () if each not in families]
    if not families:
        families = [FAMILIES[0]]
    if spec.ip_family_policy != "SingleStack":
        families += [each for each in FAMILIES if each not in families]
    return families
