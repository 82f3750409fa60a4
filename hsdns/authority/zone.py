"""All records of a zone, in a form to be asked.

Path: master_file.py and incoming.py collect records -> Zone -> lookup.py.
Rule 1: a Zone never changes; a new version is a new Zone, and a query sees one of them.
Rule 2: owners are lower case, and so are the names in RDATA of the types that CoreDNS 1.14.7 lowers (NS, SOA, CNAME,
        MX, SVCB, HTTPS); SRV and PTR keep their writer's case.
Rule 3: names between the apex and an owner exist too, without records (empty non-terminals, RFC 4592 section 2.2.2).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

from hsdns.wire.iana import RRType, type_to_text
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from hsdns.wire.rdata import read_name

_NSEC3PARAM: Final = 51
_NAME_ONLY: Final = frozenset({RRType.NS, RRType.CNAME})
_NAME_AFTER_NUMBER: Final = frozenset({RRType.MX, RRType.SVCB, RRType.HTTPS})
_APEX_ONLY: Final = frozenset({RRType.SOA, RRType.NS})
_SERIAL_AND_TIMES: Final = 20  # octets at the end of a SOA's RDATA


class ZoneError(ValueError):
    """A sentence that says why records make no zone."""


class Node:
    """The records at one name, by type; `signatures` are its RRSIGs, by the type that they cover."""

    __slots__ = ("owner", "records", "signatures")

    def __init__(self, owner: Name) -> None:
        self.owner = owner
        self.records: dict[int, list[RR]] = {}
        self.signatures: dict[int, list[RR]] = {}

    def add(self, record: RR) -> None:
        """Take a record while the zone is being made."""
        self.records.setdefault(record.rrtype, []).append(record)
        if record.rrtype == RRType.RRSIG:
            self.signatures.setdefault(int.from_bytes(record.rdata[:2], "big"), []).append(record)

    def rrset(self, rrtype: int, do: bool = False) -> tuple[RR, ...]:
        """The records of a type, with `do` followed by their signatures."""
        found = self.records.get(rrtype, ())
        return (*found, *self.signatures.get(rrtype, ())) if do and found else tuple(found)


class Zone:
    """One version of a zone; raise ZoneError where there is no SOA record or NSEC3 is used."""

    def __init__(self, origin: Name, records: Iterable[RR]) -> None:
        self.origin = origin.lowered()
        self.nodes: dict[bytes, Node] = {}
        self._inner: set[bytes] = {self.origin.lower}  # names that have something below them
        soa: RR | None = None
        for record in map(lowered, records):
            if record.rrtype in (RRType.NSEC3, _NSEC3PARAM):
                raise ZoneError(
                    f"{record.owner.to_text()} has {type_to_text(record.rrtype)}; of signed zones only "
                    "those with NSEC are served, sign it with NSEC"
                )
            if record.rrtype == RRType.SOA:
                if soa is not None and (soa.owner, soa.rdata) == (record.owner, record.rdata):
                    continue  # the one that ends a transfer
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
        """Tell whether a name has records or something below it; delegations are not looked at."""
        return lower in self.nodes or lower in self._inner

    def soa_set(self, do: bool) -> tuple[RR, ...]:
        """The SOA record, with `do` and its signatures."""
        return (self.soa, *self.apex.signatures.get(RRType.SOA, ())) if do else (self.soa,)

    def ns_set(self, do: bool) -> tuple[RR, ...]:
        """The apex's NS records, with `do` and their signatures."""
        return self.apex.rrset(RRType.NS, do)

    def covering_nsec(self, name: Name) -> Node | None:
        """The name whose NSEC record is at or before a name in canonical order (RFC 4034 section 6.1)."""
        keys, nodes = self._nsec_chain
        at = bisect_right(keys, name.labels[::-1])
        return nodes[at - 1] if at else None

    @cached_property
    def _nsec_chain(self) -> tuple[list[tuple[bytes, ...]], list[Node]]:
        nodes = [node for node in self.nodes.values() if RRType.NSEC in node.records]
        nodes.sort(key=lambda node: node.owner.labels[::-1])
        return [node.owner.labels[::-1] for node in nodes], nodes

    def records(self) -> Iterator[RR]:
        """All records but the SOA at the apex, the apex's own first: what a transfer has between its two SOAs."""
        yield from self.apex.signatures.get(RRType.SOA, ())
        yield from self.ns_set(do=True)
        for node in self.nodes.values():
            for records in node.records.values():
                for record in records:
                    if record is not self.soa and not (node is self.apex and _leads(record)):
                        yield record


def _leads(record: RR) -> bool:
    """Whether a record of the apex has gone out with its SOA and NS."""
    if record.rrtype == RRType.RRSIG:
        return int.from_bytes(record.rdata[:2], "big") in _APEX_ONLY
    return record.rrtype == RRType.NS


def lowered(record: RR) -> RR:
    """A record in the case in which it is served (Rule 2)."""
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
    """The serial of a SOA record."""
    return int.from_bytes(soa.rdata[-20:-16], "big")


def timers_of(soa: RR) -> tuple[int, int, int]:
    """Refresh, retry and expire of a SOA record, in seconds; none below one."""
    numbers = (int.from_bytes(soa.rdata[at : at + 4], "big") for at in range(-16, -4, 4))
    refresh, retry, expire = (max(1, number) for number in numbers)
    return refresh, retry, expire


def is_newer(serial: int, than: int) -> bool:
    """Compare serials in the arithmetic of RFC 1982 section 3.2."""
    return serial != than and (serial - than) % 2**32 < 2**31
