"""Which objects belong to each other."""

from __future__ import annotations

import pytest

from hsdns.rules.judging import read_files
from hsdns.rules.objects import Objects

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
