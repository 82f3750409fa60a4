"""Query and Reply: the messages within the server, as immutable values.

Path: between steps 3 and 6; handlers pass only these to each other.  `log` selects by outcome() what to log,
`cache` checks with is_answered() what it stores.
Rule 1: a handler that changes a reply makes a copy (`reply.replace(...)`).
Rule 2: a Reply has no ID, question or OPT of its own; encode() takes them from the query, so that a Reply can be used
        for many queries.

Extended DNS Errors (RFC 8914):
Source: for with_extended_error() CoreDNS 1.14.7 plugin/template, miekg/dns SetEdns0: the reply has an OPT record with
DO and size 4096, even if the query has none.

Outcomes of replies (positive, NODATA, referral, error):
Source: CoreDNS 1.14.7 plugin/pkg/response typify.go; RFC 2308 section 2, RFC 4035 section 5.3.1 (signature times).

CNAME chains:
Source: RFC 1034 section 3.6.2, RFC 2181 section 10.1, RFC 2308 section 2.2; CoreDNS 1.14.7 plugin/cache/cache.go.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, Self, cast

import msgspec

from hsdns.turns import AT_ONCE
from hsdns.wire.edns import Edns
from hsdns.wire.iana import Opcode, OptCode, Rcode, RRClass, RRType
from hsdns.wire.name import Name

QR = 0x8000
AA = 0x0400
TC = 0x0200
RD = 0x0100
RA = 0x0080
AD = 0x0020
CD = 0x0010


class RR(NamedTuple):
    """A resource record; `ttl` in seconds, `rdata` in uncompressed wire form."""

    owner: Name
    rrtype: int
    ttl: int
    rdata: bytes
    rrclass: int = RRClass.IN


# RR(*fields) from one iterable and without a Python call, for thousands of them.
make_record: Final = cast("Callable[[Iterable[Any]], RR]", partial(tuple.__new__, RR))


def make_records(*columns: Iterable[Any]) -> list[RR]:
    """Records from the columns of their fields, of which the shortest one counts."""
    rows = zip(*columns, strict=False)
    made: list[RR] = []
    while piece := [*map(make_record, islice(rows, AT_ONCE))]:
        made += piece
    return made


def pieces(records: Sequence[RR]) -> Iterator[Sequence[RR]]:
    """The records, AT_ONCE at a time."""
    if len(records) <= AT_ONCE:
        return iter((records,) if records else ())
    return (records[at : at + AT_ONCE] for at in range(0, len(records), AT_ONCE))


class Replaceable(msgspec.Struct, frozen=True):
    """Values that are copied with changes."""

    def replace(self, **changes: object) -> Self:
        """Copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)


class Query(Replaceable, frozen=True, gc=False):
    """A decoded query.

    `question_wire` is the question section as received (with its case), `flags` the second 16 bits of the header,
    `size` the length of the message in octets.  `whole` is the message itself if it has a record in its authority
    section (IXFR) or a TSIG record, which the other fields do not contain; else it is empty.
    """

    id: int
    flags: int
    qname: Name
    qtype: int
    qclass: int
    question_wire: bytes
    edns: Edns | None = None
    size: int = 0
    whole: bytes = b""

    @classmethod
    def ask(
        cls,
        qname: Name,
        qtype: int,
        *,
        query_id: int = 0,
        flags: int = RD,
        edns: Edns | None = None,
    ) -> Self:
        """Make a query of class IN."""
        question = qname.wire + qtype.to_bytes(2, "big") + RRClass.IN.to_bytes(2, "big")
        return cls(query_id, flags, qname, qtype, RRClass.IN, question, edns, 12 + len(question))

    @property
    def opcode(self) -> int:
        """QUERY or NOTIFY; decode() refuses all others."""
        return self.flags >> 11 & 15

    @property
    def rd(self) -> bool:
        """Recursion desired."""
        return bool(self.flags & RD)

    @property
    def cd(self) -> bool:
        """Checking disabled."""
        return bool(self.flags & CD)

    @property
    def do(self) -> bool:
        """DNSSEC OK (RFC 3225)."""
        return self.edns is not None and self.edns.do


class Signer(Protocol):
    """Appends a record of authentication to each message of a reply, in order (TSIG)."""

    room: int  # maximum length of that record in octets

    def __call__(self, message: bytes) -> bytes:
        """Return the message with its record."""


