"""A version of a zone: its records, indexed for lookup.

Path: master_file.py and transfer.py collect records -> Zone -> lookup.py.
Rule 1: a Zone is immutable; a new version is a new Zone, and each query uses one of them.
Rule 2: owners are lower case, and so are names in RDATA of the types that CoreDNS 1.14.7 converts (NS, SOA, CNAME, MX,
        SVCB, HTTPS); names in SRV and PTR keep their case.
Rule 3: names between the apex and an owner exist without records (empty non-terminals, RFC 4592 section 2.2.2).

Catalog zones, whose records list other zones; plugins/secondary.py reads each transfer of one:
Source: RFC 9432; CoreDNS 1.14.7 plugin/pkg/catalog.
Rule 1: a catalog that violates RFC 9432 section 5.1 is rejected as a whole; the previous one stays in use.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final, NamedTuple

from hsdns.wire.iana import RRClass, RRType, type_to_text
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from hsdns.wire.rdata import read_name

_NSEC3PARAM: Final = 51
_NAME_ONLY: Final = frozenset({RRType.NS, RRType.CNAME})
_NAME_AFTER_NUMBER: Final = frozenset({RRType.MX, RRType.SVCB, RRType.HTTPS})
_APEX_ONLY: Final = frozenset({RRType.SOA, RRType.NS})
_SERIAL_AND_TIMES: Final = 20  # octets at the end of a SOA's RDATA


class ZoneError(ValueError):
    """Records that do not form a valid zone."""


class Node:
    """The records at a name, by type; `signatures` are its RRSIGs, by the type that they cover."""

    __slots__ = ("owner", "records", "signatures")

    def __init__(self, owner: Name) -> None:
        self.owner = owner
        self.records: dict[int, list[RR]] = {}
        self.signatures: dict[int, list[RR]] = {}

    def add(self, record: RR) -> None:
        """Add a record; only while the zone is being made."""
        self.records.setdefault(record.rrtype, []).append(record)
        if record.rrtype == RRType.RRSIG:
            self.signatures.setdefault(int.from_bytes(record.rdata[:2], "big"), []).append(record)

    def rrset(self, rrtype: int, do: bool = False) -> tuple[RR, ...]:
        """Return the records of a type, with `do` followed by their signatures."""
        found = self.records.get(rrtype, ())
        return (*found, *self.signatures.get(rrtype, ())) if do and found else tuple(found)


class Zone:
    """A version of a zone; raises ZoneError if it has no SOA record or uses NSEC3."""

    def __init__(self, origin: Name, records: Iterable[RR]) -> None:
        self.origin = origin.lowered()
        self.nodes: dict[bytes, Node] = {}
        self._inner: set[bytes] = {self.origin.lower}  # names with names below them
        soa: RR | None = None
        for record in map(lowered, records):
            if record.rrtype in (RRType.NSEC3, _NSEC3PARAM):
                raise ZoneError(
                    f"{record.owner.to_text()} has {type_to_text(record.rrtype)}; signed zones are "
                    "supported with NSEC only; sign it with NSEC"
                )
            if record.rrtype == RRType.SOA:
                if soa is not None and (soa.owner, soa.rdata) == (record.owner, record.rdata):
                    continue  # the final one of a transfer
                soa = record
            self._insert(record)
        if soa is None:
            raise ZoneError(f"there is no SOA record for {self.origin.to_text()}")
        self.soa = soa
        self.serial = serial_of(soa)
        self.apex = self.nodes.get(self.origin.lower) or Node(self.origin)

    def _insert(self, record: RR) -> None:
        lower = record.owner.lower
        node = self.nodes.get(lower)
        if node is None:
            node = self.nodes[lower] = Node(record.owner)
            for ancestor in record.owner.ancestors()[1:]:
                if ancestor in self._inner:
                    break
                self._inner.add(ancestor)
        node.add(record)

    def exists(self, lower: bytes) -> bool:
        """Whether a name has records or names below it; ignores delegations."""
        return lower in self.nodes or lower in self._inner

    def soa_set(self, do: bool) -> tuple[RR, ...]:
        """Return the SOA record, with `do` followed by its signatures."""
        return (self.soa, *self.apex.signatures.get(RRType.SOA, ())) if do else (self.soa,)

    def ns_set(self, do: bool) -> tuple[RR, ...]:
        """Return the apex's NS records, with `do` followed by their signatures."""
        return self.apex.rrset(RRType.NS, do)

    def covering_nsec(self, name: Name) -> Node | None:
        """Return the node whose NSEC record is at or before a name in canonical order (RFC 4034 section 6.1)."""
        keys, nodes = self._nsec_chain
        at = bisect_right(keys, name.labels[::-1])
        return nodes[at - 1] if at else None

    @cached_property
    def _nsec_chain(self) -> tuple[list[tuple[bytes, ...]], list[Node]]:
        nodes = [node for node in self.nodes.values() if RRType.NSEC in node.records]
        nodes.sort(key=lambda node: node.owner.labels[::-1])
        return [node.owner.labels[::-1] for node in nodes], nodes

    def records(self) -> Iterator[RR]:
        """Yield all records except the SOA, the apex first: the contents of a transfer between its SOA records."""
        yield from self.apex.signatures.get(RRType.SOA, ())
        yield from self.ns_set(do=True)
        for node in self.nodes.values():
            for records in node.records.values():
                for record in records:
                    if record is not self.soa and not (node is self.apex and _leads(record)):
                        yield record


