"""Negative zones: zones in which all existing names are known, so that all other names need no entry.

Path: step 2; table.py calls it if it has no entry.  Twin of native/src/negative_zone.rs and soa_template.rs.
Rule 1: it answers only for a name strictly below the zone and not at or below an exclusion (a name that another handler
        may answer), only while an unlisted name is NXDOMAIN (ClusterNames.open), and only for the types that the zone
        has a group for.  With `no_edns`, queries with an OPT record go to the chain, whose reply gives the reason.
Rule 2: names have the forms of the Kubernetes DNS specification 1.1.0: SERVICE.NAMESPACE.svc.ZONE and below, and
        ADDRESS.NAMESPACE.pod.ZONE and below.  A query for a name that may exist goes to the chain: empty non-terminals,
        Services, listed names below these, and every name that looks like an address of a Pod, whatever `pods` says.
Rule 3: the reply is made from a template, which is one real reply of the chain: the zone's SOA and nothing else.  The
        SOA's owner points at the zone's labels in the question, pointers within its RDATA move with the question's
        length, and its serial is the current one.
Rule 4: a name is walked once, from its first label to the zone, and labels are compared with their lengths.  The walk
        also detects octets that only end like a name, because the query may not have been parsed (key.py, cut_query()).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from hsdns.fastpath.entry import Header, header_of, write
from hsdns.fastpath.hit_counts import CACHE_MISS, LENGTH_SHIFT, SIZE_SHIFT, kind_of
from hsdns.fastpath.key import KEY_EDNS, Form, PlainQuery, lower_size
from hsdns.fastpath.records import BadRecords, read_outline, soa_serial, step_over_name, walk
from hsdns.fastpath.versions import ClusterNames, Hashes, has_label, has_port
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.name import MAX_LABEL_LEN, MAX_NAME_LEN

NOT_BELOW: Final = -1
LEFT_TO_CHAIN: Final = -2

_SERVICES: Final = b"\3svc"
_PODS: Final = b"\3pod"
# The octets of an address, and of a label that stands for one.
_IN_ADDRESSES: Final = b"0123456789abcdef-."
# Labels directly below the zone whose subtrees are not listed in ClusterNames.
_UNLISTED: Final = frozenset({b"\3dns", b"\x0bdns-version"})
# Names with three or more labels below a Service exist only below this label, if it is listed.
_TOPOLOGY: Final = b"\5_zone"
# The distance to the next label, by the octet that a label starts with; beyond every name for an invalid length.
_STEPS: Final = [
    1 + length if 0 < length <= MAX_LABEL_LEN else MAX_NAME_LEN + 1 for length in range(256)
]
_COUNTS: Final = (0, 1, 0)
_RCODE: Final = 0x000F
_CLASS_IN: Final = b"\0\1"
_POINTER: Final = 0xC000
# Two names and some numbers; pointers reach offsets up to 16,383.
_MAX_RECORD_LEN: Final = 600


class NegativeZone:
    """One negative zone; it answers nothing before it has a template."""

    def __init__(
        self,
        zone: bytes,
        names: ClusterNames,
        exclusions: Iterable[bytes],
        groups: Mapping[int, int],
        mark_ttl: int,
        log: bool,
        max_payload: int,
        no_edns: bool,
    ) -> None:
        self.zone, self.services = zone, _SERVICES + zone
        self._max_payload = max_payload
        self._no_edns = no_edns
        self._template: SoaTemplate | None = None
        cache = CACHE_MISS if mark_ttl == 0 else 0
        self._groups = {
            qtype.to_bytes(2, "big"): kind_of(group, 0, 0 if log else None, cache)
            for qtype, group in groups.items()
        }
        self._names = names
        self._exclusions = frozenset(exclusions)

    def find(self, key: bytes) -> int:
        """Return the kind of the hit (without length and DO of the query) if the name certainly does not exist.

        Return NOT_BELOW if it is no name or not strictly below the zone, LEFT_TO_CHAIN if the chain must answer.
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
        names, template = self._names, self._template
        if (
            kind is None
            or template is None
            or not names.open
            or (self._exclusions and self._is_excluded(key[:-3]))
        ):
            return LEFT_TO_CHAIN
        if self._no_edns and key[-1] & KEY_EDNS:
            return LEFT_TO_CHAIN
        label = key[first:end]
        if label == _PODS:
            if not first:
                return LEFT_TO_CHAIN
            if key[second + 1 : first] in names.namespaces and (
                not second or _may_be_address(key[third + 1 : second])
            ):
                return LEFT_TO_CHAIN
        elif label != _SERVICES:
            if label in _UNLISTED:
                return LEFT_TO_CHAIN
        elif not first:
            return LEFT_TO_CHAIN
        else:
            namespace = key[second + 1 : first]
            if namespace in names.namespaces:
                if not second:
                    return LEFT_TO_CHAIN
                hashes = names.services.get(namespace, {}).get(key[third + 1 : second])
                if hashes is not None and _may_exist_below(hashes, key, third):
                    return LEFT_TO_CHAIN
        return kind + (template.size + end + len(zone) + 4 << SIZE_SHIFT)

    def is_listed(self, key: bytes) -> bool:
        """Whether a key is that of the name of an existing Service, or of one of its endpoints."""
        end = len(key) - 3 - len(self.zone)
        if not 0 < end <= MAX_NAME_LEN - len(self.zone) or not key.startswith(self.zone, end):
            return False
        starts, at = [], 0
        while at < end:
            starts.append(at)
            at += _STEPS[key[at]]
        names = self._names
        if at != end or len(starts) not in (3, 4) or key[starts[-1] : end] != _SERVICES:
            return False
        service, namespace, last = starts[-3:]
        within = key[namespace + 1 : last]
        if not names.open or within not in names.namespaces:
            return False
        hashes = names.services.get(within, {}).get(key[service + 1 : namespace])
        return hashes is not None and (not service or has_label(hashes, key[:service]))

    def answer(
        self, kind: int, query: bytes, end: int, form: Form, limit: int | None
    ) -> tuple[bytes, int]:
        """The reply to a name that find() has found absent, and its kind over UDP and IPv4.

        The question ends at `end`; `limit` None: the limit is the query's over UDP.
        """
        template = self._template
        assert template is not None, "find() has found a name absent"
        if form.limit > self._max_payload:
            form = lower_size(form, self._max_payload)
        limit = form.limit if limit is None else limit
        record = template.record(end, self._names.serial)
        reply = write(query, end, form, limit, template.header, record)
        return reply, kind | len(query) << LENGTH_SHIFT | form.do

    def set_template(self, plain: PlainQuery, query: bytes, reply: bytes, size: int) -> bool:
        """Make a template from a reply of the chain; return False if the reply cannot be one."""
        if not self._is_above(plain.qname):
            return False
        found = SoaTemplate.of(len(self.zone), plain, query, reply, size)
        self._template = self._template if found is None else found
        return found is not None

    def _is_above(self, qname: bytes) -> bool:
        end, at = len(qname) - len(self.zone), 0
        while at < end:
            at += _STEPS[qname[at]]
        return 0 < end == at and qname.endswith(self.zone)

    def _is_excluded(self, qname: bytes) -> bool:
        at = 0
        while qname[at:] not in self._exclusions:
            if not qname[at]:
                return False
            at += 1 + qname[at]
        return True


