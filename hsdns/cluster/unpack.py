"""API objects from packed values: the inverse of pack.py, for snapshots and explanations.

Path: snapshot.py encodes these objects as JSON; explanation/live.py takes stored_objects() if a source is unreadable.
Rule: packing the objects again gives equal values.  An address that was not written in canonical form gets another
      non-canonical form; a label that came from a pod's name becomes the hostname of the endpoint.
Lost: resource versions (restored objects are read again anyway), and Services that DNS cannot represent.  A store has
      no endpoints that are not ready, no selectors and no pods of endpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

import msgspec
from msgspec import structs

from hsdns.cluster.address import pack_address
from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SERVICE_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    EndpointSlice,
    Namespace,
    Object,
    Pod,
    Service,
    ServiceImport,
)
from hsdns.cluster.pods import PodKey
from hsdns.cluster.reading import Lead
from hsdns.cluster.store import Store
from hsdns.cluster.value import (
    CLUSTER_IP,
    EXTERNAL_NAME,
    HEADLESS,
    NO_PORT,
    NO_PORTS,
    Key,
    PackedSlice,
    Port,
    ServiceValue,
)
from hsdns.wire.name import Name

Versions = dict[tuple[type[Object], str, str], str]  # by kind, namespace and name
SliceLabels = dict[tuple[bytes, str], dict[str, str]]  # by namespace and name of the slice

# A value records only whether there is a selector; the selected endpoints are in the slices.
_SELECTOR: Final = {"hsdns": "not-kept"}


def unpack_namespace(namespace: bytes) -> dict[str, Any]:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _text(namespace)}}


def unpack_pod(pod: PodKey, address: bytes, labels: dict[str, str] | None) -> dict[str, Any]:
    """A Pod with one address."""
    metadata: dict[str, Any] = {"name": pod[1], "namespace": _text(pod[0])}
    if labels:
        metadata["labels"] = labels
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "status": {"podIP": _address(address, canonical=True)},
    }


def import_slice_labels(
    imports: Iterable[tuple[Key, ServiceValue]],
) -> SliceLabels:
    """The slices of ServiceImports by namespace and name, with the labels that assign them."""
    return {
        (key[0], part.name): {
            IMPORT_NAME_LABEL: _text(key[1]),
            **({SOURCE_CLUSTER_LABEL: _text(part.cluster)} if part.cluster else {}),
        }
        for key, value in imports
        for part in value.slices
    }


def unpack_import(
    key: Key, value: ServiceValue, unwritten: SliceLabels
) -> Iterator[dict[str, Any]]:
    """A ServiceImport and those of its slices that are still in `unwritten`."""
    namespace, name = map(_text, key)
    if value.kind is not None:
        spec: dict[str, Any] = {"type": "Headless" if value.kind == HEADLESS else "ClusterSetIP"}
        if value.cluster_ips:
            spec["ips"] = [_address(address, canonical=True) for address in value.cluster_ips]
        if value.ports:
            spec["ports"] = [_port(port) for port in value.ports]
        yield {
            "apiVersion": "multicluster.x-k8s.io/v1alpha1",
            "kind": "ServiceImport",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }
    yield from _unpack_slices(key[0], value, {}, unwritten)


def unpack_service(
    key: Key, value: ServiceValue, unwritten: SliceLabels
) -> Iterator[dict[str, Any]]:
    """A Service, if DNS can represent it, and its slices, which are removed from `unwritten`."""
    namespace, name = map(_text, key)
    spec: dict[str, Any] = {}
    if value.kind == EXTERNAL_NAME and value.external_name is not None:
        spec = {"type": "ExternalName", "externalName": value.external_name.to_text()}
    elif value.kind == HEADLESS:
        spec = {"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}
    elif value.kind == CLUSTER_IP:
        addresses = [_address(address, canonical=True) for address in value.cluster_ips]
        spec = {"type": "ClusterIP"}
        if addresses:
            spec |= {"clusterIP": addresses[0], "clusterIPs": addresses}
        if len(addresses) > 1:
            spec["ipFamilyPolicy"] = "RequireDualStack"  # the default, SingleStack, does not fit
    if spec:
        if value.ports != NO_PORTS:
            spec["ports"] = [_port(port) for port in value.ports]
        if value.has_selector:
            spec["selector"] = _SELECTOR
        found = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }
        if value.external:
            # In order; it makes no difference which of them are external IPs of the Service itself.
            ingress = [
                {"hostname": each.to_text()}
                if isinstance(each, Name)
                else {"ip": _address(each, canonical=True)}
                for each in value.external
            ]
            found["status"] = {"loadBalancer": {"ingress": ingress}}
        yield found
    yield from _unpack_slices(key[0], value, {SERVICE_NAME_LABEL: name}, unwritten)


def _unpack_slices(
    namespace: bytes,
    value: ServiceValue,
    labels: dict[str, str],
    unwritten: SliceLabels,
) -> Iterator[dict[str, Any]]:
    """The slices of a value; one of a Service and a ServiceImport is written once, with the labels of both."""
    parts: dict[str, list[PackedSlice]] = {}
    for part in value.slices:
        parts.setdefault(part.name, []).append(part)
    for slice_name, of_slice in parts.items():
        also = unwritten.pop((namespace, slice_name), None) if unwritten else None
        if also is None and not labels:
            continue  # already written with its Service
        found: dict[str, Any] = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": slice_name,
                "namespace": _text(namespace),
                "labels": {**labels, **(also or {})},
            },
            "addressType": _address_type(of_slice),
            "endpoints": [endpoint for part in of_slice for endpoint in _endpoints(part)],
        }
        if of_slice[0].ports != NO_PORTS:
            found["ports"] = [_port(port) for port in of_slice[0].ports]
        yield found


def _address_type(parts: list[PackedSlice]) -> str:
    if any(part.targets for part in parts):
        return "FQDN"
    return "IPv4" if parts[0].width == 4 else "IPv6"


def _endpoints(part: PackedSlice) -> Iterator[dict[str, Any]]:
    for index in range(part.host_count):
        host = part.host(index)
        text = (
            host.to_text() if isinstance(host, Name) else _address(host, canonical=part.reversible)
        )
        endpoint: dict[str, Any] = {"addresses": [text]}
        label = None if part.labels is None else part.labels[index]
        if label is not None:
            endpoint["hostname"] = _text(label)
        if part.topology_zones is not None and part.topology_zones[index]:
            endpoint["zone"] = _text(part.topology_zones[index])
        yield endpoint


def _address(address: bytes, *, canonical: bool) -> str:
    """An address in canonical form, or in another: IPv4-mapped, or with the last 32 bits as IPv4."""
    if len(address) == 4:
        text = ".".join(map(str, address))
        return text if canonical else f"::ffff:{text}"
    if canonical:
        return str(IPv6Address(address))
    groups = [address[at : at + 2].hex() for at in range(0, 12, 2)]
    return f"{':'.join(groups)}:{IPv4Address(address[12:])}"


def _port(port: Port) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if port.name:
        found["name"] = _text(port.name)
    if port.protocol:
        found["protocol"] = _text(port.protocol.upper())
    if port.number != NO_PORT:
        found["port"] = port.number
    return found


def _text(label: bytes) -> str:
    return label.decode("utf-8", "surrogatepass")


def stored_objects(store: Store, lead: Lead) -> list[Object]:
    """The objects of a lead, with the resource versions that the store has."""
    found: list[Object] = [
        msgspec.convert(unpack_namespace(each), Namespace)
        for each in lead.namespaces
        if each in store.namespaces
    ]
    for key in lead.services:
        found += _of_service(store, key, lead.shared)
    address = pack_address(lead.address) if lead.address else None
    if address is not None:
        pods = store.pods.by_address.get(address, ())
        found += [msgspec.convert(unpack_pod(each, address, None), Pod) for each in pods]
    versions = stored_versions(store, lead)
    return [_versioned(each, versions) for each in found]


def stored_versions(store: Store, lead: Lead) -> Versions:
    """The resource versions of a lead's Services, ServiceImports and slices, as far as the store has them."""
    found: Versions = {}
    for key in lead.services:
        value = _value(store, key, lead.shared)
        if value is None:
            continue
        namespace, name = (each.decode("utf-8", "replace") for each in key)
        if value.kind is not None:
            kind = ServiceImport if lead.shared else Service
            found[kind, namespace, name] = value.resource_version
        for part in value.slices:
            found[EndpointSlice, namespace, part.name] = part.resource_version
    return found


def _value(store: Store, key: Key, shared: bool) -> ServiceValue | None:
    return (store.imports if shared else store.services).values.get(key)


def _of_service(store: Store, key: Key, shared: bool) -> Iterator[Object]:
    value = _value(store, key, shared)
    if value is None:
        return
    made: Iterator[dict[str, Any]]
    if shared:
        made = unpack_import(key, value, import_slice_labels([(key, value)]))
    else:
        made = unpack_service(key, value, {})
    for each in made:
        if each["kind"] == "EndpointSlice":
            yield msgspec.convert(each, EndpointSlice)
        elif shared:
            yield msgspec.convert(each, ServiceImport)
        else:
            yield msgspec.convert(each, Service)


def _versioned(found: Object, versions: Versions) -> Object:
    meta = found.metadata
    version = versions.get((type(found), meta.namespace, meta.name), "")
    return structs.replace(found, metadata=structs.replace(meta, resource_version=version))
