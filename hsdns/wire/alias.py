"""CNAME chains: the end of a chain in an answer, and whether the answer answers its question.

Path: beside message.py; the `cache` plugin checks replies before it stores them.
Source: RFC 1034 section 3.6.2, RFC 2181 section 10.1, RFC 2308 section 2.2; CoreDNS 1.14.7 plugin/cache/cache.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from hsdns.wire.iana import RRClass, RRType
from hsdns.wire.message import RR, Query


def follow(answer: Sequence[RR], start: bytes, qclass: int = RRClass.IN) -> bytes | None:
    """Return the lower-case wire form of the name at the end of the chain; None if the chain forks or loops."""
    targets: dict[bytes, bytes | None] = {}
    for rr in answer:
        if rr.rrtype == RRType.CNAME and qclass in (rr.rrclass, RRClass.ANY):
            owner, target = rr.owner.lower, rr.rdata.lower()
            targets[owner] = target if targets.get(owner, target) == target else None
    name = start
    for _ in range(len(targets) + 1):
        if name not in targets:
            return name
        following = targets[name]
        if following is None:
            return None
        name = following
    return None


def is_answered(query: Query, answer: Sequence[RR]) -> bool:
    """Whether the answer has records of the query's type at the end of the CNAME chain that starts at its name.

    CNAME is answered by a CNAME of the name itself, ANY by any record of the name.
    """
    qtype, qclass, name = query.qtype, query.qclass, query.qname.lower
    if qtype == RRType.CNAME:
        own = {
            rr.rdata.lower()
            for rr in answer
            if rr.rrtype == qtype and rr.owner.lower == name and qclass in (rr.rrclass, RRClass.ANY)
        }
        return len(own) == 1
    if len(answer) == 1:  # nothing to follow
        (only,) = answer
        return (
            qtype in (only.rrtype, RRType.ANY)
            and only.owner.lower == name
            and qclass in (only.rrclass, RRClass.ANY)
        )
    end = name if qtype == RRType.ANY else follow(answer, name, qclass)
    return end is not None and any(
        qtype in (rr.rrtype, RRType.ANY)
        and rr.owner.lower == end
        and qclass in (rr.rrclass, RRClass.ANY)
        for rr in answer
    )
