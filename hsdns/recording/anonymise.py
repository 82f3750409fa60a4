"""Replaces the names and addresses of a cluster in entries, for a recording that others may read.

Path: recording/cli.py with -anonymise -> Anonymiser -> Pseudonyms.
Rule 1: names of objects, hostnames, external names, names of ports, labels, selectors, topology zones and addresses are
        replaced; equal values have equal replacements.  Unneeded text is removed.
Rule 2: times, sizes, types, rcodes, transports, port numbers and protocols, kinds, conditions, resource versions, and
        the zones and properties of the block are kept.
"""

from __future__ import annotations

import hmac
from base64 import b32encode
from collections.abc import Callable, Iterable
from ipaddress import IPv6Address
from typing import Any, Final

import msgspec
from msgspec import structs

from hsdns.cluster.address import REVERSE_ZONES, address_of, read_address, reverse_name
from hsdns.cluster.objects import (
    Endpoint,
    EndpointPort,
    EndpointSlice,
    LoadBalancerIngress,
    Object,
    ObjectMeta,
    ObjectReference,
    PodCondition,
    PodNames,
    PodStatus,
    ServiceImportSpec,
    ServicePort,
    ServiceSpec,
    read_object,
)
from hsdns.recording.entry import (
    OWNERS,
    Entry,
    Header,
    ObjectEvent,
    RecordedObject,
    RecordedQuery,
    to_raw,
)
from hsdns.wire.name import MAX_LABEL_LEN, MAX_NAME_LEN, Name
from hsdns.wire.rdata import address_to_text

# Pseudonyms for names and addresses: equal values have equal pseudonyms, which do not reveal the original.
#
# Rule 1: a label becomes a keyed hash of itself in lower case.  The fixed labels of cluster names (WORDS) and the
#         labels of the zones are kept, so that a name keeps its form.
# Rule 2: an address becomes a unique address in 10.0.0.0/8 or fd00::/8; a label that spells an address, and a reverse
#         name, change in the same way.  The part of an address that is in a served reverse zone is kept.
# Rule 3: a form that affects answers is kept: a label that is too long, an address that is not in canonical form, text
#         that is neither a name nor an address.


# Of the DNS specification of Kubernetes, of hsdns's topology zones, and of reverse names.
WORDS: Final = frozenset(
    (
        b"svc", b"pod", b"ns", b"dns", b"dns-version", b"hostmaster", b"any", b"*", b"tcp", b"udp", b"sctp", b"zone",
        b"pin", b"prefer", b"in-addr", b"ip6", b"arpa",
    )
)  # fmt: skip
LENGTH: Final = 12  # characters of a hash, 60 bits; the name of a port has at most 15
MAPPED: Final = bytes(10) + b"\xff\xff"  # before an IPv4 address in an IPv6 one
OPEN: Final = "::"  # ends an IPv6 address whose label ends in another form
TRIES: Final = 4096  # for an address in a small zone


