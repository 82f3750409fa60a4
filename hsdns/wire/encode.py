"""Encoder for replies and queries: compressed, and truncated to the client's limit.

Path: step 6, the inverse of decode.py.
Rule 1: replies are always compressed; SRV targets never are (RFC 2782), but other names may point to them.
Rule 2: a name in RDATA never points into the question, so its case does not depend on the client's; an owner may, and
        so has the client's case (0x20).  The fast path relies on this when it replaces the question.
Rule 3: records that do not fit are left out from the end, and TC is set (CoreDNS, miekg/dns msg_truncate.go).  The OPT
        record always fits, if necessary without its options.
Rule 4: Extended DNS Errors follow the other options, for clients that sent an OPT record.  They are the first to go:
        without room for them beside all records, they are left out and TC is set (RFC 8914 section 3).
Rule 5: thousands of records are written in columns, or in several turns of the loop if they are not alike.

reply_size() is for `log` and `prometheus`:
Rule: the length is that of the chain's reply: uncompressed, not truncated, without the OPT record that the server
      adds (CoreDNS 1.14.7 measures with miekg/dns Msg.Len before its ScrubWriter; an OPT record from an upstream
      counts, because the reply already has it then).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from hsdns.turns import another_turn
from hsdns.wire.edns import OPT_FIXED_LEN, Edns, with_options
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import CD, QR, RD, RR, TC, Query, Reply, pieces, reply_flags
from hsdns.wire.name import Name
from hsdns.wire.rdata import COMPRESSIBLE, RECORD_HEAD

MAX_TCP_LEN: Final = 65535
MIN_UDP_LEN: Final = 512
MAX_UDP_LEN: Final = 65507  # payload of an IPv4 datagram
_HEADER: Final = struct.Struct("!HHHHHH")
_LEAST_RECORD: Final = 12  # octets: a pointer as owner, type, class, ttl, rdlength
_MANY: Final = 64  # records from which on a look at all of them before they are written saves time
_POINTER_SPACE: Final = 0x4000  # RFC 1035 section 4.1.4: 14 bits of offset


def udp_limit(query: Query, reply: Reply | None = None) -> int:
    """Return the client's limit for a reply over UDP in octets (RFC 6891 section 6.2.3), or that set by a handler."""
    size = query.edns.payload_size if query.edns is not None else MIN_UDP_LEN
    if reply is not None and reply.edns is not None:
        size = min(size, reply.edns.payload_size)
    return min(MAX_UDP_LEN, max(MIN_UDP_LEN, size))


def encode(query: Query, reply: Reply, limit: int) -> bytes:
    """Encode the reply to a query in at most `limit` octets."""
    writer, opt = _begin(query, reply, limit)
    write = writer.write
    counts = write(reply.answer), write(reply.authority), write(reply.additional)
    return _end(query, reply, limit, writer, opt, counts)


async def encode_in_turns(query: Query, reply: Reply, limit: int) -> bytes:
    """Encode as encode() does, but in other turns of the loop, AT_ONCE records that are not alike in each."""
    writer, opt = _begin(query, reply, limit)
    counts = []
    for section in (reply.answer, reply.authority, reply.additional):
        if section:
            await another_turn()
        written = writer.write_alike(section)
        if written is None:
            written = 0
            for piece in pieces(section):
                written += writer.write(piece)
                await another_turn()
        counts.append(written)
    return _end(query, reply, limit, writer, opt, counts)


def _begin(query: Query, reply: Reply, limit: int) -> tuple[_Writer, bytes]:
    """The writer of the records, and the OPT record without Extended DNS Errors; empty if the reply has none."""
    opt = b""
    edns = reply.edns or query.edns
    if edns is not None:
        if reply.edns_options is not None:
            opt = _opt_with_options(edns, reply.edns_options, reply.rcode >> 4)
        else:
            opt = edns.to_wire(reply.rcode >> 4)
        if len(opt) > limit - 12 - len(query.question_wire):
            opt = Edns(edns.payload_size, do=edns.do).to_wire(reply.rcode >> 4)
    return _Writer(query.qname, 12 + len(query.question_wire), limit - len(opt)), opt


def _end(
    query: Query, reply: Reply, limit: int, writer: _Writer, opt: bytes, counts: Sequence[int]
) -> bytes:
    """Join the parts of the reply."""
    is_cut = writer.full
    if reply.extended_errors and query.edns is not None:
        if is_cut or writer.at + len(opt) + len(reply.extended_errors) > limit:
            is_cut = True
        else:
            opt = with_options(opt, reply.extended_errors)
    flags = QR | query.flags & 0x7800 | reply_flags(query, reply, is_cut=is_cut) | reply.rcode & 15
    answer, authority, additional = counts
    header = _HEADER.pack(query.id, flags, 1, answer, authority, additional + (1 if opt else 0))
    return b"".join((header, query.question_wire, *writer.parts, opt))


