"""Endpoints objects become EndpointSlices."""

from __future__ import annotations

import pytest

from tests.support.cluster.object_lines import object_lines, simulated

SERVICE = "{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {clusterIP: None}}\n---\n"
SELECTING = SERVICE.replace("clusterIP: None", "clusterIP: None, selector: {app: database}")
POD = (
    "{apiVersion: v1, kind: Pod, metadata: {name: db-0, namespace: shop, labels: {app: database}},"
    " status: {podIP: 10.2.2.2}}\n---\n"
)
SLICE = (
    "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4,"
    " metadata: {name: db-x, namespace: shop, labels: {kubernetes.io/service-name: db}},"
    " endpoints: [{addresses: [10.3.3.3]}], ports: null}\n---\n"
)


def endpoints(*subsets: str) -> str:
    listed = ", ".join(f"{{{subset}}}" for subset in subsets)
    return (
        "{apiVersion: v1, kind: Endpoints, metadata: {name: db, namespace: shop, labels: {tier: data}},"
        f" subsets: [{listed}]}}\n---\n"
    )


ONE = "addresses: [{ip: 10.0.0.1}], ports: [{port: 5432}]"


@pytest.mark.parametrize(
    ("files", "lines"),
    [
        pytest.param(
            [SERVICE, endpoints(ONE)],
            ["EndpointSlice shop/db-* IPv4 =5432/TCP : -@10.0.0.1 (-)"],
            id="one address",
        ),
        pytest.param(
            [
                SELECTING,
                endpoints(
                    "addresses: [{hostname: database-0, ip: 10.244.1.5, nodeName: n,"
                    " targetRef: {kind: Pod, name: database-0, namespace: shop}}],"
                    " ports: [{name: http, port: 8080, protocol: TCP}]"
                ),
            ],
            ["EndpointSlice shop/db-* IPv4 http=8080/TCP : database-0@10.244.1.5 (database-0)"],
            id="a Service with selector, and nothing else to go by",
        ),
        pytest.param(
            [
                SERVICE,
                endpoints("addresses: [{ip: 10.0.0.1}], notReadyAddresses: [{ip: 10.0.0.2}]"),
            ],
            ["EndpointSlice shop/db-* IPv4 - : -@10.0.0.1 (-), -@10.0.0.2 (-) not ready"],
            id="notReadyAddresses",
        ),
        pytest.param(
            [
                SERVICE,
                endpoints(
                    ONE, "addresses: [{ip: 10.0.0.2}], ports: [{name: b, port: 1, protocol: UDP}]"
                ),
            ],
            [
                "EndpointSlice shop/db-* IPv4 =5432/TCP : -@10.0.0.1 (-)",
                "EndpointSlice shop/db-* IPv4 b=1/UDP : -@10.0.0.2 (-)",
            ],
            id="several subsets",
        ),
        pytest.param(
            [SERVICE, endpoints("addresses: [{ip: 'fd00::1'}, {ip: 10.0.0.1}]")],
            [
                "EndpointSlice shop/db-* IPv4 - : -@10.0.0.1 (-)",
                "EndpointSlice shop/db-* IPv6 - : -@fd00::1 (-)",
            ],
            id="both families",
        ),
        pytest.param([SERVICE, endpoints("addresses: null")], [], id="no address"),
        pytest.param([endpoints(ONE)], [], id="no Service"),
        pytest.param(
            [SERVICE, SLICE, endpoints(ONE)],
            ["EndpointSlice shop/db-x IPv4 - : -@10.3.3.3 (-)"],
            id="slices are there already",
        ),
        pytest.param(
            [SELECTING, POD, endpoints(ONE)],
            ["EndpointSlice shop/db-* IPv4 - : -@10.2.2.2 (db-0)"],
            id="pods are there",
        ),
    ],
)
def test_mirrored(files: list[str], lines: list[str]) -> None:
    assert object_lines(simulated(*files), "EndpointSlice") == lines


def test_labels_come_from_the_endpoints() -> None:
    [found] = [
        each
        for each in simulated(SERVICE, endpoints(ONE))
        if "tier" in (each.metadata.labels or {})
    ]
    assert found.metadata.labels == {
        "tier": "data",
        "kubernetes.io/service-name": "db",
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
    }
