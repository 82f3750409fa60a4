"""Kubernetes objects for tests, made in one line each."""

from __future__ import annotations

from collections.abc import Sequence

from hsdns.cluster.objects import (
    SERVICE_NAME_LABEL,
    Deleted,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    Event,
    Namespace,
    Object,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodStatus,
    Service,
    ServicePort,
    ServiceSpec,
    Upserted,
)

HTTP = "http/TCP/80"


def meta(path: str, version: str = "1", labels: dict[str, str] | None = None) -> ObjectMeta:
    """Metadata from `namespace/name`, or from a name alone."""
    namespace, _, name = path.rpartition("/")
    return ObjectMeta(name=name, namespace=namespace, resource_version=version, labels=labels)


def namespace(name: str, labels: dict[str, str] | None = None) -> Namespace:
    """Make a Namespace."""
    return Namespace(meta(name, labels=labels))


def service(
    path: str,
    *addresses: str,
    ports: Sequence[str] = (HTTP,),
    external: str | None = None,
    version: str = "1",
    labels: dict[str, str] | None = None,
) -> Service:
    """Make a Service: headless without addresses, ExternalName with `external`; ports as `name/protocol/number`."""
    spec = ServiceSpec(
        type="ExternalName" if external is not None else "ClusterIP",
        cluster_ips=None if external is not None else list(addresses) or ["None"],
        external_name=external,
        ports=[ServicePort(_number(port) or 0, *_words(port)) for port in ports],
    )
    return Service(meta(path, version, labels), spec)


def endpoint_slice(
    path: str,
    owner: str | None,
    *endpoints: str,
    ports: Sequence[str] = (HTTP,),
    version: str = "1",
    address_type: str = "IPv4",
    labels: dict[str, str] | None = None,
) -> EndpointSlice:
    """Make an EndpointSlice; an endpoint is `ADDRESS[,ADDRESS]|- [host=H] [pod=P] [ready=B] [zone=Z]`."""
    own = {} if owner is None else {SERVICE_NAME_LABEL: owner}
    return EndpointSlice(
        meta(path, version, own | (labels or {})),
        address_type,
        [_endpoint(text) for text in endpoints] or None,
        [EndpointPort(*_words(port), _number(port)) for port in ports],
    )


def pod(path: str, address: str, phase: str = "Running", version: str = "1") -> Pod:
    """Make a Pod."""
    return Pod(meta(path, version), PodStatus(address, phase))


def upserts(*objects: Object) -> list[Event]:
    """Events that add objects."""
    return [Upserted(found) for found in objects]


def deletes(*objects: Object) -> list[Event]:
    """Events that delete objects."""
    return [Deleted(found) for found in objects]


def _words(port: str) -> tuple[str | None, str | None]:
    name, protocol, _ = port.split("/")
    return name or None, protocol or None


def _number(port: str) -> int | None:
    number = port.rpartition("/")[2]
    return int(number) if number else None


def _endpoint(text: str) -> Endpoint:
    addresses, *rest = text.split()
    words = dict(word.split("=") for word in rest)
    return Endpoint(
        addresses=None if addresses == "-" else addresses.split(","),
        conditions=EndpointConditions(ready=words["ready"] == "true") if "ready" in words else None,
        hostname=words.get("host"),
        target_ref=ObjectReference("Pod", words["pod"]) if "pod" in words else None,
        zone=words.get("zone"),
    )
