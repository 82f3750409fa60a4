"""The objects of the cluster: headless Services as for StatefulSets, each with one EndpointSlice.

Path: watch/api_servers.py and control.py create these objects; watch/parts.py and control.py replace addresses in them.
Rule 1: the objects have every field that the EndpointSlice controller writes, so that their sizes are realistic; the
        API server adds uid, managedFields and others when it stores the object.
Rule 2: the address of a change is unique, so that an answer with it proves that the change was processed.
Source: Kubernetes API, discovery.k8s.io/v1 EndpointSlice; pkg/controller/endpointslice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path
from string import Template
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


class Change(NamedTuple):
    """One change: the monotonic time when its event could be sent, and which address replaced which."""

    time: float
    namespace: str
    service: str
    old: str
    new: str


def namespace_of(index: int) -> str:
    """The namespace of the Service with this index."""
    return f"team-{index // SERVICES_PER_NAMESPACE}"


def namespaces(first: int, last: int) -> Iterator[Created]:
    """The Namespaces that Services first to last-1 need in addition to those of earlier Services."""
    before = -1 if first == 0 else (first - 1) // SERVICES_PER_NAMESPACE
    for number in range(before + 1, (last - 1) // SERVICES_PER_NAMESPACE + 1):
        metadata = {"name": namespace_of(number * SERVICES_PER_NAMESPACE)}
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        yield Created("/api/v1/namespaces", manifest)


def service(index: int) -> Created:
    """The headless Service with this index."""
    name, namespace = f"web-{index}", namespace_of(index)
    manifest = _manifest("service.json", name=name, namespace=namespace)
    return Created(f"/api/v1/namespaces/{namespace}/services", manifest)


def endpoint_slice(index: int, endpoints: int) -> Created:
    """The EndpointSlice of the Service with this index."""
    name, namespace, time = f"web-{index}", namespace_of(index), trigger_time(_FIRST_TIME)
    words = {"uid": _uid(f"service/{name}"), "changed": CHANGE_TIME, "time": time}
    manifest = _manifest("slice.json", name=name, namespace=namespace, **words)
    manifest["endpoints"] = [_endpoint(index, number, endpoints) for number in range(endpoints)]
    return Created(f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", manifest)


@cache
def _template(file: str) -> Template:
    return Template(Path(__file__).with_name(file).read_text())


def _manifest(file: str, **words: str) -> Manifest:
    found: Manifest = json.loads(_template(file).substitute(words))
    return found


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
