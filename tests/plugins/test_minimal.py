from __future__ import annotations

from typing import Any

import pytest

from hsdns.plugins.minimal import Minimal
from hsdns.wire.edns import Edns
from hsdns.wire.iana import Opcode, Rcode
from hsdns.wire.message import Reply, unwritten
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

A = ["www.example.org. 60 IN A 192.0.2.1"]
NS = ["example.org. 60 IN NS ns.example.org."]
GLUE = ["ns.example.org. 60 IN A 192.0.2.53"]
SOA = ["example.org. 60 IN SOA ns.example.org. root.example.org. 1 2 3 4 60"]
PAST = "example.org. 60 IN RRSIG NS 13 2 60 20200101000000 20190101000000 1 example.org. AAAA"


def ask(below: Reply, qtype: str = "A", **options: Any) -> Reply:
    plugin = set_up(Minimal, "minimal")
    finish(plugin.start(FakeRuntime()))
    return finish(
        plugin.handle(make_request("www.example.org.", qtype, **options), next_with(below))
    )


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        pytest.param(reply(A, NS, GLUE, aa=True), reply(A, aa=True), id="answer"),
        pytest.param(reply(A, NS, GLUE, ra=True, ad=True), reply(A, ra=True, ad=True), id="flags"),
        pytest.param(reply((), (), GLUE, aa=True), reply(aa=True), id="empty-answer"),
        pytest.param(
            reply(A, NS, fresh=True, edns_options=((10, b"x"),)),
            reply(A, fresh=True),
            id="options-of-an-upstream",
        ),
        pytest.param(
            reply(A, edns=Edns(4096, do=True), edns_options=((15, b"\0\x0f"),)),
            reply(A),
            id="opt-of-a-handler",
        ),
    ],
)
def test_positive_replies_lose_authority_and_additional(below: Reply, expected: Reply) -> None:
    assert ask(below) == expected


@pytest.mark.parametrize(
    "below",
    [
        pytest.param(reply(A), id="answer-only"),
        pytest.param(reply((), SOA, aa=True), id="nodata"),
        pytest.param(reply((), SOA, GLUE, rcode=Rcode.NXDOMAIN), id="nxdomain"),
        pytest.param(reply((), NS, GLUE), id="referral"),
        pytest.param(reply((), SOA, rcode=Rcode.SERVFAIL), id="servfail"),
        pytest.param(reply(A, NS, rcode=Rcode.REFUSED), id="refused"),
        pytest.param(unwritten(Rcode.SERVFAIL, "no"), id="unwritten"),
        pytest.param(reply(A, NS, dropped=True), id="dropped"),
    ],
)
def test_other_replies_are_unchanged(below: Reply) -> None:
    assert ask(below) is below


def test_replies_to_axfr_and_notify_are_unchanged() -> None:
    below = reply(A, NS)
    assert ask(below, "AXFR") is below
    assert ask(below, flags=Opcode.NOTIFY << 11) is below


def test_replies_with_expired_signatures_are_unchanged() -> None:
    below = reply(A, [*NS, PAST])
    assert ask(below, edns=Edns(1232, do=True)) is below
    assert ask(below, edns=Edns(1232)) == reply(A)
