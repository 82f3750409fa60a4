"""Which transports NetworkPolicies leave to a Pod that asks the cluster's DNS.

The ports of the cluster's DNS pods.
"""

from __future__ import annotations

from pathlib import Path

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
from tests.support.tables import columns

TABLE = Path(__file__).with_name("network_policies.txt")
POD = Peer("shop", {"app": "web"}, {NAME_LABEL: "shop"}, ["10.244.0.7"])
DNS = Peer("kube-system", {"k8s-app": "kube-dns"}, {NAME_LABEL: "kube-system"}, ["10.244.0.2", "10.96.0.10"])  # fmt: skip
UDP, TCP = '{"protocol": "UDP", "port": 53}', '{"protocol": "TCP", "port": 53}'
SYSTEM = '{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}'


def policy(spec: str, name: str = "web", namespace: str = "shop") -> NetworkPolicy:
    text = f'{{"metadata": {{"name": "{name}", "namespace": "{namespace}"}}, "spec": {spec}}}'
    return msgspec.json.decode(text, type=NetworkPolicy)


def rule(to: str = "", ports: str = "", selector: str = "{}") -> NetworkPolicy:
    return policy(f'{{"podSelector": {selector}, "egress": [{{"to": [{to}], "ports": [{ports}]}}]}}')  # fmt: skip


@pytest.mark.parametrize(("row", "transports"), columns(TABLE, "denied"))
def test_denied(row: str, transports: str) -> None:
    policies = []
    for each in filter(None, row.replace("NAME", "kubernetes.io/metadata.name").split(" ; ")):
        namespace, brace, spec = each.partition("{")
        policies.append(policy(brace + spec, namespace=namespace.rstrip(": ") or "shop"))
    assert (" ".join(denied(policies, POD, [DNS])) or "none") == transports


def test_each_server_has_its_port() -> None:
    far = DNS._replace(namespace="openshift-dns", namespace_labels={}, ports=frozenset({5353}))
    ports = '{"protocol": "UDP", "port": 5353}, {"protocol": "TCP", "port": 5353}'
    assert list(denied([rule("", ports)], POD, [DNS, far])) == []
    assert list(denied([rule(SYSTEM, ports)], POD, [DNS, far])) == ["udp", "tcp"]
    assert denied([rule("", f"{UDP}, {TCP}")], POD, [far])["udp"].sentence.endswith("allows no port 5353 to the cluster's DNS")  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "is_chosen"), columns(TABLE, "expressions that choose a Pod with app=web")
)
def test_expressions(expression: str, is_chosen: str) -> None:
    found = rule("", UDP, f'{{"matchExpressions": [{expression}]}}')
    assert str(bool(denied([found], POD, [DNS]))) == is_chosen


def test_sentences() -> None:
    ((transport, found),) = denied([rule("", UDP)], POD, [DNS]).items()
    sentence = "NetworkPolicy shop/web allows port 53 over UDP only to the cluster's DNS"
    assert (transport, found.sentence) == ("tcp", sentence)
    two = [policy('{"policyTypes": ["Egress"]}', name) for name in ("a", "b")]
    assert {each.sentence for each in denied(two, POD, [DNS]).values()} == {
        "NetworkPolicies shop/a, shop/b allow no port 53 to the cluster's DNS"
    }


@pytest.mark.parametrize(("spec", "transports"), columns(TABLE, "ingress of the DNS pods"))
def test_ingress_of_the_dns_pods(spec: str, transports: str) -> None:
    spec = spec.replace("NAME", "kubernetes.io/metadata.name")
    found = denied([policy(spec, "dns", "kube-system")], POD, [DNS])
    assert (" ".join(found) or "none") == transports


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
