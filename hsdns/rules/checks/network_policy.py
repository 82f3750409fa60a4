"""HS161, HS162, HS163: NetworkPolicies of pods or of the DNS that block the way to it, or that of proxies to istiod.

Path: judging.py -> here -> cluster/controllers/network_policy.py.
Rule 1: all policies of the files count together; others may allow more, as the page says.
Rule 2: a policy rule that names the DNS port is assumed to be for the DNS, regardless of its peers: their labels and
        addresses differ between clusters, for example with a DNS server on each node.
Rule 3: the port is that of the DNS pods if their Service is among the files.  Otherwise it is 53, and for OpenShift
        also 5353, on which its pods listen.
Rule 4: a policy without any rule denies everything intentionally, and one that allows only the API server needs no
        names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from itertools import product
from typing import Final, NamedTuple

from msgspec import structs

from hsdns.cluster.controllers.kinds import (
    ContainerPort,
    EgressRule,
    IngressRule,
    NetworkPolicy,
    PolicyPort,
)
from hsdns.cluster.controllers.network_policy import (
    KNOWN,
    NAME_LABEL,
    USUAL,
    DnsService,
    Peer,
    denied,
    is_for,
    names_dns,
    pod_ports,
)
from hsdns.rules.checks.dns import kubelet_setting
from hsdns.rules.mesh import INJECT
from hsdns.rules.objects import Manifest, Objects, PodSet, check, is_near
from hsdns.rules.rule import Remark

_API_SERVER: Final = (443, 6443, "https")
_NODE_LOCAL: Final = {"k8s-app": "node-local-dns"}
_COREDNS: Final = {"k8s-app": "coredns"}


def _namespace_labels(name: str) -> dict[str, str]:
    return {NAME_LABEL: name, "name": name}


# istiod, with the names of its port in Services and pods.
_ISTIOD: Final = Peer(
    "istio-system", {"app": "istiod", "istio": "pilot"}, _namespace_labels("istio-system"), (), frozenset({15012})
)  # fmt: skip
_ISTIOD_NAMES: Final = frozenset({"https-dns", "tls-xds", "grpc-xds-tls"})


class _Dns(NamedTuple):
    """The DNS of a cluster: its pods as policies see them, and its ports and its Service as text."""

    servers: Sequence[Peer]
    ports: frozenset[int]
    port: str
    name: str
    pods: Sequence[PodSet] = ()


@check("HS161", needs="pods|networkpolicies")
def without_dns(objects: Objects) -> Iterator[Remark]:
    """Policies that leave pods without DNS."""
    dns = _dns(objects)
    for manifest, policy, transports in _denied(objects, dns):
        if len(transports) == 2:
            yield manifest.remark(
                "spec.egress",
                f"{manifest} allows no port {dns.port} to the cluster's DNS, so no name resolves in {policy}; "
                f"allow port {dns.port} over UDP and TCP to the pods of {dns.name}",
            )
    yield from _refused(objects, dns)
    policies = objects.typed(NetworkPolicy)
    settings = (
        kubelet_setting(each.content, "clusterDNS") for each in objects.written("ConfigMap")
    )
    written = next((each for each in settings if isinstance(each, list)), [])
    for pods in objects.pod_sets:
        addresses = _servers_on_node(pods, written)
        chosen = [each for each in policies if is_near(pods.manifest, each[0])] if addresses else []
        near = [_in_default(each) for _, each in chosen]
        peer, server = Peer("default", pods.labels, {}), Peer("", {}, {}, addresses)
        for (manifest, _), own in zip(chosen, near, strict=True):
            is_meant = is_for(own, peer) and any(map(_needs_names, own.spec.egress or ()))
            if is_meant and len(denied(near, peer, [server])) == 2:
                address = ip_address(addresses[0])
                yield manifest.remark(
                    "spec.egress",
                    f"{manifest} allows no port 53 to {address}, the server on the node of {_whose(pods.manifest)}, "
                    "so no name resolves there; allow port 53 over UDP and TCP to the ipBlock "
                    f"{address}/{address.max_prefixlen}",
                )


def _refused(objects: Objects, dns: _Dns) -> Iterator[Remark]:
    """Policies for the DNS pods that keep others from them."""
    if not dns.pods:
        return
    namespace = dns.pods[0].manifest.namespace
    servers = [
        Peer(namespace, each.labels, _labels_of(objects, namespace), (), dns.ports)
        for each in dns.pods
    ]
    policies = [
        (manifest, structs.replace(policy, spec=structs.replace(policy.spec, egress=None)))
        for manifest, policy in objects.typed(NetworkPolicy)
        if manifest.namespace == namespace
    ]
    entering = [
        (manifest, policy)
        for manifest, policy in policies
        if any(is_for(policy, each, "Ingress") for each in servers)
    ]
    for pods in objects.pod_sets if entering else ():
        own = pods.manifest.namespace
        if own == namespace or pods.spec.host_network:
            continue
        peer = Peer(own, pods.labels, _labels_of(objects, own))
        found = denied([_of_any_block(each) for _, each in entering], peer, servers)
        if "udp" in found:
            yield entering[0][0].remark(
                "spec.ingress",
                f"{found['udp'].sentence}, so no name resolves in the pods of {pods.manifest}; "
                f"allow port {dns.port} over UDP and TCP from all namespaces",
            )
            return


def _labels_of(objects: Objects, namespace: str) -> dict[str, str]:
    found = (each for each in objects.of("Namespace") if each.name == namespace)
    return {
        **_namespace_labels(namespace),
        **{key: str(each) for one in found for key, each in one.labels.items()},
    }


def _of_any_block(policy: NetworkPolicy) -> NetworkPolicy:
    """The policy with rules for all peers in place of those for addresses, which may be those of the pods."""
    rules = [
        IngressRule(None, each.ports) if any(one.ip_block for one in each.peers or ()) else each
        for each in policy.spec.ingress or ()
    ]
    return structs.replace(policy, spec=structs.replace(policy.spec, ingress=rules))


def _servers_on_node(pods: PodSet, written: Sequence[str]) -> list[str]:
    """The nameservers of pods that ask none but link-local addresses, as those of node-local-dns are.

    `written` are those that kubelets write.
    """
    spec, config = pods.spec, pods.spec.dns_config
    found = list(config.nameservers or ()) if config is not None else []
    if spec.dns_policy in (None, "ClusterFirst"):
        found = [*written, *found]
    elif spec.dns_policy != "None":
        return []
    try:
        is_local = all(ip_address(each).is_link_local for each in found)
    except ValueError:
        return []
    return found if is_local and not spec.host_network else []


def _in_default(policy: NetworkPolicy) -> NetworkPolicy:
    """The policy in the namespace that all pods are assumed to be in."""
    return structs.replace(policy, metadata=structs.replace(policy.metadata, namespace="default"))


@check("HS162", needs="pods|networkpolicies")
def without_tcp(objects: Objects) -> Iterator[Remark]:
    """Policies that allow DNS over one transport only."""
    dns = _dns(objects)
    for manifest, policy, transports in _denied(objects, dns):
        if transports == ["tcp"]:
            yield manifest.remark(
                "spec.egress",
                f"{manifest} allows port {dns.port} over UDP only to the cluster's DNS, so an answer that does not fit "
                f"into a datagram never arrives in {policy}; allow port {dns.port} over TCP too",
            )
        elif transports == ["udp"]:
            yield manifest.remark(
                "spec.egress",
                f"{manifest} allows port {dns.port} over TCP only to the cluster's DNS, and resolvers begin with UDP, "
                f"so no name resolves in {policy}; write protocol: UDP for port {dns.port} too (without protocol it is "
                "TCP)",
                level="error" if objects.is_whole else "",
            )


@check("HS163", needs="pods|networkpolicies|namespaces")
def without_istiod(objects: Objects) -> Iterator[Remark]:
    """Policies that block proxies from istiod."""
    policies, injected = objects.typed(NetworkPolicy), [*_injected(objects)]
    for manifest, policy in policies if injected else ():
        if not policy.spec.egress:
            continue
        own = _lenient(_numbered(policy), _ISTIOD.ports)
        near = [
            _lenient(_numbered(each), _ISTIOD.ports)
            for other, each in policies
            if is_near(other, manifest)
        ]
        for pods in injected:
            peer = Peer("default", pods.labels, {})
            if (
                is_near(pods.manifest, manifest)
                and "tcp" in denied([own], peer, [_ISTIOD])
                and "tcp" in denied(near, peer, [_ISTIOD])
            ):
                yield manifest.remark(
                    "spec.egress",
                    f"the proxy of Istio in {_whose(pods.manifest)} may not connect to istiod, so it never "
                    "learns a name or an address; allow port 15012 over TCP to the pods of istiod",
                )
                break


def _injected(objects: Objects) -> Iterator[PodSet]:
    """The pods that get a proxy of Istio, because they or their namespace request it."""
    namespaces = {
        manifest.name
        for manifest in objects.of("Namespace")
        if manifest.labels.get("istio-injection") == "enabled"
        or manifest.labels.get("istio.io/rev")
    }
    for pods in objects.pod_sets:
        asked = pods.labels.get(INJECT, "")
        is_asked = asked == "true" or (asked != "false" and pods.manifest.namespace in namespaces)
        if is_asked and not pods.spec.host_network:
            yield pods


def _numbered(policy: NetworkPolicy) -> NetworkPolicy:
    """The policy with the number of istiod's port in place of its name, and without other named ports."""
    (number,) = _ISTIOD.ports

    def numbered(port: PolicyPort) -> PolicyPort:
        known = number if port.port in _ISTIOD_NAMES else 0
        return structs.replace(port, port=known) if isinstance(port.port, str) else port

    egress = [
        EgressRule(rule.to, [*map(numbered, rule.ports or ())]) for rule in policy.spec.egress or ()
    ]
    return structs.replace(policy, spec=structs.replace(policy.spec, egress=egress))


