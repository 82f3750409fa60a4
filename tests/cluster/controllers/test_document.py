"""What a document must hold, as a table of mistakes and sentences."""

from __future__ import annotations

import pytest

from hsdns.cluster.controllers.defaults import Refused
from hsdns.cluster.controllers.document import (
    check_document,
    is_ready_by_annotation,
    not_ready_indices,
)
from hsdns.cluster.controllers.kinds import (
    Manifest,
    Node,
    OwnedMeta,
    PodManifest,
    PodTemplate,
    Workload,
    WorkloadSpec,
)
from hsdns.cluster.objects import Namespace, ObjectMeta, Service

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