def encode_badvers(query: Query, edns: Edns) -> bytes:
    """Make a BADVERS reply to another EDNS version: question, OPT of version 0 and size 0 (RFC 6891 section 6.1.3)."""
    flags = QR | query.flags & 0x7800 | query.flags & (RD | CD)
    header = _HEADER.pack(query.id, flags, 1, 0, 0, 1)
    return header + query.question_wire + Edns(0).to_wire(Rcode.BADVERS >> 4)


def encode_query(query: Query, query_id: int) -> bytes:
    """Encode a query to another server, with a new ID and all its EDNS options."""
    opt = b""
    if query.edns is not None:
        opt = _opt_with_options(query.edns, query.edns.options, 0)
    header = _HEADER.pack(query_id, query.flags & ~QR, 1, 0, 0, 1 if opt else 0)
    return header + query.question_wire + opt


def _opt_with_options(
    edns: Edns, options: tuple[tuple[int, bytes], ...], extended_rcode: int
) -> bytes:
    data = b"".join(struct.pack("!HH", code, len(value)) + value for code, value in options)
    fixed = Edns(edns.payload_size, edns.version, edns.do).to_wire(extended_rcode)
    return fixed[: OPT_FIXED_LEN - 2] + len(data).to_bytes(2, "big") + data


class _Writer:
    """Writes records until one does not fit; tracks the offsets of names for compression."""

    __slots__ = ("_owners", "_qname", "_rdata_names", "_room", "at", "full", "parts")

    def __init__(self, qname: Name, start: int, room: int) -> None:
        self.parts: list[bytes] = []
        self.full = False
        self._qname = qname
        self.at = start
        self._room = room
        # Lower-case suffix -> offset, including the question's.
        self._owners: dict[bytes, int] | None = None
        self._rdata_names: dict[bytes, int] = {}  # exact suffix -> offset, of names in RDATA only

    def write(self, records: Sequence[RR]) -> int:
        """Write records of a section; return how many fitted."""
        if self.full or not records:
            return 0
        if len(records) >= _MANY:
            written = self.write_alike(records)
            if written is not None:
                return written
        count, at, parts, room, qname_lower = 0, self.at, self.parts, self._room, self._qname.lower
        for owner, rrtype, ttl, rdata, rrclass in records:
            lower = owner.lower
            head = (
                b"\xc0\x0c" if lower == qname_lower and len(lower) > 2 else self._owner(owner, at)
            )
            body_at = at + len(head) + 10
            body, names = (
                self._compressed(rrtype, rdata, body_at) if rrtype in COMPRESSIBLE else (rdata, ())
            )
            end = body_at + len(body)
            if end > room:
                self.full = True
                break
            if len(head) > 2:
                written = len(head) - 2 if head[-2] >= 0xC0 and head != owner.wire else len(head)
                self._remember(self._known_owners(), owner.lower, at, written)
            for name, offset in names:
                self._remember(self._rdata_names, name, offset)
            if rrtype == RRType.SRV:
                self._remember(self._rdata_names, rdata[6:], body_at + 6)
            parts.append(head + RECORD_HEAD.pack(rrtype, rrclass, ttl, len(body)) + body)
            at = end
            count += 1
        self.at = at
        return count

    def write_alike(self, records: Sequence[RR]) -> int | None:
        """Write many records as write() does, but in columns; None if they do not differ in their RDATA only."""
        if self.full:
            return 0
        if len(records) < _MANY:
            return None
        owner, rrtype, ttl, first, rrclass = records[0]
        if (
            rrtype in COMPRESSIBLE
            or rrtype == RRType.SRV
            or owner.lower != self._qname.lower
            or len(owner.lower) <= 2
        ):
            return None
        length = len(first)
        rdata: list[bytes] = []
        # No more than may fit are looked at; none is shorter than a pointer and the fixed fields.
        for piece in pieces(records[: max(self._room - self.at, 0) // _LEAST_RECORD + 1]):
            owners, types, ttls, of_piece, classes = zip(*piece, strict=True)
            if (
                {*map(id, owners)} != {id(owner)}
                or {*types} != {rrtype}
                or {*ttls} != {ttl}
                or {*classes} != {rrclass}
                or {*map(len, of_piece)} != {length}
            ):
                return None
            rdata += of_piece
        head = b"\xc0\x0c" + RECORD_HEAD.pack(rrtype, rrclass, ttl, length)
        size = len(head) + length
        count = min(len(records), (self._room - self.at) // size)
        self.full = count < len(records)
        if count:
            self.parts.append(head + head.join(rdata[:count]))
            self.at += count * size
        return count

    def _known_owners(self) -> dict[bytes, int]:
        if self._owners is None:
            self._owners = {}
            if self._qname.lower != b"\0":
                self._remember(self._owners, self._qname.lower, 12)
        return self._owners

    def _owner(self, owner: Name, at: int) -> bytes:
        """Return an owner, compressed with any earlier name."""
        known, ours, wire, lower = self._known_owners(), self._rdata_names, owner.wire, owner.lower
        cut = 0
        while length := lower[cut]:
            suffix = lower[cut:]
            offset = known.get(suffix) or ours.get(suffix)
            if offset is not None:
                return wire[:cut] + (0xC000 | offset).to_bytes(2, "big")
            cut += 1 + length
        return wire

    def _compressed(
        self, rrtype: int, rdata: bytes, at: int
    ) -> tuple[bytes, list[tuple[bytes, int]]]:
        """Return RDATA with its names compressed, and these names with their offsets."""
        before, count, after = COMPRESSIBLE[rrtype]
        out, names, cut = rdata[:before], [], before
        ours = dict(self._rdata_names) if count > 1 else self._rdata_names
        for _ in range(count):
            start = cut
            while length := rdata[cut]:
                cut += 1 + length
            cut += 1
            name = rdata[start:cut]
            written = _compress(name, ours)
            names.append((name, at + len(out)))
            if count > 1:
                self._remember(ours, name, at + len(out))
            out += written
        return out + rdata[len(rdata) - after :] if after else out, names

    @staticmethod
    def _remember(known: dict[bytes, int], name: bytes, offset: int, written: int = 255) -> None:
        """Record the offsets of a name's suffixes, within the first `written` octets, which are uncompressed."""
        at = 0
        while (length := name[at]) and at < written:
            if offset + at >= _POINTER_SPACE:
                return
            suffix = name[at:]
            if suffix in known:
                return
            known[suffix] = offset + at
            at += 1 + length


def _compress(name: bytes, known: dict[bytes, int]) -> bytes:
    cut = 0
    while length := name[cut]:
        offset = known.get(name[cut:])
        if offset is not None:
            return name[:cut] + (0xC000 | offset).to_bytes(2, "big")
        cut += 1 + length
    return name


MANY_RECORDS: Final = 1000
_HEADER_LEN: Final = 12
_wire: Final = attrgetter("wire")
_RR_FIXED_LEN: Final = 10  # type 2, class 2, ttl 4, rdlength 2
_OPTION_FIXED_LEN: Final = 4  # code 2, length 2


def reply_size(query: Query, reply: Reply) -> int:
    """Return the length of the uncompressed reply in octets."""
    size = _HEADER_LEN + len(query.question_wire)
    for section in (reply.answer, reply.authority, reply.additional):
        for piece in pieces(section) if section else ():
            owners, _, _, rdata, _ = zip(*piece, strict=True)
            size += _RR_FIXED_LEN * len(piece) + sum(map(len, rdata))
            size += sum(map(len, map(_wire, owners)))
    if reply.edns_options is not None:
        size += OPT_FIXED_LEN
        for _, data in reply.edns_options:
            size += _OPTION_FIXED_LEN + len(data)
    return size


def is_big(reply: Reply) -> bool:
    """Whether to look at each of its records takes about a millisecond or more."""
    return len(reply.answer) + len(reply.authority) + len(reply.additional) >= MANY_RECORDS


def is_truncated(query: Query, reply: Reply, protocol: str) -> bool:
    """Whether the client will see TC, set by an upstream or because records do not fit."""
    if reply.tc:
        return True
    limit = MAX_TCP_LEN if protocol == "tcp" else udp_limit(query, reply)
    longest = reply_size(query, reply)
    edns = reply.edns or query.edns
    if edns is not None and reply.edns_options is None:
        longest += OPT_FIXED_LEN + len(edns.echoed_options())
    if query.edns is not None:
        longest += len(reply.extended_errors)
    # Only a reply that might not fit is encoded to find out.
    return longest > limit and bool(encode(query, reply, limit)[2] & TC >> 8)
