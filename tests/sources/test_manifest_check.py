"""Warnings about what is valid but surely not meant."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hsdns.sources.manifest_check import check_object, is_written_by_hand, written
from hsdns.sources.manifest_file import MAX_PROBLEMS, read_manifest_file


@pytest.mark.parametrize(
    ("api_version", "kind", "sentence"),
    [
        pytest.param("v1", "Servcie", 'kind "Servcie" of v1 is not known, so the object is ignored; did you mean "Service"?', id="letters swapped"),
        pytest.param("v1", "service", 'kind "service" of v1 is not known, so the object is ignored; did you mean "Service"?', id="lower case"),
        pytest.param("v1", "POD", 'kind "POD" of v1 is not known, so the object is ignored; did you mean "Pod"?', id="upper case"),
        pytest.param("apps/v1", "StatefullSet", 'kind "StatefullSet" of apps/v1 is not known, so the object is ignored; did you mean "StatefulSet"?', id="a letter twice"),
        pytest.param("discovery.k8s.io/v1", "EndpointsSlice", 'kind "EndpointsSlice" of discovery.k8s.io/v1 is not known, so the object is ignored; did you mean "EndpointSlice"?', id="a letter more"),
        pytest.param("v1", "Lisst", 'kind "Lisst" of v1 is not known, so the object is ignored; did you mean "List"?', id="list"),
        pytest.param("extensions/v1beta1", "Deployment", "Deployment is not of apiVersion extensions/v1beta1, so it is ignored; write apps/v1", id="a former group"),
        pytest.param("app/v1", "StatefulSet", "StatefulSet is not of apiVersion app/v1, so it is ignored; write apps/v1", id="misspelt group"),
        pytest.param("apps/v1", "Service", "Service is not of apiVersion apps/v1, so it is ignored; write v1", id="another group"),
    ],
)  # fmt: skip
def test_misspelt_kinds(api_version: str, kind: str, sentence: str) -> None:
    text = f"\napiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\n"
    found = read_manifest_file(text.encode(), "a.yaml")
    line = 3 if sentence.startswith("kind") else 2
    assert (found.warnings, found.problems) == ([f"a.yaml:{line}: {sentence}"], [])


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        *(("v1", kind) for kind in (
            "Binding", "ComponentStatus", "ConfigMap", "Event", "LimitRange", "PersistentVolume", "PersistentVolumeClaim",
            "PodTemplate", "PodTemplateList", "ReplicationController", "ResourceQuota", "Secret", "ServiceAccount",
            "ServiceAccountList", "Status", "NodeList", "PodList", "NamespaceList", "Config", "Template",
        )),
        ("apps/v1", "ControllerRevision"), ("apps/v1", "StatefulSetList"), ("batch/v1", "CronJob"), ("batch/v1", "JobList"),
        ("multicluster.x-k8s.io/v1alpha1", "ServiceExport"), ("serving.knative.dev/v1", "Service"),
        ("example.org/v1", "Servcie"), ("kustomize.config.k8s.io/v1beta1", "Kustomization"), ("v1", "x" * 1_000_000),
    ],
)  # fmt: skip
def test_kinds_that_others_read(api_version: str, kind: str) -> None:
    assert list(check_object(kind, api_version, kind, None)) == []


SERVICE: dict[str, Any] = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
SELECTOR = 'Service default/web: spec has no field "selektor"; did you mean "selector"?'


def test_unknown_fields_in_yaml() -> None:
    text = (
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  labells: {}\nspec:\n  selektor:\n    app: web\n"
        "  ports:\n  - port: 80\n    targetport: 8080\n  frobnicate: 1\nspecs: {}\n"
    )
    found = read_manifest_file(text.encode(), "a.yaml")
    assert found.problems == []
    assert [str(document) for document in found.documents] == ["Service default/web"]
    assert found.warnings == [
        'a.yaml:5: Service default/web: metadata has no field "labells"; did you mean "labels"?',
        f"a.yaml:7: {SELECTOR}",
        'a.yaml:11: Service default/web: spec.ports[0] has no field "targetport"; did you mean "targetPort"?',
        'a.yaml:12: Service default/web: spec has no field "frobnicate" in Kubernetes 1.36; it is ignored',
        'a.yaml:13: Service default/web has no field "specs"; did you mean "spec"?',
    ]


def test_unknown_fields_in_json() -> None:
    text = json.dumps(
        {"kind": "List", "apiVersion": "v1", "items": [{**SERVICE, "spec": {"selektor": {}}}]},
        indent=1,
    )
    line = text[: text.index("selektor")].count("\n") + 1
    assert read_manifest_file(text.encode(), "a.json").warnings == [f"a.json:{line}: {SELECTOR}"]


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"metadata": {"name": "web", "resourceVersion": "5"}}, id="from an API server"),
        pytest.param({"apiVersion": "v2"}, id="another version"),
        pytest.param({"kind": "ConfigMap"}, id="a kind that is not read"),
        pytest.param({"spec": {"selector": {"selektor": "a"}}}, id="a label"),
    ],
)  # fmt: skip
def test_fields_that_are_not_looked_at(name: str, change: dict[str, Any]) -> None:
    value = SERVICE | {"spec": {"selektor": {}}} | change
    assert read_manifest_file(json.dumps(value).encode(), name).warnings == []


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_warnings_of_a_file_are_limited(name: str) -> None:
    value = SERVICE | {"spec": {f"selectr{number}": 1 for number in range(MAX_PROBLEMS + 1)}}
    found = read_manifest_file(json.dumps(value).encode(), name)
    assert len(found.warnings) == MAX_PROBLEMS
    assert len(found.documents) == 1


def test_an_object_that_is_refused_has_its_warnings_too() -> None:
    found = read_manifest_file(b"apiVersion: v1\nkind: Service\nmetdata: {name: a}\n", "a.yaml")
    assert found.warnings == ['a.yaml:3: Service has no field "metdata"; did you mean "metadata"?']
    assert found.problems == ["a.yaml:1: Service: metadata: the field is missing; add it"]


def test_who_wrote_it() -> None:
    assert is_written_by_hand({"name": "a"})
    assert is_written_by_hand(None)
    assert not is_written_by_hand({"resourceVersion": "5"})


@pytest.mark.parametrize(
    ("kind", "api_version"),
    [("Service", "v1"), ("Job", "batch/v1"), ("ServiceImport", "multicluster.x-k8s.io/v1alpha1")],
)
def test_written(kind: str, api_version: str) -> None:
    assert written(kind) == api_version
