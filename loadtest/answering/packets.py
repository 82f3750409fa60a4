"""The queries of a mix, and the few fields that are read from a reply.

Path: run.py, drain.py -> here.
Source: RFC 7873 section 4 (a client cookie has 8 octets).
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from loadtest.answering.cluster import Question
from loadtest.answering.mixes import Mix
from loadtest.dns import query_of

_COOKIE = 10


class ReplySummary(NamedTuple):
    """The fields in which two servers must agree."""

    rcode: int
    records: int  # in the answer section


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
    written = [query_of(*each, edns=mix.edns) for each in questions]
    return [randomize(each, random) for each in written] if mix.randomized else written


def summarize(reply: bytes) -> ReplySummary:
    """Read a reply's header."""
    return ReplySummary(reply[3] & 15, int.from_bytes(reply[6:8], "big"))
