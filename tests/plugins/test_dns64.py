from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network

import pytest
from hypothesis import given, strategies

from hsdns.chain import Request
from hsdns.plugins.dns64 import Dns64, embed
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

SOA = "example.org. 90 IN SOA ns.example.org. h.example.org. 1 2 3 4 5"
NODATA = reply(authority=[SOA], aa=True)
A = reply(["a.example.org. 700 IN A 192.0.2.1"], aa=True)
AAAA = reply(["a.example.org. 60 IN AAAA 2001:db8:1::1"], aa=True)
V6 = {"client": "2001:db8::7"}


class Asked:
    """A resolver that gives one reply and keeps what it was asked."""

    def __init__(self, found: Reply) -> None:
        self.found = found
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        return self.found


def ask(
    text: str, first: Reply, second: Reply = A, **question: str
) -> tuple[Reply, Asked, dict[tuple[str, ...], float]]:
    """The reply to an AAAA question to which the chain says `first`, and the whole server `second` to A."""
    plugin = set_up(Dns64, text)
    runtime, asked = FakeRuntime(), Asked(second)
    runtime.resolver = asked
    finish(plugin.start(runtime))
    fields = {"qname": "A.example.org.", "qtype": "AAAA"} | V6 | question
    found = finish(plugin.handle(make_request(**fields), next_with(first)))  # type: ignore[arg-type]  # all values are str
    counter = runtime.metrics.counter("coredns_dns64_requests_translated_total", "", ("server",))
    return found, asked, counter.values


@pytest.mark.parametrize(
    ("text", "first", "second", "expected"),
    [
        pytest.param(
            "dns64", NODATA, A, ["a.example.org. 90 IN AAAA 64:ff9b::c000:201"], id="ttl-of-the-soa"
        ),
        pytest.param(
            "dns64",
            Reply(),
            A,
            ["a.example.org. 600 IN AAAA 64:ff9b::c000:201"],
            id="ttl-without-soa",
        ),
        pytest.param(
            "dns64",
            NODATA,
            reply(["a.example.org. 5 IN A 192.0.2.1"]),
            ["a.example.org. 5 IN AAAA 64:ff9b::c000:201"],
            id="ttl-of-the-record",
        ),
        pytest.param(
            "dns64 2001:db8::/96",
            NODATA,
            A,
            ["a.example.org. 90 IN AAAA 2001:db8::c000:201"],
            id="prefix-argument",
        ),
        pytest.param(
            "dns64 {\n prefix 2001:db8::/48\n}",
            NODATA,
            A,
            ["a.example.org. 90 IN AAAA 2001:db8:0:c000:2:100::"],
            id="prefix-property",
        ),
        pytest.param(
            "dns64",
            NODATA,
            reply(["a.example.org. 5 IN CNAME b.example.org.", "b.example.org. 7 IN A 192.0.2.1"]),
            [
                "a.example.org. 5 IN CNAME b.example.org.",
                "b.example.org. 7 IN AAAA 64:ff9b::c000:201",
            ],
            id="cname",
        ),
        pytest.param(
            "dns64",
            reply(["a.example.org. 5 IN CNAME b.example.org."]),
            A,
            ["a.example.org. 600 IN AAAA 64:ff9b::c000:201"],
            id="only-a-cname-was-found",
        ),
        pytest.param(
            "dns64 {\n translate_all\n}",
            AAAA,
            A,
            ["a.example.org. 600 IN AAAA 64:ff9b::c000:201"],
            id="translate-all",
        ),
        pytest.param(
            "dns64",
            Reply(rcode=Rcode.SERVFAIL),
            A,
            ["a.example.org. 600 IN AAAA 64:ff9b::c000:201"],
            id="error-of-a-server",
        ),
        pytest.param("dns64", NODATA, Reply(rcode=Rcode.NXDOMAIN), [], id="no-a"),
        pytest.param("dns64", NODATA, unwritten(Rcode.SERVFAIL), [], id="a-fails"),
    ],
)
def test_synthesizes(text: str, first: Reply, second: Reply, expected: list[str]) -> None:
    found, asked, counted = ask(text, first, second)
    assert found == Reply(answer=found.answer)
    assert section(found.answer) == expected
    (request,) = asked.requests
    assert (request.query.qname.to_text(), request.query.qtype, request.depth) == (
        "a.example.org.",
        1,
        1,
    )
    assert counted == {("dns://:53",): 1}


def test_passes_authority_and_additional_of_the_a_reply() -> None:
    second = reply(
        ["a.example.org. 5 IN A 192.0.2.1"],
        ["example.org. 60 IN NS ns.example.org."],
        ["ns.example.org. 60 IN A 192.0.2.9"],
        aa=True,
        tc=True,
    )
    found, _, _ = ask("dns64", NODATA, second)
    assert (found.authority, found.additional) == (second.authority, second.additional)
    assert (found.tc, found.aa, found.rcode) == (True, False, 0)


@pytest.mark.parametrize(
    ("text", "first", "question"),
    [
        pytest.param("dns64", AAAA, {}, id="has-an-address"),
        pytest.param("dns64", reply(authority=[SOA], rcode=3, aa=True), {}, id="nxdomain"),
        pytest.param(
            "dns64 {\n translate_all\n}",
            reply(authority=[SOA], rcode=3, aa=True),
            {},
            id="nxdomain-with-translate-all",
        ),
        pytest.param("dns64", NODATA, {"client": "192.0.2.7"}, id="over-ipv4"),
        pytest.param("dns64", NODATA, {"qtype": "A"}, id="other-type"),
        pytest.param("dns64", NODATA, {"qclass": "CH"}, id="other-class"),
        pytest.param("dns64", Reply(dropped=True), {}, id="silence"),
        pytest.param("dns64", unwritten(Rcode.SERVFAIL, "broken"), {}, id="nothing-written"),
    ],
)
def test_leaves_a_reply_as_it_is(text: str, first: Reply, question: dict[str, str]) -> None:
    found, asked, counted = ask(text, first, A, **question)
    assert found is first
    assert asked.requests == []
    assert counted == {}


def test_allow_ipv4() -> None:
    text = "dns64 {\n allow_ipv4\n}"
    found, _, _ = ask(text, NODATA, client="192.0.2.7")
    assert section(found.answer) == ["a.example.org. 90 IN AAAA 64:ff9b::c000:201"]
    assert set_up(Dns64, text).cacheable
    assert not set_up(Dns64, "dns64").cacheable


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [  # RFC 6052 section 2.4
        ("2001:db8::/32", "2001:db8:c000:221::"),
        ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
        ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
        ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
        ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100:0"),
        ("2001:db8:122:344::/96", "2001:db8:122:344::c000:221"),
    ],
)
def test_embed(prefix: str, expected: str) -> None:
    address = embed(IPv6Network(prefix), bytes((192, 0, 2, 33)))
    assert str(IPv6Address(address)) == expected


@given(strategies.sampled_from(range(32, 97, 8)), strategies.binary(min_size=4, max_size=4))
def test_an_embedded_address_is_16_octets_behind_its_prefix(length: int, address: bytes) -> None:
    prefix = IPv6Network(("2001:db8::", length))
    packed = embed(prefix, address)
    assert len(packed) == 16
    assert IPv6Address(packed) in prefix