def _dns(objects: Objects) -> _Dns:
    """The DNS of the objects' cluster: from its Service, else that of OpenShift or the usual one."""
    for kind, (manifest, service) in product(KNOWN, objects.services):
        if kind.is_named(service):
            chosen = objects.selected(manifest, service.spec.selector or {})
            ports = pod_ports(service.spec, _container_ports(chosen), kind)
            return _dns_at([kind], ports)._replace(pods=chosen)
    return _dns_at(*((KNOWN, None) if _is_openshift(objects) else ([USUAL], None)))


def _dns_at(kinds: Sequence[DnsService], known: frozenset[int] | None) -> _Dns:
    """The DNS for these kinds of clusters; `known` are its ports."""
    ports = known or frozenset(each.port for each in kinds)
    servers = [
        Peer(each.namespace, labels, _namespace_labels(each.namespace), (), ports)
        for each in kinds
        for labels in (each.labels, *((_COREDNS, _NODE_LOCAL) if each is USUAL else ()))
    ]
    main = kinds[-1]
    return _Dns(servers, ports, " or ".join(map(str, sorted(known or {main.port}))), main.name)


def _container_ports(chosen: Sequence[PodSet]) -> Iterator[ContainerPort]:
    for pods in chosen:
        for container in (*(pods.spec.containers or ()), *(pods.spec.init_containers or ())):
            yield from container.ports or ()


