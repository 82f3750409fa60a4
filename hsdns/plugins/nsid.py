"""Tell clients that ask for it which server answered.

Path: step 5, above everything that answers, below `reload`.
Source: CoreDNS 1.14.7 plugin/nsid; RFC 5001.
Rule 1: only a query with an NSID option gets one back, and only in a reply that a handler made: what the server itself
        refuses goes back with the option as it came.
Rule 2: as in CoreDNS, a reply that has no OPT record of its own is given one with DO set and no other option in it.
Rule 3: not cacheable: the answer table sends the option back as it came.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final, Self

from hsdns.chain import Next, Request
from hsdns.corefile.properties import no_body, only_once
from hsdns.corefile.tree import CorefileError, Directive
from hsdns.plugin import Block, Plugin
from hsdns.wire.iana import OptCode
from hsdns.wire.message import Reply

MAX_DATA_LEN: Final = 4096  # octets; a reply whose options do not fit goes without any


class Nsid(Plugin):
    """Adds the NSID option."""

    name: ClassVar[str] = "nsid"

    def __init__(self, data: bytes) -> None:
        self.data = data

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `nsid [DATA...]`; without words it is the host's name."""
        directive = only_once(directives)
        no_body(directive)
        data = " ".join(token.text for token in directive.args) or os.uname().nodename
        octets = data.encode("utf-8", "surrogateescape")
        if len(octets) > MAX_DATA_LEN:
            raise CorefileError(
                directive.args[0].position,
                f"the data of nsid has {len(octets)} octets, at most {MAX_DATA_LEN} are allowed",
            )
        return cls(octets)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass everything on; write into the reply who made it."""
        reply = await next(request)
        edns = request.query.edns
        if edns is None or not reply.written or reply.dropped:
            return reply
        if all(code != OptCode.NSID for code, _ in edns.options):
            return reply
        mine = (int(OptCode.NSID), self.data)
        found = reply.edns_options
        if found is None:
            shown = replace(reply.edns or edns, do=True)
            return reply.replace(edns=shown, edns_options=(mine,))
        kept = tuple(mine if code == OptCode.NSID else (code, data) for code, data in found)
        return reply.replace(edns_options=kept if mine in kept else (*kept, mine))