class Reply(Replaceable, frozen=True):
    """The result of the chain.

    `error` is the message that the `errors` plugin logs.  `written` is False if no handler made a reply and the server
    makes one with that rcode (AA clear, no records).  `fresh` means that the records come from the current cluster
    state: a cache may store the reply but must query again.  `still_holds` is called before a cached copy is used: a
    name that did not exist in the cluster, and was resolved elsewhere, may exist now.
    `extended_errors` are options that say why the reply is as it is (RFC 8914), for clients with EDNS only.
    `edns_options` replaces the echoed options if an upstream sent its own.  `edns` replaces the query's EDNS for the
    size and DO of the reply's OPT record, which exists then even if the query had none; replies do not grow to that
    size. `rd` replaces the query's RD.  `dropped`: send no reply.
    `following` are the answer sections of further messages, consumed as the client reads them: a zone transfer over a
    stream (RFC 5936 section 2.2); otherwise they are ignored and the first message has TC.  `sign` is applied last to
    each message.
    """

    rcode: int = Rcode.NOERROR
    answer: tuple[RR, ...] = ()
    authority: tuple[RR, ...] = ()
    additional: tuple[RR, ...] = ()
    aa: bool = False
    ra: bool = False
    ad: bool = False
    tc: bool = False
    error: str | None = None
    written: bool = True
    fresh: bool = False
    still_holds: Callable[[], bool] | None = None
    extended_errors: bytes = b""
    edns_options: tuple[tuple[int, bytes], ...] | None = None
    edns: Edns | None = None
    rd: bool | None = None
    dropped: bool = False
    following: Iterator[tuple[RR, ...]] | None = None
    sign: Signer | None = None

    def held(self, holds: Callable[[], bool]) -> Reply:
        """Return a copy that also requires `holds` (see `still_holds`)."""
        before = self.still_holds
        return self.replace(still_holds=holds if before is None else lambda: before() and holds())

    def leading_to(self, target: Reply) -> Reply:
        """Return a copy for an alias: it holds as long as the reply for its target, whose records it contains."""
        reply = self.replace(fresh=True) if target.fresh else self
        return reply if target.still_holds is None else reply.held(target.still_holds)


def unwritten(rcode: int, error: str | None = None) -> Reply:
    """Return a reply that the server makes because no handler did: no AA, no SOA (CoreDNS plugin.ClientWrite)."""
    return Reply(rcode=rcode, error=error, written=False)


def reply_flags(query: Query, reply: Reply, *, is_cut: bool) -> int:
    """Return the bits after the opcode; RD and CD are those of a query of opcode QUERY, unless a handler set RD."""
    copied = query.flags & (RD | CD) if query.opcode == Opcode.QUERY else 0
    if reply.rd is not None:
        copied = copied | RD if reply.rd else copied & ~RD
    return (
        copied
        | (AA if reply.aa else 0)
        | (TC if reply.tc or is_cut else 0)
        | (RA if reply.ra else 0)
        | (AD if reply.ad else 0)
    )


def nodata(soa: RR) -> Reply:
    """Make a NODATA reply: the name exists, the type does not (RFC 2308 section 2.2)."""
    return Reply(authority=(soa,), aa=True)


def nxdomain(soa: RR) -> Reply:
    """Make an NXDOMAIN reply: the name does not exist (RFC 2308 section 2.1)."""
    return Reply(rcode=Rcode.NXDOMAIN, authority=(soa,), aa=True)


def is_notify(query: Query) -> bool:
    """Whether the query is a NOTIFY (RFC 1996), which the chain handles like any other."""
    return query.opcode == Opcode.NOTIFY


PAYLOAD_SIZE: Final = 4096


class InfoCode:
    """The INFO-CODEs that hsdns has reasons for (RFC 8914 section 4)."""

    OTHER: Final = 0
    STALE_ANSWER: Final = 3
    NOT_READY: Final = 14
    STALE_NXDOMAIN: Final = 19
    NOT_SUPPORTED: Final = 21


def to_option(code: int, text: str) -> bytes:
    """Return the EDNS option of an error in wire form, for Reply.extended_errors; its EXTRA-TEXT is UTF-8."""
    data = code.to_bytes(2, "big") + text.encode()
    return OptCode.EDE.to_bytes(2, "big") + len(data).to_bytes(2, "big") + data


