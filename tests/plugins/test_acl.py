from __future__ import annotations

import logging
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.answer_table.capabilities import Cacheable
from hsdns.chain import link
from hsdns.corefile.tree import Line, Position, Token
from hsdns.plugins.acl import Acl, read_policy
from hsdns.plugins.log import Log
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode, reply_size
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

BELOW = reply(["below. 1 IN A 192.0.2.1"])
BLOCKED = Reply(rcode=Rcode.REFUSED, edns=Edns(4096, do=True), edns_options=((15, b"\x00\x0f"),))
FILTERED = Reply(edns=Edns(4096, do=True), edns_options=((15, b"\x00\x11"),))


def started(text: str, zones: tuple[str, ...] = (".",)) -> tuple[Acl, FakeRuntime]:
    plugin, runtime = set_up(Acl, text, zones), FakeRuntime()
    finish(plugin.start(runtime))
    return plugin, runtime


def judge(text: str, qname: str = "www.example.org.", **options: Any) -> str:
    plugin, _ = started(text)
    found = finish(plugin.handle(make_request(qname, **options), next_with(BELOW)))
    if found is BELOW:
        return "allowed"
    if found.dropped:
        return "dropped"
    return "blocked" if found.rcode == Rcode.REFUSED else "filtered"


@pytest.mark.parametrize(
    ("body", "asked", "action"),
    [
        pytest.param("", {}, "allowed", id="no-action"),
        pytest.param("allow", {}, "allowed", id="allow"),
        pytest.param("block", {}, "blocked", id="block"),
        pytest.param("filter", {}, "filtered", id="filter"),
        pytest.param("drop", {}, "dropped", id="drop"),
        pytest.param("BLOCK TYPE A NET *", {}, "blocked", id="any-case"),
        pytest.param("block type AAAA", {}, "allowed", id="other-type"),
        pytest.param("block type AAAA A", {}, "blocked", id="one-of-the-types"),
        pytest.param("block type aaaa type a", {}, "blocked", id="types-twice"),
        pytest.param("block type TYPE65", {"qtype": "HTTPS"}, "blocked", id="type-by-number"),
        pytest.param("block type *", {"qtype": "TYPE65280"}, "blocked", id="any-type"),
        pytest.param("block type AAAA *", {}, "blocked", id="any-type-among-others"),
        pytest.param("block net 127.0.0.0/8", {}, "blocked", id="network"),
        pytest.param("block net 127.9.9.9/8", {}, "blocked", id="network-with-bits-behind"),
        pytest.param("block net 127.0.0.1", {}, "blocked", id="address"),
        pytest.param("block net 127.0.0.2 127.0.0.1/32", {}, "blocked", id="several"),
        pytest.param("block net 127.0.0.0/32", {}, "allowed", id="next-address"),
        pytest.param("block net 0.0.0.0/0", {}, "blocked", id="all-ipv4"),
        pytest.param("block net ::/0", {}, "allowed", id="all-ipv6"),
        pytest.param("block net 0.0.0.0/0", {"client": "::1"}, "allowed", id="ipv6-is-no-ipv4"),
        pytest.param("block net *", {"client": "::1"}, "blocked", id="any-network"),
        pytest.param("block net 2001:db8::/32", {"client": "2001:db8:1::9"}, "blocked", id="v6"),
        pytest.param("block net fe80::/10", {"client": "fe80::1%eth0"}, "blocked", id="link-local"),
        pytest.param("block net ::ffff:127.0.0.1", {}, "blocked", id="mapped"),
        pytest.param("block net ::ffff:127.0.0.0/104", {}, "blocked", id="mapped-network"),
        pytest.param("block type A net 192.0.2.1", {}, "allowed", id="type-but-not-network"),
        pytest.param("block net 127.0.0.1 type A", {}, "blocked", id="network-first"),
        pytest.param("allow net 127.0.0.1\nblock", {}, "allowed", id="first-that-fits"),
        pytest.param("allow net 192.0.2.1\nblock", {}, "blocked", id="second-fits"),
        pytest.param("filter type A\nblock type A\ndrop", {}, "filtered", id="file-order"),
    ],
)  # fmt: skip
def test_actions(body: str, asked: dict[str, Any], action: str) -> None:
    assert judge(f"acl {{\n{body}\n}}", **asked) == action


