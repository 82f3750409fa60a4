"""Give up on a query that takes too long.

Path: step 5, below `prometheus`, `errors` and `log`, which see what it answers, and above all that may take time.
Source: CoreDNS 1.14.7 plugin/cancel.
Rule 1: what has no answer in time is stopped where it waits, and the client gets SERVFAIL at once: it would ask again
        anyway, and an answer keeps it from waiting.
Rule 2: every query is given a task of its own, so that it can be stopped.
Rule 3: cacheable: a reply from the answer table never waits.
"""

from __future__ import annotations

from asyncio import timeout
from collections.abc import Sequence
from typing import ClassVar, Final, Self

from hsdns.chain import Next, Request
from hsdns.corefile.arguments import optional_argument
from hsdns.corefile.properties import duration, duration_to_text, no_body, one_of
from hsdns.corefile.tree import CorefileError, Directive
from hsdns.plugin import Block, Plugin
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten

DEFAULT_TIMEOUT: Final = 5.001  # seconds; clients wait for five


class Cancel(Plugin):
    """Stops queries that take too long; the time in seconds."""

    name: ClassVar[str] = "cancel"
    waits: ClassVar[bool] = True
    cacheable = True

    def __init__(self, seconds: float = DEFAULT_TIMEOUT) -> None:
        self.seconds = seconds

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `cancel [TIMEOUT]`."""
        directive = one_of(directives, block.warn, last=True)
        no_body(directive)
        token = optional_argument(directive)
        if token is None:
            return cls()
        seconds = duration()(token)
        if seconds == 0:
            raise CorefileError(
                token.position, f'"{token.text}" leaves no time to answer; give more than 0s'
            )
        return cls(seconds)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass everything on, and wait no longer than that."""
        limit = timeout(self.seconds)
        try:
            async with limit:
                return await next(request)
        except TimeoutError:
            if not limit.expired():  # a handler's own, which is its to explain
                raise
            return unwritten(
                Rcode.SERVFAIL, f"plugin/cancel: no answer within {duration_to_text(self.seconds)}"
            )