def _is_openshift(objects: Objects) -> bool:
    """Whether objects are for OpenShift: in its API groups or namespaces, or policies that name these."""
    return any(
        manifest.group.endswith(".openshift.io")
        or manifest.namespace.startswith("openshift-")
        or (manifest.kind == "NetworkPolicy" and "openshift" in str(manifest.content))
        for manifest in objects.manifests
    )


def _denied(objects: Objects, dns: _Dns) -> Iterator[tuple[Manifest, str, list[str]]]:
    """Policies with egress rules, the pods, and the transports over which these reach no DNS."""
    policies = objects.typed(NetworkPolicy)
    for manifest, policy in policies:
        if not any(_needs_names(each) for each in policy.spec.egress or ()):
            continue
        near = [_lenient(each, dns.ports) for other, each in policies if is_near(other, manifest)]
        found = list(_of_pods(objects, manifest, policy, near, dns))
        if found:
            pods, transports = max(found, key=lambda each: len(each[1]))
            yield manifest, pods, transports


def _whose(manifest: Manifest) -> str:
    """A Pod, or the pods of a workload."""
    return str(manifest) if manifest.kind == "Pod" else f"the pods of {manifest}"


def _needs_names(rule: EgressRule) -> bool:
    """Whether a rule allows other peers than the API server, whose address is in the pods' environment."""
    if any(each.ip_block is None for each in rule.to or ()):
        return True
    return bool(rule.ports) and any(each.port not in _API_SERVER for each in rule.ports or ())


def _of_pods(
    objects: Objects,
    manifest: Manifest,
    policy: NetworkPolicy,
    near: Sequence[NetworkPolicy],
    dns: _Dns,
) -> Iterator[tuple[str, list[str]]]:
    own = _lenient(policy, dns.ports)
    for pods in objects.pod_sets:
        if not is_near(pods.manifest, manifest) or pods.spec.host_network:
            continue
        peer = Peer("default", pods.labels, {})
        if not denied([own], peer, dns.servers):
            continue
        transports = list(denied(near, peer, dns.servers))
        if transports:
            yield _whose(pods.manifest), transports
    selector = policy.spec.pod_selector
    if not objects.is_whole and not any(_chooses(own, each, dns) for each in objects.pod_sets):
        peer = Peer("default", selector.match_labels or {}, {})
        transports = list(denied(near, peer, dns.servers)) if not selector.match_expressions else []
        if transports:
            what = "its selector" if selector.match_labels else "the namespace"
            yield f"the pods of {what}", transports


def _chooses(policy: NetworkPolicy, pods: PodSet, dns: _Dns) -> bool:
    """Whether a policy selects pods: tested with a copy that denies all."""
    strict = structs.replace(policy, spec=structs.replace(policy.spec, egress=[]))
    return bool(denied([strict], Peer("default", pods.labels, {}), dns.servers))


def _lenient(policy: NetworkPolicy, ports: frozenset[int]) -> NetworkPolicy:
    """The policy in the namespace that all pods are assumed to be in, with every rule that may be for the DNS."""
    rules = [_rule(each, ports) for each in policy.spec.egress or ()]
    egress = rules if policy.spec.egress is not None else None
    spec = structs.replace(policy.spec, egress=egress)
    return structs.replace(_in_default(policy), spec=spec)


def _rule(rule: EgressRule, ports: frozenset[int]) -> EgressRule:
    if any(names_dns(each, ports) for each in rule.ports or ()):
        return EgressRule(None, rule.ports)
    if any(each.ip_block is not None for each in rule.to or ()):
        return EgressRule(None, rule.ports)
    return rule
