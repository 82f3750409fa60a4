"""How a stored reply is written for a query: octet for octet as encode() would have.

Timed replies: the TTL that is left in every record, until they expire.
"""

from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsdns.fastpath.key import read_query
from hsdns.wire.decode import decode
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode, encode_query, udp_limit
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import AD, CD, RD, RR, TC, Query, Reply, nodata
from hsdns.wire.name import Name
from tests import strategies
from tests.fastpath.twins import BOTH, WEB, TableUnderTest, addresses, ask, soa, to_wire
from tests.support.effort import tries


def modules() -> list[ModuleType]:
    """The twins that are there; hypothesis cannot be given a fixture for each example."""
    return [pytest.importorskip(str(each.values[0])) for each in BOTH if not is_skipped(each)]


def is_skipped(row: object) -> bool:
    return any(mark.name == "skipif" and mark.args[0] for mark in row.marks)  # type: ignore[attr-defined] # pytest's ParameterSet has no public type


def recased(query: Query, upper: bool) -> Query:
    """The same question in another case."""
    wire = bytes(
        octet ^ 0x20 if chr(octet).isalpha() and octet < 128 and (index % 2 or upper) else octet
        for index, octet in enumerate(query.qname.wire)
    )
    return Query.ask(Name(wire), query.qtype, query_id=query.id, flags=query.flags, edns=query.edns)


def fresh(reply: Reply, serial: int) -> Reply:
    """The reply with the serial of now in its SOA records."""

    def renewed(rr: RR) -> RR:
        if rr.rrtype != RRType.SOA:
            return rr
        return rr._replace(rdata=rr.rdata[:-20] + serial.to_bytes(4, "big") + rr.rdata[-16:])

    return reply.replace(
        **{
            section: tuple(map(renewed, getattr(reply, section)))
            for section in ("answer", "authority", "additional")
        }
    )


@given(st.data())
@settings(max_examples=tries(25))
def test_a_hit_is_what_encode_makes(data: st.DataObject) -> None:
    query = data.draw(strategies.queries())
    reply = Reply(
        rcode=data.draw(st.sampled_from([0, 3])),
        answer=data.draw(strategies.sections),
        authority=data.draw(strategies.sections),
        additional=data.draw(strategies.sections),
        aa=data.draw(st.booleans()),
        ra=data.draw(st.booleans()),
        ad=data.draw(st.booleans()),
    )
    serial = data.draw(st.integers(0, 2**32 - 1))
    other_edns = query.edns and data.draw(
        st.builds(
            Edns,
            payload_size=st.sampled_from([0, 512, 600, 1232, 65535]),
            do=st.just(query.edns.do),
            options=strategies.edns_options,
        )
    )
    other = Query.ask(
        recased(query, data.draw(st.booleans())).qname,
        query.qtype,
        query_id=data.draw(st.integers(0, 65535)),
        flags=query.flags & CD | data.draw(st.sampled_from([0, RD, AD, RD | AD])),
        edns=other_edns,
    )
    wires = [encode_query(each, each.id) for each in (query, other)]
    limits = data.draw(st.lists(st.integers(512, 3000), min_size=1, max_size=3))
    rotate = data.draw(st.booleans())
    for twin in modules():
        under_test = TableUnderTest(twin)
        under_test.names.serial = serial
        plain = all(read_query(wire) is not None for wire in wires)
        if not under_test.store(wires[0], reply, rotate=False):
            assert not plain or len(to_wire(wires[0], reply)) > 16384
            continue
        for limit in (*limits, udp_limit(other), 65535):
            expected = encode(decode(wires[1]), fresh(reply, serial), limit)
            found = under_test.lookup(wires[1], limit)
            assert found == (expected if plain else None)
        # What rotates is cut like everything else; the orders are test_table.py's.
        assert under_test.store(wires[0], reply, rotate=rotate)
        if plain:
            found = under_test.lookup(wires[1], limits[0])
            assert found is not None
            assert len(found) <= limits[0]


BIG = Edns(4096, options=((10, b"12345678"), (65001, b"dropped"), (3, b"")))


@pytest.mark.parametrize("edns", [None, Edns(0), BIG], ids=["plain", "EDNS", "options"])
def test_every_limit(twin: ModuleType, edns: Edns | None) -> None:
    query = ask(edns=edns)
    full = addresses(query, 40).replace(
        authority=(soa(5),), additional=(RR(Name.from_text(f"ns.{WEB}"), 28, 5, bytes(16)),) * 3
    )
    under_test = TableUnderTest(twin)
    under_test.names.serial = 5
    assert under_test.store(query, full)
    whole = len(to_wire(query, full))
    assert whole > 800
    for limit in [*range(100, whole + 2), 65535]:
        found = under_test.lookup(query, limit)
        assert found == to_wire(query, full, limit), limit
        assert found is not None
        assert bool(found[2] & TC >> 8) is (limit < whole)


