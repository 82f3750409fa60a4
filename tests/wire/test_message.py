from __future__ import annotations

from itertools import repeat

import pytest

from hsdns.turns import AT_ONCE
from hsdns.wire.edns import Edns
from hsdns.wire.iana import Rcode, RRClass, RRType
from hsdns.wire.message import (
    AA,
    CD,
    QR,
    RD,
    RR,
    Query,
    Reply,
    copied_flags,
    is_notify,
    make_records,
    nodata,
    nxdomain,
    pieces,
    unwritten,
)
from hsdns.wire.name import Name

QNAME = Name.from_text("WWW.example.org.")
SOA = RR(Name.from_text("example.org."), RRType.SOA, 5, bytes(22))


def test_ask() -> None:
    query = Query.ask(QNAME, RRType.AAAA)
    assert query.question_wire == b"\3WWW\7example\3org\0\0\x1c\0\1"
    assert (query.qname, query.qtype, query.qclass, query.size) == (QNAME, 28, RRClass.IN, 12 + 21)
    assert (query.rd, query.cd, query.do, query.opcode) == (True, False, False, 0)


@pytest.mark.parametrize(
    ("flags", "rd", "cd", "opcode"),
    [
        (0, False, False, 0),
        (RD, True, False, 0),
        (CD, False, True, 0),
        (4 << 11 | RD, True, False, 4),
    ],
    ids=["none", "rd", "cd", "notify"],
)
def test_flags(flags: int, rd: bool, cd: bool, opcode: int) -> None:
    query = Query.ask(QNAME, RRType.A, flags=flags)
    assert (query.rd, query.cd, query.opcode, is_notify(query)) == (rd, cd, opcode, opcode == 4)


@pytest.mark.parametrize(
    ("flags", "rd", "copied"),
    [
        (RD | CD | AA, None, RD | CD),
        (CD, None, CD),
        (CD, True, RD | CD),
        (RD | CD, False, CD),
        (4 << 11 | RD | CD, None, 0),
        (4 << 11, True, RD),
    ],
)
def test_copied_flags(flags: int, rd: bool | None, copied: int) -> None:
    assert copied_flags(Query.ask(QNAME, RRType.A, flags=flags), Reply(rd=rd)) == copied


def test_do_needs_edns() -> None:
    assert Query.ask(QNAME, RRType.A, edns=Edns(1232, do=True)).do
    assert not Query.ask(QNAME, RRType.A, edns=Edns(1232)).do


@pytest.mark.parametrize(
    ("reply", "rcode", "aa", "authority", "written"),
    [
        (nodata(SOA), Rcode.NOERROR, True, (SOA,), True),
        (nxdomain(SOA), Rcode.NXDOMAIN, True, (SOA,), True),
        (unwritten(Rcode.REFUSED, "why"), Rcode.REFUSED, False, (), False),
    ],
    ids=["nodata", "nxdomain", "unwritten"],
)
def test_outcomes(
    reply: Reply, rcode: int, aa: bool, authority: tuple[RR, ...], written: bool
) -> None:
    found = (reply.rcode, reply.aa, reply.answer, reply.authority, reply.additional, reply.written)
    assert found == (rcode, aa, (), authority, (), written)


def test_both_are_frozen_and_replaced() -> None:
    query, reply = Query.ask(QNAME, RRType.A), Reply(aa=True)
    with pytest.raises(AttributeError):
        query.qtype = 2  # type: ignore[misc] # that this is refused is the test
    with pytest.raises(AttributeError):
        reply.aa = False  # type: ignore[misc] # as above
    assert query.replace(qtype=2).qtype == 2
    assert query.qtype == 1
    assert reply.replace(rcode=3) == Reply(rcode=3, aa=True)
    assert QR | AA == 0x8400


@pytest.mark.parametrize("count", [0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE, 1000])
def test_many_records_are_made_and_taken_some_at_a_time(count: int) -> None:
    rdata = [number.to_bytes(4, "big") for number in range(count)]
    made = make_records(repeat(QNAME), repeat(1), repeat(30), rdata, repeat(1))
    assert made == [RR(QNAME, 1, 30, each) for each in rdata]
    assert all(type(each) is RR for each in made)
    taken = [*pieces(made)]
    assert [record for piece in taken for record in piece] == made
    assert all(0 < len(piece) <= AT_ONCE for piece in taken)
