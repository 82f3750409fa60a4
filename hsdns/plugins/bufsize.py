"""Limits the EDNS buffer size of clients, so that no UDP reply is fragmented.

Path: step 5, before `log` and all plugins that answer: they see the limited size.
Source: CoreDNS 1.14.7 plugin/bufsize; RFC 6891 section 6.2.5, DNS flag day 2020.
Rule 1: a size is only lowered, never raised, and a query without EDNS stays without.  The reply has the lowered size.
Rule 2: cacheable: the size depends only on the query; the answer table limits the sizes of its queries and replies to
        `max_payload` in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

from hsdns.chain import Next, Request
from hsdns.corefile.keys import optional_argument
from hsdns.corefile.properties import integer, no_body, one_of
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin
from hsdns.wire.encode import MIN_UDP_LEN
from hsdns.wire.message import Reply

DEFAULT_SIZE: Final = 1232  # an IPv6 packet of 1,280 octets less its headers
MAX_SIZE: Final = 4096  # RFC 6891 section 6.2.5


class Bufsize(Plugin):
    """Limits the EDNS payload size of queries."""

    cacheable = True

    def __init__(self, size: int = DEFAULT_SIZE) -> None:
        self.max_payload = size

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse `bufsize [SIZE]`."""
        directive = one_of(directives, block.warn)
        no_body(directive, may_be_empty=True)
        token = optional_argument(directive)
        return cls(integer(MIN_UDP_LEN, MAX_SIZE)(token) if token else DEFAULT_SIZE)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass all queries on, with a larger size lowered."""
        query = request.query
        if query.edns is None or query.edns.payload_size <= self.max_payload:
            return await next(request)
        lowered = query.edns.lowered(self.max_payload)
        reply = await next(request.replace(query=query.replace(edns=lowered)))
        return reply if reply.edns is not None else reply.replace(edns=lowered)

    recompute = handle  # this plugin only changes the reply
