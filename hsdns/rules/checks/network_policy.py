"""HS161, HS162: NetworkPolicies that keep pods from the cluster's DNS.

Path: judging.py -> here -> cluster/controllers/network_policy.py.
Rule 1: the policies of the files count together; other ones may allow more, as the page says.
Rule 2: a rule that names port 53 is taken to be for the DNS, whoever its peers are: their labels and addresses differ
        from cluster to cluster, as with a DNS server on each node.
Rule 3: a policy without any rule denies all on purpose, and one that allows the API server only needs no names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import structs

from hsdns.cluster.controllers.kinds import EgressRule, NetworkPolicy
from hsdns.cluster.controllers.network_policy import NAME_LABEL, Peer, denied, names_dns
from hsdns.rules.check import check
from hsdns.rules.finding import Remark
from hsdns.rules.manifest import Manifest
from hsdns.rules.objects import Objects, PodSet, is_near

_API_SERVER: Final = (443, 6443, "https")
_SERVERS: Final = tuple(
    Peer("kube-system", labels, {NAME_LABEL: "kube-system", "name": "kube-system"})
    for labels in ({"k8s-app": "kube-dns"}, {"k8s-app": "coredns"}, {"k8s-app": "node-local-dns"})
)


@check("HS161")
def without_dns(objects: Objects) -> Iterator[Remark]:
    """Policies that leave pods without DNS."""
    for manifest, policy, transports in _denied(objects):
        if len(transports) == 2:
            yield manifest.remark(
                "spec.egress",
                f"{policy} may not ask the cluster's DNS, so no name resolves in them; "
                "allow port 53 over UDP and TCP to the pods of kube-dns",
            )


@check("HS162")
def without_tcp(objects: Objects) -> Iterator[Remark]:
    """Policies that allow DNS over one transport only."""
    for manifest, policy, transports in _denied(objects):
        if transports == ["tcp"]:
            yield manifest.remark(
                "spec.egress",
                f"{policy} may ask the cluster's DNS over UDP only, so an answer that does not fit into a datagram "
                "never arrives; allow port 53 over TCP too",
            )
        elif transports == ["udp"]:
            yield manifest.remark(
                "spec.egress",
                f"{policy} may ask the cluster's DNS over TCP only, and resolvers begin with UDP, so no name "
                "resolves in them; write protocol: UDP for port 53 too (without protocol it is TCP)",
            )


def _denied(objects: Objects) -> Iterator[tuple[Manifest, str, list[str]]]:
    """Policies with rules for egress, the pods, and the transports over which they reach no DNS."""
    policies = [
        (manifest, manifest.object)
        for manifest in objects.of("NetworkPolicy")
        if isinstance(manifest.object, NetworkPolicy)
    ]
    for manifest, policy in policies:
        if not any(_needs_names(each) for each in policy.spec.egress or ()):
            continue
        near = [_lenient(each) for other, each in policies if is_near(other, manifest)]
        found = list(_of_pods(objects, manifest, policy, near))
        if found:
            pods, transports = max(found, key=lambda each: len(each[1]))
            yield manifest, f"the pods of {pods}", transports


def _needs_names(rule: EgressRule) -> bool:
    """Whether a rule lets pods reach others than the API server, whose address is in their environment."""
    if any(each.ip_block is None for each in rule.to or ()):
        return True
    return bool(rule.ports) and any(each.port not in _API_SERVER for each in rule.ports or ())


def _of_pods(
    objects: Objects, manifest: Manifest, policy: NetworkPolicy, near: Sequence[NetworkPolicy]
) -> Iterator[tuple[str, list[str]]]:
    own = _lenient(policy)
    for pods in objects.pod_sets:
        if not is_near(pods.manifest, manifest) or pods.spec.host_network:
            continue
        peer = Peer("default", pods.labels, {})
        if not denied([own], peer, _SERVERS):
            continue
        transports = list(denied(near, peer, _SERVERS))
        if transports:
            yield str(pods.manifest), transports
    selector = policy.spec.pod_selector
    if not objects.is_whole and not any(_chooses(own, each) for each in objects.pod_sets):
        peer = Peer("default", selector.match_labels or {}, {})
        transports = list(denied(near, peer, _SERVERS)) if not selector.match_expressions else []
        if transports:
            yield "its selector" if selector.match_labels else "the namespace", transports


def _chooses(policy: NetworkPolicy, pods: PodSet) -> bool:
    """Whether a policy is for some pods: one that denies all denies them something then."""
    strict = structs.replace(policy, spec=structs.replace(policy.spec, egress=[]))
    return bool(denied([strict], Peer("default", pods.labels, {}), _SERVERS))


def _lenient(policy: NetworkPolicy) -> NetworkPolicy:
    """The policy in the namespace that all pods are taken to be in, with every rule that may be for the DNS."""
    rules = [_rule(each) for each in policy.spec.egress or ()]
    metadata = structs.replace(policy.metadata, namespace="default")
    egress = rules if policy.spec.egress is not None else None
    return structs.replace(
        policy, metadata=metadata, spec=structs.replace(policy.spec, egress=egress)
    )


def _rule(rule: EgressRule) -> EgressRule:
    if any(names_dns(each) for each in rule.ports or ()):
        return EgressRule(None, rule.ports)
    if any(each.ip_block is not None for each in rule.to or ()):
        return EgressRule(None, rule.ports)
    return rule
