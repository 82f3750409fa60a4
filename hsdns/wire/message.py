"""Query and Reply: what came in and what goes out, as frozen values.

Path: between steps 3 and 6; the only things that handlers pass to each other.
Rule 1: both are immutable; a handler that changes a reply makes a new one (`reply.replace(...)`).
Rule 2: a Reply holds no ID, no question and no OPT of its own; encode() takes those from the query, so that one Reply
        can serve many queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, Self

import msgspec

from hsdns.wire.edns import Edns
from hsdns.wire.iana import Opcode, Rcode, RRClass
from hsdns.wire.name import Name

QR = 0x8000
AA = 0x0400
TC = 0x0200
RD = 0x0100
RA = 0x0080
AD = 0x0020
CD = 0x0010


class RR(NamedTuple):
    """One resource record.  `ttl` in seconds; `rdata` in wire form, its names uncompressed."""

    owner: Name
    rrtype: int
    ttl: int
    rdata: bytes
    rrclass: int = RRClass.IN


class Query(msgspec.Struct, frozen=True, gc=False):
    """A question and what its message said beside it.

    `question_wire` is the question section as sent (its case included), `flags` the header's second 16 bits,
    `size` the octets of the whole message.  `whole` is the message itself where it holds more than these fields show:
    a record in its authority section (IXFR) or a TSIG record; else it is empty.
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
        """Make a query of our own in class IN."""
        question = qname.wire + qtype.to_bytes(2, "big") + RRClass.IN.to_bytes(2, "big")
        return cls(query_id, flags, qname, qtype, RRClass.IN, question, edns, 12 + len(question))

    @property
    def opcode(self) -> int:
        """QUERY or NOTIFY; decode lets nothing else pass."""
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

    def replace(self, **changes: object) -> Query:
        """Copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)


class Signer(Protocol):
    """Puts a record at the end of each message of a reply, in their order, that proves where they come from (TSIG)."""

    room: int  # octets that it takes of each message at most

    def __call__(self, message: bytes) -> bytes:
        """The message with its record."""


class Reply(msgspec.Struct, frozen=True):
    """What the chain found.

    `error` is the sentence that the `errors` plugin logs.  `written` is False where no handler made a message and the
    server fills in a bare one with that rcode (AA clear, no records).  `fresh` says that the records were computed
    from the newest cluster state: a cache may count them but must ask again.  `still_holds` is asked before a stored
    copy is used: a name that the cluster did not have, and so was asked for elsewhere, may have come up.
    `edns_options` stands in for the echoed ones where an upstream sent its own.  `edns` stands in for the query's: for
    the size and the DO that the OPT record shows, and its size is room that is not to be used up; with it there is an
    OPT record even where the query has none.  `rd` stands in for the query's RD.  `dropped`: send nothing at all.
    `following` are the answer sections of more messages, taken one by one as the client reads them: a zone transfer
    over a stream (RFC 5936 section 2.2); elsewhere nobody takes them and the first message has TC.  `sign` is the last
    to see each message.
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
    edns_options: tuple[tuple[int, bytes], ...] | None = None
    edns: Edns | None = None
    rd: bool | None = None
    dropped: bool = False
    following: Iterator[tuple[RR, ...]] | None = None
    sign: Signer | None = None

    def replace(self, **changes: object) -> Reply:
        """Copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)

    def held(self, holds: Callable[[], bool]) -> Reply:
        """Copy that holds only as long as this does too."""
        before = self.still_holds
        return self.replace(still_holds=holds if before is None else lambda: before() and holds())

    def leading_to(self, target: Reply) -> Reply:
        """Copy with what says how long the reply for its alias's target holds; that one's records are in it."""
        reply = self.replace(fresh=True) if target.fresh else self
        return reply if target.still_holds is None else reply.held(target.still_holds)


def unwritten(rcode: int, error: str | None = None) -> Reply:
    """A reply that the server makes because no handler did: no AA, no SOA (CoreDNS plugin.ClientWrite)."""
    return Reply(rcode=rcode, error=error, written=False)


def copied_flags(query: Query, reply: Reply) -> int:
    """RD and CD as the reply shows them: the query's (of a QUERY only), but for what a handler made of RD."""
    copied = query.flags & (RD | CD) if query.opcode == Opcode.QUERY else 0
    if reply.rd is None:
        return copied
    return copied | RD if reply.rd else copied & ~RD


def nodata(soa: RR) -> Reply:
    """The name exists, this type does not (RFC 2308 section 2.2)."""
    return Reply(authority=(soa,), aa=True)


def nxdomain(soa: RR) -> Reply:
    """The name does not exist (RFC 2308 section 2.1)."""
    return Reply(rcode=Rcode.NXDOMAIN, authority=(soa,), aa=True)


def is_notify(query: Query) -> bool:
    """Tell whether the query is a NOTIFY (RFC 1996), which goes through the chain like any other."""
    return query.opcode == Opcode.NOTIFY
