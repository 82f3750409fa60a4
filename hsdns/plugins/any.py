"""Returns a minimal reply to ANY queries.

Path: step 5, before all plugins that answer, after `log`.
Source: CoreDNS 1.14.7 plugin/any; RFC 8482 section 4.2.
Rule 1: the record has class IN, whatever the class of the question, and AA is clear.
Rule 2: cacheable: it only looks at the type, and its own replies are not stored in the answer table.
"""

from __future__ import annotations

from typing import Final

from hsdns.chain import Next, Request
from hsdns.plugin import Plugin
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.rdata import txt

TTL: Final = 8482  # seconds, as in CoreDNS: the number of the RFC
_HINFO: Final = txt(b"ANY obsoleted", b"See RFC 8482")  # two strings: CPU and OS (RFC 1035 3.3.2)


class Any(Plugin):
    """Answers ANY queries with a HINFO record."""

    cacheable = True

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer ANY queries, pass on the others."""
        if request.query.qtype != RRType.ANY:
            return await next(request)
        return Reply(answer=(RR(request.query.qname, RRType.HINFO, TTL, _HINFO),))

    recompute = handle  # this plugin only changes the reply
