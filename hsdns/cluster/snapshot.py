"""A store's state as text, and back: the objects that would make it again, in the API's own form.

Path: Store -> pieces -> sources/snapshot_file.py -> check, objects -> Store.restore.
Rule 1: the text is one `kind: List` with an object a line, so that `source manifests FILE` and people can read it too.
Rule 2: what is packed comes back packed alike.  An address that was not written in the usual form is written in another
        unusual one; a name that its endpoint had is its hostname, wherever it came from.
Rule 3: the state is that of one moment: references are taken at once (values are frozen), text is made afterwards, a
        piece at a time.
Rule 4: the last line tells how many objects there are and the CRC-32 of all lines before it; a file that was cut short
        or changed is known before anything of it is used.
Left out: resource versions (what is restored is read again anyway), Services that DNS cannot show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

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
from hsdns.cluster.programming import read_time
from hsdns.cluster.store import Store
from hsdns.cluster.value import (
    CLUSTER_IP,
    EXTERNAL_NAME,
    HEADLESS,
    NO_PORT,
    Key,
    PackedSlice,
    Port,
    ServiceValue,
)
from hsdns.wire.name import Name

_KINDS: Final[dict[str, type[Object]]] = {
    "Namespace": Namespace,
    "Service": Service,
    "EndpointSlice": EndpointSlice,
    "Pod": Pod,
    "ServiceImport": ServiceImport,
}
_NO_PORTS: Final = (Port(b"", b"", NO_PORT),)
# Only whether there is a selector is kept; what it selects is in the slices.
_SELECTOR: Final = {"hsdns": "not-kept"}
_FAULTS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class BadSnapshot(ValueError):
    """A text that is no snapshot, or a damaged one; the message says why."""


class Header(NamedTuple):
    """What the first line says: the version that wrote it, when (seconds since the epoch), with which settings."""

    version: str
    saved: float
    settings: dict[str, str]


def pieces(
    store: Store, *, version: str, saved: float, settings: Mapping[str, str]
) -> Iterator[bytes]:
    """The text of a store's state as it is now, to be joined; the work is done as the pieces are asked for."""
    services, values = list(store.services), list(store.services.values())
    namespaces, pods = list(store.namespaces), list(store.pods.items())
    pod_labels = dict(store.pod_labels or {})
    imports = sorted(store.imports.values.items(), key=lambda item: item[0])

    def objects() -> Iterator[dict[str, Any]]:
        for namespace in namespaces:
            yield {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": _text(namespace)},
            }
        shared = _shared_slices(imports)
        for key, value in zip(services, values, strict=True):
            yield from _service_objects(key, value, shared)
        for key, value in imports:
            yield from _import_objects(key, value, shared)
        for address, owners in pods:
            for namespace, name in owners:
                found = {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "namespace": _text(namespace)},
                    "status": {"podIP": _address(address, usual=True)},
                }
                if labels := pod_labels.get((namespace, name)):
                    found["metadata"] = {**found["metadata"], "labels": labels}  # type: ignore[dict-item]  # of JSON
                yield found

    return _lines(Header(version, saved, dict(settings)), objects())


