"""Timed replies: the TTL that is left in every record, until they expire."""

from types import ModuleType

import pytest

from hsdns.wire.edns import Edns
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import AD, RD, RR, Reply, nodata
from hsdns.wire.name import Name
from tests.fastpath.twins import WEB, TableUnderTest, addresses, ask, soa, to_wire

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
