"""Decoder for messages: a query to a Query, or to the reason for its refusal; the reply of another server to a Reply.

Path: step 3, `server -> [fastpath] -> decode`; upstream/exchange.py decodes the replies of upstreams;
server/http/doh.py reads the outline of a reply for max-age.
Rule 1: the 12-octet header is checked first (in the order of CoreDNS 1.14.7, miekg/dns DefaultMsgAcceptFunc).  So a
        hostile packet costs microseconds: at most one question and four records are visited, RDATA is skipped, and a
        name in a record ends at its first pointer.
Rule 2: any bytes give a Query or BadQuery, nothing else (tests/wire/test_decode.py, with hypothesis).

Replies of other servers:
Rule 1: the reply must have QR set and the question of the query, in any case (RFC 5452 section 9.1).  The connection
        checks the ID.
Rule 2: RDATA is returned uncompressed: _NAMES has every type whose names miekg/dns, and so CoreDNS 1.14.7,
        decompresses; all others are opaque (RFC 3597 section 4).
Rule 3: the cost is bounded by the length of the message: pointers only go backwards, and decoded names are cached.
        Thousands of records of one RRset are decoded in columns, others in several turns of the loop.

The outline of a reply (rcode, types of records, smallest TTL) decodes no record, because it may have 64 KB:
Rule: names and RDATA are skipped, not checked: the replies are those that this server has encoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product, repeat
from typing import Final, NamedTuple

from hsdns.turns import AT_ONCE, another_turn
from hsdns.wire.edns import DO, Edns, read_options
from hsdns.wire.iana import Opcode, Rcode, RRType
from hsdns.wire.message import AA, AD, QR, RA, RD, RR, TC, Query, Reply, make_record, make_records
from hsdns.wire.name import MAX_LABEL_LEN, MAX_NAME_LEN, ROOT, Name, after_name
from hsdns.wire.rdata import RECORD_HEAD

HEADER_LEN: Final = 12
# CoreDNS reads 512 octets over UDP and 65,535 over TCP; 4,096 has room for all options of a client and bounds the
# cost on both.
MAX_QUERY_LEN: Final = 4096


# One question, at most one record in answer or authority, at most two additional records.
_COUNTS: Final = frozenset(
    bytes((0, 1, 0, answers, 0, authorities, 0, others))
    for answers, authorities, others in product((0, 1), (0, 1), (0, 1, 2))
)


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
    if wire[4:12] not in _COUNTS or size > MAX_QUERY_LEN:
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


MAX_POINTERS: Final = 126  # per name, as in miekg/dns

# Instead of a number of octets: three character-strings (NAPTR, RFC 3403 section 4.1).
_STRINGS: Final = -1
_REST: Final = -2  # instead of a number of octets: any octets up to the end

# The names in RDATA: octets before them (after which _STRINGS may follow), number of names, octets after them.
_NAMES: Final[dict[int, tuple[tuple[int, ...], int, int]]] = {
    RRType.NS: ((), 1, 0),
    3: ((), 1, 0),  # MD
    4: ((), 1, 0),  # MF
    RRType.CNAME: ((), 1, 0),
    RRType.SOA: ((), 2, 20),
    7: ((), 1, 0),  # MB
    8: ((), 1, 0),  # MG
    9: ((), 1, 0),  # MR
    RRType.PTR: ((), 1, 0),
    14: ((), 2, 0),  # MINFO
    RRType.MX: ((2,), 1, 0),
    17: ((), 2, 0),  # RP
    18: ((2,), 1, 0),  # AFSDB
    21: ((2,), 1, 0),  # RT
    24: ((18,), 1, _REST),  # SIG
    26: ((2,), 2, 0),  # PX
    30: ((), 1, _REST),  # NXT
    RRType.SRV: ((6,), 1, 0),
    RRType.NAPTR: ((4, _STRINGS), 1, 0),
    36: ((2,), 1, 0),  # KX
    RRType.DNAME: ((), 1, 0),
    RRType.RRSIG: ((18,), 1, _REST),
    RRType.NSEC: ((), 1, _REST),
    RRType.SVCB: ((2,), 1, _REST),
    RRType.HTTPS: ((2,), 1, _REST),
    107: ((2,), 1, 0),  # LP
}
ADDRESS_LENGTHS: Final[dict[int, int]] = {RRType.A: 4, RRType.AAAA: 16}


_TO_QUESTION: Final = b"\xc0\x0c"  # pointer
MANY: Final = 256  # records left from which on a run of equal ones is looked for


class BadReply(Exception):
    """A malformed reply; `is_truncated` if it only ends too early."""

    def __init__(self, message: str, *, is_truncated: bool = False) -> None:
        super().__init__(message)
        self.is_truncated = is_truncated


class WrongQuestion(BadReply):
    """A reply to another question."""


def decode_reply(wire: bytes, query: Query) -> Reply:
    """Decode the reply to a query; raise BadReply.

    Counts above the number of records are ignored, as in miekg/dns.
    """
    reader = _Reader(wire)
    for _ in reader.read(query):
        pass
    return reader.reply


class Whole(NamedTuple):
    """A reply, its OPT records as (section, record) with sections from 0, and whether its counts and length agree."""

    reply: Reply
    opts: list[tuple[int, RR]]
    agrees: bool


def decode_whole(wire: bytes, query: Query) -> Whole:
    """Decode as decode_reply() does, with what that ignores."""
    reader = _Reader(wire)
    for _ in reader.read(query):
        pass
    return Whole(reader.reply, reader.opts, reader.agrees)


async def decode_in_turns(wire: bytes, query: Query) -> Reply:
    """Decode as decode_reply() does, some of the records in each turn of the loop."""
    reader = _Reader(wire)
    for _ in reader.read(query):
        await another_turn()
    return reader.reply


def answers_question(wire: bytes, question: bytes) -> bool:
    """Whether a message, of at least HEADER_LEN octets, is a reply to this question section, or one to no question.

    Names compare in any case (RFC 5452 section 9.1), types and classes octet for octet.
    """
    if not wire[2] & QR >> 8 or wire[4]:
        return False
    if wire[5] != 1 or len(wire) == HEADER_LEN:
        return wire[5] <= 1
    found = wire[HEADER_LEN : HEADER_LEN + len(question)]
    return found == question or (
        found[-4:] == question[-4:] and found[:-4].lower() == question[:-4].lower()
    )


def decode_header(wire: bytes) -> Reply:
    """Decode only the header, and set TC, so that the client retries over TCP."""
    flags = wire[2] << 8 | wire[3]
    return Reply(
        rcode=flags & 15,
        aa=bool(flags & AA),
        ra=bool(flags & RA),
        ad=bool(flags & AD),
        tc=True,
    )


class _Reader:
    """Decodes one message; IndexError means that it ends too early."""

    __slots__ = ("_known", "_owners", "_wire", "agrees", "opts", "reply")

    def __init__(self, wire: bytes) -> None:
        self.reply: Reply
        self.agrees = True
        self.opts: list[tuple[int, RR]] = []
        self._wire = wire
        self._known: dict[int, tuple[bytes, int]] = {}  # offset -> name and the offset after it
        self._owners: dict[bytes, Name] = {}  # compression pointer -> name

    def read(self, query: Query) -> Iterator[None]:
        """Make `reply`, piece by piece."""
        wire = self._wire
        if len(wire) < HEADER_LEN:
            raise BadReply(
                f"reply of {len(wire)} octets is shorter than a header", is_truncated=True
            )
        flags = wire[2] << 8 | wire[3]
        if not flags & QR:
            raise WrongQuestion("reply is itself a query")
        questions = (wire[4] << 8 | wire[5]) if len(wire) > HEADER_LEN else 0
        if questions != 1:
            raise WrongQuestion(f"reply has {questions} questions, not 1")
        try:
            yield from self._read(query, flags)
        except IndexError:
            raise BadReply("reply ends in the middle of a record", is_truncated=True) from None

    def _read(self, query: Query, flags: int) -> Iterator[None]:
        wire = self._wire
        question = query.question_wire
        at = HEADER_LEN + len(question)
        if (
            wire[HEADER_LEN:at] == question
        ):  # nearly always, and the names that point to it are its own
            self._known[HEADER_LEN] = query.qname.wire, at - 4
            self._owners[_TO_QUESTION] = query.qname
        else:
            qname, at = self._name(HEADER_LEN)
            at += 4
            if at > len(wire):
                raise IndexError
            if qname.lower() + wire[at - 4 : at] != query.qname.lower + question[-4:]:
                raise WrongQuestion("reply has another question than the query")
        sections: list[tuple[RR, ...]] = []
        rcode = flags & 15
        options: tuple[tuple[int, bytes], ...] | None = None
        for cell in (6, 8, 10):
            left, before_run = wire[cell] << 8 | wire[cell + 1], 0
            if not left:
                sections.append(())
                continue
            records: list[RR] = []
            while left and at < len(wire):
                if left >= MANY and not before_run:
                    run, at = self._run(at, left)
                    records += run
                    left -= len(run)
                    # A look costs what the records of a message may cost, so there are few.
                    before_run = 0 if len(run) >= MANY else MANY
                    continue
                before_run -= 1 if before_run else 0
                left -= 1
                if left and left % AT_ONCE == 0:
                    yield
                record, at = self._record(at)
                if record.rrtype != RRType.OPT:
                    records.append(record)
                    continue
                self.opts.append((cell // 2 - 3, record))
                rcode = flags & 15 | record.ttl >> 24 << 4
                options = read_options(record.rdata, 0, len(record.rdata))
                if options is None:
                    raise BadReply("reply has an OPT record with a malformed option")
            if left:
                self.agrees = False
            sections.append(tuple(records))
        if at < len(wire):
            self.agrees = False
        self.reply = Reply(
            rcode=rcode,
            answer=sections[0],
            authority=sections[1],
            additional=sections[2],
            aa=bool(flags & AA),
            ra=bool(flags & RA),
            ad=bool(flags & AD),
            tc=bool(flags & TC),
            edns_options=options,
        )

    def _run(self, at: int, count: int) -> tuple[list[RR], int]:
        """The records that are as long as the first and differ from it in RDATA only; none if it has names in RDATA."""
        wire, start = self._wire, at
        owner, at = self._owner(at)
        head = at + 10 - start
        if at + 10 > len(wire):
            raise IndexError
        rrtype, rrclass, ttl, length = RECORD_HEAD.unpack_from(wire, at)
        if (
            rrtype in _NAMES
            or rrtype == RRType.OPT
            or ADDRESS_LENGTHS.get(rrtype, length) != length
        ):
            return [], start
        size = head + length
        end = start + min(count, (len(wire) - start) // size) * size
        for at in range(start, start + head):
            column = wire[at:end:size]
            alike = len(column) - len(column.lstrip(wire[at : at + 1]))
            end = min(end, start + alike * size)
        rdata = [wire[at + head : at + size] for at in range(start, end, size)]
        columns = (repeat(owner), repeat(rrtype), repeat(ttl), rdata, repeat(rrclass))
        return make_records(*columns), end

    def _owner(self, at: int) -> tuple[Name, int]:
        """Return the owner of a record and the offset after it; equal pointers give one object."""
        pointer = self._wire[at : at + 2]
        found = self._owners.get(pointer)
        if found is not None:
            return found, at + 2
        name, after = self._name(at)
        owner = Name(name)
        if pointer[0] >= 0xC0:
            self._owners[pointer] = owner
        return owner, after

    def _record(self, at: int) -> tuple[RR, int]:
        wire = self._wire
        owner, at = self._owner(at)
        start = at + 10
        if start > len(wire):
            raise IndexError
        rrtype, rrclass, ttl, length = RECORD_HEAD.unpack_from(wire, at)
        end = start + length
        if end > len(wire):
            raise IndexError
        rdata = self._rdata(rrtype, start, end) if start < end else b""
        # Empty RDATA is valid only in dynamic updates; what reads or writes such a record expects its data.
        if not rdata and (rrtype in ADDRESS_LENGTHS or rrtype in _NAMES):
            raise BadReply(f"reply has a record of type {rrtype} without data")
        return make_record((owner, rrtype, ttl, rdata, rrclass)), end

    def _rdata(self, rrtype: int, start: int, end: int) -> bytes:
        """Return RDATA with its names uncompressed."""
        wire = self._wire
        layout = _NAMES.get(rrtype)
        if layout is None:
            wanted = ADDRESS_LENGTHS.get(rrtype)
            if wanted is not None and end - start != wanted:
                raise BadReply(
                    f"reply has an address of {end - start} octets, not {wanted}",
                    is_truncated=end - start < wanted,
                )
            return wire[start:end]
        before, count, after = layout
        at = start
        for octets in before:
            if octets == _STRINGS:
                for _ in range(3):
                    at += 1 + wire[at]
            else:
                at += octets
        parts = [wire[start:at]]
        for _ in range(count):
            if at >= end:
                raise BadReply(
                    f"reply has a record of type {rrtype} without its name",
                    is_truncated=at > end,
                )
            name, at = self._name(at)
            parts.append(name)
        if at > end or (after != _REST and end - at != after):
            raise BadReply(
                f"reply has a record of type {rrtype} whose RDLENGTH does not match its data"
            )
        parts.append(wire[at:end])
        return b"".join(parts)

    def _name(self, at: int, pointers: int = 0) -> tuple[bytes, int]:
        """Return a name and the offset after it."""
        found = self._known.get(at)
        if found is not None:
            return found
        wire, start, length = self._wire, at, self._wire[at]
        while 0 < length <= MAX_LABEL_LEN:
            at += 1 + length
            length = wire[at]
            if at - start > MAX_NAME_LEN:
                break
        name = wire[start:at]
        if length == 0:
            name += b"\0"
            at += 1
        elif length >= 0xC0:
            target = (length & 0x3F) << 8 | wire[at + 1]
            if target >= start or pointers == MAX_POINTERS:
                raise BadReply("reply has a name with an invalid compression pointer")
            name += self._name(target, pointers + 1)[0]
            at += 2
        else:
            raise BadReply("reply has a name with an unknown label type")
        if len(name) > MAX_NAME_LEN:
            raise BadReply(f"reply has a name of more than {MAX_NAME_LEN} octets")
        self._known[start] = name, at
        return name, at


_SIGNATURE_LEN: Final = 18  # octets of an RRSIG record before its names (RFC 4034 section 3.1)


def outline(wire: bytes) -> tuple[Reply, int | None]:
    """Walk over a reply with one question; raise IndexError if it is malformed.

    Return one record of each type and each RRSIG record, and the smallest TTL in seconds, None without records.
    """
    if wire[4:6] != b"\0\1":
        raise IndexError
    size = len(wire)
    at = after_name(wire, HEADER_LEN) + 4
    rcode = wire[3] & 15
    smallest: int | None = None
    sections = []
    for cell in (6, 8, 10):
        records: list[RR] = []
        seen = set()
        left = wire[cell] << 8 | wire[cell + 1]
        while left:
            begin, left = at, left - 1
            at = at + 2 if wire[at] >= 0xC0 else after_name(wire, at)  # most are a pointer
            start = at + 10
            if start > size:
                raise IndexError
            rrtype, _, ttl, length = RECORD_HEAD.unpack_from(wire, at)
            at = start + length
            if rrtype == RRType.OPT:
                rcode |= ttl >> 24 << 4
                continue
            if smallest is None or ttl < smallest:
                smallest = ttl
            if rrtype == RRType.RRSIG:
                records.append(RR(ROOT, rrtype, ttl, wire[start : min(at, start + _SIGNATURE_LEN)]))
                continue
            if rrtype not in seen:
                seen.add(rrtype)
                records.append(RR(ROOT, rrtype, ttl, b""))
            head = wire[begin:start]
            while left and wire.startswith(head, at):  # up to 4,000 records differ in RDATA only
                at, left = at + len(head) + length, left - 1
        if at > size:
            raise IndexError
        sections.append(tuple(records))
    answer, authority, additional = sections
    reply = Reply(rcode=rcode, answer=answer, authority=authority, additional=additional)
    return reply, smallest
