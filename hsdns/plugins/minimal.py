"""Leave the authority and additional sections out of answers that do not need them.

Path: step 5, below `cache` and above all that answers.
Source: CoreDNS 1.14.7 plugin/minimal.
Rule 1: only a positive answer is made smaller.  A referral is its authority section, and a denial needs its SOA record
        (RFC 2308); errors, NOTIFY and zone transfers stay as they are too.
Rule 2: the OPT record counts to the additional section: an upstream's or a handler's own gives way to the one that
        answers the query's.
Rule 3: cacheable: what it does depends on the reply alone, and it leaves NXDOMAIN as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from hsdns.chain import Next, Request
from hsdns.corefile.properties import no_arguments, no_body, one_of
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.wire.message import Reply
from hsdns.wire.outcome import Outcome, outcome


class Minimal(Plugin):
    """Strips positive answers."""

    name: ClassVar[str] = "minimal"
    cacheable = True

    def __init__(self) -> None:
        self._runtime: Runtime

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Take no options."""
        directive = one_of(directives, block.warn)
        no_arguments(directive)
        no_body(directive)
        return cls()

    async def start(self, runtime: Runtime) -> None:
        """Take the wall clock: an answer whose signatures are out of their time is no positive one."""
        self._runtime = runtime

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass everything on, and take from the reply what it can do without."""
        reply = await next(request)
        if reply.dropped or not reply.written:
            return reply
        has_own_opt = reply.edns is not None or reply.edns_options is not None
        if not (reply.authority or reply.additional or has_own_opt):
            return reply
        if outcome(request.query, reply, self._runtime.wall) is not Outcome.POSITIVE:
            return reply
        return reply.replace(authority=(), additional=(), edns=None, edns_options=None)
