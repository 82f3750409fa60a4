"""Requests, records and replies for tests of handlers, made from text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dns.rdata
import dns.rdataclass
import dns.rdatatype

from hsdns.chain import Endpoint, Next, Request
from hsdns.wire.edns import Edns
from hsdns.wire.iana import Rcode, class_from_text, class_to_text, type_from_text, type_to_text
from hsdns.wire.message import RD, RR, Query, Reply
from hsdns.wire.name import Name


def make_request(
    qname: str,
    qtype: str = "A",
    *,
    qclass: str = "IN",
    protocol: str = "udp",
    edns: Edns | None = None,
    flags: int = RD,
    id: int = 4711,  # noqa: A002 - the header field's name
    now: float = 0.0,
    client: str = "127.0.0.1",
    client_port: int = 40000,
    server: str = "dns://:53",
    zone: str = ".",
    depth: int = 0,
) -> Request:
    """Make the request that the server would make of a query."""
    name = Name.from_text(qname)
    number, number_of_class = type_from_text(qtype), class_from_text(qclass)
    question = name.wire + number.to_bytes(2, "big") + number_of_class.to_bytes(2, "big")
    size = 12 + len(question)
    if edns is not None:
        size += 11 + sum(4 + len(data) for _, data in edns.options)
    query = Query(id, flags, name, number, number_of_class, question, edns, size)
    return Request(
        query=query,
        client=Endpoint(client, client_port),
        local=Endpoint("127.0.0.1", 53),
        protocol=protocol,
        server=server,
        zone=Name.from_text(zone),
        now=now,
        depth=depth,
    )


def rr(text: str) -> RR:
    """Read a record in the form `name ttl IN TYPE rdata`; dnspython makes the RDATA."""
    owner, ttl, rrclass, rrtype, *rest = text.split(None, 4)
    rdata = dns.rdata.from_text(
        dns.rdataclass.from_text(rrclass), dns.rdatatype.from_text(rrtype), rest[0] if rest else ""
    )
    wire = rdata.to_wire()
    assert wire is not None
    return RR(
        Name.from_text(owner),
        type_from_text(rrtype),
        int(ttl),
        bytes(wire),
        class_from_text(rrclass),
    )


def rr_text(record: RR) -> str:
    """Write a record in the form that rr() reads, RDATA in dnspython's spelling."""
    rdata = dns.rdata.from_wire(
        dns.rdataclass.RdataClass(record.rrclass),
        dns.rdatatype.RdataType(record.rrtype),
        record.rdata,
        0,
        len(record.rdata),
    )
    return (
        f"{record.owner.to_text()} {record.ttl} {class_to_text(record.rrclass)} "
        f"{type_to_text(record.rrtype)} {rdata.to_text()}"
    )


def section(records: Sequence[RR]) -> list[str]:
    """Write a section's records, in order."""
    return [rr_text(record) for record in records]


def reply(
    answer: Sequence[str] = (),
    authority: Sequence[str] = (),
    additional: Sequence[str] = (),
    rcode: int = Rcode.NOERROR,
    **fields: Any,
) -> Reply:
    """Make a reply of records in the form that rr() reads; other fields of Reply by their names."""
    return Reply(
        rcode=rcode,
        answer=tuple(map(rr, answer)),
        authority=tuple(map(rr, authority)),
        additional=tuple(map(rr, additional)),
        **fields,
    )


class Answers:
    """A `next` that returns scripted replies, the last one repeatedly, and records the requests."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Reply:
        """Return the next scripted reply."""
        self.requests.append(request)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def next_with(*replies: Reply) -> Answers:
    """Make a `next` of scripted replies."""
    answers = Answers(*replies)
    checked: Next = answers
    assert callable(checked)
    return answers
