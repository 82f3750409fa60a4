"""A query processor whose whole chain is one function of the test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hsdns.chain import BlockChoice, Request
from hsdns.query import QueryProcessor
from hsdns.wire import rdata
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import ROOT

Answer = Callable[[Request], Awaitable[Reply]]


def processor(answer: Answer, server: str = "dns://:53") -> QueryProcessor:
    """Make a processor whose root block is one function."""
    return QueryProcessor(server, BlockChoice.by_zone({ROOT: answer}))


async def asked_address(request: Request) -> Reply:
    """Answer with the address that was asked, whatever the question."""
    packed = rdata.address(request.local.address)
    rrtype = RRType.A if len(packed) == 4 else RRType.AAAA
    return Reply(answer=(RR(request.query.qname, rrtype, 0, packed),), aa=True)
