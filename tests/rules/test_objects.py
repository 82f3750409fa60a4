"""Which objects belong to each other."""

from __future__ import annotations

import pytest

from hsdns.rules.judging import read_files
from hsdns.rules.objects import Objects, is_headless, is_near

FILE = b"""
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: a}, spec: {clusterIP: None, selector: {app: db}}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: b}, spec: {selector: {app: db}}}
---
{apiVersion: v1, kind: Service, metadata: {name: db-0, namespace: a}, spec: {selector: {statefulset.kubernetes.io/pod-name: db-0}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: a}, spec: {replicas: 3, template: {metadata: {labels: {app: db}}}}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: dump}, spec: {jobTemplate: {spec: {template: {metadata: {labels: {app: dump}}}}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: one, namespace: b, labels: {app: db}}}
"""


@pytest.fixture
def objects() -> Objects:
    return read_files([("a.yaml", FILE)]).objects


def test_pods_of_workloads_of_any_kind(objects: Objects) -> None:
    assert [(str(each.manifest), each.field, each.replicas) for each in objects.pod_sets] == [
        ("StatefulSet a/db", "spec.template.spec", 3),
        ("CronJob dump", "spec.jobTemplate.spec.template.spec", None),
        ("Pod b/one", "spec", 1),
    ]


@pytest.mark.parametrize(
    ("number", "selector", "chosen"),
    [
        (0, {"app": "db"}, ["StatefulSet a/db"]),
        (1, {"app": "db"}, ["Pod b/one"]),
        (1, {"app": "dump"}, ["CronJob dump"]),
        (0, {"statefulset.kubernetes.io/pod-name": "db-0"}, ["StatefulSet a/db", "CronJob dump"]),
        (0, {"app": "db", "role": "x"}, []),
        (0, {}, []),
    ],
)
def test_pods_that_a_selector_chooses(
    objects: Objects, number: int, selector: dict[str, str], chosen: list[str]
) -> None:
    manifest, _ = objects.services[number]
    assert [str(each.manifest) for each in objects.selected(manifest, selector)] == chosen


def test_services_that_choose_pods(objects: Objects) -> None:
    found = [[str(each) for each, _ in objects.services_of(pods)] for pods in objects.pod_sets]
    assert found == [["Service a/db", "Service a/db-0"], ["Service a/db-0"], ["Service b/db"]]


def test_services_by_name(objects: Objects) -> None:
    near = {str(each.manifest): objects.named("db", each.manifest) for each in objects.pod_sets}
    assert {key: len(value) for key, value in near.items()} == {
        "StatefulSet a/db": 1,
        "CronJob dump": 2,
        "Pod b/one": 1,
    }
    assert [is_headless(service) for _, service in objects.services] == [True, False, False]


def test_an_object_without_namespace_is_near_to_all(objects: Objects) -> None:
    stateful_set, cron_job, pod = (each.manifest for each in objects.pod_sets)
    assert is_near(stateful_set, cron_job)
    assert is_near(cron_job, pod)
    assert not is_near(stateful_set, pod)
