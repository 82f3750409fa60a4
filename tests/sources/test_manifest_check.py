"""Warnings about what is valid but surely not meant."""

from __future__ import annotations

import pytest

from hsdns.sources.manifest_check import check_object, is_written_by_hand
from hsdns.sources.manifest_file import read_manifest_file


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


def test_an_object_that_is_refused_has_its_warnings_too() -> None:
    found = read_manifest_file(b"apiVersion: v1\nkind: Service\nmetdata: {name: a}\n", "a.yaml")
    assert found.warnings == ['a.yaml:3: Service has no field "metdata"; did you mean "metadata"?']
    assert found.problems == ["a.yaml:1: Service: metadata: the field is missing; add it"]


def test_who_wrote_it() -> None:
    assert is_written_by_hand({"name": "a"})
    assert is_written_by_hand(None)
    assert not is_written_by_hand({"resourceVersion": "5"})
