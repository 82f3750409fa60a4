"""Outline of a reply: its rcode, the types of its records and their smallest TTL, without decoding a record.

Path: server/doh_message.py, for max-age; a reply of 64 KB is walked over, not taken apart.
Rule 1: names and RDATA are skipped, not checked: the replies are those that this server has encoded.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import MAX_LABEL_LEN, ROOT

HEADER_LEN: Final = 12
_SIGNATURE_LEN: Final = 18  # octets of an RRSIG record before its names (RFC 4034 section 3.1)
_POINTER: Final = 0xC0


class Outline(NamedTuple):
    """`reply` has one record of each type and each RRSIG record; `ttl` in seconds, None without records."""

    reply: Reply
    ttl: int | None


def outline(wire: bytes) -> Outline | None:
    """Walk over a reply with one question; None if it is malformed."""
    try:
        return _outline(wire)
    except IndexError:
        return None


def _outline(wire: bytes) -> Outline | None:
    if wire[4:6] != b"\0\1":
        return None
    size = len(wire)
    at = _after_name(wire, HEADER_LEN) + 4
    rcode = wire[3] & 15
    smallest: int | None = None
    sections = []
    for cell in (6, 8, 10):
        records: list[RR] = []
        seen = set()
        for _ in range(wire[cell] << 8 | wire[cell + 1]):
            # Most owners are a pointer; this is done for each of up to 4,000 records.
            at = at + 2 if wire[at] >= _POINTER else _after_name(wire, at)
            rrtype = wire[at] << 8 | wire[at + 1]
            ttl = int.from_bytes(wire[at + 4 : at + 8], "big")
            start = at + 10
            at = start + (wire[at + 8] << 8 | wire[at + 9])
            if at > size:
                return None
            if rrtype == RRType.OPT:
                rcode |= ttl >> 24 << 4
                continue
            if smallest is None or ttl < smallest:
                smallest = ttl
            if rrtype == RRType.RRSIG:
                records.append(RR(ROOT, rrtype, ttl, wire[start : min(at, start + _SIGNATURE_LEN)]))
            elif rrtype not in seen:
                seen.add(rrtype)
                records.append(RR(ROOT, rrtype, ttl, b""))
        sections.append(tuple(records))
    answer, authority, additional = sections
    reply = Reply(rcode=rcode, answer=answer, authority=authority, additional=additional)
    return Outline(reply, smallest)


def _after_name(wire: bytes, at: int) -> int:
    """Return the offset after a name, without following pointers; raise IndexError."""
    while (length := wire[at]) != 0:
        if length > MAX_LABEL_LEN:
            return at + 2
        at += 1 + length
    return at + 1
