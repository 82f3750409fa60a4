"""The objects of the cluster: headless Services as for StatefulSets, each with one EndpointSlice.

Path: watch/api_servers.py and control.py create these objects; watch/parts.py and control.py replace addresses in them.
Rule 1: the objects have every field that the EndpointSlice controller writes, so that their sizes are realistic; the
        API server adds uid, managedFields and others when it stores the object.
Rule 2: the address of a change is unique, so that an answer with it proves that the change was processed.
Source: Kubernetes API, discovery.k8s.io/v1 EndpointSlice; pkg/controller/endpointslice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import IPv4Address
from typing import Any, NamedTuple
from uuid import NAMESPACE_DNS, uuid5

from hsdns.cluster.objects import CHANGE_TIME

SERVICES_PER_NAMESPACE = 100
_FIRST_ADDRESS = int(IPv4Address("10.0.0.0"))
_FIRST_CHANGED = int(IPv4Address("172.16.0.0"))
_FIRST_TIME = 1_767_225_600.0  # 2026-01-01
_NODES = 100

Manifest = dict[str, Any]


class Created(NamedTuple):
    """An object and the path to create it at."""

    path: str
    manifest: Manifest


def namespace_of(index: int) -> str:
    """The namespace of the Service with this index."""
    return f"team-{index // SERVICES_PER_NAMESPACE}"


def namespaces(first: int, last: int) -> Iterator[Created]:
    """The Namespaces that Services first to last-1 need in addition to those of earlier Services."""
    before = -1 if first == 0 else (first - 1) // SERVICES_PER_NAMESPACE
    for number in range(before + 1, (last - 1) // SERVICES_PER_NAMESPACE + 1):
        yield Created(
            "/api/v1/namespaces",
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": namespace_of(number * SERVICES_PER_NAMESPACE)},
            },
        )


def service(index: int) -> Created:
    """The headless Service with this index."""
    name, namespace = f"web-{index}", namespace_of(index)
    return Created(
        f"/api/v1/namespaces/{namespace}/services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
            "spec": {
                "clusterIP": "None",
                "selector": {"app": name},
                "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
            },
        },
    )


def endpoint_slice(index: int, endpoints: int) -> Created:
    """The EndpointSlice of the Service with this index."""
    name, namespace = f"web-{index}", namespace_of(index)
    return Created(
        f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": f"{name}-x7k2p",
                "generateName": f"{name}-",
                "namespace": namespace,
                "labels": {
                    "app": name,
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                    "kubernetes.io/service-name": name,
                    "service.kubernetes.io/headless": "",
                },
                "annotations": {CHANGE_TIME: trigger_time(_FIRST_TIME)},
                "ownerReferences": [
                    {
                        "apiVersion": "v1",
                        "kind": "Service",
                        "name": name,
                        "uid": _uid(f"service/{name}"),
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": [_endpoint(index, number, endpoints) for number in range(endpoints)],
        },
    )


def _endpoint(index: int, number: int, endpoints: int) -> Manifest:
    pod, node = f"web-{index}-{number}", (index + number) % _NODES
    return {
        "addresses": [str(IPv4Address(_FIRST_ADDRESS + index * endpoints + number + 1))],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "hostname": pod,
        "nodeName": f"node-{node}",
        "zone": f"zone-{node % 3}",
        "targetRef": {
            "kind": "Pod",
            "name": pod,
            "namespace": namespace_of(index),
            "uid": _uid(f"pod/{pod}"),
        },
    }


def trigger_time(moment: float) -> str:
    """The controller's annotation on a slice that was changed at `moment`, which is in seconds since the epoch."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def changed_address(number: int) -> str:
    """The new address of the change with this number."""
    return str(IPv4Address(_FIRST_CHANGED + number + 1))


def _uid(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, f"{name}.example.org"))
