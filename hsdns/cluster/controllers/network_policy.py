"""Whether NetworkPolicies let a Pod reach the cluster's DNS, over UDP and over TCP.

Path: sources/client_pod.py and rules/checks/network_policy.py -> here; no answer depends on it.
Source: Kubernetes networking/v1 NetworkPolicy: a Pod that egress policies select may send only what they allow.

The Service of the cluster's own DNS: its name, the labels of its pods, and the ports that these listen on:
Rule: NetworkPolicies apply to the port of the pods; the Service's port 53 is translated to it before they apply.
Source: kubeadm's Service kube-dns; OpenShift's DNS operator, whose pods listen on port 5353.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Final, NamedTuple

from hsdns.cluster.controllers.kinds import (
    ContainerPort,
    LabelExpression,
    LabelSelector,
    NetworkPolicy,
    PolicyPeer,
    PolicyPort,
)
from hsdns.cluster.objects import Service, ServiceSpec

PORT: Final = 53  # of the Service
PORT_NAMES: Final = {"udp": ("dns", "dns-udp"), "tcp": ("dns-tcp", "dns")}
NAME_LABEL: Final = "kubernetes.io/metadata.name"
Labels = Mapping[str, str]


class Peer(NamedTuple):
    """A Pod as policies see it: its namespace, the labels of both, its addresses, and its ports for DNS.

    Without a namespace it is a server on a node, which no selector of Pods chooses.
    """

    namespace: str
    labels: Labels
    namespace_labels: Labels
    addresses: Sequence[str] = ()
    ports: frozenset[int] = frozenset({PORT})


def denied(
    policies: Sequence[NetworkPolicy],
    pod: Peer,
    servers: Sequence[Peer],
    where: str = "the cluster's DNS",
) -> dict[str, str]:
    """The transports over which a Pod reaches none of the servers, each with a sentence that names the policies."""
    chosen = [each for each in policies if is_for(each, pod)]
    if not chosen:
        return {}
    allowed = {
        transport
        for transport in PORT_NAMES
        for policy in chosen
        for rule in policy.spec.egress or ()
        for server in servers
        if not rule.ports or any(_has_port(each, transport, server.ports) for each in rule.ports)
        if not rule.to or any(_has_peer(each, policy, server) for each in rule.to)
    }
    number = " or ".join(map(str, sorted({port for each in servers for port in each.ports})))
    names = ", ".join(f"{each.metadata.namespace}/{each.metadata.name}" for each in chosen)
    place = f"NetworkPolicy {names}" if len(chosen) == 1 else f"NetworkPolicies {names}"
    verb = "allows" if len(chosen) == 1 else "allow"
    found = {}
    for transport in PORT_NAMES:
        if transport not in allowed:
            other = next((each.upper() for each in PORT_NAMES if each in allowed), "")
            what = f"port {number} over {other} only" if other else f"no port {number}"
            found[transport] = f"{place} {verb} {what} to {where}"
    return found


def is_for(policy: NetworkPolicy, pod: Peer) -> bool:
    """Whether a policy selects the egress of a Pod."""
    spec = policy.spec
    types = spec.policy_types or (["Egress"] if spec.egress is not None else [])
    is_near = (policy.metadata.namespace or "default") == pod.namespace
    return "Egress" in types and is_near and _matches(spec.pod_selector, pod.labels)


def names_dns(port: PolicyPort, ports: frozenset[int]) -> bool:
    """Whether a policy names a port, and it is one of `ports`, over UDP or TCP."""
    return port.port is not None and any(
        _has_port(port, transport, ports) for transport in PORT_NAMES
    )


def _has_port(port: PolicyPort, transport: str, ports: frozenset[int]) -> bool:
    if (port.protocol or "TCP").lower() != transport:
        return False
    if port.port is None:
        return True
    if isinstance(port.port, str):
        return port.port in PORT_NAMES[transport]
    first, last = port.port, port.end_port or port.port
    return any(first <= each <= last for each in ports)


def _has_peer(peer: PolicyPeer, policy: NetworkPolicy, server: Peer) -> bool:
    if peer.ip_block is not None:
        block = peer.ip_block
        return any(
            _is_in(address, block.cidr) and not any(_is_in(address, each) for each in block.excluded or ())
            for address in server.addresses
        )  # fmt: skip
    if not server.namespace:
        return False
    if peer.namespace_selector is not None:
        is_near = _matches(peer.namespace_selector, server.namespace_labels)
    else:
        is_near = (policy.metadata.namespace or "default") == server.namespace
    return is_near and _matches(peer.pod_selector or LabelSelector(), server.labels)


def _is_in(address: str, network: str) -> bool:
    try:
        return ip_address(address) in ip_network(network, strict=False)
    except ValueError:
        return False


def _matches(selector: LabelSelector, labels: Labels) -> bool:
    wanted = (selector.match_labels or {}).items()
    return wanted <= labels.items() and all(
        _fulfils(each, labels) for each in selector.match_expressions or ()
    )


def _fulfils(expression: LabelExpression, labels: Labels) -> bool:
    value = labels.get(expression.key)
    is_one = value is not None and value in (expression.values or ())
    match expression.operator:
        case "In":
            return is_one
        case "NotIn":
            return not is_one
        case "Exists":
            return value is not None
        case _:
            return value is None


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
