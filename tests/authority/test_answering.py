from __future__ import annotations

from typing import Any

import pytest

from hsdns.authority.lookup import answer, longest
from hsdns.authority.zone import Zone
from hsdns.chain import Request
from hsdns.cluster.freshness import Dependencies, NoCounters
from hsdns.wire.edns import Edns
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, reply, rr

SOA = "example.org. 60 IN SOA ns. host. 7 7200 3600 1209600 300"
NS = "example.org. 60 IN NS ns.example.net."
ZONE = Zone(
    Name.from_text("example.org."),
    map(
        rr,
        [
            SOA,
            NS,
            "www.example.org. 60 IN A 192.0.2.1",
            "*.w.example.org. 60 IN A 192.0.2.2",
            "away.example.org. 60 IN CNAME www.example.net.",
            "sub.example.org. 60 IN NS ns.example.com.",
            "into.example.org. 60 IN CNAME x.sub.example.org.",
            "d.example.org. 60 IN DNAME d.example.org.",
        ],
    ),
)
ALIAS = "away.example.org. 60 IN CNAME www.example.net."


class Outside:
    """A Runtime.resolve that always returns the same reply."""

    def __init__(self, found: Reply) -> None:
        self.found = found
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        return self.found


def ask(
    qname: str, qtype: str = "A", outside: Reply | None = None, **options: Any
) -> tuple[Reply, bool]:
    resolve = Outside(outside or Reply(rcode=Rcode.REFUSED))
    return finish(answer(ZONE, make_request(qname, qtype, **options), resolve))


@pytest.mark.parametrize(
    ("qname", "outside", "expected", "is_unknown"),
    [
        pytest.param(
            "www.example.org.",
            None,
            reply(["www.example.org. 60 IN A 192.0.2.1"], [NS], aa=True),
            False,
            id="found",
        ),
        pytest.param(
            "nope.example.org.",
            None,
            reply((), [SOA], rcode=Rcode.NXDOMAIN, aa=True),
            True,
            id="nxdomain",
        ),
        pytest.param(
            "w.example.org.", None, reply((), [SOA], aa=True), True, id="empty-non-terminal"
        ),
        pytest.param("example.org.", None, reply((), [SOA], aa=True), False, id="nodata"),
        pytest.param(
            "sub.example.org.",
            None,
            reply((), ["sub.example.org. 60 IN NS ns.example.com."]),
            False,
            id="referral",
        ),
        pytest.param(
            "into.example.org.",
            None,
            reply(
                ["into.example.org. 60 IN CNAME x.sub.example.org."],
                ["sub.example.org. 60 IN NS ns.example.com."],
                aa=True,
            ),
            False,
            id="alias-into-a-delegation",
        ),
        pytest.param(
            "away.example.org.",
            reply(rcode=Rcode.NXDOMAIN),
            reply([ALIAS], [SOA], rcode=Rcode.NXDOMAIN, aa=True),
            False,
            id="dead-alias",
        ),
        pytest.param(
            "away.example.org.",
            reply(rcode=Rcode.SERVFAIL),
            reply([ALIAS], [NS], rcode=Rcode.SERVFAIL, aa=True),
            False,
            id="failing-alias",
        ),
        pytest.param("x.d.example.org.", None, unwritten(Rcode.SERVFAIL), False, id="loop"),
    ],
)
def test_reply(qname: str, outside: Reply | None, expected: Reply, is_unknown: bool) -> None:
    assert ask(qname, outside=outside) == (expected, is_unknown)


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


@pytest.mark.parametrize(
    ("qname", "expected"),
    [
        ("a.sub.example.org.", "sub.example.org."),
        ("sub.example.org.", "sub.example.org."),
        ("Example.org.", "example.org."),
        ("org.", None),
    ],
)
def test_longest(qname: str, expected: str | None) -> None:
    zones = {Name.from_text("example.org."), Name.from_text("sub.example.org.")}
    assert longest(Name.from_text(qname), zones) == (
        None if expected is None else Name.from_text(expected)
    )
