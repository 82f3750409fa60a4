"""Replies from a zone, including the targets of aliases outside of it.

Path: plugins/file.py, auto.py and secondary.py -> here -> lookup.py.
Rule 1: what an alias leads to in the cluster is as `fresh` in the reply as by itself, so that no cache keeps it after
        an event.
Source: CoreDNS 1.14.7 plugin/file file.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container
from typing import Final

from hsdns.authority.lookup import Result, find
from hsdns.authority.zone import Zone
from hsdns.chain import Request
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import Name

Resolve = Callable[[Request], Awaitable[Reply]]  # Runtime.resolve
_RCODES: Final = {
    Result.NXDOMAIN: Rcode.NXDOMAIN,
    Result.SERVFAIL: Rcode.SERVFAIL,
    Result.TOO_LONG: Rcode.YXDOMAIN,
}


async def answer(zone: Zone, request: Request, resolve: Resolve) -> tuple[Reply, bool]:
    """Return the reply to a question in a zone, and whether the name has no records, for `fallthrough`.

    Names outside of the zone are resolved with `resolve`, with the EDNS of the client.
    """
    query = request.query
    found = find(zone, query.qname, query.qtype, query.do)
    outside: Reply | None = None
    if found.target is not None:
        outside = await resolve(request.nested(found.target, query.qtype))
        found = found.with_target(zone, outside, query.do)
    if request.metadata is not None and found.wildcard is not None:
        wildcard = found.wildcard.to_text()
        request.metadata["zone/wildcard"] = lambda: wildcard
    unknown = not found.answer and found.result in (Result.NXDOMAIN, Result.EMPTY_NON_TERMINAL)
    if found.result == Result.SERVFAIL and not found.answer:
        return unwritten(Rcode.SERVFAIL), False
    reply = Reply(
        rcode=_RCODES.get(found.result, Rcode.NOERROR),
        answer=found.answer,
        authority=found.authority,
        additional=found.additional,
        aa=found.result != Result.DELEGATION or bool(found.answer),
    )
    return reply if outside is None else reply.leading_to(outside), unknown


def longest(qname: Name, zones: Container[Name]) -> Name | None:
    """Return the longest zone that contains a name, None if there is none."""
    for suffix in qname.ancestors():
        zone = Name(suffix)
        if zone in zones:
            return zone
    return None
