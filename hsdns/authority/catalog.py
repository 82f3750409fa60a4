"""Parser for catalog zones, whose records list other zones (RFC 9432).

Path: plugins/secondary.py parses each transfer of a zone that its directive calls a catalog.
Source: RFC 9432; CoreDNS 1.14.7 plugin/pkg/catalog.
Rule 1: a catalog that violates RFC 9432 section 5.1 is rejected as a whole; the previous one stays in use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from hsdns.wire.iana import RRClass, RRType
from hsdns.wire.message import RR
from hsdns.wire.name import Name

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
