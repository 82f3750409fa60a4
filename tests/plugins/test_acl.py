from __future__ import annotations

from ipaddress import ip_network
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hsdns.answer_table.capabilities import Cacheable
from hsdns.corefile.tree import Line, Position, Token
from hsdns.plugins.acl import Acl, read_policy
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode, reply_size
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply
from tests.support.plugins.requests import make_request
from tests.support.plugins.setup import set_up

BLOCKED = Reply(rcode=Rcode.REFUSED, edns=Edns(4096, do=True), edns_options=((15, b"\x00\x0f"),))


def test_on_the_wire_and_its_length_for_the_log() -> None:
    query = make_request("a.example.org.").query
    wire = encode(query, BLOCKED, 512)
    assert wire[3] & 15 == Rcode.REFUSED
    assert wire.endswith(bytes.fromhex("00 0029 1000 00008000 0006 000f 0002 000f"))
    assert reply_size(query, BLOCKED) == len(wire) == 48


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
