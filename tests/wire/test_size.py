from __future__ import annotations

import dns.message
import pytest

from hsdns.wire.edns import Edns
from hsdns.wire.encode import MAX_TCP_LEN, encode, is_truncated, reply_size, udp_limit
from hsdns.wire.message import TC, Reply
from tests.support.plugins.requests import make_request, reply

ONE = "a.example.org. 60 IN A 10.0.0.1"
MIXED = reply(
    ["a.example.org. 60 IN CNAME b.example.org.", "b.example.org. 60 IN A 10.0.0.1"],
    ["example.org. 60 IN NS ns.example.org."],
    ["ns.example.org. 60 IN AAAA ::1", "_x._y.example.org. 0 IN SRV 0 1 80 b.example.org."],
)


@pytest.mark.parametrize(
    ("found", "size"),
    [
        pytest.param(Reply(), 31, id="empty"),
        pytest.param(reply([ONE]), 60, id="one-address"),
        pytest.param(reply([ONE, ONE]), 89, id="two-addresses"),
        pytest.param(reply(edns_options=()), 42, id="opt-of-upstream"),
        pytest.param(reply(edns_options=((10, b"12345678"),)), 54, id="option-of-upstream"),
        pytest.param(
            reply(edns=Edns(1232), edns_options=((15, b"xy"),)), 48, id="option-of-a-handler"
        ),
        pytest.param(reply(edns=Edns(1232)), 31, id="size-of-a-handler"),
    ],
)
def test_reply_size(found: Reply, size: int) -> None:
    assert reply_size(make_request("a.example.org.").query, found) == size


def test_reply_size_is_what_dnspython_writes_without_compression() -> None:
    query = make_request("a.example.org.").query
    message = dns.message.from_wire(encode(query, MIXED, MAX_TCP_LEN))
    uncompressed = 12 + sum(
        len(name.to_wire() or b"") + 4 for name in [question.name for question in message.question]
    )
    for rrset in (*message.answer, *message.authority, *message.additional):
        for rdata in rrset:
            uncompressed += len(rrset.name.to_wire() or b"") + 10 + len(rdata.to_wire() or b"")
    assert reply_size(query, MIXED) == uncompressed


def many(count: int) -> Reply:
    return reply([f"a.example.org. 60 IN A 10.0.{n // 256}.{n % 256}" for n in range(count)])


@pytest.mark.parametrize("protocol", ["udp", "tcp"])
@pytest.mark.parametrize("edns", [None, Edns(1232), Edns(600, options=((10, b"c" * 8),))])
@pytest.mark.parametrize("count", [0, 16, 17, 29, 30, 31, 34, 35, 36, 75, 76, 77, 4094, 4096])
def test_is_truncated_agrees_with_encode(count: int, edns: Edns | None, protocol: str) -> None:
    query, found = make_request("a.example.org.", edns=edns).query, many(count)
    limit = MAX_TCP_LEN if protocol == "tcp" else udp_limit(query)
    assert is_truncated(query, found, protocol) is bool(encode(query, found, limit)[2] & TC >> 8)


@pytest.mark.parametrize("shown", [Edns(512), Edns(700), Edns(4096, options=((10, b"c" * 8),))])
@pytest.mark.parametrize("count", [29, 30, 31, 35, 36, 41, 42, 76, 77])
@pytest.mark.parametrize("edns", [None, Edns(1232)])
def test_is_truncated_where_a_handler_chose_the_size(
    count: int, shown: Edns, edns: Edns | None
) -> None:
    query = make_request("a.example.org.", edns=edns).query
    found = many(count).replace(edns=shown)
    wire = encode(query, found, udp_limit(query, found))
    assert len(wire) <= min(shown.payload_size, edns.payload_size if edns is not None else 512)
    assert is_truncated(query, found, "udp") is bool(wire[2] & TC >> 8)


def test_is_truncated_by_an_upstream() -> None:
    assert is_truncated(make_request("a.example.org.").query, Reply(tc=True), "udp")
