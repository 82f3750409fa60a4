"""Cancels queries that exceed a timeout.

Path: step 5, after `prometheus`, `errors` and `log`, which see its reply, and before all plugins that may take time.
Source: CoreDNS 1.14.7 plugin/cancel.
Rule 1: a query without a reply in time is cancelled where it waits, and the client gets SERVFAIL at once instead of
        running into its own timeout.
Rule 2: every query gets a task of its own, so that it can be cancelled.
Rule 3: cacheable: replies in the answer table need no waiting.
"""

from __future__ import annotations

from asyncio import timeout
from collections.abc import Sequence
from typing import ClassVar, Final, Self

from hsdns.chain import Next, Request
from hsdns.corefile.keys import optional_argument
from hsdns.corefile.properties import duration, duration_to_text, no_body, one_of
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten

DEFAULT_TIMEOUT: Final = 5.001  # seconds; clients wait for five


class Cancel(Plugin):
    """Cancels queries after `seconds`."""

    waits: ClassVar[bool] = True
    cacheable = True

    def __init__(self, seconds: float = DEFAULT_TIMEOUT) -> None:
        self.seconds = seconds

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse `cancel [TIMEOUT]`."""
        directive = one_of(directives, block.warn, last=True)
        no_body(directive, may_be_empty=True)
        if directive.is_one_line:
            raise directive.error('CoreDNS takes this "}" for the timeout; put it on its own line')
        token = optional_argument(directive)
        if token is None:
            return cls()
        seconds = duration()(token)
        if seconds == 0:
            raise token.error(f'"{token.text}" leaves no time to answer; give more than 0s')
        return cls(seconds)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass all queries on; answer SERVFAIL after the timeout."""
        limit = timeout(self.seconds)
        try:
            async with limit:
                return await next(request)
        except TimeoutError:
            if not limit.expired():  # raised by a handler, which reports it itself
                raise
            return unwritten(
                Rcode.SERVFAIL, f"plugin/cancel: no answer within {duration_to_text(self.seconds)}"
            )
