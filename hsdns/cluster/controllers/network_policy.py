"""Whether NetworkPolicies let a Pod reach the cluster's DNS, and the DNS be reached, over UDP and over TCP.

Path: sources/client_pod.py and rules/checks/network_policy.py -> here; no answer depends on it.
Source: Kubernetes networking/v1 NetworkPolicy: a Pod that egress policies select may send only what they allow,
and one that ingress policies select gets only what they allow.

The Service of the cluster's own DNS: its name, the labels of its pods, and the ports that these listen on:
Rule: NetworkPolicies apply to the port of the pods; the Service's port 53 is translated to it before they apply.
Source: kubeadm's Service kube-dns; OpenShift's DNS operator, whose pods listen on port 5353.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Final, NamedTuple

from hsdns.cluster.controllers.kinds import (
    ContainerPort,
    EgressRule,
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


class Denial(NamedTuple):
    """What policies deny over a transport, and what they would have to allow."""

    sentence: str
    needed: str


def denied(
    policies: Sequence[NetworkPolicy],
    pod: Peer,
    servers: Sequence[Peer],
    where: str = "the cluster's DNS",
) -> dict[str, Denial]:
    """The transports over which a Pod reaches none of the servers, by policies for either of them."""
    leaving = [each for each in policies if is_for(each, pod)]
    number = _listed({port for each in servers for port in each.ports})
    sent = {each for server in servers for each in _allowed(leaving, server, server, "egress")}
    if len(sent) < len(PORT_NAMES):
        at = where if servers[0].namespace else f"the ipBlock {_blocks(servers[0].addresses)}"
        needed = f"allow port {number} over UDP and TCP to {at}"
        return dict(_denials(leaving, sent, number, f"to {where}", needed))
    entering = [each for each in policies for server in servers if is_for(each, server, "Ingress")]
    got = set[str]()
    for server in servers:
        own = [each for each in policies if is_for(each, server, "Ingress")]
        got.update(_allowed(own, pod, server, "ingress"))
    whence = f"from namespace {pod.namespace} to {where}"
    needed = f"allow port {number} over UDP and TCP {whence}"
    return dict(
        _denials(list({id(each): each for each in entering}.values()), got, number, whence, needed)
    )


def _denials(
    chosen: Sequence[NetworkPolicy], allowed: Collection[str], number: str, way: str, needed: str
) -> Iterator[tuple[str, Denial]]:
    names = ", ".join(f"{each.metadata.namespace}/{each.metadata.name}" for each in chosen)
    place = f"NetworkPolicy {names}" if len(chosen) == 1 else f"NetworkPolicies {names}"
    verb = "allows" if len(chosen) == 1 else "allow"
    for transport in PORT_NAMES:
        if transport not in allowed:
            other = next((each.upper() for each in PORT_NAMES if each in allowed), "")
            what = f"port {number} over {other} only" if other else f"no port {number}"
            which = "the policy" if len(chosen) == 1 else "one of the policies"
            yield transport, Denial(f"{place} {verb} {what} {way}", f"in {which} {needed}")


def _allowed(chosen: Sequence[NetworkPolicy], peer: Peer, server: Peer, way: str) -> Iterator[str]:
    """The transports that policies for one end allow to a server; `peer` is the other end."""
    for transport in PORT_NAMES:
        if not chosen:
            yield transport
        for policy in chosen:
            listed = policy.spec.egress if way == "egress" else policy.spec.ingress
            for rule in listed or ():
                peers = rule.to if isinstance(rule, EgressRule) else rule.peers
                is_port = not rule.ports or any(
                    _has_port(each, transport, server.ports) for each in rule.ports
                )
                if is_port and (not peers or any(_has_peer(each, policy, peer) for each in peers)):
                    yield transport


def _listed(ports: Collection[int]) -> str:
    return " or ".join(map(str, sorted(ports)))


def _blocks(addresses: Sequence[str]) -> str:
    """Addresses as the ipBlocks of a policy."""
    found = (ip_address(each) for each in addresses)
    return ", ".join(f"{each}/{each.max_prefixlen}" for each in found)


def is_for(policy: NetworkPolicy, pod: Peer, way: str = "Egress") -> bool:
    """Whether a policy selects the egress or the ingress of a Pod."""
    spec = policy.spec
    types = spec.policy_types or ["Ingress", *(["Egress"] if spec.egress is not None else [])]
    is_near = (policy.metadata.namespace or "default") == pod.namespace
    return way in types and is_near and _matches(spec.pod_selector, pod.labels)


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
