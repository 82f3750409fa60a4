"""What the controllers make of manifests: simulation.txt has the rows; here stands what no row can say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import yaml

from hsdns.cluster.controllers import simulation
from hsdns.cluster.controllers.address import AddressPool, pod_pools, service_pools
from hsdns.cluster.controllers.kinds import CLUSTER_SCOPED, KINDS
from hsdns.cluster.controllers.simulation import simulate
from hsdns.cluster.objects import EndpointSlice, Object
from hsdns.sources.manifest_file import read_manifest_file
from tests.support.cluster.object_lines import object_lines, simulated

GROUPS = {kind: group for group, kind in KINDS}
VERSIONS = {"": "v1", "multicluster.x-k8s.io": "multicluster.x-k8s.io/v1alpha1"}
HEADLESS = (
    "Service db {spec: {clusterIP: None, selector: {app: db}, ports: [{name: sql, port: 5432}]}}"
)
STATEFUL = "StatefulSet db {spec: {serviceName: db, replicas: 2, template: {metadata: {labels: {app: db}}}}}"
SERVICE = "Service web {spec: {selector: {app: web}, ports: [{port: 80}]}}"


def manifest(line: str) -> str:
    """The document of a line such as `Service shop/web {spec: {clusterIP: None}}`."""
    word, path, members = (*line.split(" ", 2), "{}")[:3]
    kind, _, version = word.partition(".")
    group = GROUPS.get(kind, "")
    namespace, _, name = path.rpartition("/")
    found: dict[str, Any] = {
        "apiVersion": version or VERSIONS.get(group, f"{group}/v1"),
        "kind": kind,
    }
    found |= yaml.safe_load(members)
    named = (
        {"name": name}
        if kind in CLUSTER_SCOPED
        else {"name": name, "namespace": namespace or "shop"}
    )
    found["metadata"] = named | found.get("metadata", {})
    owner = found
    if group in ("apps", "batch"):
        owner = found.setdefault("spec", {}).setdefault("template", {})
    if kind == "Pod" or owner is not found:
        owner.setdefault("metadata", {}).setdefault("labels", {"app": "web"})
    return json.dumps(found) + "\n---\n"


def rows() -> Iterator[Any]:
    text = Path(__file__).with_name("simulation.txt").read_text(encoding="utf-8")
    for title, row in re.findall(r"^## (.*)\n((?:(?!#).*\n)*)", text, re.MULTILINE):
        objects, kinds, lines = re.split(r"^=(.*)\n", row, flags=re.MULTILINE)
        yield pytest.param(
            objects.splitlines(), kinds.split(), lines.strip().splitlines(), id=title
        )


@pytest.mark.parametrize(("objects", "kinds", "lines"), list(rows()))
def test_row(objects: list[str], kinds: list[str], lines: list[str]) -> None:
    assert object_lines(simulated(*map(manifest, objects)), *kinds) == lines


def test_the_order_of_files_does_not_matter() -> None:
    files = [manifest(each) for each in (SERVICE, HEADLESS, STATEFUL, "Pod a", "Pod b")]
    expected = simulated(*files)
    for order in permutations(files):
        assert simulated(*order) == expected


def test_resource_versions_follow_the_content() -> None:
    def versions(address: str, version: str) -> dict[str, str]:
        line = f"Service a {{metadata: {{resourceVersion: '{version}'}}, spec: {{clusterIP: {address}}}}}"
        return {
            type(each).__name__: each.metadata.resource_version
            for each in simulated(manifest(line))
        }

    before, changed = versions("10.96.0.7", "7"), versions("10.96.0.8", "7")
    assert before == versions("10.96.0.7", "8")
    assert (changed["Service"] != before["Service"], changed["Namespace"]) == (
        True,
        before["Namespace"],
    )


def warned(*files: str) -> tuple[list[Object], list[str]]:
    documents = []
    for number, text in enumerate(files, 1):
        documents += read_manifest_file(text.encode(), f"{number}.yaml").documents
    sentences: list[str] = []
    return simulate(documents, sentences.append), sentences


def test_the_later_of_two_definitions_is_used() -> None:
    texts = [manifest(f"Service a {{spec: {{clusterIP: 10.96.0.{last}}}}}") for last in (7, 8)]
    objects, sentences = warned(texts[0], "\n" + texts[1])
    assert object_lines(objects, "Service") == ["Service shop/a ClusterIP 10.96.0.8"]
    assert sentences == [
        "2.yaml:2: Service shop/a is already defined at 1.yaml:1; this later one is used"
    ]


def test_a_full_network_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(pools: Any) -> Any:
        return lambda taken: {**pools(taken), "IPv4": AddressPool("10.244.0.0", 1, 1, taken)}

    monkeypatch.setattr(simulation, "pod_pools", small(pod_pools))
    monkeypatch.setattr(simulation, "service_pools", small(service_pools))
    files = (HEADLESS, STATEFUL.replace("replicas: 2", "replicas: 4"), "Service a", "Service b")
    objects, sentences = warned(*map(manifest, files))
    assert sentences == [
        "the pod network has no address left for 3 pods; they stay without one, like pending pods",
        "no ClusterIP is left for Service shop/b; set one with clusterIP",
    ]
    assert object_lines(objects, "EndpointSlice") == [
        "EndpointSlice shop/db-* IPv4 sql=5432/TCP : db-0@10.244.0.1 (db-0)"
    ]


# --- EndpointSlices ---


def slices(*lines: str) -> list[EndpointSlice]:
    return [each for each in simulated(*map(manifest, lines)) if isinstance(each, EndpointSlice)]


@pytest.mark.parametrize(("count", "sizes"), [(100, [100]), (101, [100, 1]), (250, [100, 100, 50])])
def test_at_most_a_hundred_endpoints(count: int, sizes: list[int]) -> None:
    found = slices(SERVICE, *(f"Pod p-{number}" for number in range(count)))
    assert [len(each.endpoints or ()) for each in found] == sizes
    assert len({each.metadata.name for each in found}) == len(sizes)


def test_names_are_repeatable_and_avoid_those_that_are_taken() -> None:
    (first,) = slices(SERVICE, "Pod a")
    taken = (
        f"EndpointSlice {first.metadata.name} {{addressType: IPv4, metadata: {{labels: {{x: y}}}}}}"
    )
    given, other = slices(SERVICE, "Pod a", taken)
    assert slices(SERVICE, "Pod a") == [first]
    assert given.metadata.name == first.metadata.name != other.metadata.name


@pytest.mark.parametrize(
    ("lines", "labels"),
    [
        ([SERVICE.replace("{spec", "{metadata: {labels: {team: a}}, spec"), "Pod a"], {"team": "a"}),
        (["Service web {spec: {clusterIP: None, selector: {app: web}}}", "Pod a"], {"service.kubernetes.io/headless": ""}),
        (["Service web", "Endpoints web {metadata: {labels: {tier: data}}, subsets: [{addresses: [{ip: 10.0.0.1}]}]}"],
         {"tier": "data", "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"}),
    ],
)  # fmt: skip
def test_labels(lines: list[str], labels: dict[str, str]) -> None:
    (found,) = slices(*lines)
    usual = {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
    assert found.metadata.labels == usual | {"kubernetes.io/service-name": "web"} | labels


# --- addresses ---


def test_a_pool_gives_each_free_address_once() -> None:
    taken: Iterable[str] = ["10.244.0.2", "no address", "fd00::1"]
    pool = AddressPool("10.244.0.0", 1, 4, taken)
    found = [pool.allocate(str(number)) for number in range(4)]
    assert sorted(map(str, found)) == ["10.244.0.1", "10.244.0.3", "10.244.0.4", "None"]
    assert found[3] is None