def _lines(header: Header, objects: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    saved = datetime.fromtimestamp(header.saved, UTC).isoformat(timespec="milliseconds")
    head = {
        "apiVersion": "v1",
        "kind": "List",
        "metadata": {
            "annotations": {
                "hsdns/version": header.version,
                "hsdns/saved": saved.replace("+00:00", "Z"),
                "hsdns/settings": msgspec.json.encode(header.settings).decode(),
            }
        },
    }
    encode = msgspec.json.Encoder().encode
    line = encode(head)[:-1] + b',"items":[\n'
    checksum = crc32(line)
    yield line
    count = 0
    for each in objects:
        try:
            line = encode(each)
        except UnicodeEncodeError:
            continue  # half of a surrogate pair, which no API server lets in; JSON has no form for it
        if count:
            line = b",\n" + line
        count += 1
        checksum = crc32(line, checksum)
        yield line
    yield b'\n],"objects":%d,"checksum":"crc32:%08x"}\n' % (count, crc32(b"\n", checksum))


def _shared_slices(
    imports: Iterable[tuple[Key, ServiceValue]],
) -> dict[tuple[bytes, str], dict[str, str]]:
    """The slices of ServiceImports by namespace and name, and the labels that say so."""
    return {
        (key[0], part.name): {
            IMPORT_NAME_LABEL: _text(key[1]),
            **({SOURCE_CLUSTER_LABEL: _text(part.cluster)} if part.cluster else {}),
        }
        for key, value in imports
        for part in value.slices
    }


def _import_objects(
    key: Key, value: ServiceValue, shared: dict[tuple[bytes, str], dict[str, str]]
) -> Iterator[dict[str, Any]]:
    """A ServiceImport and those of its slices that have not been written with a Service."""
    namespace, name = map(_text, key)
    if value.kind is not None:
        spec: dict[str, Any] = {"type": "Headless" if value.kind == HEADLESS else "ClusterSetIP"}
        if value.cluster_ips:
            spec["ips"] = [_address(address, usual=True) for address in value.cluster_ips]
        if value.ports:
            spec["ports"] = [_port(port) for port in value.ports]
        yield {
            "apiVersion": "multicluster.x-k8s.io/v1alpha1",
            "kind": "ServiceImport",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }
    yield from _slice_objects(key[0], value, {}, shared)


def _service_objects(
    key: Key, value: ServiceValue, shared: dict[tuple[bytes, str], dict[str, str]]
) -> Iterator[dict[str, Any]]:
    """A Service, if DNS can show it, and its slices."""
    namespace, name = map(_text, key)
    spec: dict[str, Any] = {}
    if value.kind == EXTERNAL_NAME and value.external_name is not None:
        spec = {"type": "ExternalName", "externalName": value.external_name.to_text()}
    elif value.kind == HEADLESS:
        spec = {"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}
    elif value.kind == CLUSTER_IP:
        addresses = [_address(address, usual=True) for address in value.cluster_ips]
        spec = {"type": "ClusterIP"}
        if addresses:
            spec |= {"clusterIP": addresses[0], "clusterIPs": addresses}
    if spec:
        if value.ports != _NO_PORTS:
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
            # In their order, whichever of them are the Service's own external IPs.
            ingress = [
                {"hostname": each.to_text()}
                if isinstance(each, Name)
                else {"ip": _address(each, usual=True)}
                for each in value.external
            ]
            found["status"] = {"loadBalancer": {"ingress": ingress}}
        yield found
    yield from _slice_objects(key[0], value, {SERVICE_NAME_LABEL: name}, shared)


def _slice_objects(
    namespace: bytes,
    value: ServiceValue,
    labels: dict[str, str],
    shared: dict[tuple[bytes, str], dict[str, str]],
) -> Iterator[dict[str, Any]]:
    """The slices of a value; each that is shared is written once, with the labels of both its owners."""
    parts: dict[str, list[PackedSlice]] = {}
    for part in value.slices:
        parts.setdefault(part.name, []).append(part)
    for slice_name, of_slice in parts.items():
        also = shared.pop((namespace, slice_name), None) if shared else None
        if also is None and not labels:
            continue  # it has been written with its Service
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
        if of_slice[0].ports != _NO_PORTS:
            found["ports"] = [_port(port) for port in of_slice[0].ports]
        yield found


def _address_type(parts: list[PackedSlice]) -> str:
    if any(part.targets for part in parts):
        return "FQDN"
    return "IPv4" if parts[0].width == 4 else "IPv6"


def _endpoints(part: PackedSlice) -> Iterator[dict[str, Any]]:
    for index in range(part.host_count):
        host = part.host(index)
        text = host.to_text() if isinstance(host, Name) else _address(host, usual=part.reversible)
        endpoint: dict[str, Any] = {"addresses": [text]}
        label = None if part.labels is None else part.labels[index]
        if label is not None:
            endpoint["hostname"] = _text(label)
        if part.topology_zones is not None and part.topology_zones[index]:
            endpoint["zone"] = _text(part.topology_zones[index])
        yield endpoint


def _address(address: bytes, *, usual: bool) -> str:
    """An address in the usual form, or in one that never is: mapped, or its end as IPv4."""
    if len(address) == 4:
        text = ".".join(map(str, address))
        return text if usual else f"::ffff:{text}"
    if usual:
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


# Reading


class _Metadata(msgspec.Struct):
    annotations: dict[str, str]


class _Head(msgspec.Struct):
    kind: str
    metadata: _Metadata


class _Tail(msgspec.Struct):
    objects: int
    checksum: str


class _Kind(msgspec.Struct):
    kind: str


def check(lines: Iterable[bytes]) -> Header:
    """Read a text to its end and tell what it is; raise BadSnapshot."""
    header: Header | None = None
    checksum = count = 0
    for line in lines:
        if header is None:
            header = _header(line)
        elif line.startswith(b"]"):
            _check_tail(line, count, checksum)
            return header
        elif line.startswith(b"{"):
            count += 1
        checksum = crc32(line, checksum)
    raise BadSnapshot("it is empty" if header is None else "its end is missing")


def objects(lines: Iterable[bytes]) -> Iterator[Object]:
    """The objects of a text that check() has found good, but for those that only another version can read."""
    rest = iter(lines)
    next(rest, b"")
    for line in rest:
        if line.startswith(b"{"):
            text = line.rstrip(b",\n")
            try:
                kind = _KINDS[msgspec.json.decode(text, type=_Kind).kind]
                found = msgspec.json.decode(text, type=kind)
            except (*_FAULTS, KeyError):
                continue
            yield found


def _header(line: bytes) -> Header:
    try:
        head = msgspec.json.decode(line.rstrip(b"\n") + b"]}", type=_Head)
        annotations = head.metadata.annotations
        settings = msgspec.json.decode(annotations["hsdns/settings"], type=dict[str, str])
        saved = read_time(annotations["hsdns/saved"])
        if head.kind == "List" and saved is not None:
            return Header(annotations["hsdns/version"], saved, settings)
    except (*_FAULTS, KeyError):
        pass
    raise BadSnapshot("its first line is not that of a snapshot")


def _check_tail(line: bytes, count: int, checksum: int) -> None:
    try:
        tail = msgspec.json.decode(b'{"items":[' + line, type=_Tail)
    except _FAULTS:
        raise BadSnapshot("its last line is not that of a snapshot") from None
    if tail.objects != count or tail.checksum != f"crc32:{checksum:08x}":
        raise BadSnapshot("its checksum is wrong: it was changed, or damaged")
