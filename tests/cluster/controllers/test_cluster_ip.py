"""ClusterIPs and families, as the API server fills them in."""

from __future__ import annotations

import pytest

from hsdns.cluster.controllers.address import is_headless, service_pools, with_cluster_ips
from hsdns.cluster.controllers.defaults import with_defaults
from hsdns.cluster.objects import ObjectMeta, Service, ServiceSpec

V4, V6 = "10.96.108.38", "fd00:10:96::6c26"


@pytest.mark.parametrize(
    ("spec", "addresses", "families"),
    [
        pytest.param(ServiceSpec(), [V4], ["IPv4"], id="nothing said"),
        pytest.param(ServiceSpec(cluster_ip=""), [V4], ["IPv4"], id="empty clusterIP"),
        pytest.param(ServiceSpec(type="NodePort"), [V4], ["IPv4"], id="NodePort"),
        pytest.param(ServiceSpec(type="LoadBalancer"), [V4], ["IPv4"], id="LoadBalancer"),
        pytest.param(ServiceSpec(ip_families=["IPv6"]), [V6], ["IPv6"], id="IPv6 only"),
        pytest.param(
            ServiceSpec(ip_family_policy="PreferDualStack"),
            [V4, V6],
            ["IPv4", "IPv6"],
            id="PreferDualStack",
        ),
        pytest.param(
            ServiceSpec(ip_family_policy="RequireDualStack", ip_families=["IPv6"]),
            [V6, V4],
            ["IPv6", "IPv4"],
            id="RequireDualStack, IPv6 first",
        ),
        pytest.param(
            ServiceSpec(ip_families=["IPv4", "IPv6"], ip_family_policy="PreferDualStack"),
            [V4, V6],
            ["IPv4", "IPv6"],
            id="both families",
        ),
        pytest.param(ServiceSpec(cluster_ip="10.96.0.10"), ["10.96.0.10"], ["IPv4"], id="given"),
        pytest.param(ServiceSpec(cluster_ip="fd00::5"), ["fd00::5"], ["IPv6"], id="given IPv6"),
        pytest.param(
            ServiceSpec(cluster_ip="10.96.0.10", ip_family_policy="PreferDualStack"),
            ["10.96.0.10", V6],
            ["IPv4", "IPv6"],
            id="one given of two",
        ),
        pytest.param(
            ServiceSpec(
                cluster_ip="fd00::5",
                cluster_ips=["fd00::5", "10.96.0.10"],
                ip_family_policy="RequireDualStack",
            ),
            ["fd00::5", "10.96.0.10"],
            ["IPv6", "IPv4"],
            id="both given",
        ),
        pytest.param(
            ServiceSpec(cluster_ip="None", selector={"app": "web"}),
            ["None"],
            ["IPv4"],
            id="headless",
        ),
        pytest.param(
            ServiceSpec(cluster_ip="None"),
            ["None"],
            ["IPv4", "IPv6"],
            id="headless without selector",
        ),
        pytest.param(
            ServiceSpec(
                cluster_ip="None", selector={"app": "web"}, ip_family_policy="PreferDualStack"
            ),
            ["None"],
            ["IPv4", "IPv6"],
            id="headless dual-stack",
        ),
    ],
)
def test_cluster_ips(spec: ServiceSpec, addresses: list[str], families: list[str]) -> None:
    service = with_defaults("Service", Service(ObjectMeta(name="web", namespace="shop"), spec))
    filled = with_cluster_ips(service, service_pools([]))
    assert filled.spec.cluster_ips == addresses
    assert filled.spec.cluster_ip == addresses[0]
    assert filled.spec.ip_families == families
    assert filled.spec.type == (spec.type or "ClusterIP")
    assert is_headless(service) == (addresses == ["None"])


def test_an_external_name_has_no_address() -> None:
    spec = ServiceSpec(type="ExternalName", external_name="mail.example.org")
    service = Service(ObjectMeta(name="mail", namespace="shop"), spec)
    assert with_cluster_ips(service, service_pools([])) == service