def with_extended_error(query: Query, reply: Reply, code: int, text: str = "") -> Reply:
    """Return the reply with this error as the only option of its OPT record."""
    edns = replace(query.edns, do=True) if query.edns is not None else Edns(PAYLOAD_SIZE, do=True)
    return reply.replace(
        edns=edns, edns_options=((OptCode.EDE, code.to_bytes(2, "big") + text.encode()),)
    )


TRANSFERS: Final = frozenset({RRType.AXFR, RRType.IXFR})
_SIGNATURE_TIMES: Final = struct.Struct("!8xII")  # RFC 4034 section 3.1: expiration, inception


class Outcome(Enum):
    """Classes of replies."""

    POSITIVE = "positive"
    NODATA = "nodata"
    NXDOMAIN = "nxdomain"
    DELEGATION = "delegation"
    META = "meta"  # NOTIFY and zone transfers
    SERVER_ERROR = "server error"  # SERVFAIL and NOTIMP
    # Other rcodes, no reply, expired signatures, contradictory sections.
    OTHER_ERROR = "other error"


def outcome(query: Query, reply: Reply | None, wall: Callable[[], float] | None) -> Outcome:
    """Classify a reply, None if there is none; `wall` is called only for signatures, None: these do not count."""
    if reply is None:
        return Outcome.OTHER_ERROR
    if is_notify(query) or query.qtype in TRANSFERS:
        return Outcome.META
    if wall is not None and query.do and _is_expired(reply, wall):
        return Outcome.OTHER_ERROR
    rcode = reply.rcode
    if reply.answer and rcode == Rcode.NOERROR:
        return Outcome.POSITIVE
    if reply.answer and rcode == Rcode.NXDOMAIN:
        return Outcome.OTHER_ERROR
    if rcode == Rcode.NXDOMAIN:
        return Outcome.NXDOMAIN
    if rcode in (Rcode.SERVFAIL, Rcode.NOTIMP):
        return Outcome.SERVER_ERROR
    if rcode != Rcode.NOERROR:
        return Outcome.OTHER_ERROR
    types = {rr.rrtype for rr in reply.authority}
    if RRType.SOA in types:
        return Outcome.NODATA
    return Outcome.DELEGATION if RRType.NS in types else Outcome.POSITIVE


def _is_expired(reply: Reply, wall: Callable[[], float]) -> bool:
    """Whether any signature is outside its validity period, in the serial arithmetic of RFC 1982."""
    for section in (reply.answer, reply.authority, reply.additional):
        for rr in section:
            if rr.rrtype == RRType.RRSIG and len(rr.rdata) >= 18:
                expiration, inception = _SIGNATURE_TIMES.unpack_from(rr.rdata)
                now = int(wall())
                if (now - inception) % 2**32 >= 2**31 or (expiration - now) % 2**32 >= 2**31:
                    return True
    return False


def follow(answer: Sequence[RR], start: bytes, qclass: int = RRClass.IN) -> bytes | None:
    """Return the lower-case wire form of the name at the end of the chain; None if the chain forks or loops."""
    targets: dict[bytes, bytes | None] = {}
    for rr in answer:
        if rr.rrtype == RRType.CNAME and qclass in (rr.rrclass, RRClass.ANY):
            owner, target = rr.owner.lower, rr.rdata.lower()
            targets[owner] = target if targets.get(owner, target) == target else None
    name = start
    for _ in range(len(targets) + 1):
        if name not in targets:
            return name
        following = targets[name]
        if following is None:
            return None
        name = following
    return None


def is_answered(query: Query, answer: Sequence[RR]) -> bool:
    """Whether the answer has records of the query's type at the end of the CNAME chain that starts at its name.

    CNAME is answered by a CNAME of the name itself, ANY by any record of the name.
    """
    qtype, qclass, name = query.qtype, query.qclass, query.qname.lower
    if qtype == RRType.CNAME:
        own = {
            rr.rdata.lower()
            for rr in answer
            if rr.rrtype == qtype and rr.owner.lower == name and qclass in (rr.rrclass, RRClass.ANY)
        }
        return len(own) == 1
    if len(answer) == 1:  # nothing to follow
        (only,) = answer
        return (
            qtype in (only.rrtype, RRType.ANY)
            and only.owner.lower == name
            and qclass in (only.rrclass, RRClass.ANY)
        )
    end = name if qtype == RRType.ANY else follow(answer, name, qclass)
    return end is not None and any(
        qtype in (rr.rrtype, RRType.ANY)
        and rr.owner.lower == end
        and qclass in (rr.rrclass, RRClass.ANY)
        for rr in answer
    )
