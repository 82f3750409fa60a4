"""The kubernetes plugin once more, plain and slow: what any question about any cluster must be answered with.

Path: none; property tests compare the product with it.
Rule 1: it shares no code with the product but the objects' structs and Name's bytes: linear scans over the objects as
        the API spells them, texts compared as texts, every reply made anew.
Rule 2: records are compared as sets of (owner in lower case, type, TTL, RDATA); where the order of the cluster's
        objects decides, all replies that could come are listed.
Rule 3: what an API server would not let in (an address that is none, a hostname of 64 octets) follows the product:
        the address is left out, the dashed address stands in for the hostname.
Source: the Kubernetes DNS specification 1.1.0; CoreDNS 1.14.7 plugin/kubernetes and plugin/backend_lookup.go.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hsdns.cluster.objects import (
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointSlice,
    Namespace,
    Object,
    Pod,
    Service,
)
from hsdns.wire.name import Name

A, NS, CNAME, SOA, PTR, MX, TXT, AAAA, SRV, IXFR, AXFR = 1, 2, 5, 6, 12, 15, 16, 28, 33, 251, 252
NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5
NO_PORT: Final = -1
GONE_PHASES: Final = ("Succeeded", "Failed", "Unknown")


class Record(NamedTuple):
    """One record in the form that two replies are compared in."""

    owner: bytes
    rrtype: int
    ttl: int
    rdata: bytes


Records = frozenset[Record]
Sections = tuple[Records, Records]  # answer, additional
Resolve = Callable[[bytes, int], Sequence[Record]]


@dataclass(frozen=True)
class Answered:
    """A reply."""

    rcode: int
    aa: bool
    answer: Records = frozenset()
    authority: Records = frozenset()
    additional: Records = frozenset()


@dataclass(frozen=True)
class PassedOn:
    """The question goes to the next plugin."""


PASSED_ON: Final = PassedOn()
NOTHING: Final[Sections] = (frozenset(), frozenset())


@dataclass(frozen=True)
class Options:
    """The Corefile's properties that change answers, and what the listener knows.

    `fallthrough` None means no such property, () all zones.  `resolve` answers for a target outside the zone.
    """

    zones: tuple[str, ...] = ("cluster.local.",)
    ttl: int = 5
    pods: str = "disabled"
    endpoint_pod_names: bool = False
    ignore_empty_service: bool = False
    noendpoints: bool = False
    namespaces: tuple[str, ...] = ()
    fallthrough: tuple[str, ...] | None = None
    synced: bool = True
    serial: int = 0
    local_addresses: tuple[str, ...] = ()
    resolve: Resolve = field(default=lambda target, qtype: ())


class _NameError(Exception):
    """The name does not exist."""


class _Refused(Exception):
    """Zone transfers are another plugin's."""


class _Entry(NamedTuple):
    """One address (or one name) that stands at a name; `target` is what an SRV record would call it."""

    host: str
    port: int
    target: tuple[bytes, ...]


