"""Where the CNAME chain of an answer leads, and whether the answer answers its question.

Path: beside message.py; the `cache` plugin asks before it keeps a reply.
Source: RFC 1034 section 3.6.2, RFC 2181 section 10.1, RFC 2308 section 2.2; CoreDNS 1.14.7 plugin/cache/cache.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from hsdns.wire.iana import RRClass, RRType
from hsdns.wire.message import RR, Query


def follow(answer: Sequence[RR], start: bytes, qclass: int = RRClass.IN) -> bytes | None:
    """Lower-case wire form of the name at the end of the chain; None where the chain forks or is a circle."""
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
    """Tell whether the answer holds the type asked for at the end of the chain that starts at the name asked for.

    A CNAME question is answered by that name's own CNAME, an ANY question by any record of the name.
    """
    qtype, qclass, name = query.qtype, query.qclass, query.qname.lower
    if qtype == RRType.CNAME:
        own = {
            rr.rdata.lower()
            for rr in answer
            if rr.rrtype == qtype and rr.owner.lower == name and qclass in (rr.rrclass, RRClass.ANY)
        }
        return len(own) == 1
    end = name if qtype == RRType.ANY else follow(answer, name, qclass)
    return end is not None and any(
        qtype in (rr.rrtype, RRType.ANY)
        and rr.owner.lower == end
        and qclass in (rr.rrclass, RRClass.ANY)
        for rr in answer
    )
