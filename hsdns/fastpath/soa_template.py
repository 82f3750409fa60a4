"""The reply to every name that has no records: the SOA record of the zone, made from one such reply of the chain.

Path: step 2; negative_zone.py and pod_names.py have one for each rcode.  Twin of native/src/soa_template.rs.
Rule: the SOA's owner points at the zone's labels in the question, pointers within its RDATA move with the question's
      length, and its serial is the current one.
"""

from __future__ import annotations

from typing import Final, Self

from hsdns.fastpath.key import PlainQuery
from hsdns.fastpath.records import BadRecords, read_outline, soa_serial, step_over_name, walk
from hsdns.fastpath.shared_header import heads_of
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.iana import RRType

COUNTS: Final = (0, 1, 0)
RCODE: Final = 0x000F
CLASS_IN: Final = b"\0\1"

_POINTER: Final = 0xC000
# Two names and some numbers; pointers reach offsets up to 16,383.
_MAX_RECORD_LEN: Final = 600


class SoaTemplate:
    """The SOA record of a reply of the chain.

    `heads` are the header after the ID for each variant of query (key.py).  `size` is the length of the reply without
    compression and without question.
    """

    def __init__(
        self,
        zone_len: int,
        flags: int,
        body: bytes,
        serial_at: int,
        pointers: tuple[tuple[int, int], ...],
        size: int,
    ) -> None:
        """`body` is the record after its owner, `serial_at` an offset in it.

        `pointers` have an offset in it, and the target, counted from the end of the question.
        """
        self.flags = flags
        self.heads = heads_of(flags, COUNTS)
        self.size = size
        self._zone_len = zone_len
        self._body = body
        self._serial_at = serial_at
        self._pointers = pointers
        self._serial = -1
        # Where a question ends -> the SOA record for it.
        self._records: dict[int, bytes] = {}

    @classmethod
    def of(
        cls, zone_len: int, plain: PlainQuery, query: bytes, reply: bytes, rcode: int, size: int
    ) -> Self | None:
        """Take it from a reply with this rcode to a name below the zone; None if that is not possible."""
        question = query[HEADER_LEN : plain.end]
        outline = read_outline(question, reply)
        if (
            outline is None
            or outline.flags & RCODE != rcode
            or outline.counts != COUNTS
            or size < len(question)
        ):
            return None
        end = plain.end
        soa = next(walk(reply, end, 1))
        if (
            soa.rrtype != RRType.SOA
            or reply[soa.owner_end + 2 : soa.owner_end + 4] != CLASS_IN
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
        return cls(zone_len, outline.flags, body, serial_at, tuple(pointers), size - len(question))

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
