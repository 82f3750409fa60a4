from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network

import pytest
from hypothesis import given, strategies

from hsdns.chain import Request
from hsdns.plugins.dns64 import Dns64, embed
from hsdns.wire.message import Reply
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
