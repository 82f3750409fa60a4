"""Cases that are not in tests/scenarios/file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.authority.lookup import Found, Result, answer, find
from hsdns.authority.zone import Zone
from hsdns.chain import Request
from hsdns.cluster.freshness import Dependencies, NoCounters
from hsdns.wire.edns import Edns
from hsdns.wire.iana import Rcode, RRType, type_from_text
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, reply, rr, section

ORIGIN = Name.from_text("example.org.")
SOA = "example.org. 60 IN SOA ns. host. 7 7200 3600 1209600 300"
NS = "example.org. 60 IN NS ns.example.net."
ZONE = Zone(
    ORIGIN,
    map(
        rr,
        [
            SOA,
            NS,
            "away.example.org. 60 IN CNAME www.example.net.",
            "gone.example.org. 60 IN CNAME gone.example.org.",
            "apex.example.org. 60 IN CNAME example.org.",
            "d.example.org. 60 IN DNAME d.example.org.",
            f"long.example.org. 60 IN DNAME {'x' * 63}.{'y' * 63}.{'z' * 63}.",
            "*.w.example.org. 60 IN A 192.0.2.2",
            "mail.example.org. 60 IN MX 1 host.example.org.",
            "mail.example.org. 60 IN MX 2 HOST.example.org.",
            "host.example.org. 60 IN A 192.0.2.1",
            "host.example.org. 60 IN AAAA 2001:db8::1",
            "sub.example.org. 60 IN NS a.sub.example.org.",
            "a.sub.example.org. 60 IN A 192.0.2.9",
            *(f"c{at}.example.org. 60 IN CNAME c{at + 1}.example.org." for at in range(20)),
        ],
    ),
)


def look(qname: str, qtype: str = "A", zone: Zone = ZONE) -> Found:
    return find(zone, Name.from_text(qname), type_from_text(qtype), do=False)


@pytest.mark.parametrize(
    ("qname", "qtype", "target"),
    [
        pytest.param("away.example.org.", "A", "www.example.net.", id="outside"),
        pytest.param("apex.example.org.", "SOA", "example.org.", id="soa-of-the-apex"),
        pytest.param("apex.example.org.", "NS", "example.org.", id="ns-of-the-apex"),
        pytest.param("apex.example.org.", "A", None, id="type-that-the-apex-has-not"),
        pytest.param("away.example.org.", "CNAME", None, id="the-alias-itself"),
    ],
)
def test_target(qname: str, qtype: str, target: str | None) -> None:
    found = look(qname, qtype)
    assert found.target == (None if target is None else Name.from_text(target))
    assert section(found.answer)[0].startswith(qname)


@pytest.mark.parametrize(
    ("outside", "result", "answers", "authority"),
    [
        pytest.param(
            reply(["www.example.net. 5 IN A 192.0.2.7"]), Result.SUCCESS, 2, [NS], id="found"
        ),
        pytest.param(reply(rcode=Rcode.NXDOMAIN), Result.NXDOMAIN, 1, [SOA], id="nxdomain"),
        pytest.param(reply(), Result.NODATA, 1, [SOA], id="nodata"),
        pytest.param(reply(rcode=Rcode.SERVFAIL), Result.SERVFAIL, 1, [NS], id="servfail"),
        pytest.param(reply(rcode=Rcode.REFUSED), Result.SUCCESS, 1, [NS], id="refused"),
        pytest.param(Reply(dropped=True), Result.SUCCESS, 1, [NS], id="silence"),
    ],
)
def test_what_is_said_outside(
    outside: Reply, result: Result, answers: int, authority: list[str]
) -> None:
    found = look("away.example.org.").with_target(ZONE, outside, do=False)
    assert (found.result, len(found.answer), section(found.authority)) == (
        result,
        answers,
        authority,
    )
    assert (found.target, found.additional) == (None, ())


def test_additional_names_a_target_once() -> None:
    assert section(look("mail.example.org.", "MX").additional) == [
        "host.example.org. 60 IN A 192.0.2.1",
        "host.example.org. 60 IN AAAA 2001:db8::1",
    ]


def test_additional_records_of_outside_targets() -> None:
    outside = reply(["www.example.net. 5 IN MX 1 host.example.org."])
    found = look("away.example.org.", "MX").with_target(ZONE, outside, do=False)
    assert len(found.additional) == 2


def test_a_chain_of_aliases_has_an_end() -> None:
    found = look("c0.example.org.")
    assert (found.result, len(found.answer), found.target) == (Result.SUCCESS, 10, None)


@pytest.mark.parametrize(
    ("qname", "expected"),
    [
        pytest.param(
            "gone.example.org.",
            Found(
                Result.SUCCESS, (rr("gone.example.org. 60 IN CNAME gone.example.org."),), (rr(NS),)
            ),
            id="alias-of-itself",
        ),
        pytest.param("x.d.example.org.", Found(Result.SERVFAIL), id="dname-of-itself"),
    ],
)
def test_loops(qname: str, expected: Found) -> None:
    assert look(qname) == expected


def test_a_dname_that_makes_a_name_too_long() -> None:
    found = look("a." * 40 + "long.example.org.")
    assert (found.result, section(found.answer)[0][:16]) == (Result.TOO_LONG, "long.example.org")
    assert len(found.answer) == 1


def test_the_clients_case_does_not_matter() -> None:
    assert look("HOST.Example.ORG.") == look("host.example.org.")


def test_the_apex_without_a_type_exists() -> None:
    zone = Zone(ORIGIN, [rr(SOA)])
    assert look("example.org.", "A", zone) == Found(Result.NODATA, authority=(rr(SOA),))
    assert look("example.org.", "NS", zone) == Found(Result.NODATA, authority=(rr(SOA),))


def test_a_zone_at_the_root() -> None:
    root = Zone(Name.from_text("."), map(rr, [". 1 IN SOA a. b. 1 1 1 1 1", "*. 1 IN A 192.0.2.1"]))
    assert section(look("x.y.", "A", root).answer) == ["x.y. 1 IN A 192.0.2.1"]


class Outside:
    """A Runtime.resolve that always returns the same reply."""

    def __init__(self, found: Reply) -> None:
        self.found = found
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        return self.found


def test_outside_names_are_resolved_with_the_clients_edns() -> None:
    resolve, edns = Outside(Reply()), Edns(1400, do=True)
    finish(answer(ZONE, make_request("away.example.org.", edns=edns, depth=2), resolve))
    (asked,) = resolve.requests
    assert (asked.query.qname.to_text(), asked.query.edns, asked.depth) == (
        "www.example.net.",
        edns,
        3,
    )


def test_what_an_alias_leads_to_in_the_cluster_stays_fresh() -> None:
    is_held = True
    target = reply(["www.example.net. 5 IN A 192.0.2.9"], fresh=True).held(lambda: is_held)
    dependencies = Dependencies(NoCounters())
    request = make_request("away.example.org.").replace(dependencies=dependencies)
    found, _ = finish(answer(ZONE, request, Outside(target)))
    assert found.fresh
    assert not dependencies.is_cacheable
    assert found.still_holds is not None
    assert found.still_holds()
    is_held = False
    assert not found.still_holds()


def test_the_wildcard_is_metadata() -> None:
    request = make_request("x.w.example.org.").replace(metadata={})
    finish(answer(ZONE, request, Outside(Reply())))
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
