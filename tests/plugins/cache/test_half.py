from __future__ import annotations

import pytest

from hsdns.plugins.cache.half import Half, judge, ttls
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Outcome, Reply, unwritten
from hsdns.wire.name import Name
from tests.support.plugins.requests import make_request, reply

A = "www.example.org. 60 IN A 192.0.2.1"
SOA = "example.org. 30 IN SOA ns.example.org. host.example.org. 1 7200 1800 86400 60"
CNAME = "www.example.org. 60 IN CNAME a.example.org."
NS = "example.org. 60 IN NS ns.example.org."


@pytest.mark.parametrize(
    ("found", "kind", "is_storable", "is_positive", "is_denial", "replaces_stale"),
    [
        pytest.param(reply([A]), Outcome.POSITIVE, True, True, False, True, id="answer"),
        pytest.param(reply([A], tc=True), Outcome.POSITIVE, False, False, False, False, id="cut"),
        pytest.param(reply(), Outcome.POSITIVE, True, False, False, True, id="empty"),
        pytest.param(reply([], [SOA]), Outcome.NODATA, True, False, True, True, id="nodata"),
        pytest.param(reply([CNAME]), Outcome.POSITIVE, False, False, False, True, id="chain"),
        pytest.param(reply([CNAME], [SOA]), Outcome.NODATA, True, False, True, True, id="chain-soa"),
        pytest.param(reply([], [NS]), Outcome.DELEGATION, True, False, False, True, id="referral"),
        pytest.param(reply([], [SOA], rcode=3), Outcome.NXDOMAIN, True, False, True, True, id="nxdomain"),
        pytest.param(reply(rcode=3), Outcome.NXDOMAIN, False, False, True, True, id="without-soa"),
        pytest.param(reply([A], rcode=3), Outcome.OTHER_ERROR, False, False, False, False, id="odd"),
        pytest.param(reply(rcode=2), Outcome.SERVER_ERROR, True, False, True, False, id="servfail"),
        pytest.param(reply(rcode=4), Outcome.SERVER_ERROR, True, False, True, False, id="notimp"),
        pytest.param(reply(rcode=5), Outcome.OTHER_ERROR, False, False, False, False, id="refused"),
        pytest.param(unwritten(Rcode.SERVFAIL), Outcome.SERVER_ERROR, True, False, True, False, id="unwritten"),
        pytest.param(Reply(dropped=True), Outcome.POSITIVE, True, False, False, False, id="dropped"),
    ],
)  # fmt: skip
def test_judge(
    found: Reply,
    kind: Outcome,
    is_storable: bool,
    is_positive: bool,
    is_denial: bool,
    replaces_stale: bool,
) -> None:
    judgement = judge(make_request("www.example.org.").query, found, lambda: 0.0)
    assert (judgement.kind, judgement.is_storable, judgement.is_positive) == (
        kind,
        is_storable,
        is_positive,
    )
    assert judgement.is_denial == is_denial
    assert judgement.replaces_stale(found) == replaces_stale


def test_ttls() -> None:
    assert ttls(reply([A, A], [SOA], [A])) == [60, 60, 30, 60]


@pytest.mark.parametrize(
    ("found", "kind", "ttl"),
    [
        (reply([A]), Outcome.POSITIVE, 50),
        (reply([A], [SOA]), Outcome.POSITIVE, 30),
        (reply([A.replace("60", "1")]), Outcome.POSITIVE, 20),
        (reply(), Outcome.POSITIVE, 20),
        (reply([], [NS]), Outcome.DELEGATION, 20),
        (reply([], [SOA], rcode=2), Outcome.SERVER_ERROR, 7),
    ],
)
def test_shown_ttl(found: Reply, kind: Outcome, ttl: int) -> None:
    assert Half("success", 1000, 50, 20, failure=7).shown_ttl(ttls(found), kind) == ttl


@pytest.mark.parametrize(
    ("name", "kind", "mark"),
    [
        ("www.example.org.", Outcome.POSITIVE, ("success", 50)),
        ("www.example.net.", Outcome.POSITIVE, ("success", 0)),
        ("www.example.org.", Outcome.OTHER_ERROR, ("success", 0)),
    ],
)
def test_mark(name: str, kind: Outcome, mark: tuple[str, int]) -> None:
    half = Half("success", 1000, 50, 5, disabled=(Name.from_text("example.net."),))
    assert half.mark(make_request(name).query, reply([A]), kind) == mark
    assert half.is_disabled(Name.from_text(name)) == (name == "www.example.net.")
