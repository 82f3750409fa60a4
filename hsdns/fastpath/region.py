"""Names that do not exist, answered without an entry for each: a zone of which all names are known.

Path: step 2; table.py asks where it has no entry.  Pure twin of native/src/region.rs.
Rule 1: only a name strictly below the zone, and not at or below a hole (what a handler before it might answer), is
        looked at, only while absence can be told (ClusterNames.open), and only for the types that the region has.
Rule 2: the forms are those of the Kubernetes DNS specification 1.1.0: SERVICE.NAMESPACE.svc.ZONE and below.  What is
        not certainly absent is left to the chain: pod names, empty non-terminals, whatever stands below a Service.
Rule 3: the reply is a template learned from one real run of the chain: the zone's SOA and nothing else.  Its owner
        points at the zone's labels in the question, pointers within its RDATA move with the question's length, and
        its serial is that of now.
Rule 4: a name is walked once, from the left to the zone, and what is compared are labels with their lengths.  The walk
        also tells a name from octets that only end like one: the question of a query that nobody has read yet may be
        asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from hsdns.fastpath.key import Usual
from hsdns.fastpath.records import BadRecords, read_outline, soa_serial, step_over_name, walk
from hsdns.fastpath.shape import heads_of
from hsdns.fastpath.tally import CACHE_MISS, SIZE_SHIFT, kind_of
from hsdns.fastpath.versions import ClusterNames
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.name import MAX_LABEL_LEN, MAX_NAME_LEN

COUNTS: Final = (0, 1, 0)
NOT_BELOW: Final = -1
LEFT_TO_THE_CHAIN: Final = -2

_SERVICES: Final = b"\3svc"
_NOT_CERTAIN: Final = frozenset({b"\3pod", b"\3dns", b"\x0bdns-version"})
_FIRST_LABELS: Final = frozenset(label[1:] for label in (_SERVICES, *_NOT_CERTAIN))
_RCODE: Final = 0x000F
_CLASS_IN: Final = b"\0\1"
_POINTER: Final = 0xC000
# Above 16,383 no pointer reaches, and a SOA record is not longer than two names and some numbers.
_RECORD_AT_MOST: Final = 600
# How far the next label is, by the octet that a label starts with: what is no length leads behind every name.
_STEPS: Final = [
    1 + length if 0 < length <= MAX_LABEL_LEN else MAX_NAME_LEN + 1 for length in range(256)
]


class Template(NamedTuple):
    """The SOA record after its owner; offsets count from there, the target of a pointer from the question's end."""

    flags: int
    heads: tuple[bytes, ...]  # the header after the ID for each variant of query
    body: bytes
    serial: int
    pointers: tuple[tuple[int, int], ...]
    size: int  # of the whole reply without the question