@dataclass(eq=False)
class SoaTemplate:
    """The SOA record of a reply of the chain.

    `size` is the length of the reply without compression and without question.  `body` is the record after its owner,
    `serial_at` an offset in it; `pointers` have an offset in it, and the target, counted from the end of the question.
    """

    _zone_len: int
    header: Header
    _body: bytes
    _serial_at: int
    _pointers: tuple[tuple[int, int], ...]
    size: int
    _serial: int = -1
    _records: dict[int, bytes] = field(default_factory=dict)  # by where a question ends

    @classmethod
    def of(
        cls, zone_len: int, plain: PlainQuery, query: bytes, reply: bytes, size: int
    ) -> Self | None:
        """Take it from a reply to a name below the zone that does not exist; None if that is not possible."""
        question = query[HEADER_LEN : plain.end]
        outline = read_outline(question, reply)
        if (
            outline is None
            or outline.flags & _RCODE != Rcode.NXDOMAIN
            or outline.counts != _COUNTS
            or size < len(question)
        ):
            return None
        end = plain.end
        soa = next(walk(reply, end, 1))
        if (
            soa.rrtype != RRType.SOA
            or reply[soa.owner_end + 2 : soa.owner_end + 4] != _CLASS_IN
            or soa.owner_end != end + 2
            or soa.pointer != end - 4 - zone_len
        ):
            return None
        pointers = []
        at = soa.rdata
        try:
            for _ in range(2):
                start = at
                at, target = step_over_name(reply, at)
                if target is None:
                    continue
                if not end <= target < start:
                    return None
                pointers.append((at - 2 - soa.owner_end, target - end))
        except BadRecords:
            return None
        serial = soa_serial(reply, soa)
        if serial is None or soa.end - end > _MAX_RECORD_LEN:
            return None
        body, serial_at = reply[soa.owner_end : soa.end], serial - soa.owner_end
        header, rest = header_of(outline.flags, _COUNTS), size - len(question)
        return cls(zone_len, header, body, serial_at, tuple(pointers), rest)

    def record(self, end: int, serial: int) -> bytes:
        """The SOA record for a question that ends at this offset."""
        if serial != self._serial:
            self._serial = serial
            self._records.clear()
        found = self._records.get(end)
        if found is None:
            found = self._records[end] = self._make_record(end, serial)
        return found

    def _make_record(self, end: int, serial: int) -> bytes:
        body = bytearray(self._body)
        body[self._serial_at : self._serial_at + 4] = serial.to_bytes(4, "big")
        for at, target in self._pointers:
            body[at : at + 2] = (_POINTER | end + target).to_bytes(2, "big")
        return (_POINTER | end - 4 - self._zone_len).to_bytes(2, "big") + bytes(body)


def _may_be_address(label: bytes) -> bool:
    """Return whether a label may be an address, or one with dashes; False for labels that certainly are none."""
    return not label.translate(None, _IN_ADDRESSES) and (b"." in label or label.count(b"-") > 1)


def _may_exist_below(hashes: Hashes, key: bytes, end: int) -> bool:
    """Return whether the labels to the left of a Service, up to `end`, are listed for it."""
    if not end:
        return True
    at = first = second = 0
    while at < end:
        second, first = first, at
        at += _STEPS[key[at]]
    nearest = key[first:end]
    if not first:
        return has_label(hashes, nearest)
    if not second:
        return has_port(hashes, key[1:first], nearest[1:])
    return nearest == _TOPOLOGY and has_label(hashes, nearest)
