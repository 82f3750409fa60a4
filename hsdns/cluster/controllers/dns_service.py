"""The Service of the cluster's own DNS: its name, the labels of its pods, and the ports that these listen on.

Path: sources/manifests.py and rules/checks/network_policy.py -> here -> network_policy.py.
Rule: NetworkPolicies apply to the port of the pods; the Service's port 53 is translated to it before they apply.
Source: kubeadm's Service kube-dns; OpenShift's DNS operator, whose pods listen on port 5353.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from hsdns.cluster.controllers.kinds import ContainerPort
from hsdns.cluster.objects import Service, ServiceSpec

PORT: Final = 53  # of the Service


class DnsService(NamedTuple):
    """Where a kind of cluster has its DNS; `port` is that of the pods."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    port: int

    def is_named(self, service: Service) -> bool:
        """Whether a Service has this name."""
        found = service.metadata.namespace, service.metadata.name
        return found == (self.namespace, self.name)


USUAL: Final = DnsService("kube-system", "kube-dns", {"k8s-app": "kube-dns"}, PORT)
OPENSHIFT: Final = DnsService(
    "openshift-dns", "dns-default", {"dns.operator.openshift.io/daemonset-dns": "default"}, 5353
)
KNOWN: Final = (USUAL, OPENSHIFT)


def pod_ports(
    spec: ServiceSpec, ports: Iterable[ContainerPort], kind: DnsService
) -> frozenset[int]:
    """The target ports of a Service for DNS; `ports` are the ports of the pods' containers."""
    named = {each.name: each.container_port for each in ports}
    found = set()
    for each in spec.ports or ():
        if each.port != PORT:
            continue
        target = each.port if each.target_port is None else each.target_port
        found.add(named.get(target, kind.port) if isinstance(target, str) else target)
    return frozenset(found or {kind.port})
