"""Small clusters, from documents to objects."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

import pytest

from hsdns.cluster.controllers import simulation
from hsdns.cluster.controllers.address import AddressPool, pod_pools
from hsdns.cluster.controllers.simulation import simulate
from hsdns.cluster.objects import Object, ServiceImport
from hsdns.sources.manifest_file import read_manifest_file
from tests.support.cluster.object_lines import object_lines, simulated

SERVICE = (
    "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop},"
    " spec: {selector: {app: web, tier: front}, ports: [{port: 80}]}}\n---\n"
)
HEADLESS = (
    "{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop},"
    " spec: {clusterIP: None, selector: {app: db}, ports: [{name: sql, port: 5432}]}}\n---\n"
)
STATEFUL = (
    "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: shop},"
    " spec: {serviceName: db, replicas: 2, template: {metadata: {labels: {app: db}}}}}\n---\n"
)
EXTERNAL = (
    "{apiVersion: v1, kind: Service, metadata: {name: mail, namespace: shop},"
    " spec: {type: ExternalName, externalName: mail.example.org, selector: {app: db}}}\n---\n"
)


def pod(name: str, labels: str = "app: web, tier: front", namespace: str = "shop") -> str:
    return f"{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: {namespace}, labels: {{{labels}}}}}}}\n---\n"


@pytest.mark.parametrize(
    ("files", "lines"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(
            [HEADLESS, STATEFUL],
            [
                "Namespace shop",
                "Service shop/db ClusterIP None",
                "EndpointSlice shop/db-* IPv4 sql=5432/TCP : db-0@10.244.205.190 (db-0), db-1@10.244.121.38 (db-1)",
                "Pod shop/db-0 10.244.205.190 Running",
                "Pod shop/db-1 10.244.121.38 Running",
            ],
            id="headless Service of a StatefulSet",
        ),
        pytest.param(
            [
                SERVICE,
                pod("a"),
                pod("b", "app: web"),
                pod("c", namespace="other"),
                pod("d", "x: y"),
            ],
            [
                "Namespace other",
                "Namespace shop",
                "Service shop/web ClusterIP 10.96.108.38",
                "EndpointSlice shop/web-* IPv4 =80/TCP : -@10.244.194.55 (a)",
                "Pod other/c 10.244.190.158 Running",
                "Pod shop/a 10.244.194.55 Running",
                "Pod shop/b 10.244.242.84 Running",
                "Pod shop/d 10.244.112.206 Running",
            ],
            id="all labels of the selector, in the same namespace",
        ),
        pytest.param(
            [SERVICE.replace("selector: {app: web, tier: front},", "selector: {},"), pod("a")],
            [
                "Namespace shop",
                "Service shop/web ClusterIP 10.96.108.38",
                "Pod shop/a 10.244.194.55 Running",
            ],
            id="an empty selector chooses nothing",
        ),
        pytest.param(
            [EXTERNAL, STATEFUL.replace("replicas: 2", "replicas: 0")],
            ["Namespace shop", "Service shop/mail ExternalName mail.example.org"],
            id="an ExternalName has no slices",
        ),
        pytest.param(
            ["{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: config}}"],
            ["Namespace config"],
            id="any object's namespace exists",
        ),
        pytest.param(
            ["{apiVersion: v1, kind: Namespace, metadata: {name: empty}}"],
            ["Namespace empty"],
            id="a Namespace",
        ),
        pytest.param(
            ["{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: 10.96.0.7}}"],
            ["Namespace default", "Service default/a ClusterIP 10.96.0.7"],
            id="default namespace",
        ),
        pytest.param(
            [
                "{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: a}}",
                "{apiVersion: v1, kind: Node, metadata: {name: n}}",
            ],
            [],
            id="another group's Service, a Node",
        ),
    ],
)
def test_objects(files: list[str], lines: list[str]) -> None:
    assert object_lines(simulated(*files)) == lines


def test_the_order_of_files_does_not_matter() -> None:
    files = [SERVICE, HEADLESS, STATEFUL, pod("a"), pod("b")]
    expected = simulated(*files)
    for order in permutations(files):
        assert simulated(*order) == expected


def test_unrelated_objects_leave_addresses_and_versions_alone() -> None:
    before = simulated(HEADLESS, STATEFUL, SERVICE, pod("a"))
    after = simulated(
        HEADLESS, STATEFUL, SERVICE, pod("a"), *(pod(f"x{n}", "x: y") for n in range(50))
    )
    assert [each for each in after if "/x" not in object_lines([each])[0]] == before


def test_resource_versions_follow_the_content() -> None:
    def versions(*files: str) -> dict[str, str]:
        return {type(each).__name__: each.metadata.resource_version for each in simulated(*files)}

    text = "{apiVersion: v1, kind: Service, metadata: {name: a, resourceVersion: '7'}, spec: {clusterIP: 10.96.0.7}}"
    assert versions(text) == versions(text.replace("'7'", "'8'"))
    changed = versions(text.replace("0.7", "0.8"))
    assert changed["Service"] != versions(text)["Service"]
    assert changed["Namespace"] == versions(text)["Namespace"]


def warned(*files: str) -> tuple[list[Object], list[str]]:
    documents = []
    for number, text in enumerate(files, 1):
        documents += read_manifest_file(text.encode(), f"{number}.yaml").documents
    sentences: list[str] = []
    return simulate(documents, sentences.append), sentences


def test_the_later_of_two_definitions_is_used() -> None:
    text = "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: 10.96.0.7}}"
    objects, sentences = warned(text, "\n" + text.replace("0.7", "0.8"))
    assert object_lines(objects, "Service") == ["Service default/a ClusterIP 10.96.0.8"]
    assert sentences == [
        "2.yaml:2: Service default/a is already defined at 1.yaml:1; this later one is used"
    ]


def test_a_full_pod_network_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def small_pools(taken: Iterable[str]) -> dict[str, AddressPool]:
        return {**pod_pools(taken), "IPv4": AddressPool("10.244.0.0", 1, 1, taken)}

    monkeypatch.setattr(simulation, "pod_pools", small_pools)
    objects, sentences = warned(HEADLESS, STATEFUL.replace("replicas: 2", "replicas: 4"))
    assert sentences == [
        "the pod network has no address left for 3 pods; they stay without one, like pending pods"
    ]
    assert object_lines(objects, "EndpointSlice") == [
        "EndpointSlice shop/db-* IPv4 sql=5432/TCP : db-0@10.244.0.1 (db-0)"
    ]


def test_given_addresses_are_not_given_again() -> None:
    [free] = object_lines(simulated(SERVICE, pod("a")), "Pod")
    address = free.split()[2]
    other = (
        "{apiVersion: v1, kind: Pod, metadata: {name: z, namespace: shop}, status: {podIP: "
        + address
        + "}}"
    )
    lines = object_lines(simulated(SERVICE, pod("a"), other), "Pod")
    assert lines[1] == f"Pod shop/z {address} Running"
    assert lines[0] != free
    fixed = "{apiVersion: v1, kind: Service, metadata: {name: z}, spec: {clusterIP: 10.96.108.38}}"
    assert object_lines(simulated(SERVICE, fixed), "Service") == [
        "Service default/z ClusterIP 10.96.108.38",
        "Service shop/web ClusterIP 10.96.108.39",
    ]


def test_service_imports_are_used_as_they_are() -> None:
    text = (
        "{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, metadata: {name: web, namespace: shop}, "
        "spec: {type: ClusterSetIP, ips: [10.0.1.1]}}"
    )
    [namespace, found] = simulated(text)
    assert (namespace.metadata.name, found.metadata.name) == ("shop", "web")
    assert isinstance(found, ServiceImport)
    assert found.spec.ips == ["10.0.1.1"]