class Pseudonyms:
    """The pseudonyms of one recording: `key` is the key of the hash, `zones` are the served zones."""

    def __init__(self, key: bytes, zones: Iterable[Name]) -> None:
        self._key = key
        self._zones = tuple(each.lowered() for each in zones)
        self._words = WORDS | {label for zone in self._zones for label in zone.labels}
        self._prefixes = sorted(filter(None, map(_prefix, self._zones)), key=len, reverse=True)
        self._labels: dict[bytes, bytes] = {}
        self._addresses: dict[bytes, bytes] = {}
        self._used: set[bytes] = set()

    def opaque(self, text: str) -> str:
        """For text that is not part of a name."""
        return self._hash(text.encode("utf-8", "surrogatepass")).decode()

    def text(self, text: str) -> str:
        """For one or more labels with dots: a name of an object, a hostname, an external name."""
        labels = [
            self.label(each.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
            for each in text.split(".")
        ]
        found = ".".join(labels)
        if len(found) < MAX_NAME_LEN - 1 or len(text) >= MAX_NAME_LEN - 1:
            return found
        try:
            return self.name(Name.from_text(text)).to_text()
        except ValueError:
            return found

    def host(self, text: str) -> str:
        """For an address or, if it is not an address, for a name."""
        return self.address(text) or self.text(text)

    def target(self, text: str) -> str:
        """For a name that is also the label of an endpoint, with dashes for dots."""
        found = self.host(text)
        label = text.lower().replace(".", "-").encode("utf-8", "surrogatepass")
        self._labels.setdefault(label, found.replace(".", "-").encode("utf-8", "surrogatepass"))
        return found

    def label(self, label: bytes) -> bytes:
        """For one label; one that begins with an underscore is that of a port or a protocol."""
        lower = label.lower()
        if not lower or lower in self._words:
            return lower
        if lower[:1] == b"_":
            return b"_" + self.label(lower[1:])
        found = self._labels.get(lower)
        if found is None:
            if b"." in lower:
                found = b".".join(map(self.label, lower.split(b".")))
            else:
                found = self._address_label(lower) or self._hash(lower)
                if len(lower) > MAX_LABEL_LEN:
                    found = found.ljust(MAX_LABEL_LEN + 1, b"x")
            self._labels[lower] = found
        return found

    def name(self, name: Name) -> Name:
        """For the name of a question: inside or outside the zones, or a reverse name."""
        address = address_of(name)
        if address is not None:
            other = self._other(address)
            is_mapped = len(other) == 4 and name.is_at_or_below(REVERSE_ZONES[1])
            return reverse_name(MAPPED + other if is_mapped else other)
        labels = tuple(map(self.label, name.labels))
        if (
            sum(map(len, labels)) + len(labels) < MAX_NAME_LEN
            and max(map(len, labels), default=0) <= MAX_LABEL_LEN
        ):
            return Name.from_labels(labels)
        # So many labels that their hashes are too long.
        zone = name.longest_of((*self._zones, *REVERSE_ZONES))
        own = () if zone is None else zone.labels
        return Name.from_labels((self._hash(name.lower), *own))

    def address(self, text: str) -> str | None:
        """For an address, in the form of the text; None if it is none."""
        read = read_address(text)
        if read is None:
            return None
        packed, is_canonical = read
        if not any(packed):  # the unspecified one tells nothing
            return text
        if text.endswith("::0"):  # the label of an endpoint whose address ends in ::
            canonical = read_address(text[:-1])
            if canonical is not None and canonical[1]:
                return f"{self.address(text[:-1])}0"
        other = self._other(packed)
        if is_canonical:
            return address_to_text(other)
        if len(packed) == 4:  # IPv4-mapped
            digits = other.hex()
            return (
                f"::ffff:{address_to_text(other) if '.' in text else f'{digits[:4]}:{digits[4:]}'}"
            )
        lower = read_address(text.lower())
        if lower is not None and lower[1]:
            return address_to_text(other).upper()
        return IPv6Address(other).exploded

    def _address_label(self, label: bytes) -> bytes | None:
        """The label of an endpoint or a pod by its address."""
        if b"-" not in label or not label.isascii():
            return None
        text = label.decode()
        for separator in (".", ":"):
            found = self.address(text.replace("-", separator))
            if found is not None:
                return found.lower().replace(separator, "-").encode()
        return None

    def _other(self, address: bytes) -> bytes:
        found = self._addresses.get(address)
        if found is not None:
            return found
        digest, tries = address, 0
        while found is None or found in self._used:
            digest, tries = self._digest(digest), tries + 1
            if len(address) == 4:
                found = b"\x0a" + digest[:3]
            else:  # a group that begins with 0, so that there is a form that is not canonical
                tail = bytes(8) if address_to_text(address).endswith(OPEN) else digest[6:14]
                found = b"\xfd" + digest[:1] + b"\0" + digest[1:6] + tail
            if tries < TRIES:
                found = self._with_prefix(address, found)
        self._used.add(found)
        self._addresses[address] = found
        return found

    def _with_prefix(self, address: bytes, other: bytes) -> bytes:
        for prefix in self._prefixes:
            if len(prefix) <= 2 * len(address) and address.hex().startswith(prefix):
                return bytes.fromhex(prefix + other.hex()[len(prefix) :])
        return other

    def _hash(self, octets: bytes) -> bytes:
        return b"x" + b32encode(self._digest(octets)).lower()[:LENGTH]

    def _digest(self, octets: bytes) -> bytes:
        return hmac.digest(self._key, octets, "sha256")


def _prefix(zone: Name) -> str:
    """The hexadecimal digits of the addresses that have a reverse zone; "" of the others."""
    for reverse, width in zip(REVERSE_ZONES, (2, 1), strict=True):
        if zone.is_at_or_below(reverse):
            labels = [each.decode("ascii", "replace") for each in reversed(zone.below(reverse))]
            try:
                return "".join(
                    f"{int(each, 10 if width == 2 else 16):0{width}x}" for each in labels
                )
            except ValueError:  # RFC 2317
                return ""
    return ""


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
        self._fields: dict[type[Any], dict[str, Callable[[Any], Any]]] = {}
        self._is_fqdn = False

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
        self._names = names = Pseudonyms(self._key, map(Name.from_text, header.zones))
        self._fields = self._by_struct(names)
        lines = [
            [words[0], *map(names.text, words[1:])] if words[0] == "namespaces" else words
            for words in header.kubernetes
        ]
        return structs.replace(header, source="", kubernetes=lines, anonymised=True)

    def _by_struct(self, names: Pseudonyms) -> dict[type[Any], dict[str, Callable[[Any], Any]]]:
        """What replaces a value, or each item of a list, of the fields of a struct; other values are kept."""
        text, host, opaque = names.text, names.host, names.opaque
        port = {
            "name": text,
            "protocol": lambda found: found if found in PROTOCOLS else text(found),
        }
        return {
            ObjectMeta: {
                "name": text,
                "namespace": text,
                "labels": self._labels,
                "uid": lambda _: "",
            },
            ServiceSpec: {
                "cluster_ip": self._cluster_ip,
                "cluster_ips": self._cluster_ip,
                "external_name": host,
                "external_ips": host,
                "selector": lambda found: (
                    {opaque(key): opaque(each) for key, each in found.items()} or None
                ),
            },
            LoadBalancerIngress: {"ip": host, "hostname": host},
            ServiceImportSpec: {"ips": host},
            ServicePort: port
            | {"target_port": lambda found: text(found) if isinstance(found, str) else found},
            EndpointPort: port,
            Endpoint: {"addresses": self._endpoint_address, "hostname": text, "zone": text},
            ObjectReference: {"name": text, "namespace": text},
            PodStatus: {"pod_ip": host},
            # A readiness gate may be named after a Service.
            PodCondition: {
                "type": lambda found: found if found in CONDITIONS else opaque(found),
                "reason": lambda _: None,
            },
            PodNames: {"hostname": text, "subdomain": text},
        }

    def object(self, found: Object) -> Object:
        """Return the object with replaced names and addresses."""
        self._is_fqdn = isinstance(found, EndpointSlice) and found.address_type == FQDN
        replaced: Object = self._replaced(found)
        return replaced

    def _replaced(self, found: Any) -> Any:
        if not isinstance(found, msgspec.Struct):
            return found
        fields, changed = self._fields.get(type(found), {}), dict[str, Any]()
        for name in found.__struct_fields__:
            value, replace = getattr(found, name), fields.get(name, self._replaced)
            if value is not None:
                changed[name] = (
                    [replace(each) for each in value] if isinstance(value, list) else replace(value)
                )
        return structs.replace(found, **changed)

    def _labels(self, labels: dict[str, str]) -> dict[str, str] | None:
        names = self._names
        return {
            name if name in OWNERS else names.opaque(name): names.text(text)
            if name in OWNERS
            else names.opaque(text)
            for name, text in labels.items()
        } or None

    def _cluster_ip(self, text: str) -> str:
        return text if text == HEADLESS else self._names.host(text)

    def _endpoint_address(self, text: str) -> str:
        return (self._names.target if self._is_fqdn else self._names.host)(text)
