"""Queries in wire format, and the few fields that are read from a reply.

Path: run.py, drain.py -> here.  Queries have the ID 0; the sender puts its own before query[2:].
Source: RFC 1035 section 4.1, RFC 6891 section 6.1.2, RFC 7873 section 4 (a client cookie has 8 octets).
"""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from loadtest.answering.cluster import Question
from loadtest.answering.mixes import Mix

PAYLOAD_SIZE: Final = 4096  # as in the queries of dnsperf -e
_COOKIE = 10
_TYPES = {"A": RRType.A, "AAAA": RRType.AAAA, "SRV": RRType.SRV}


class ReplySummary(NamedTuple):
    """The fields in which two servers must agree."""

    rcode: int
    records: int  # in the answer section


def query_of(question: Question, *, edns: bool) -> bytes:
    """Write a query, as dnsperf does."""
    options = Edns(PAYLOAD_SIZE) if edns else None
    query = Query.ask(Name.from_text(question.name), _TYPES[question.rrtype], edns=options)
    if options is None:
        return encode_query(query, 0)
    return (
        encode_query(query.replace(edns=None), 0)[:10]
        + b"\0\1"
        + query.question_wire
        + options.to_wire()
    )


def randomize(query: bytes, random: Random) -> bytes:
    """Add a random cookie and random case to a query that ends with an OPT record without options."""
    end = query.index(0, 12)
    name = bytes(
        octet ^ 0x20 if 0x61 <= octet <= 0x7A and random.getrandbits(1) else octet
        for octet in query[12:end]
    )
    option = _COOKIE.to_bytes(2, "big") + b"\0\x08" + random.randbytes(8)
    return query[:12] + name + query[end:-2] + len(option).to_bytes(2, "big") + option


def queries(mix: Mix, questions: list[Question], random: Random) -> list[bytes]:
    """Write the questions of a mix."""
    written = [query_of(each, edns=mix.edns) for each in questions]
    return [randomize(each, random) for each in written] if mix.randomized else written


def summarize(reply: bytes) -> ReplySummary:
    """Read a reply's header."""
    return ReplySummary(reply[3] & 15, int.from_bytes(reply[6:8], "big"))
