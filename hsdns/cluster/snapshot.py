"""Snapshots: writes the state of a store as text, and reads the objects that restore it.

Path: Store -> snapshot.py -> pieces -> sources/snapshot_file.py -> check, objects -> Store.restore.
Rule 1: the text is one `kind: List` with an object on each line, so `source manifests FILE` can read it.
Rule 2: the state is that of one moment (snapshot.py); the text is made afterwards, piece by piece.
Rule 3: the last line has the number of objects and the CRC-32 of all lines before it, so a truncated or modified file
        is detected before any of it is used.

API objects from packed values: the inverse of pack.py, for snapshots and explanations:
Rule: packing the objects again gives equal values.  An address that was not written in canonical form gets another
      non-canonical form; a label that came from a pod's name becomes the hostname of the endpoint.
Lost: resource versions (restored objects are read again anyway), and Services that DNS cannot represent.  A store has
      no endpoints that are not ready, no selectors and no pods of endpoints.

All objects of a store, rebuilt from the packed values:
Rule 1: the state is that of one moment: references to the immutable values are taken at once; the objects are made
        afterwards, one by one.  Only in the thread that writes the store is that moment between two events.
Rule 2: a store may count endpoints that are not ready, but does not have their addresses: they get the unspecified
        address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final, NamedTuple, Self
from zlib import crc32

import msgspec

from hsdns.cluster.address import pack_address
from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    KINDS,
    SERVICE_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    UNDECODED,
    Object,
    read_object,
)
from hsdns.cluster.read_object import read_time
from hsdns.cluster.source import Lead
from hsdns.cluster.store import PodKey, Store
from hsdns.cluster.value import (
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

SliceLabels = dict[tuple[bytes, str], dict[str, str]]  # by namespace and name of the slice

# A value records only whether there is a selector; the selected endpoints are in the slices.
_SELECTOR: Final = {"hsdns": "not-kept"}
_IMPORTS: Final = "multicluster.x-k8s.io"
UNSPECIFIED: Final = {4: "0.0.0.0", 16: "::"}  # by width


def import_slice_labels(imports: Iterable[tuple[Key, ServiceValue]]) -> SliceLabels:
    """The slices of ServiceImports by namespace and name, with the labels that assign them."""
    return {
        (key[0], part.name): {
            IMPORT_NAME_LABEL: _text(key[1]),
            **({SOURCE_CLUSTER_LABEL: _text(part.cluster)} if part.cluster else {}),
        }
        for key, value in imports
        for part in value.slices
    }


def unpack(
    key: Key,
    value: ServiceValue,
    unwritten: SliceLabels,
    *,
    shared: bool = False,
    versioned: bool = False,
    not_ready: bool = False,
) -> Iterator[dict[str, Any]]:
    """A Service (`shared`: a ServiceImport), if DNS can represent it, and its slices.

    A slice of both is written once, with the labels of both: slices are removed from `unwritten`.  With `versioned`
    they have their resource versions, with `not_ready` the endpoints that are not ready, without their addresses.
    """
    namespace, name = map(_text, key)
    version = value.resource_version if versioned else ""
    addresses = [_address(address, canonical=True) for address in value.cluster_ips]
    if shared and value.kind is not None:
        spec: dict[str, Any] = {"type": "Headless" if value.kind == HEADLESS else "ClusterSetIP"}
        if addresses:
            spec["ips"] = addresses
        if value.ports:
            spec["ports"] = [_port(port) for port in value.ports]
        yield _object(f"{_IMPORTS}/v1alpha1", "ServiceImport", name, namespace, version, spec=spec)
    elif value.kind is not None:
        yield _object("v1", "Service", name, namespace, version, **_service(value, addresses))
    parts: dict[str, list[PackedSlice]] = {}
    for part in value.slices:
        parts.setdefault(part.name, []).append(part)
    for slice_name, of_slice in parts.items():
        also = unwritten.pop((key[0], slice_name), None) if unwritten else None
        if also is None and shared:
            continue  # already written with its Service
        first = of_slice[0]
        endpoints = [endpoint for part in of_slice for endpoint in _endpoints(part)]
        if not_ready and first.not_ready:
            unknown = [UNSPECIFIED.get(first.width, "")] * first.not_ready
            endpoints.append({"addresses": unknown, "conditions": {"ready": False}})
        found = _object(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            slice_name,
            namespace,
            first.resource_version if versioned else "",
            {**({} if shared else {SERVICE_NAME_LABEL: name}), **(also or {})},
            addressType=_address_type(of_slice),
            endpoints=endpoints,
        )
        if first.ports != NO_PORTS:
            found["ports"] = [_port(port) for port in first.ports]
        yield found


def _object(
    api_version: str,
    kind: str,
    name: str,
    namespace: str = "",
    version: str = "",
    labels: Mapping[str, str] | None = None,
    **members: Any,
) -> dict[str, Any]:
    """An object, without those parts of its metadata that are empty."""
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    if version:
        metadata["resourceVersion"] = version
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **members}


def _namespace(namespace: bytes, version: str = "") -> dict[str, Any]:
    return _object("v1", "Namespace", _text(namespace), version=version)


def _pod(pod: PodKey, address: bytes, labels: Mapping[str, str] | None) -> dict[str, Any]:
    """A Pod with one address."""
    status = {"podIP": _address(address, canonical=True)}
    return _object("v1", "Pod", pod[1], _text(pod[0]), labels=labels, status=status)


def _service(value: ServiceValue, addresses: list[str]) -> dict[str, Any]:
    """The spec of a Service, and its status if it is reached from outside."""
    if value.kind == EXTERNAL_NAME:
        assert value.external_name is not None, "of this kind"
        spec: dict[str, Any] = {
            "type": "ExternalName",
            "externalName": value.external_name.to_text(),
        }
    elif value.kind == HEADLESS:
        spec = {"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}
    else:
        spec = {"type": "ClusterIP"}
        if addresses:
            spec |= {"clusterIP": addresses[0], "clusterIPs": addresses}
        if len(addresses) > 1:
            spec["ipFamilyPolicy"] = "RequireDualStack"  # the default, SingleStack, does not fit
    if value.ports != NO_PORTS:
        spec["ports"] = [_port(port) for port in value.ports]
    if value.has_selector:
        spec["selector"] = _SELECTOR
    if not value.external:
        return {"spec": spec}
    # In order; it makes no difference which of them are external IPs of the Service itself.
    ingress = [
        {"hostname": each.to_text()}
        if isinstance(each, Name)
        else {"ip": _address(each, canonical=True)}
        for each in value.external
    ]
    return {"spec": spec, "status": {"loadBalancer": {"ingress": ingress}}}


def _address_type(parts: list[PackedSlice]) -> str:
    if any(part.targets for part in parts):
        return "FQDN"
    return "IPv4" if parts[0].width == 4 else "IPv6"


def _endpoints(part: PackedSlice) -> Iterator[dict[str, Any]]:
    for index, (host, label) in enumerate(zip(part.hosts, part.own_labels, strict=True)):
        text = (
            host.to_text() if isinstance(host, Name) else _address(host, canonical=part.reversible)
        )
        endpoint: dict[str, Any] = {"addresses": [text]}
        if label:
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
    """The objects of a lead, those of Services and ServiceImports with the resource versions that the store has."""
    found = [_namespace(each) for each in lead.namespaces if each in store.namespaces]
    values = (store.imports if lead.shared else store.services).values
    for key in lead.services:
        value = values.get(key)
        if value is not None:
            labels = import_slice_labels([(key, value)]) if lead.shared else {}
            found += unpack(key, value, labels, shared=lead.shared, versioned=True)
    address = pack_address(lead.address) if lead.address else None
    if address is not None:
        found += [_pod(each, address, None) for each in store.pods.by_address.get(address, ())]
    return [msgspec.convert(each, KINDS[each["kind"]]) for each in found]


class WholeState(NamedTuple):
    """The values of a store at one moment, and whether it served from them."""

    services: list[tuple[Key, ServiceValue]]
    imports: list[tuple[Key, ServiceValue]]
    namespaces: dict[bytes, str]
    pods: list[tuple[bytes, tuple[PodKey, ...]]]
    terminating: set[PodKey]
    pod_labels: dict[PodKey, dict[str, str]]
    serves: bool

    @classmethod
    def of(cls, store: Store) -> Self:
        """Take the references."""
        return cls(
            list(store.services.values.items()),
            sorted(store.imports.values.items(), key=lambda item: item[0]),
            dict(store.namespaces),
            list(store.pods.by_address.items()),
            set(store.pods.terminating),
            dict(store.pods.labels or {}),
            store.serves,
        )

    def objects(self, *, versioned: bool = False) -> Iterator[dict[str, Any]]:
        """The objects; `versioned` ones give a store of the same state and versions, if applied in order."""
        for namespace, version in self.namespaces.items():
            yield _namespace(namespace, version if versioned else "")
        unwritten = import_slice_labels(self.imports)
        for shared, values in ((False, self.services), (True, self.imports)):
            for key, value in values:
                yield from unpack(
                    key, value, unwritten, shared=shared, versioned=versioned, not_ready=versioned
                )
        for address, owners in self.pods:
            for pod in owners:
                yield _pod(pod, address, self.pod_labels.get(pod))
                if versioned and pod in self.terminating:
                    # A store ignores one that it first sees terminating.
                    found = _pod(pod, address, self.pod_labels.get(pod))
                    found["metadata"]["deletionTimestamp"] = "unknown"
                    yield found


class BadSnapshot(ValueError):
    """The text is not a snapshot, or it is damaged; the message says why."""


class Header(NamedTuple):
    """The first line: the version that wrote it, the time (seconds since the epoch), and the settings."""

    version: str
    saved: float
    settings: dict[str, str]


def pieces(
    store: Store, *, version: str, saved: float, settings: Mapping[str, str]
) -> Iterator[bytes]:
    """The text of a store's current state, in pieces to be joined; each is made when it is consumed."""
    return _lines(Header(version, saved, dict(settings)), WholeState.of(store).objects())


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
            continue  # half of a surrogate pair: JSON cannot represent it, and no API server accepts it
        if count:
            line = b",\n" + line
        count += 1
        checksum = crc32(line, checksum)
        yield line
    yield b'\n],"objects":%d,"checksum":"crc32:%08x"}\n' % (count, crc32(b"\n", checksum))


