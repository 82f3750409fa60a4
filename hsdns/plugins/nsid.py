"""Adds an identifier of this server to replies.

Path: step 5, before all plugins that answer.
Source: CoreDNS 1.14.7 plugin/nsid; RFC 5001.
Rule 1: only replies to a query with an NSID option contain one.  If the server itself replies REFUSED, the option is
        returned as received.
Rule 2: as in CoreDNS, a reply without an OPT record of its own gets one with the DO bit set and no other option.
Cacheable: no, because the answer table returns the option as received.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Self

from hsdns.chain import Next, Request
from hsdns.corefile.properties import no_body, only_once
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin
from hsdns.wire.iana import OptCode
from hsdns.wire.message import Reply

MAX_DATA_LEN: Final = 4096  # octets; the server drops all options of a reply if they do not fit


class Nsid(Plugin):
    """Adds the NSID option."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `nsid [DATA...]`; the default is the host name."""
        directive = only_once(directives)
        no_body(directive)
        data = " ".join(token.text for token in directive.args) or os.uname().nodename
        octets = data.encode("utf-8", "surrogateescape")
        if len(octets) > MAX_DATA_LEN:
            raise directive.args[0].error(
                f"the data of nsid has {len(octets)} octets; at most {MAX_DATA_LEN} are allowed"
            )
        return cls(octets)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass the query on, and add the identifier to the reply."""
        reply = await next(request)
        edns = request.query.edns
        if edns is None or not reply.written or reply.dropped:
            return reply
        if all(code != OptCode.NSID for code, _ in edns.options):
            return reply
        nsid = (int(OptCode.NSID), self.data)
        if reply.edns_options is None:
            shown = replace(reply.edns or edns, do=True)
            return reply.replace(edns=shown, edns_options=(nsid,))
        options = tuple(nsid if each[0] == OptCode.NSID else each for each in reply.edns_options)
        return reply.replace(edns_options=options if nsid in options else (*options, nsid))
