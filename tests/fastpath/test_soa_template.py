"""Which replies can be the template of all that have no records."""

from types import ModuleType

import pytest

from hsdns.wire.edns import Edns
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Reply, nodata, nxdomain, unwritten
from hsdns.wire.name import Name
from hsdns.wire.rdata import soa as soa_rdata
from tests.fastpath.twins import ZONE, TableUnderTest, addresses, ask, soa, to_wire

NX = "nope.cluster.local."
LONG = ".".join(["x" * 63] * 3 + ["y" * 40]) + ".cluster.local."


@pytest.mark.parametrize(
    "text", [NX, "a.b.c.d.nope.cluster.local.", LONG], ids=["short", "deep", "long"]
)
@pytest.mark.parametrize("edns", [None, Edns(512, do=True)], ids=["plain", "DO"])
def test_any_reply_makes_the_same_template(twin: ModuleType, text: str, edns: Edns | None) -> None:
    under_test = TableUnderTest(twin)
    under_test.add_negative_zone()
    assert under_test.set_template(text=text, edns=edns)
    for asked in (NX, "b.a.cluster.local.", LONG):
        assert under_test.lookup(ask(asked)) == to_wire(ask(asked), nxdomain(soa(0)))


def test_a_template_has_no_case(twin: ModuleType) -> None:
    under_test = TableUnderTest(twin)
    under_test.add_negative_zone()
    assert under_test.set_template(text="NOPE.CLUSTER.LOCAL.")
    query = ask("x.cLuster.local.")
    assert under_test.lookup(query) == to_wire(query, nxdomain(soa(0)))


OTHER = Name.from_text("sub.cluster.local.")
QUERY = ask(NX)
END = len(QUERY)
GOOD = to_wire(QUERY, nxdomain(soa()))
# An RNAME that points at the zone in the question.
INTO = soa_rdata(Name.from_text("ns."), Name.from_text("."), 1, 2, 3, 4, 5)
_POINTING = INTO[:4] + b"\xc0\x11" + INTO[5:]
REFUSED = {
    "a query that is not plain": (ask("."), GOOD),
    "a name outside": (ask("nope.org."), to_wire(ask("nope.org."), nxdomain(soa()))),
    "the apex": (ask("cluster.local."), to_wire(ask("cluster.local."), nxdomain(soa()))),
    "the reply to another question": (ask("other.cluster.local."), GOOD),
    "no data": (QUERY, to_wire(QUERY, nodata(soa()))),
    "REFUSED": (QUERY, to_wire(QUERY, unwritten(5))),
    "no SOA": (QUERY, to_wire(QUERY, Reply(rcode=3))),
    "an answer beside it": (
        QUERY,
        to_wire(QUERY, nxdomain(soa()).replace(answer=addresses(QUERY).answer)),
    ),
    "two SOA": (QUERY, to_wire(QUERY, nxdomain(soa()).replace(authority=(soa(), soa())))),
    "SOA as additional": (QUERY, to_wire(QUERY, Reply(rcode=3, additional=(soa(),)))),
    "another type": (
        QUERY,
        to_wire(QUERY, nxdomain(RR(ZONE, RRType.TXT, 5, b"\1x"))),
    ),
    "SOA of another class": (QUERY, to_wire(QUERY, nxdomain(soa()._replace(rrclass=3)))),
    "SOA of another zone": (
        ask("x.sub.cluster.local."),
        to_wire(ask("x.sub.cluster.local."), nxdomain(soa(zone=OTHER))),
    ),
    "an owner in full": (QUERY, GOOD[:END] + ZONE.wire + GOOD[END + 2 :]),
    "RDATA that points into the question": (
        QUERY,
        GOOD[: END + 10] + len(_POINTING).to_bytes(2, "big") + _POINTING,
    ),
    "half a record": (QUERY, GOOD[:-1]),
    "an octet behind": (QUERY, GOOD + b"\0"),
}  # fmt: skip


@pytest.mark.parametrize(("query", "reply"), REFUSED.values(), ids=REFUSED)
def test_template_is_refused(twin: ModuleType, query: bytes, reply: bytes) -> None:
    under_test = TableUnderTest(twin)
    under_test.add_negative_zone()
    assert not under_test.table.set_template(0, query, reply, 200)
    assert under_test.lookup(ask(NX)) is None
    assert under_test.table.set_template(0, QUERY, GOOD, 200)
    assert not under_test.table.set_template(0, query, reply, 200)
    assert under_test.lookup(ask(NX)) is not None, "the template that fitted stays"


def test_size_is_not_smaller_than_the_question(twin: ModuleType) -> None:
    under_test = TableUnderTest(twin)
    under_test.add_negative_zone()
    assert not under_test.table.set_template(0, QUERY, GOOD, END - 13)
