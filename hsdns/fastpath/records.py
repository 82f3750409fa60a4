"""The records of a reply to be stored: their offsets, and whether the reply can be stored.

Path: table.py and negative_zone.py when they store; for a hit only cut() runs, and only if the reply must be truncated.
Twin of native/src/records.rs.
Rule 1: a reply can be stored if it is complete: QR set, TC clear, NOERROR, NXDOMAIN, SERVFAIL or NOTIMP, the question
        octet for octet, all records within the message, nothing after the last one.
Rule 2: its OPT, if any, is the last record; it is removed, because each client gets an OPT of its own.
Rule 3: names are skipped, not followed; the pointer of an owner points backward, to the question or to an earlier
        record (RFC 1035 section 4.1.4).
Rule 4: the addresses of an answer can rotate if they are its last records, have equal lengths, and their owner is a
        pointer to a name before all of them: the question, or the target of a CNAME record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.iana import ADDRESSES, Rcode, RRType
from hsdns.wire.message import CD, QR, RD, TC
from hsdns.wire.name import MAX_LABEL_LEN, MAX_NAME_LEN

MAX_STORED_LEN: Final = 16384  # pointers reach every name in it
_FIXED_LEN: Final = 10  # type 2, class 2, ttl 4, rdlength 2
_TTL_AT: Final = 4  # from the end of the owner
_SOA_NUMBERS_LEN: Final = 20  # serial first
_OPCODE: Final = 0x7800
_RCODE: Final = 0x000F
_RCODES: Final = frozenset({Rcode.NOERROR, Rcode.SERVFAIL, Rcode.NXDOMAIN, Rcode.NOTIMP})


class BadRecords(Exception):
    """Octets that are not valid records."""


class Record(NamedTuple):
    """The offsets of a record; `pointer` is the target of its owner's pointer, if it ends in one."""

    start: int
    owner_end: int
    pointer: int | None
    rrtype: int
    rdata: int
    end: int


class Rotation(NamedTuple):
    """The addresses that can rotate: the length of each, the offset of the first in the records, and their number."""

    step: int
    first: int
    turns: int


NO_ROTATION: Final = Rotation(0, 0, 0)


class Outline(NamedTuple):
    """The stored parts of a reply.

    `flags` are without RD and CD, `counts` and `records` without OPT; `serials` are the offsets of SOA serials within
    `records`.
    """

    flags: int
    counts: tuple[int, int, int]
    records: bytes
    serials: tuple[int, ...]
    rotation: Rotation


def read_outline(question: bytes, reply: bytes) -> Outline | None:
    """Examine the reply to a question; None if it cannot be stored."""
    start = HEADER_LEN + len(question)
    if not start <= len(reply) <= MAX_STORED_LEN:
        return None
    if reply[4:6] != b"\0\1" or reply[HEADER_LEN:start] != question:
        return None
    flags = reply[2] << 8 | reply[3]
    if flags & (QR | _OPCODE | TC) != QR or flags & _RCODE not in _RCODES:
        return None
    answer, authority, additional = (reply[at] << 8 | reply[at + 1] for at in (6, 8, 10))
    try:
        found = list(walk(reply, start, answer + authority + additional))
    except BadRecords:
        return None
    if (found[-1].end if found else start) != len(reply):
        return None
    if found and found[-1].rrtype == RRType.OPT:
        opt = found.pop()
        # Root as owner, extended RCODE 0.
        if not additional or opt.owner_end != opt.start + 1 or reply[opt.owner_end + 4]:
            return None
        additional -= 1
    serials = []
    for record in found:
        if record.rrtype == RRType.OPT:
            return None
        if record.pointer is not None and not HEADER_LEN <= record.pointer < record.start:
            return None
        if record.rrtype == RRType.SOA:
            serial = soa_serial(reply, record)
            if serial is None:
                return None
            serials.append(serial - start)
    return Outline(
        flags & ~(RD | CD),
        (answer, authority, additional),
        reply[start : found[-1].end if found else start],
        tuple(serials),
        _rotation(reply, found[:answer], start),
    )


def walk(wire: bytes, start: int, count: int) -> Iterator[Record]:
    """Skip this many records; raise BadRecords if one is incomplete."""
    for _ in range(count):
        owner_end, pointer = step_over_name(wire, start)
        rdata = owner_end + _FIXED_LEN
        if rdata > len(wire):
            raise BadRecords
        end = rdata + (wire[rdata - 2] << 8 | wire[rdata - 1])
        if end > len(wire):
            raise BadRecords
        rrtype = wire[owner_end] << 8 | wire[owner_end + 1]
        yield Record(start, owner_end, pointer, rrtype, rdata, end)
        start = end


def step_over_name(wire: bytes, start: int) -> tuple[int, int | None]:
    """Return the offset after a name and its pointer's target; raise BadRecords if it is no name."""
    at = start
    while at - start < MAX_NAME_LEN and at < len(wire):
        length = wire[at]
        if length == 0:
            return at + 1, None
        if length >= 0xC0:
            if at + 2 > len(wire):
                break
            return at + 2, (length & 0x3F) << 8 | wire[at + 1]
        if length > MAX_LABEL_LEN:
            break
        at += 1 + length
    raise BadRecords


def soa_serial(wire: bytes, record: Record) -> int | None:
    """The offset of a SOA record's serial; None if its RDATA is not two names and five numbers."""
    rdata = wire[: record.end]
    try:
        mname_end, _ = step_over_name(rdata, record.rdata)
        at, _ = step_over_name(rdata, mname_end)
    except BadRecords:
        return None
    return at if at + _SOA_NUMBERS_LEN == record.end else None


def cut(
    records: bytes, counts: tuple[int, int, int], room: int
) -> tuple[int, tuple[int, int, int]]:
    """The number of octets of complete records that fit in `room`, and of these records in each section."""
    end, fitting, left = 0, 0, sum(counts)
    for record in walk(records, 0, left):
        if record.end > room:
            break
        end = record.end
        fitting += 1
    answer = min(counts[0], fitting)
    authority = min(counts[1], fitting - answer)
    return end, (answer, authority, fitting - answer - authority)


def with_ttl(records: bytes, count: int, ttl: int) -> bytes:
    """The records with another TTL, in seconds."""
    octets = ttl.to_bytes(4, "big")
    changed = bytearray(records)
    for record in walk(records, 0, count):
        at = record.owner_end + _TTL_AT
        changed[at : at + 4] = octets
    return bytes(changed)


def _rotation(reply: bytes, answer: list[Record], start: int) -> Rotation:
    """The addresses of an answer that can rotate; offsets from `start`."""
    fixed = next((at for at, each in enumerate(answer) if each.rrtype in ADDRESSES), len(answer))
    rotating = answer[fixed:]
    if len(rotating) < 2:
        return NO_ROTATION
    first = rotating[0]
    owner = reply[first.start : first.owner_end]
    length = first.end - first.start
    same = all(
        record.rrtype == first.rrtype
        and record.end - record.start == length
        and reply[record.start : record.owner_end] == owner
        for record in rotating
    )
    is_movable = len(owner) == (
        1 if first.pointer is None else 2
    )  # the root, or nothing but a pointer
    return (
        Rotation(length, first.start - start, len(rotating)) if is_movable and same else NO_ROTATION
    )