@pytest.mark.parametrize("limit", [40, 60, 70, 80])
def test_options_without_room_are_left_out(twin: ModuleType, limit: int) -> None:
    query = ask(edns=BIG)
    under_test = TableUnderTest(twin)
    assert under_test.store(query, addresses(query))
    found = under_test.lookup(query, limit)
    # Not even the question fits into the smallest of these: what must be there is there all the same.
    assert found == to_wire(query, addresses(query), limit)


def test_every_serial_is_the_current_one(twin: ModuleType) -> None:
    query = ask("cluster.local.", RRType.SOA)
    reply = Reply(answer=(soa(1),), authority=(soa(2),), additional=(soa(3),), aa=True)
    under_test = TableUnderTest(twin)
    assert under_test.store(query, reply)
    for serial in (0, 1, 1, 0xFFFFFFFF, 7, 7, 7, 7, 8):
        under_test.names.serial = serial
        for _ in range(3):
            assert under_test.lookup(query) == to_wire(query, fresh(reply, serial))


ALIAS = RR(Name.from_text(WEB), RRType.CNAME, 5, Name.from_text("x.org.").wire)
REPLIES = {
    "addresses": addresses(ask(), 3),
    "alias": Reply(answer=(ALIAS, *addresses(ask("x.org."), 2).answer), ra=True),
    "three sections": Reply(
        answer=addresses(ask()).answer,
        authority=(soa(7),),
        additional=addresses(ask("other.org."), 2).answer,
    ),
    "denial": nodata(soa(9)),
    "failure": Reply(rcode=Rcode.SERVFAIL),
    "large": addresses(ask(), 100),
}


def with_ttl(reply: Reply, ttl: int) -> Reply:
    return reply.replace(
        **{
            section: tuple(rr._replace(ttl=ttl) for rr in getattr(reply, section))
            for section in ("answer", "authority", "additional")
        }
    )


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize("rotate", [False, True])
def test_ttl_is_counted_down(twin: ModuleType, reply: Reply, rotate: bool) -> None:
    under_test = TableUnderTest(twin)
    forms = [ask(), ask(flags=0), ask(WEB.upper()), ask(edns=Edns(512))]
    for query in forms:
        assert under_test.store(
            query,
            reply,
            timed=(100.25, 7, 107.25),
            names=None,
            rotate=rotate and len(reply.answer) == 1,
        )
    for now, ttl in ((100.25, 7), (101.0, 7), (101.25, 6), (101.5, 6), (106.25, 1), (107.0, 1)):
        expected = with_ttl(reply, ttl)
        for _ in range(5):
            for query in forms:
                for limit in (65535, 300, 100):
                    assert under_test.lookup(query, limit, now=now) == to_wire(
                        query, expected, limit
                    )
    for query in forms:
        assert under_test.lookup(query, now=107.25) is None
        assert under_test.lookup(query, now=1e9) is None
    assert under_test.table.statistics().stale >= len(forms)


def test_it_is_no_hit_before_its_ttl_has_run_out(twin: ModuleType) -> None:
    under_test, query = TableUnderTest(twin), ask()
    assert under_test.store(query, addresses(query), timed=(50.0, 30, 60.5))
    for _ in range(5):
        assert under_test.lookup(query, now=60.25) == to_wire(query, with_ttl(addresses(query), 20))
    assert under_test.lookup(query, now=60.5) is None


def test_ttl_of_zero_stands_for_ttls_that_stay(twin: ModuleType) -> None:
    under_test, query = TableUnderTest(twin), ask()
    assert under_test.store(query, addresses(query), timed=(50.0, 0, 80.0))
    for now in (50.0, 51.0, 79.9):
        for _ in range(5):
            assert under_test.lookup(query, now=now) == to_wire(query, addresses(query))
    assert under_test.lookup(query, now=80.0) is None


@pytest.mark.parametrize("limit", [65535, 150])
def test_ad_is_for_those_who_ask_for_it(twin: ModuleType, limit: int) -> None:
    under_test = TableUnderTest(twin)
    reply = addresses(ask(), 20).replace(ad=True)
    for edns in (None, Edns(1232), Edns(1232, do=True)):
        assert under_test.store(ask(edns=edns), reply, timed=(0.0, 5, 9.0))
    for _ in range(5):
        for query, ad in (
            (ask(), False),
            (ask(flags=RD | AD), True),
            (ask(edns=Edns(1232)), False),
            (ask(edns=Edns(1232), flags=AD), True),
            (ask(edns=Edns(1232, do=True)), True),
        ):
            expected = to_wire(query, reply.replace(ad=ad), limit)
            assert under_test.lookup(query, limit, now=0.5) == expected


@pytest.mark.parametrize("ttl", [-1, 1 << 32])
def test_a_ttl_has_32_bits(twin: ModuleType, ttl: int) -> None:
    under_test, query = TableUnderTest(twin), ask()
    with pytest.raises(OverflowError):
        under_test.store(query, addresses(query), timed=(0.0, ttl, 9.0))
