"""The API's own spelling is read, and what DNS has no use for is skipped."""

from __future__ import annotations

import msgspec
import pytest

from hsdns.cluster.controllers.kinds import (
    CLUSTER_SCOPED,
    KINDS,
    Endpoints,
    Manifest,
    Node,
    PodManifest,
    Workload,
)


@pytest.mark.parametrize(
    ("kind", "text", "field", "value"),
    [
        pytest.param(
            Workload,
            '{"spec": {"serviceName": "db", "paused": true}}',
            "spec.service_name",
            "db",
            id="serviceName",
        ),
        pytest.param(
            Workload,
            '{"spec": {"ordinals": {"start": 3}}}',
            "spec.ordinals.start",
            3,
            id="ordinals",
        ),
        pytest.param(
            Workload,
            '{"spec": {"completionMode": "Indexed"}}',
            "spec.completion_mode",
            "Indexed",
            id="completionMode",
        ),
        pytest.param(
            PodManifest,
            '{"status": {"podIP": "10.0.0.1"}}',
            "status.pod_ip",
            "10.0.0.1",
            id="podIP",
        ),
        pytest.param(
            PodManifest,
            '{"status": {"podIPs": [{"ip": "fd00::1"}]}}',
            "status.pod_ips.0.ip",
            "fd00::1",
            id="podIPs",
        ),
        pytest.param(
            PodManifest,
            '{"spec": {"hostNetwork": true}}',
            "spec.host_network",
            True,
            id="hostNetwork",
        ),
        pytest.param(
            PodManifest,
            '{"spec": {"initContainers": [{"restartPolicy": "Always", "ports": [{"containerPort": 80}]}]}}',
            "spec.init_containers.0.ports.0.container_port",
            80,
            id="initContainers",
        ),
        pytest.param(
            Endpoints,
            '{"subsets": [{"notReadyAddresses": [{"ip": "10.0.0.1", "targetRef": {"name": "a"}}]}]}',
            "subsets.0.not_ready_addresses.0.target_ref.name",
            "a",
            id="notReadyAddresses",
        ),
        pytest.param(
            Node,
            '{"status": {"addresses": [{"type": "InternalIP", "address": "172.18.0.2"}]}}',
            "status.addresses.0.address",
            "172.18.0.2",
            id="node addresses",
        ),
    ],
)
def test_spelling(kind: type[Manifest], text: str, field: str, value: object) -> None:
    found: object = msgspec.json.decode(text.replace("{", '{"metadata": {}, ', 1), type=kind)
    for step in field.split("."):
        found = found[int(step)] if isinstance(found, list) else getattr(found, step)
    assert found == value


def test_owner_references_are_read() -> None:
    text = (
        '{"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "web-75f", "uid": "1"}]}}'
    )
    [owner] = msgspec.json.decode(text, type=PodManifest).metadata.owner_references or []
    assert (owner.kind, owner.name) == ("ReplicaSet", "web-75f")


def test_every_kind_has_one_group() -> None:
    names = [kind for _, kind in KINDS]
    assert len(names) == len(set(names))
    assert set(names) >= CLUSTER_SCOPED