class _Metadata(msgspec.Struct):
    annotations: dict[str, str]


class _Head(msgspec.Struct):
    kind: str
    metadata: _Metadata


class _Tail(msgspec.Struct):
    objects: int
    checksum: str


def check(lines: Iterable[bytes]) -> Header:
    """Read a whole snapshot and return its header; raise BadSnapshot."""
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
    """The objects of a text that has passed check(), without those that this version cannot decode."""
    rest = iter(lines)
    next(rest, b"")
    for line in rest:
        if line.startswith(b"{"):
            with suppress(ValueError):
                found = read_object(line.rstrip(b",\n"))
                yield found


def _header(line: bytes) -> Header:
    try:
        head = msgspec.json.decode(line.rstrip(b"\n") + b"]}", type=_Head)
        annotations = head.metadata.annotations
        settings = msgspec.json.decode(annotations["hsdns/settings"], type=dict[str, str])
        saved = read_time(annotations["hsdns/saved"])
        if head.kind == "List" and saved is not None:
            return Header(annotations["hsdns/version"], saved, settings)
    except (*UNDECODED, KeyError):
        pass
    raise BadSnapshot("its first line is not that of a snapshot")


def _check_tail(line: bytes, count: int, checksum: int) -> None:
    try:
        tail = msgspec.json.decode(b'{"items":[' + line, type=_Tail)
    except UNDECODED:
        raise BadSnapshot("its last line is not that of a snapshot") from None
    if tail.objects != count or tail.checksum != f"crc32:{checksum:08x}":
        raise BadSnapshot("its checksum is wrong: it was changed, or damaged")
