from __future__ import annotations

import pytest

from hsdns.wire.edns import Edns
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Outcome, Reply, outcome, unwritten
from tests.support.plugins.requests import make_request, reply

A = "a.example.org. 5 IN A 10.0.0.1"
SOA = "example.org. 5 IN SOA ns.example.org. h.example.org. 1 2 3 4 5"
NS = "example.org. 5 IN NS ns.example.org."
SIGNED = "a.example.org. 5 IN RRSIG A 8 3 5 {1} {0} 1 example.org. AAAA"
EARLY, NOW, LATE = "20230101000000", 1_700_000_000, "20240101000000"  # NOW is in November 2023
CURRENT, EXPIRED, FUTURE = (
    SIGNED.format(EARLY, LATE),
    SIGNED.format("20220101000000", EARLY),
    SIGNED.format(LATE, "20250101000000"),
)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(reply([A]), Outcome.POSITIVE, id="answer"),
        pytest.param(reply([A], [NS]), Outcome.POSITIVE, id="answer-with-ns"),
        pytest.param(reply(), Outcome.POSITIVE, id="empty-without-soa"),
        pytest.param(reply((), [SOA]), Outcome.NODATA, id="soa"),
        pytest.param(reply((), [NS, SOA]), Outcome.NODATA, id="soa-and-ns"),
        pytest.param(reply((), [NS]), Outcome.DELEGATION, id="ns"),
        pytest.param(reply((), [SOA], (), Rcode.NXDOMAIN), Outcome.NXDOMAIN, id="nxdomain"),
        pytest.param(reply((), (), (), Rcode.NXDOMAIN), Outcome.NXDOMAIN, id="nxdomain-bare"),
        pytest.param(
            reply([A], (), (), Rcode.NXDOMAIN), Outcome.OTHER_ERROR, id="nxdomain-with-answer"
        ),
        pytest.param(unwritten(Rcode.SERVFAIL), Outcome.SERVER_ERROR, id="servfail"),
        pytest.param(unwritten(Rcode.NOTIMP), Outcome.SERVER_ERROR, id="notimp"),
        pytest.param(unwritten(Rcode.REFUSED), Outcome.OTHER_ERROR, id="refused"),
        pytest.param(None, Outcome.OTHER_ERROR, id="silence"),
    ],
)
def test_outcome(found: Reply | None, expected: Outcome) -> None:
    assert outcome(make_request("a.example.org.").query, found, lambda: NOW) is expected


@pytest.mark.parametrize("qtype", ["AXFR", "IXFR"])
def test_a_transfer_is_meta(qtype: str) -> None:
    assert (
        outcome(make_request("example.org.", qtype).query, reply([A]), lambda: NOW) is Outcome.META
    )


def test_a_notify_is_meta() -> None:
    query = make_request("example.org.", "SOA", flags=4 << 11).query
    assert outcome(query, Reply(), lambda: NOW) is Outcome.META


@pytest.mark.parametrize(
    ("signature", "do", "expected"),
    [
        pytest.param(CURRENT, True, Outcome.POSITIVE, id="current"),
        pytest.param(EXPIRED, True, Outcome.OTHER_ERROR, id="expired"),
        pytest.param(FUTURE, True, Outcome.OTHER_ERROR, id="not-yet"),
        pytest.param(EXPIRED, False, Outcome.POSITIVE, id="expired-not-asked-for"),
    ],
)
def test_signatures(signature: str, do: bool, expected: Outcome) -> None:
    query = make_request("a.example.org.", edns=Edns(1232, do=do)).query
    assert outcome(query, reply([A, signature]), lambda: NOW) is expected
