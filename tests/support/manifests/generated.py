"""Manifests that the API server accepts, generated: each leaves out another part of what it defaults."""

from __future__ import annotations

from random import Random
from typing import Any

Manifest = dict[str, Any]
_PROTOCOLS = (None, None, "TCP", "UDP", "SCTP")
_NAMES = ("http", "grpc", "dns-tcp", "peer", "metrics")


def generated(seed: int) -> list[Manifest]:
    """The objects of one namespace, the same ones for a seed."""
    random = Random(seed)
    namespace = f"generated-{seed}"
    made: list[Manifest] = []
    for number in range(random.randint(1, 4)):
        made += _group(random, namespace, f"s{number}")
    return made


def _group(random: Random, namespace: str, name: str) -> list[Manifest]:
    """A Service, and where its endpoints come from."""
    kind = random.choice(("headless", "headless", "ClusterIP", "NodePort", "LoadBalancer", None))
    way = random.choice(("pods", "StatefulSet", "Deployment", "EndpointSlice", "Endpoints"))
    if random.random() < 0.1:
        spec = {"type": "ExternalName", "externalName": random.choice(("a.example", "b.example."))}
        return [_object("v1", "Service", namespace, name, spec=spec)]
    spec = _service_spec(random, kind, name if way in ("pods", "StatefulSet", "Deployment") else "")
    return [
        _object("v1", "Service", namespace, name, spec=spec),
        *_endpoints(random, way, namespace, name),
    ]


def _service_spec(random: Random, kind: str | None, app: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"ports": _service_ports(random)}
    if kind == "headless":
        spec["clusterIP"] = "None"
        if random.random() < 0.2:
            spec.pop("ports")
    elif kind:
        spec["type"] = kind
    if app:
        spec["selector"] = {"app": app}
    if random.random() < 0.3:
        spec["publishNotReadyAddresses"] = random.random() < 0.5
    if random.random() < 0.4:
        spec["ipFamilyPolicy"] = random.choice(
            ("SingleStack", "PreferDualStack", "RequireDualStack")
        )
    if random.random() < 0.4:
        spec["ipFamilies"] = [random.choice(("IPv4", "IPv6"))]
    return spec


def _service_ports(random: Random) -> list[dict[str, Any]]:
    count = random.choice((1, 1, 2, 3))
    made = []
    for number, name in enumerate(random.sample(_NAMES, count)):
        port: dict[str, Any] = {"name": name, "port": 8000 + number}
        if count == 1 and random.random() < 0.5:
            del port["name"]
        target = random.choice((None, 0, 9000 + number, "peer", "http"))
        if target is not None:
            port["targetPort"] = target
        made.append(_with_protocol(random, port))
    return made


def _with_protocol(random: Random, port: dict[str, Any]) -> dict[str, Any]:
    protocol = random.choice(_PROTOCOLS)
    return port if protocol is None else {**port, "protocol": protocol}


def _endpoints(random: Random, way: str, namespace: str, name: str) -> list[Manifest]:
    if way == "EndpointSlice":
        return [_slice(random, namespace, name)]
    if way == "Endpoints":
        port = _with_protocol(random, {"name": "http", "port": 7000})
        subsets = [
            {
                "addresses": [{"ip": "10.3.0.1"}, {"ip": "10.3.0.2", "hostname": "two"}],
                "ports": [port],
            }
        ]
        return [_object("v1", "Endpoints", namespace, name, subsets=subsets)]
    labels = {"app": name}
    ports = [
        _with_protocol(random, {"name": each, "containerPort": 9100 + at})
        for at, each in enumerate(_NAMES)
    ]
    pod: dict[str, Any] = {
        "containers": [{"name": "main", "image": "registry.example.org/main:1", "ports": ports}]
    }
    if random.random() < 0.3:
        pod |= {"hostname": "host", "subdomain": name}
    if way == "pods":
        return [_object("v1", "Pod", namespace, f"{name}-{at}", labels, spec=pod) for at in "ab"]
    spec: dict[str, Any] = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    replicas = random.choice((None, 0, 1, 2))
    if replicas is not None:
        spec["replicas"] = replicas
    if way == "StatefulSet":
        spec["serviceName"] = name
    return [_object("apps/v1", way, namespace, name, spec=spec)]


def _slice(random: Random, namespace: str, name: str) -> Manifest:
    family = random.choice(("IPv4", "IPv6"))
    prefix = "10.4.0." if family == "IPv4" else "fd00:4::"
    endpoints = []
    for number in range(1, 4):
        endpoint: dict[str, Any] = {"addresses": [f"{prefix}{number}"]}
        if random.random() < 0.3:
            endpoint["hostname"] = f"host-{number}"
        if random.random() < 0.3:
            endpoint["conditions"] = {"ready": random.random() < 0.5}
        endpoints.append(endpoint)
    ports: list[dict[str, Any]] = [{"name": "http", "port": 7000}, {"port": 7001}, {"name": "peer"}]
    return _object(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        namespace,
        f"{name}-1",
        {"kubernetes.io/service-name": name},
        addressType=family,
        endpoints=endpoints,
        ports=[_with_protocol(random, port) for port in random.sample(ports, random.randint(0, 3))],
    )


def _object(
    version: str,
    kind: str,
    namespace: str,
    name: str,
    labels: dict[str, str] | None = None,
    **fields: Any,
) -> Manifest:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
