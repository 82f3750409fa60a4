"""Replaces the names and addresses of a cluster in entries, for a recording that others may read.

Path: cli/record.py with -anonymise -> here -> pseudonym.py.
Rule 1: names of objects, hostnames, external names, names of ports, labels, selectors, topology zones and addresses are
        replaced; equal values have equal replacements.  Unneeded text is removed.
Rule 2: times, sizes, types, rcodes, transports, port numbers and protocols, kinds, conditions, resource versions, and
        the zones and properties of the block are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import structs

from hsdns.cluster.objects import (
    EndpointPort,
    EndpointSlice,
    Object,
    ObjectMeta,
    Pod,
    PodCondition,
    Service,
    ServiceImport,
    ServicePort,
)
from hsdns.recording.entry import (
    Entry,
    Header,
    ObjectEvent,
    RecordedObject,
    RecordedQuery,
    read_object,
    to_raw,
)
from hsdns.recording.pseudonym import Pseudonyms
from hsdns.recording.reduced import OWNERS
from hsdns.wire.name import Name

FQDN: Final = "FQDN"
HEADLESS: Final = "None"  # instead of a cluster IP
PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
CONDITIONS: Final = (
    "Ready", "ContainersReady", "Initialized", "PodScheduled", "PodReadyToStartContainers",
    "DisruptionTarget",
)  # fmt: skip


class Anonymiser:
    """Anonymises the entries of one recording; the header comes first.  `key` is random and secret."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._names: Pseudonyms

    def __call__(self, entry: Entry) -> Entry:
        """Return the anonymised entry; raise ValueError if its object or its name cannot be read."""
        if isinstance(entry, Header):
            return self._header(entry)
        if isinstance(entry, RecordedObject):
            return RecordedObject(to_raw(self.object(read_object(entry.object))))
        if isinstance(entry, ObjectEvent):
            if entry.type == "SYNCED":
                return entry
            return structs.replace(entry, object=to_raw(self.object(read_object(entry.object))))
        if isinstance(entry, RecordedQuery):
            name = self._names.name(Name.from_text(entry.name)).to_text()
            client = self._names.host(entry.client)
            return structs.replace(entry, name=name, client=client, server="")
        return entry

    def _header(self, header: Header) -> Header:
        self._names = Pseudonyms(self._key, map(Name.from_text, header.zones))
        lines = [
            [words[0], *map(self._names.text, words[1:])] if words[0] == "namespaces" else words
            for words in header.kubernetes
        ]
        return structs.replace(header, source="", kubernetes=lines, anonymised=True)

    def object(self, found: Object) -> Object:
        """Return the object with replaced names and addresses."""
        found = structs.replace(found, metadata=self._metadata(found.metadata))
        if isinstance(found, Service):
            return self._service(found)
        if isinstance(found, ServiceImport):
            spec = structs.replace(
                found.spec,
                ips=_each(found.spec.ips, self._names.host),
                ports=_each(found.spec.ports, self._port),
            )
            return structs.replace(found, spec=spec)
        if isinstance(found, EndpointSlice):
            return self._slice(found)
        if isinstance(found, Pod):
            return self._pod(found)
        return found

    def _metadata(self, meta: ObjectMeta) -> ObjectMeta:
        names = self._names
        labels = {
            name if name in OWNERS else names.opaque(name): names.text(text)
            if name in OWNERS
            else names.opaque(text)
            for name, text in (meta.labels or {}).items()
        }
        return structs.replace(
            meta,
            name=names.text(meta.name),
            namespace=names.text(meta.namespace),
            labels=labels or None,
            uid="",
        )

    def _service(self, found: Service) -> Service:
        names, spec, status = self._names, found.spec, found.status
        selector = {names.opaque(key): names.opaque(text) for key, text in (spec.selector or {}).items()}  # fmt: skip
        spec = structs.replace(
            spec,
            cluster_ip=self._cluster_ip(spec.cluster_ip),
            cluster_ips=_each(spec.cluster_ips, self._cluster_ip),
            external_name=_maybe(spec.external_name, names.host),
            external_ips=_each(spec.external_ips, names.host),
            ports=_each(spec.ports, self._port),
            selector=selector or None,
        )
        if status is not None and status.load_balancer is not None:
            ingress = [
                structs.replace(
                    each, ip=_maybe(each.ip, names.host), hostname=_maybe(each.hostname, names.host)
                )
                for each in status.load_balancer.ingress or ()
            ]
            balancer = structs.replace(status.load_balancer, ingress=ingress)
            status = structs.replace(status, load_balancer=balancer)
        return structs.replace(found, spec=spec, status=status)

    def _cluster_ip(self, text: str | None) -> Any:
        return text if text == HEADLESS else _maybe(text, self._names.host)

    def _slice(self, found: EndpointSlice) -> EndpointSlice:
        names = self._names
        read = names.target if found.address_type == FQDN else names.host
        endpoints = [
            structs.replace(
                each,
                addresses=_each(each.addresses, read),
                hostname=_maybe(each.hostname, names.text),
                zone=_maybe(each.zone, names.text),
                target_ref=None
                if each.target_ref is None
                else structs.replace(
                    each.target_ref,
                    name=_maybe(each.target_ref.name, names.text),
                    namespace=_maybe(each.target_ref.namespace, names.text),
                ),
            )
            for each in found.endpoints or ()
        ]
        return structs.replace(found, endpoints=endpoints, ports=_each(found.ports, self._port))

    def _pod(self, found: Pod) -> Pod:
        names, status = self._names, found.status
        conditions = _each(status.conditions, self._condition)
        return structs.replace(
            found,
            status=structs.replace(
                status, pod_ip=_maybe(status.pod_ip, names.host), conditions=conditions
            ),
            spec=structs.replace(
                found.spec,
                hostname=_maybe(found.spec.hostname, names.text),
                subdomain=_maybe(found.spec.subdomain, names.text),
            ),
        )

    def _condition(self, found: PodCondition) -> PodCondition:
        """A readiness gate may be named after a Service."""
        kind = found.type if found.type in CONDITIONS else self._names.opaque(found.type)
        return structs.replace(found, type=kind, reason=None)

    def _port(self, port: Any) -> Any:
        names = self._names
        changed: dict[str, Any] = {"name": _maybe(port.name, names.text)}
        if port.protocol not in PROTOCOLS:
            changed["protocol"] = _maybe(port.protocol, names.text)
        if isinstance(port, ServicePort) and isinstance(port.target_port, str):
            changed["target_port"] = names.text(port.target_port)
        assert isinstance(port, ServicePort | EndpointPort)
        return structs.replace(port, **changed)


def _maybe(text: str | None, replace: Callable[[str], str]) -> str | None:
    return None if text is None else replace(text)


def _each(found: Iterable[Any] | None, replace: Callable[[Any], Any]) -> list[Any] | None:
    return None if found is None else [replace(each) for each in found]