class _Question(NamedTuple):
    """A name below the zone, taken apart."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    endpoint: str = ""
    port: str = ""
    protocol: str = ""


class Reference:
    """Answers questions about a list of objects."""

    def __init__(self, objects: Iterable[Object], options: Options) -> None:
        found = list(objects)
        self.options = options
        self.services = [each for each in found if isinstance(each, Service)]
        self.namespaces = [each.metadata.name for each in found if isinstance(each, Namespace)]
        self.pods = [each for each in found if isinstance(each, Pod)]
        # The name decides the order where one is needed: a store must not depend on the order of events.
        self.slices = sorted(
            (each for each in found if isinstance(each, EndpointSlice) and not options.noendpoints),
            key=lambda each: (each.metadata.namespace, each.metadata.name),
        )

    def answers(self, qname: Name, qtype: int) -> list[Answered | PassedOn]:
        """Answer one question in every way that is right, mostly one."""
        labels = _labels_of(qname)
        zone = self._zone_of(labels)
        if zone is None:
            return [PASSED_ON]
        try:
            found = self._records(labels, qtype, zone)
        except _Refused:
            return [Answered(REFUSED, aa=False)]
        except _NameError:
            if self._falls_through(labels):
                return [PASSED_ON]
            rcode = NXDOMAIN if self.options.synced else SERVFAIL
            return [Answered(rcode, aa=True, authority=frozenset([self._soa(zone)]))]
        return [
            Answered(NOERROR, aa=True, answer=answer, additional=additional)
            if answer
            else Answered(NOERROR, aa=True, authority=frozenset([self._soa(zone)]))
            for answer, additional in found
        ]

    # Which zone, which kind of question

    def _zone_of(self, labels: tuple[bytes, ...]) -> tuple[bytes, ...] | None:
        matching = [
            zone
            for zone in (_labels_from_text(text) for text in self.options.zones)
            if _is_at_or_below(labels, zone)
        ]
        return max(matching, key=len) if matching else None

    def _falls_through(self, labels: tuple[bytes, ...]) -> bool:
        zones = self.options.fallthrough
        if zones is None:
            return False
        return zones == () or any(
            _is_at_or_below(labels, _labels_from_text(zone)) for zone in zones
        )

    def _records(
        self, labels: tuple[bytes, ...], qtype: int, zone: tuple[bytes, ...]
    ) -> list[Sections]:
        """The answer and additional sections that may be; raise _NameError or _Refused."""
        owner, ttl = _wire(labels), self.options.ttl
        if qtype in (AXFR, IXFR):
            raise _Refused
        if qtype == SOA:
            return [_only(self._soa(zone))] if labels == zone else [NOTHING]
        if qtype == NS and labels == zone:
            return [self._name_servers(zone)]
        if qtype == PTR:
            return self._pointers(labels, zone)
        if qtype == TXT:
            if labels == (b"dns-version", *zone):
                return [_only(Record(owner, TXT, 28800, b"\x051.1.0"))]
            if not self._entries(labels, zone):
                raise _NameError
            return [NOTHING]
        if qtype in (A, AAAA):
            return [(frozenset(self._addresses(labels, qtype, zone, ())), frozenset())]
        if labels == (b"ns", b"dns", *zone):
            return [NOTHING]  # its addresses are of other types
        entries = self._entries(labels, zone)
        if qtype == SRV:
            return [self._srv(owner, entries)]
        if qtype == CNAME and entries:
            # Only the first entry counts, and the order of slices is not defined.
            return [
                _only(Record(owner, CNAME, ttl, _wire(_labels_from_text(entry.host))))
                if _ip(entry.host) is None
                else NOTHING
                for entry in entries
            ]
        return [NOTHING]

    # Section 1.5: addresses, and the CNAMEs on the way to them

    def _addresses(
        self,
        labels: tuple[bytes, ...],
        qtype: int,
        zone: tuple[bytes, ...],
        before: tuple[tuple[bytes, ...], ...],
    ) -> list[Record]:
        owner, ttl = _wire(labels), self.options.ttl
        if labels == (b"ns", b"dns", *zone):
            return [
                Record(owner, qtype, ttl, address.packed)
                for _, address in self._server_addresses(zone)
                if _type_of(address) == qtype
            ]
        found: list[Record] = []
        for entry in self._entries(labels, zone):
            address = _ip(entry.host)
            if address is not None:
                if _type_of(address) == qtype:
                    found.append(Record(owner, qtype, ttl, address.packed))
                continue
            target = _labels_from_text(entry.host)
            if _is_at_or_below(target, labels) or len(before) > 10 or target in before:
                continue
            alias = Record(owner, CNAME, ttl, _wire(target))
            if _is_at_or_below(target, zone):
                try:
                    rest = (
                        [*self.options.resolve(_wire(target), qtype)]
                        if self._is_excluded(target[: len(target) - len(zone)])
                        else self._addresses(target, qtype, zone, (*before, target))
                    )
                except _NameError:
                    rest = []
                if rest:
                    found += [alias, *rest]
            else:
                found += [alias, *self.options.resolve(_wire(target), qtype)]
        return found

    # Section 1.3: the grammar; 1.4: existence

    def _entries(self, labels: tuple[bytes, ...], zone: tuple[bytes, ...]) -> list[_Entry]:
        """What stands at a name; nothing for names that exist and are empty; raise where there is no such name."""
        asked = _take_apart(labels[: len(labels) - len(zone)])
        if asked.kind == "":
            return []
        if _is_reverse(labels):
            raise _NameError
        if not self._is_exposed(asked.namespace):
            raise _NameError
        if asked.kind == "pod":
            return self._pod_entries(asked, zone)
        return self._service_entries(asked, zone)

    def _is_allowed(self, namespace: str) -> bool:
        return not self.options.namespaces or namespace in self.options.namespaces

    def _is_excluded(self, labels: tuple[bytes, ...]) -> bool:
        """Whether a name is of a namespace that is left out; `ns.dns` is of none."""
        try:
            namespace = _take_apart(labels).namespace
        except _NameError:
            return False
        return bool(namespace) and not self._is_allowed(namespace)

    def _is_exposed(self, namespace: str) -> bool:
        return self._is_allowed(namespace) and namespace in self.namespaces

    def _service_entries(self, asked: _Question, zone: tuple[bytes, ...]) -> list[_Entry]:
        if asked.name == "":
            return []
        target = (asked.name.encode(), asked.namespace.encode(), b"svc", *zone)
        for service in self.services:
            if (service.metadata.namespace, service.metadata.name) != (asked.namespace, asked.name):
                continue
            spec = service.spec
            if spec.type == "ExternalName":
                # An empty port beside an empty protocol asks for nothing more than the Service itself.
                if asked.endpoint or asked.port or asked.protocol:
                    raise _NameError
                if not _is_name(spec.external_name or ""):
                    raise _NameError
                return [_Entry(spec.external_name or "", 0, target)]
            if _is_headless(service) or asked.endpoint:
                if self.options.ignore_empty_service and not _is_headless(service):
                    self._require_ready_endpoints(asked)
                entries = self._endpoint_entries(asked, target)
                if not entries:
                    raise _NameError
                return entries
            if self.options.ignore_empty_service:
                self._require_ready_endpoints(asked)
            matched = [
                port
                for name, protocol, port in _service_ports(service)
                if _port_matches(asked, name, protocol)
            ]
            if not matched:
                raise _NameError
            return [_Entry(ip, port, target) for port in matched for ip in _cluster_ips(service)]
        raise _NameError

    def _require_ready_endpoints(self, asked: _Question) -> None:
        for found in self._slices_of(asked.namespace, asked.name):
            for endpoint in found.endpoints or ():
                if _is_ready(endpoint) and any(
                    _usable(found, text) for text in endpoint.addresses or ()
                ):
                    return
        raise _NameError

    def _endpoint_entries(self, asked: _Question, service: tuple[bytes, ...]) -> list[_Entry]:
        entries = []
        for found in self._slices_of(asked.namespace, asked.name):
            for endpoint in found.endpoints or ():
                if not _is_ready(endpoint):
                    continue
                for text in endpoint.addresses or ():
                    if not _usable(found, text):
                        continue
                    label = self._endpoint_label(endpoint, text)
                    if asked.endpoint and label != asked.endpoint:
                        continue
                    for name, protocol, port in _slice_ports(found):
                        if _port_matches(asked, name, protocol):
                            target = (_encode(label), *service) if label else service
                            entries.append(_Entry(text, port, target))
        return entries

    def _slices_of(self, namespace: str, service: str) -> list[EndpointSlice]:
        return [
            found
            for found in self.slices
            if found.metadata.namespace == namespace
            and (found.metadata.labels or {}).get(SERVICE_NAME_LABEL) == service
        ]

    def _endpoint_label(self, endpoint: Endpoint, text: str) -> str:
        """Hostname, else the pod's name where asked for, else the address with dashes."""
        if endpoint.hostname:
            if len(_encode(endpoint.hostname)) <= 63:
                return _fold(endpoint.hostname)
        elif self.options.endpoint_pod_names and endpoint.target_ref is not None:
            name = endpoint.target_ref.name or ""
            if 0 < len(_encode(name)) < 64:
                return _fold(name)
        if "." in text:
            label = _fold(text.replace(".", "-"))
            return label if len(_encode(label)) <= 63 else ""
        if _ip(text) is None:
            return ""
        dashed = _fold(text.replace(":", "-"))
        return dashed + "0" if dashed.endswith("-") else dashed

    # Section 1.9: pods

    def _pod_entries(self, asked: _Question, zone: tuple[bytes, ...]) -> list[_Entry]:
        mode = self.options.pods
        if mode == "disabled":
            raise _NameError
        if asked.name == "":
            return []
        word = asked.name
        text = word.replace("-", "." if word.count("-") == 3 and "--" not in word else ":")
        target = (_encode(word), asked.namespace.encode(), b"pod", *zone)
        if mode == "insecure":
            if _ip(text) is None:
                raise _NameError
            return [_Entry(text, 0, target)]
        entries = [
            _Entry(text, 0, target)
            for pod in self.pods
            if pod.metadata.namespace == asked.namespace
            and pod.status.pod_ip == text
            and text
            and pod.status.phase not in GONE_PHASES
        ]
        if not entries:
            raise _NameError
        return entries

    # Section 1.6: SRV

    def _srv(self, owner: bytes, found: list[_Entry]) -> Sections:
        entries = [entry for entry in found if _ip(entry.host) is not None]
        ttl = self.options.ttl
        records, glue = set(), set()
        for entry in entries:
            if entry.port == NO_PORT:
                continue
            weight = max(1, 100 // len(entries))
            target = _wire(entry.target)
            records.add(
                Record(owner, SRV, ttl, struct.pack("!HHH", 0, weight, entry.port) + target)
            )
            address = _ip(entry.host)
            assert address is not None
            glue.add(Record(target, _type_of(address), ttl, address.packed))
        return frozenset(records), frozenset(glue)

    # Section 1.7: PTR

    def _pointers(self, labels: tuple[bytes, ...], zone: tuple[bytes, ...]) -> list[Sections]:
        text = _address_of(labels)
        if text is None:
            self._entries(labels, zone)
            return [NOTHING]
        owner, ttl, home = _wire(labels), self.options.ttl, self._primary_zone()
        names = [
            (service.metadata.name.encode(), service.metadata.namespace.encode(), b"svc", *home)
            for service in self.services
            if text in _cluster_ips(service) and self._has_pointers(service.metadata.namespace)
        ]
        if names:  # one of them; which is not defined
            return [_only(Record(owner, PTR, ttl, _wire(name))) for name in names]
        records = set()
        for found in self.slices:
            service = (found.metadata.labels or {}).get(SERVICE_NAME_LABEL)
            if not service or not self._has_pointers(found.metadata.namespace):
                continue
            for endpoint in found.endpoints or ():
                if _is_ready(endpoint) and text in (endpoint.addresses or ()):
                    target = (
                        _encode(self._endpoint_label(endpoint, text)),
                        service.encode(),
                        found.metadata.namespace.encode(),
                        b"svc",
                        *home,
                    )
                    records.add(Record(owner, PTR, ttl, _wire(target)))
        if not records:
            raise _NameError
        return [(frozenset(records), frozenset())]

    def _has_pointers(self, namespace: str) -> bool:
        return not self.options.namespaces or self._is_exposed(namespace)

    def _primary_zone(self) -> tuple[bytes, ...]:
        zones = [_labels_from_text(text) for text in self.options.zones]
        return next(zone for zone in zones if not _is_reverse(zone))

    # Section 1.10: the zone's name servers

    def _name_servers(self, zone: tuple[bytes, ...]) -> Sections:
        owner, ttl = _wire(zone), self.options.ttl
        servers = self._server_addresses(zone)
        records = frozenset(Record(owner, NS, ttl, _wire(name)) for name, _ in servers)
        glue = frozenset(
            Record(_wire(name), _type_of(address), ttl, address.packed) for name, address in servers
        )
        return records, glue

    def _server_addresses(
        self, zone: tuple[bytes, ...]
    ) -> list[tuple[tuple[bytes, ...], ipaddress.IPv4Address | ipaddress.IPv6Address]]:
        texts: list[tuple[tuple[bytes, ...], str]] = []
        is_endpoint = False
        for local in self.options.local_addresses:
            for found in self.slices:
                owner = (found.metadata.labels or {}).get(SERVICE_NAME_LABEL)
                here = [
                    (endpoint, text)
                    for endpoint in found.endpoints or ()
                    if _is_ready(endpoint)
                    for text in endpoint.addresses or ()
                ]
                if not owner or local not in [text for _, text in here]:
                    continue
                is_endpoint = True
                for service in self.services:
                    if (service.metadata.namespace, service.metadata.name) != (
                        found.metadata.namespace,
                        owner,
                    ):
                        continue
                    name = (owner.encode(), service.metadata.namespace.encode(), b"svc", *zone)
                    if _is_headless(service):
                        texts += [
                            ((_encode(self._endpoint_label(endpoint, text)), *name), text)
                            for endpoint, text in here
                            if _ip(text) is not None
                        ]
                    else:
                        texts += [(name, text) for text in _cluster_ips(service)]
        if not is_endpoint:
            texts = [((b"ns", b"dns", *zone), local) for local in self.options.local_addresses]
        return [(name, address) for name, text in texts if (address := _ip(text)) is not None]

    def _soa(self, zone: tuple[bytes, ...]) -> Record:
        rdata = (
            _wire((b"ns", b"dns", *zone))
            + _wire((b"hostmaster", *zone))
            + struct.pack("!IIIII", self.options.serial, 7200, 1800, 86400, self.options.ttl)
        )
        return Record(_wire(zone), SOA, min(self.options.ttl, 300), rdata)


def _only(record: Record) -> Sections:
    return frozenset([record]), frozenset()


def _take_apart(labels: tuple[bytes, ...]) -> _Question:
    """Read the labels left of the zone (section 1.3); raise for names that can never exist."""
    if labels in ((), (b"svc",), (b"pod",)):
        return _Question()
    words = [_decode(label) for label in labels]
    kind = words.pop()
    if kind not in ("svc", "pod"):
        raise _NameError
    namespace = words.pop() if words else ""
    name = words.pop() if words else ""
    if len(words) == 0:
        return _Question(kind, namespace, name)
    if len(words) == 1:
        return _Question(kind, namespace, name, endpoint=words[0])
    if len(words) == 2:
        port, protocol = (word[1:] if word.startswith("_") else word for word in words)
        return _Question(kind, namespace, name, port=port, protocol=protocol)
    raise _NameError


def _port_matches(asked: _Question, name: str, protocol: str) -> bool:
    return asked.port in ("", _fold(name)) and asked.protocol in ("", _fold(protocol))


def _service_ports(service: Service) -> list[tuple[str, str, int]]:
    ports = [(port.name or "", port.protocol or "", port.port) for port in service.spec.ports or ()]
    return ports or [("", "", NO_PORT)]


def _slice_ports(found: EndpointSlice) -> list[tuple[str, str, int]]:
    ports = [
        (port.name or "", port.protocol or "", NO_PORT if port.port is None else port.port)
        for port in found.ports or ()
    ]
    return ports or [("", "", NO_PORT)]


def _is_ready(endpoint: Endpoint) -> bool:
    return endpoint.conditions is None or endpoint.conditions.ready in (None, True)


def _is_headless(service: Service) -> bool:
    return _cluster_ips(service)[0] == "None"


def _cluster_ips(service: Service) -> list[str]:
    return service.spec.cluster_ips or [service.spec.cluster_ip or ""]


def _usable(found: EndpointSlice, text: str) -> bool:
    return _ip(text) is not None or (found.address_type == "FQDN" and _is_name(text))


def _is_name(text: str) -> bool:
    if not text or text == "." or _ip(text) is not None:
        return False
    labels = text.removesuffix(".").split(".")
    return (
        all(0 < len(_encode(label)) < 64 for label in labels)
        and sum(len(_encode(x)) + 1 for x in labels) < 255
    )


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Read an address as Go's net.ParseIP does, an IPv4-mapped one as IPv4."""
    if "%" in text:
        return None
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found


def _type_of(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> int:
    return A if address.version == 4 else AAAA


def _is_reverse(labels: tuple[bytes, ...]) -> bool:
    """Tell whether a name is below (not at) one of the two reverse trees."""
    return len(labels) > 2 and labels[-2:] in ((b"in-addr", b"arpa"), (b"ip6", b"arpa"))


def _address_of(labels: tuple[bytes, ...]) -> str | None:
    """The address that a complete reverse name spells, in canonical form; IPv4-mapped ones as IPv4."""
    digits = [_decode(label) for label in reversed(labels[:-2])]
    if labels[-2:] == (b"in-addr", b"arpa") and len(digits) == 4:
        found = _ip(".".join(digits))
    elif labels[-2:] == (b"ip6", b"arpa") and len(digits) == 32:
        if any(len(digit) != 1 or digit not in "0123456789abcdef" for digit in digits):
            return None
        found = _ip(":".join("".join(digits[at : at + 4]) for at in range(0, 32, 4)))
    else:
        return None
    return None if found is None else str(found)


def _labels_of(name: Name) -> tuple[bytes, ...]:
    wire, at, found = name.wire, 0, []
    while wire[at]:
        found.append(wire[at + 1 : at + 1 + wire[at]].lower())
        at += 1 + wire[at]
    return tuple(found)


def _labels_from_text(text: str) -> tuple[bytes, ...]:
    bare = text.removesuffix(".")
    return tuple(_encode(label).lower() for label in bare.split(".")) if bare else ()


def _wire(labels: tuple[bytes, ...]) -> bytes:
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def _is_at_or_below(labels: tuple[bytes, ...], zone: tuple[bytes, ...]) -> bool:
    return len(labels) >= len(zone) and labels[len(labels) - len(zone) :] == zone


def _fold(text: str) -> str:
    """Lower case of ASCII letters alone."""
    return _decode(_encode(text).lower())


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _decode(label: bytes) -> str:
    return label.decode("utf-8", "surrogateescape")