class Region:
    """One zone."""

    def __init__(
        self,
        zone: bytes,
        names: ClusterNames,
        holes: Iterable[bytes],
        groups: Mapping[int, int],
        mark_ttl: int,
        log: bool,
        max_payload: int,
    ) -> None:
        self.zone = zone
        self.max_payload = max_payload
        self.template: Template | None = None
        self._groups = {
            qtype.to_bytes(2, "big"): kind_of(
                group, 0, 0 if log else None, CACHE_MISS if mark_ttl == 0 else 0
            )
            for qtype, group in groups.items()
        }
        self._names = names
        self._holes = frozenset(holes)
        self._serial = -1
        # Where a question of this length ends -> the SOA record for it.
        self._records: dict[int, bytes] = {}

    def find(self, key: bytes) -> int:
        """Return what a hit counts as (but for length and DO of the query) if the name certainly does not exist.

        Else NOT_BELOW, where it is not strictly below the zone or no name at all, or LEFT_TO_THE_CHAIN.
        """
        zone = self.zone
        end = len(key) - 3 - len(zone)
        if not 0 < end <= MAX_NAME_LEN - len(zone) or not key.startswith(zone, end):
            return NOT_BELOW
        at = first = second = third = 0
        while at < end:
            third, second, first = second, first, at
            at += _STEPS[key[at]]
        if at != end:
            return NOT_BELOW
        kind = self._groups.get(key[-3:-1])
        names, template = self._names, self.template
        if (
            kind is None
            or template is None
            or not names.open
            or (self._holes and self._is_in_hole(key[:-3]))
        ):
            return LEFT_TO_THE_CHAIN
        label = key[first:end]
        if label != _SERVICES:
            if label in _NOT_CERTAIN:
                return LEFT_TO_THE_CHAIN
        elif not first:
            return LEFT_TO_THE_CHAIN
        else:
            namespace = key[second + 1 : first]
            if namespace in names.namespaces and (
                not second or key[third + 1 : second] in names.services.get(namespace, ())
            ):
                return LEFT_TO_THE_CHAIN
        return kind + (template.size + end + len(zone) + 4 << SIZE_SHIFT)

    def others_below(self, parent: bytes) -> Collection[bytes]:
        """The labels right below a name that find() leaves to the chain, until CHANGES moves.

        The name is the zone, or below it, and such that one right below it was found absent.
        """
        found = self._possible_below(parent)
        holes = {hole[1 : 1 + hole[0]] for hole in self._holes if hole[1 + hole[0] :] == parent}
        return holes.union(found) if holes else found

    def record(self, end: int) -> bytes:
        """The SOA record for a question that ends at an offset, with the serial of now."""
        if self._names.serial != self._serial:
            self._serial = self._names.serial
            self._records.clear()
        found = self._records.get(end)
        if found is None:
            found = self._records[end] = self._make_record(end)
        return found

    def teach(self, usual: Usual, query: bytes, reply: bytes, size: int) -> bool:
        """Take the reply of one real run as template; False where it does not fit."""
        if not self._is_above(usual.qname):
            return False
        question = query[HEADER_LEN : usual.end]
        outline = read_outline(question, reply)
        if (
            outline is None
            or outline.flags & _RCODE != Rcode.NXDOMAIN
            or outline.counts != COUNTS
            or size < len(question)
        ):
            return False
        end = usual.end
        soa = next(walk(reply, end, 1))
        if (
            soa.rrtype != RRType.SOA
            or reply[soa.owner_end + 2 : soa.owner_end + 4] != _CLASS_IN
            or soa.owner_end != end + 2
            or soa.pointer != end - 4 - len(self.zone)
        ):
            return False
        pointers = []
        at = soa.rdata
        try:
            for _ in range(2):
                start = at
                at, target = step_over_name(reply, at)
                if target is None:
                    continue
                if not end <= target < start:
                    return False
                pointers.append((at - 2 - soa.owner_end, target - end))
        except BadRecords:
            return False
        serial = soa_serial(reply, soa)
        if serial is None or soa.end - end > _RECORD_AT_MOST:
            return False
        self.template = Template(
            outline.flags,
            heads_of(outline.flags, COUNTS),
            reply[soa.owner_end : soa.end],
            serial - soa.owner_end,
            tuple(pointers),
            size - len(question),
        )
        self._records.clear()
        return True

    def _make_record(self, end: int) -> bytes:
        template = self.template
        assert template is not None, "a region without a template answers nothing"
        body = bytearray(template.body)
        body[template.serial : template.serial + 4] = self._serial.to_bytes(4, "big")
        for at, target in template.pointers:
            body[at : at + 2] = (_POINTER | end + target).to_bytes(2, "big")
        return (_POINTER | end - 4 - len(self.zone)).to_bytes(2, "big") + bytes(body)

    def _possible_below(self, parent: bytes) -> Collection[bytes]:
        end = len(parent) - len(self.zone)
        at = first = second = 0
        while at < end:
            second, first = first, at
            at += _STEPS[parent[at]]
        if not end:
            return _FIRST_LABELS
        if parent[first:end] != _SERVICES:
            return ()
        if not first:
            return self._names.namespaces
        namespace = parent[second + 1 : first]
        if second or namespace not in self._names.namespaces:
            return ()
        return self._names.services.get(namespace, ())

    def _is_above(self, qname: bytes) -> bool:
        end, at = len(qname) - len(self.zone), 0
        while at < end:
            at += _STEPS[qname[at]]
        return 0 < end == at and qname.endswith(self.zone)

    def _is_in_hole(self, qname: bytes) -> bool:
        at = 0
        while qname[at:] not in self._holes:
            if not qname[at]:
                return False
            at += 1 + qname[at]
        return True
