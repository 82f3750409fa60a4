"""The ports of the cluster's DNS pods."""

from __future__ import annotations

import msgspec
import pytest

from hsdns.cluster.controllers.kinds import ContainerPort
from hsdns.cluster.controllers.network_policy import OPENSHIFT, USUAL, DnsService, pod_ports
from hsdns.cluster.objects import Service


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