@pytest.mark.parametrize(
    ("text", "qname", "action"),
    [
        ("acl example.org {\nblock\n}", "www.example.org.", "blocked"),
        ("acl example.org {\nblock\n}", "Example.ORG.", "blocked"),
        ("acl example.org {\nblock\n}", "wwwexample.org.", "allowed"),
        ("acl example.net example.org {\nblock\n}", "www.example.org.", "blocked"),
        (
            "acl org {\nallow net 192.0.2.1\n}\nacl example.org {\nblock\n}",
            "a.example.org.",
            "blocked",
        ),
        ("acl org {\nallow\n}\nacl example.org {\nblock\n}", "a.example.org.", "allowed"),
        ("acl 192.0.2.0/24 {\nblock\n}", "1.2.0.192.in-addr.arpa.", "blocked"),
    ],
)
def test_zones(text: str, qname: str, action: str) -> None:
    assert judge(text, qname) == action


def test_without_zones_those_of_the_block() -> None:
    plugin, _ = started("acl {\nblock\n}", ("example.org.",))
    for qname, expected in (("a.example.org.", BLOCKED), ("a.example.net.", BELOW)):
        assert finish(plugin.handle(make_request(qname), next_with(BELOW))) == expected


@pytest.mark.parametrize(("body", "expected"), [("block", BLOCKED), ("filter", FILTERED)])
def test_replies_say_why(body: str, expected: Reply) -> None:
    plugin, _ = started(f"acl {{\n{body}\n}}")
    assert finish(plugin.handle(make_request("x."), next_with(BELOW))) == expected
    asked = Edns(1400, options=((10, b"12345678"),))
    found = finish(plugin.handle(make_request("x.", edns=asked), next_with(BELOW)))
    assert found.edns == Edns(1400, do=True, options=asked.options)
    assert found.edns_options == expected.edns_options


def test_on_the_wire_and_its_length_for_the_log() -> None:
    query = make_request("a.example.org.").query
    wire = encode(query, BLOCKED, 512)
    assert wire[3] & 15 == Rcode.REFUSED
    assert wire.endswith(bytes.fromhex("00 0029 1000 00008000 0006 000f 0002 000f"))
    assert reply_size(query, BLOCKED) == len(wire) == 48


def test_metrics() -> None:
    plugin, runtime = started(
        "acl example.org org {\nblock type A\nfilter type MX\ndrop type TXT\n}"
    )
    for qtype in ("A", "A", "MX", "TXT", "NS", "NS", "NS"):
        finish(plugin.handle(make_request("www.example.org.", qtype), next_with(BELOW)))
    finish(plugin.handle(make_request("example.net."), next_with(BELOW)))
    text = runtime.metrics.to_text().decode()
    labels = 'server="dns://:53",view="",zone="example.org."'
    for name, count in (("blocked", 2), ("filtered", 1), ("dropped", 1)):
        assert f"coredns_acl_{name}_requests_total{{{labels}}} {count}.0\n" in text
    assert 'coredns_acl_allowed_requests_total{server="dns://:53",view=""} 4.0\n' in text


def test_what_log_writes_of_it(caplog: pytest.LogCaptureFixture) -> None:
    plugin, runtime = started("acl {\nblock type A\nfilter type AAAA\ndrop type TXT\n}")
    log = set_up(Log, "log . {type}|{rcode}|{>rflags}|{rsize}|{>bufsize}|{>do}")
    finish(log.start(runtime))
    caplog.set_level(logging.INFO, "hsdns.plugin.log")
    chain = link([log, plugin], lambda coro: coro)
    for qtype, edns in (("A", None), ("AAAA", Edns(1400)), ("TXT", None)):
        finish(chain(make_request("a.example.org.", qtype, edns=edns)))  # type: ignore[arg-type]  # it is a coroutine
    assert [record.getMessage() for record in caplog.records] == [
        "A|REFUSED|qr,rd|48|512|false",
        "AAAA|NOERROR|qr,rd|48|1400|false",
        "TXT|-|-|0|512|false",
    ]


def test_block_keeps_no_answer_table() -> None:
    assert not isinstance(set_up(Acl, "acl"), Cacheable)


@given(st.ip_addresses(), st.ip_addresses(), st.integers(0, 128))
def test_networks_are_those_of_the_standard_library(address: Any, other: Any, bits: int) -> None:
    network = f"{other}/{bits % (other.max_prefixlen + 1)}"
    position = Position("Corefile", 1, 1)
    words = tuple(Token(word, position) for word in ("net", network))
    policy = read_policy(Line(Token("block", position), words))
    found = ip_network(network, strict=False)
    if other.version == 6 and other.ipv4_mapped is not None:
        return  # those stand for IPv4 networks
    assert policy.matches(1, address) is (address in found)
    assert policy.matches(1, found[0])
    assert policy.matches(1, found[-1])