def _leads(record: RR) -> bool:
    """Whether a record of the apex is already contained in soa_set() or ns_set()."""
    if record.rrtype == RRType.RRSIG:
        return int.from_bytes(record.rdata[:2], "big") in _APEX_ONLY
    return record.rrtype == RRType.NS


def lowered(record: RR) -> RR:
    """Return a record with its names in the case of Rule 2."""
    rrtype, rdata = record.rrtype, record.rdata
    if rrtype in _NAME_ONLY:
        rdata = rdata.lower()
    elif rrtype in _NAME_AFTER_NUMBER:
        name, end = read_name(rdata, 2)
        rdata = rdata[:2] + name.lower + rdata[end:]
    elif rrtype == RRType.SOA:
        rdata = rdata[:-_SERIAL_AND_TIMES].lower() + rdata[-_SERIAL_AND_TIMES:]
    owner = record.owner if rrtype == RRType.SRV else record.owner.lowered()
    return record._replace(owner=owner, rdata=rdata)


def serial_of(soa: RR) -> int:
    """Return the serial of a SOA record."""
    return int.from_bytes(soa.rdata[-20:-16], "big")


def timers_of(soa: RR) -> tuple[int, int, int]:
    """Return refresh, retry and expire of a SOA record, in seconds, each at least 1."""
    numbers = (int.from_bytes(soa.rdata[at : at + 4], "big") for at in range(-16, -4, 4))
    refresh, retry, expire = (max(1, number) for number in numbers)
    return refresh, retry, expire


def is_newer(serial: int, than: int) -> bool:
    """Compare serials in serial number arithmetic (RFC 1982 section 3.2)."""
    return serial != than and (serial - than) % 2**32 < 2**31


VERSION: Final = b"2"


class CatalogError(ValueError):
    """A violation of RFC 9432, as a sentence for the operator."""


class Member(NamedTuple):
    """A zone in a catalog; `label` is its unique ID, `new_owner` the catalog that it moves to (coo)."""

    label: bytes
    zone: Name
    new_owner: Name | None


def read_catalog(origin: Name, records: Iterable[RR]) -> tuple[Member, ...]:
    """Return the members of a catalog, sorted by label; raise CatalogError."""
    shown = origin.to_text()
    types: set[int] = set()
    versions: list[bytes] = []
    zones: dict[bytes, list[Name]] = {}
    new_owners: dict[bytes, list[Name]] = {}
    for record in records:
        if record.rrclass != RRClass.IN:
            raise CatalogError(f"catalog {shown} has a record of another class than IN")
        labels = record.owner.below(origin)
        if not labels:
            types.add(record.rrtype)
        elif labels == (b"version",) and record.rrtype == RRType.TXT:
            versions.append(_text(record.rdata))
        elif record.rrtype == RRType.PTR and labels[-1] == b"zones":
            target = Name(record.rdata).lowered()
            if len(labels) == 2:
                zones.setdefault(labels[0], []).append(target)
            elif len(labels) == 3 and labels[0] == b"coo":
                new_owners.setdefault(labels[1], []).append(target)
    if not types >= {RRType.SOA, RRType.NS}:
        raise CatalogError(f"catalog {shown} needs a SOA and an NS record")
    if versions != [VERSION]:
        found = ", ".join(version.decode(errors="replace") for version in versions) or "none"
        raise CatalogError(
            f"catalog {shown} must have exactly one version record, with 2, found {found}"
        )
    return _members(shown, zones, new_owners)


def _members(
    shown: str, zones: dict[bytes, list[Name]], new_owners: dict[bytes, list[Name]]
) -> tuple[Member, ...]:
    known: dict[Name, bytes] = {}
    members = []
    for label, targets in sorted(zones.items()):
        owners = new_owners.get(label, [])
        word = label.decode(errors="replace")
        if len(targets) != 1 or len(owners) > 1:
            raise CatalogError(f"member {word} of catalog {shown} has more than one zone or owner")
        zone = targets[0]
        if zone in known:
            raise CatalogError(f"catalog {shown} lists {zone.to_text()} twice")
        known[zone] = label
        members.append(Member(label, zone, owners[0] if owners else None))
    return tuple(members)


def _text(rdata: bytes) -> bytes:
    """Join the strings of a TXT record."""
    found, at = b"", 0
    while at < len(rdata):
        found += rdata[at + 1 : at + 1 + rdata[at]]
        at += 1 + rdata[at]
    return found
