"""Which transports NetworkPolicies leave to a Pod that asks the cluster's DNS.

The ports of the cluster's DNS pods.
"""

from __future__ import annotations

import msgspec
import pytest

from hsdns.cluster.controllers.kinds import ContainerPort, NetworkPolicy
from hsdns.cluster.controllers.network_policy import (
    NAME_LABEL,
    OPENSHIFT,
    USUAL,
    DnsService,
    Peer,
    denied,
    pod_ports,
)
from hsdns.cluster.objects import Service

POD = Peer("shop", {"app": "web"}, {NAME_LABEL: "shop"}, ["10.244.0.7"])
DNS = Peer("kube-system", {"k8s-app": "kube-dns"}, {NAME_LABEL: "kube-system"}, ["10.244.0.2", "10.96.0.10"])  # fmt: skip
UDP, TCP = '{"protocol": "UDP", "port": 53}', '{"protocol": "TCP", "port": 53}'
SYSTEM = '{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}'


def policy(spec: str, name: str = "web", namespace: str = "shop") -> NetworkPolicy:
    text = f'{{"metadata": {{"name": "{name}", "namespace": "{namespace}"}}, "spec": {spec}}}'
    return msgspec.json.decode(text, type=NetworkPolicy)


def rule(to: str = "", ports: str = "", selector: str = "{}") -> NetworkPolicy:
    return policy(f'{{"podSelector": {selector}, "egress": [{{"to": [{to}], "ports": [{ports}]}}]}}')  # fmt: skip


@pytest.mark.parametrize(
    ("policies", "transports"),
    [
        ([], []),
        ([policy('{"policyTypes": ["Egress"]}')], ["udp", "tcp"]),
        ([policy('{"policyTypes": ["Ingress"]}')], []),
        ([policy('{"policyTypes": ["Egress"]}', namespace="other")], []),
        ([policy('{"policyTypes": ["Egress"], "podSelector": {"matchLabels": {"app": "db"}}}')], []),
        ([rule()], []),
        ([rule(SYSTEM, f"{UDP}, {TCP}")], []),
        ([rule(SYSTEM, UDP)], ["tcp"]),
        ([rule(SYSTEM, UDP), rule("", TCP)], []),
        ([rule("", '{"port": 53}')], ["udp"]),
        ([rule("", '{"protocol": "UDP", "port": 50, "endPort": 60}, {"protocol": "TCP"}')], []),
        ([rule("", '{"protocol": "UDP", "port": "dns"}, {"protocol": "TCP", "port": "https"}')], ["tcp"]),
        ([rule("", '{"protocol": "UDP", "port": 5353}')], ["udp", "tcp"]),
        ([rule('{"podSelector": {}}', UDP)], ["udp", "tcp"]),  # of its own namespace
        ([rule('{"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}')], []),
        ([rule('{"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "x"}}}')], ["udp", "tcp"]),
        ([rule('{"ipBlock": {"cidr": "10.96.0.0/12"}}')], []),
        ([rule('{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.96.0.0/12", "10.244.0.0/16"]}}')], ["udp", "tcp"]),
        ([rule('{"ipBlock": {"cidr": "nonsense"}}')], ["udp", "tcp"]),
    ],
)  # fmt: skip
def test_denied(policies: list[NetworkPolicy], transports: list[str]) -> None:
    assert list(denied(policies, POD, [DNS])) == transports


def test_each_server_has_its_port() -> None:
    far = DNS._replace(namespace="openshift-dns", namespace_labels={}, ports=frozenset({5353}))
    ports = '{"protocol": "UDP", "port": 5353}, {"protocol": "TCP", "port": 5353}'
    assert list(denied([rule("", ports)], POD, [DNS, far])) == []
    assert list(denied([rule(SYSTEM, ports)], POD, [DNS, far])) == ["udp", "tcp"]
    assert denied([rule("", f"{UDP}, {TCP}")], POD, [far])["udp"].endswith("allows no port 5353 to the cluster's DNS")  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "is_chosen"),
    [
        ('{"key": "app", "operator": "In", "values": ["web", "db"]}', True),
        ('{"key": "app", "operator": "NotIn", "values": ["web"]}', False),
        ('{"key": "tier", "operator": "NotIn", "values": ["web"]}', True),
        ('{"key": "app", "operator": "Exists"}', True),
        ('{"key": "app", "operator": "DoesNotExist"}', False),
    ],
)
def test_expressions(expression: str, is_chosen: bool) -> None:
    found = rule("", UDP, f'{{"matchExpressions": [{expression}]}}')
    assert bool(denied([found], POD, [DNS])) is is_chosen


def test_sentences() -> None:
    assert denied([rule("", UDP)], POD, [DNS]) == {
        "tcp": "NetworkPolicy shop/web allows port 53 over UDP only to the cluster's DNS"
    }
    two = [policy('{"policyTypes": ["Egress"]}', name) for name in ("a", "b")]
    assert set(denied(two, POD, [DNS]).values()) == {
        "NetworkPolicies shop/a, shop/b allow no port 53 to the cluster's DNS"
    }


def service(ports: str, name: str = "dns-default", namespace: str = "openshift-dns") -> Service:
    text = f'{{"metadata": {{"name": "{name}", "namespace": "{namespace}"}}, "spec": {{"ports": [{ports}]}}}}'
    return msgspec.json.decode(text, type=Service)


@pytest.mark.parametrize(
    ("ports", "kind", "found"),
    [
        ('{"port": 53, "targetPort": "dns"}, {"port": 53, "targetPort": "dns-tcp"}', OPENSHIFT, {5353, 5354}),
        ('{"port": 53, "targetPort": 1053}, {"port": 9154, "targetPort": 9154}', USUAL, {1053}),
        ('{"port": 53}', USUAL, {53}),
        ('{"port": 53, "targetPort": "other"}', USUAL, {53}),
        ('{"port": 53, "targetPort": "other"}', OPENSHIFT, {5353}),
        ("", OPENSHIFT, {5353}),
    ],
)  # fmt: skip
def test_pod_ports(ports: str, kind: DnsService, found: set[int]) -> None:
    named = [ContainerPort(5353, "dns", "UDP"), ContainerPort(5354, "dns-tcp", "TCP")]
    assert pod_ports(service(ports).spec, named, kind) == found


def test_its_name() -> None:
    assert OPENSHIFT.is_named(service(""))
    assert not USUAL.is_named(service(""))
    assert not OPENSHIFT.is_named(service("", namespace="shop"))
