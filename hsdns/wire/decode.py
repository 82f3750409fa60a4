"""Decoder for queries: bytes to a Query, or to the reason for its refusal.

Path: step 3, `server -> [fastpath] -> decode`.
Rule 1: the 12-octet header is checked first (in the order of CoreDNS 1.14.7, miekg/dns DefaultMsgAcceptFunc).  So a
        hostile packet costs microseconds: at most one question and four records are visited, RDATA is skipped, and a
        name in a record ends at its first pointer.
Rule 2: any bytes give a Query or BadQuery, nothing else (tests/wire/test_decode.py, with hypothesis).
"""

from __future__ import annotations

from typing import Final

from hsdns.wire.edns import DO, Edns, read_options
from hsdns.wire.iana import Opcode, Rcode, RRType
from hsdns.wire.message import QR, RD, Query
from hsdns.wire.name import MAX_LABEL_LEN, MAX_NAME_LEN, Name

HEADER_LEN: Final = 12
# CoreDNS reads 512 octets over UDP and 65,535 over TCP; 4,096 has room for all options of a client and bounds the
# cost on both.
MAX_QUERY_LEN: Final = 4096


class BadQuery(Exception):
    """A message that does not reach the chain; `reply` is the message to send back, None for no reply."""

    def __init__(self, reply: bytes | None) -> None:
        super().__init__("silence" if reply is None else f"rcode {reply[3] & 15}")
        self.reply = reply


def decode(wire: bytes) -> Query:
    """Decode a query; raise BadQuery."""
    size = len(wire)
    if size < HEADER_LEN:
        raise BadQuery(None)
    flags = wire[2] << 8 | wire[3]
    if flags & QR:
        raise BadQuery(None)
    opcode = flags >> 11 & 15
    if opcode not in (Opcode.QUERY, Opcode.NOTIFY):
        # The flags have a meaning for each opcode of its own, so not even RD is copied.
        raise _header_only(wire, flags & ~RD, Rcode.NOTIMP)
    # one question, at most one record in answer or authority, at most two additional records
    if (
        wire[4:6] != b"\0\1"
        or wire[6]
        or wire[7] > 1
        or wire[8]
        or wire[9] > 1
        or wire[10]
        or wire[11] > 2
    ):
        raise _header_only(wire, flags, Rcode.FORMERR)
    if size > MAX_QUERY_LEN:
        raise _header_only(wire, flags, Rcode.FORMERR)

    at = HEADER_LEN
    try:
        while length := wire[at]:
            # A pointer in the first name has nothing to point to; 0x40 and 0x80 are not valid label types.
            if length > MAX_LABEL_LEN:
                raise _header_only(wire, flags, Rcode.FORMERR)
            at += 1 + length
    except IndexError:
        raise _header_only(wire, flags, Rcode.FORMERR) from None
    at += 1
    if at - HEADER_LEN > MAX_NAME_LEN or at + 4 > size:
        raise _header_only(wire, flags, Rcode.FORMERR)
    qname = Name(wire[HEADER_LEN:at])
    qtype = wire[at] << 8 | wire[at + 1]
    qclass = wire[at + 2] << 8 | wire[at + 3]
    at += 4
    question = wire[HEADER_LEN:at]
    edns, whole = None, b""
    others = wire[7] + wire[9]
    if others or wire[11]:
        edns, is_signed = _find_opt(wire, at, others, wire[11], flags, question)
        if is_signed or wire[9]:
            whole = bytes(wire)
    return Query(wire[0] << 8 | wire[1], flags, qname, qtype, qclass, question, edns, size, whole)


def _find_opt(
    wire: bytes, at: int, others: int, additional: int, flags: int, question: bytes
) -> tuple[Edns | None, bool]:
    """Skip over the records after the question and return the last OPT, if any (miekg/dns IsEdns0).

    Also return whether the last record is a TSIG (RFC 8945 section 5.1).
    """
    size = len(wire)
    edns, is_signed = None, False
    for index in range(others + additional):
        if at == size:  # a count above the number of records is ignored, as in miekg/dns
            break
        start = _skip_name(wire, at)
        if start is None or start + 10 > size:
            raise _formerr(wire, flags, question)
        end = start + 10 + (wire[start + 8] << 8 | wire[start + 9])
        if end > size:
            raise _formerr(wire, flags, question)
        rrtype = wire[start] << 8 | wire[start + 1]
        is_signed = rrtype == RRType.TSIG
        if index >= others and rrtype == RRType.OPT:
            options = read_options(wire, start + 10, end)
            if options is None:
                raise _formerr(wire, flags, question)
            edns = Edns(
                payload_size=wire[start + 2] << 8 | wire[start + 3],
                version=wire[start + 5],
                do=bool((wire[start + 6] << 8 | wire[start + 7]) & DO),
                options=options,
            )
        at = end
    return edns, is_signed


def _skip_name(wire: bytes, at: int) -> int | None:
    """Return the offset after a name, without following pointers; None if it is malformed."""
    size, limit = len(wire), at + MAX_NAME_LEN
    while at < size and at < limit:
        length = wire[at]
        if length == 0:
            return at + 1
        if length >= 0xC0:
            return at + 2
        if length > MAX_LABEL_LEN:
            return None
        at += 1 + length
    return None


def _header_only(wire: bytes, flags: int, rcode: int) -> BadQuery:
    """Make a reply of a header only, with the query's ID, and opcode and RD of `flags`."""
    word = QR | flags & 0x7800 | flags & RD | rcode
    return BadQuery(wire[:2] + word.to_bytes(2, "big") + bytes(8))


def _formerr(wire: bytes, flags: int, question: bytes) -> BadQuery:
    word = QR | flags & 0x7800 | flags & RD | Rcode.FORMERR
    return BadQuery(wire[:2] + word.to_bytes(2, "big") + b"\0\1\0\0\0\0\0\0" + question)
