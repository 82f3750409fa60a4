"""What a document must hold, as a table of mistakes and sentences."""

from __future__ import annotations

import pytest

from hsdns.cluster.controllers.document import (
    Refused,
    check_document,
    is_ready_by_annotation,
    not_ready_indices,
)
from hsdns.cluster.controllers.kinds import (
    Manifest,
    Node,
    Ordinals,
    OwnedMeta,
    PodIP,
    PodManifest,
    PodState,
    PodTemplate,
    Workload,
    WorkloadSpec,
)
from hsdns.cluster.objects import EndpointSlice, Namespace, ObjectMeta, Service, ServiceSpec

WEB = ObjectMeta(name="web", namespace="shop")
OWNED = OwnedMeta(name="web", namespace="shop")


@pytest.mark.parametrize(
    ("kind", "manifest", "sentence"),
    [
        pytest.param(
            "Service",
            Service(ObjectMeta(namespace="shop")),
            "metadata.name: the name is missing; add one (generateName is not supported)",
            id="no name",
        ),
        pytest.param(
            "Service",
            Service(ObjectMeta(name="web.shop")),
            'metadata.name: "web.shop" is not a DNS label; use at most 63 lower-case letters, digits and "-", '
            'without "-" at the ends',
            id="a Service's name is one label",
        ),
        pytest.param(
            "Pod",
            PodManifest(OwnedMeta(name="Web_1")),
            'metadata.name: "Web_1" is not a valid name; use lower-case letters, digits, "-" and "."',
            id="any name's letters",
        ),
        pytest.param(
            "Namespace",
            Namespace(ObjectMeta(name="a" * 64)),
            f'metadata.name: "{"a" * 64}" is not a DNS label; use at most 63 lower-case letters, digits and "-", '
            'without "-" at the ends',
            id="long namespace",
        ),
        pytest.param(
            "Service",
            Service(ObjectMeta(name="web", namespace="Shop")),
            'metadata.namespace: "Shop" is not a DNS label; use at most 63 lower-case letters, digits and "-", '
            'without "-" at the ends',
            id="namespace of an object",
        ),
        pytest.param(
            "Service",
            Service(WEB, ServiceSpec(cluster_ip="10.96.0")),
            'spec.clusterIP: "10.96.0" is not an IP address; write one such as 10.96.0.10',
            id="clusterIP",
        ),
        pytest.param(
            "Service",
            Service(WEB, ServiceSpec(cluster_ips=["10.96.0.1", "none"])),
            'spec.clusterIPs: "none" is not an IP address; write one such as 10.96.0.10',
            id="clusterIPs",
        ),
        pytest.param(
            "Service",
            Service(WEB, ServiceSpec(ip_families=["IPv4", "ipv6"])),
            'spec.ipFamilies[1]: "ipv6" is not an address family; write IPv4 or IPv6',
            id="family",
        ),
        pytest.param(
            "Service",
            Service(WEB, ServiceSpec(type="ExternalName")),
            "spec.externalName: a Service of type ExternalName needs a target; add externalName",
            id="ExternalName without one",
        ),
        pytest.param(
            "EndpointSlice",
            EndpointSlice(WEB),
            "addressType: the address type is missing; write IPv4, IPv6 or FQDN",
            id="slice without address type",
        ),
        pytest.param(
            "Pod",
            PodManifest(OWNED, status=PodState(pod_ips=[PodIP("10.0.0.1"), PodIP("x")])),
            'status.podIPs[1]: "x" is not an IP address; write one such as 10.96.0.10',
            id="pod address",
        ),
        pytest.param(
            "Deployment",
            Workload(OWNED, WorkloadSpec(replicas=-1)),
            "spec.replicas: -1 is below zero; write 0 or more",
            id="negative replicas",
        ),
        pytest.param(
            "Deployment",
            Workload(OWNED, WorkloadSpec(replicas=65_025)),
            "spec.replicas: 65025 is more than the 65024 addresses of the pod network; write a lower number",
            id="too many replicas",
        ),
        pytest.param(
            "StatefulSet",
            Workload(OWNED, WorkloadSpec(ordinals=Ordinals(start=-2))),
            "spec.ordinals.start: -2 is below zero; write 0 or more",
            id="negative ordinal",
        ),
        pytest.param(
            "Deployment",
            Workload(
                OWNED,
                WorkloadSpec(
                    template=PodTemplate(ObjectMeta(annotations={"hsdns.io/ready": "no"}))
                ),
            ),
            'spec.template.metadata.annotations: hsdns.io/ready is "no"; write "true" or "false"',
            id="ready annotation",
        ),
        pytest.param(
            "StatefulSet",
            Workload(OwnedMeta(name="web", annotations={"hsdns.io/not-ready": "web-1"})),
            'metadata.annotations: hsdns.io/not-ready is "web-1"; write the indices of pods, such as "1,2"',
            id="not-ready annotation",
        ),
    ],
)
def test_mistakes(kind: str, manifest: Manifest, sentence: str) -> None:
    with pytest.raises(Refused) as caught:
        check_document(kind, manifest, "web.yaml:1")
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("kind", "manifest", "shown"),
    [
        pytest.param("Service", Service(WEB), "Service shop/web", id="namespaced"),
        pytest.param(
            "Service",
            Service(ObjectMeta(name="web")),
            "Service default/web",
            id="default namespace",
        ),
        pytest.param(
            "Node", Node(ObjectMeta(name="n.1", namespace="x")), "Node n.1", id="cluster-scoped"
        ),
    ],
)
def test_namespace(kind: str, manifest: Manifest, shown: str) -> None:
    document = check_document(kind, manifest, "web.yaml:1")
    assert str(document) == shown
    assert document.object is not None
    assert document.object.metadata.namespace == document.namespace


def test_annotations_the_first_metadata_that_has_one_counts() -> None:
    template = ObjectMeta(annotations={"hsdns.io/not-ready": " 1, 20 "})
    workload = ObjectMeta(annotations={"hsdns.io/not-ready": "7", "hsdns.io/ready": "false"})
    assert not_ready_indices(template, workload) == {1, 20}
    assert not_ready_indices(ObjectMeta(), workload) == {7}
    assert not_ready_indices(ObjectMeta()) == set()
    assert not is_ready_by_annotation(template, workload)
    assert is_ready_by_annotation(template)
