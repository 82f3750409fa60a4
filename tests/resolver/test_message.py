"""Packets as messages, and replies as what models read."""

from __future__ import annotations

import dns.message
import dns.rcode
import dns.rrset
import pytest

from hsdns.resolver.model import Answer, Packet, answer_of, wire_of
from hsdns.wire.decode import BadReply
from hsdns.wire.iana import Rcode, RRType

PACKET = Packet(0.0, "udp", 0, "u1", 7, RRType.A, "web.example.com")


def test_query() -> None:
    plain = dns.message.from_wire(wire_of(PACKET, 7))
    assert (plain.id, plain.question[0].to_text(), plain.edns) == (7, "web.example.com. IN A", -1)
    packet = PACKET._replace(edns=1232, cookie=True, ad=True)
    found = dns.message.from_wire(wire_of(packet, 7, b"12345678"))
    assert (found.payload, [option.otype for option in found.options]) == (1232, [10])
    assert "AD" in dns.flags.to_text(found.flags)


def rrset(line: str) -> dns.rrset.RRset:
    name, ttl, rrclass, rrtype, rdata = line.split(" ", 4)
    return dns.rrset.from_text(name, int(ttl), rrclass, rrtype, rdata)


SOA = "example.com. 60 IN SOA ns.example.com. host.example.com. 1 2 3 4 5"


@pytest.mark.parametrize(
    ("rcode", "flags", "answer", "authority", "expected"),
    [
        ("NOERROR", "QR", ["web.example.com. 30 IN CNAME a.example.com.", "a.example.com. 20 IN A 192.0.2.1"], [],
         Answer(addresses=("192.0.2.1",), ttl=20)),
        ("NXDOMAIN", "QR AA", [], [SOA], Answer(Rcode.NXDOMAIN, ttl=5)),
        ("NOERROR", "QR AA", [], [SOA], Answer(ttl=5)),
        ("NOERROR", "QR", [], [], Answer(is_lame=True)),
        ("NOERROR", "QR RA", [], [], Answer()),
        ("NOERROR", "QR TC AA", [], [], Answer(tc=True)),
        ("SERVFAIL", "QR", [], [], Answer(Rcode.SERVFAIL)),
    ],
)  # fmt: skip
def test_answer(
    rcode: str, flags: str, answer: list[str], authority: list[str], expected: Answer
) -> None:
    reply = dns.message.make_response(dns.message.from_wire(wire_of(PACKET, 7)))
    reply.set_rcode(dns.rcode.from_text(rcode))
    reply.flags = dns.flags.from_text(flags) | reply.rcode()
    reply.answer = [rrset(line) for line in answer]
    reply.authority = [rrset(line) for line in authority]
    assert answer_of(reply.to_wire(), PACKET) == expected


def test_a_reply_that_is_none() -> None:
    with pytest.raises(BadReply):
        answer_of(bytes(12), PACKET)
