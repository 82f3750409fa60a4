"""Removes authority and additional records from positive replies.

Path: step 5, after `cache` and before all plugins that answer.
Source: CoreDNS 1.14.7 plugin/minimal.
Rule 1: only positive replies are changed.  A referral needs its NS records and a negative reply its SOA record
        (RFC 2308); errors, NOTIFY and zone transfers are not changed either.
Rule 2: the OPT record is part of the additional section: one from an upstream or a handler is replaced by the server's.
Cacheable: yes, because its changes depend on the reply alone, and negative replies are not changed.
"""

from __future__ import annotations

from hsdns.chain import Next, Request
from hsdns.plugin import Plugin
from hsdns.wire.message import Outcome, Reply, outcome


class Minimal(Plugin):
    """Removes records from positive replies."""

    cacheable = True

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass the query on, and remove the records from a positive reply."""
        reply = await next(request)
        if reply.dropped or not reply.written:
            return reply
        has_own_opt = reply.edns is not None or reply.edns_options is not None
        if not (reply.authority or reply.additional or has_own_opt):
            return reply
        # By the wall clock: a reply with expired signatures is not positive.
        if outcome(request.query, reply, self._runtime.wall) is not Outcome.POSITIVE:
            return reply
        return reply.replace(authority=(), additional=(), edns=None, edns_options=None)

    recompute = handle  # this plugin only changes the reply
