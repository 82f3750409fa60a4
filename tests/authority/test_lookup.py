"""What neither tests/scenarios/file nor tests/plugins/dialogues/file.txt can say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hsdns.authority.lookup import Result, answer, find
from hsdns.authority.zone import Zone
from hsdns.chain import Request
from hsdns.cluster.freshness import Dependencies, NoCounters
from hsdns.wire.iana import RRType, type_from_text
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, reply, rr

ORIGIN = Name.from_text("example.org.")
SOA = "example.org. 60 IN SOA ns. host. 7 7200 3600 1209600 300"
ZONE = Zone(
    ORIGIN,
    map(
        rr,
        [
            SOA,
            "away.example.org. 60 IN CNAME www.example.net.",
            "*.w.example.org. 60 IN A 192.0.2.2",
        ],
    ),
)


async def outside(request: Request) -> Reply:
    return reply(["www.example.net. 5 IN A 192.0.2.9"], fresh=True)


def test_what_an_alias_leads_to_in_the_cluster_is_not_for_the_answer_table() -> None:
    dependencies = Dependencies(NoCounters())
    request = make_request("away.example.org.").replace(dependencies=dependencies)
    found, _ = finish(answer(ZONE, request, outside))
    assert found.fresh
    assert not dependencies.is_cacheable


def test_the_wildcard_is_metadata() -> None:
    request = make_request("x.w.example.org.").replace(metadata={})
    finish(answer(ZONE, request, outside))
    assert request.metadata is not None
    assert {label: value() for label, value in request.metadata.items()} == {
        "zone/wildcard": "*.w.example.org."
    }


owners = st.lists(st.sampled_from(["a", "b", "*", "c"]), max_size=3)


@given(st.lists(st.tuples(owners, st.sampled_from(["A", "TXT"])), max_size=8), owners)
def test_a_wildcard_stands_only_for_what_does_not_exist(
    records: list[tuple[list[str], str]], asked: list[str]
) -> None:
    """RFC 4592 section 3.3.1 by another algorithm: search the closest encloser from below."""
    rdata = {"A": bytes(4), "TXT": b"\1x"}
    made = [
        RR(
            Name.from_text(".".join([*labels, "example.org."])),
            type_from_text(rrtype),
            1,
            rdata[rrtype],
        )
        for labels, rrtype in records
    ]
    zone = Zone(ORIGIN, [rr(SOA), *made])
    qname = Name.from_text(".".join([*asked, "example.org."]))
    existing = {ancestor for record in made for ancestor in record.owner.ancestors()} | {
        ORIGIN.lower
    }
    source = qname.lower
    if source not in existing:
        encloser = next(each for each in qname.ancestors() if each in existing)
        source = b"\1*" + encloser
    expected = [
        record.rdata
        for record in made
        if record.owner.lower == source and record.rrtype == RRType.A
    ]
    found = find(zone, qname, RRType.A, do=False)
    assert [record.rdata for record in found.answer] == expected
    assert all(record.owner == qname for record in found.answer)
    if not expected:
        assert (found.result == Result.NXDOMAIN) == (source not in existing)
