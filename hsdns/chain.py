"""The chain of handlers that a query takes, and the request that they pass on.

Path: step 5, `block_choice -> chain -> wire/encode`.
Rule 1: a handler returns a frozen Reply; to change what the handlers below it answer, it awaits `next(request)` and
        returns a changed copy.
Rule 2: all handlers are async, but run without an event loop: eager.start() steps the chain.  A handler that waits for
        something has `waits` (WaitsInTask) and gets a task of its own, so that `asyncio.timeout` works in it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

import msgspec

from hsdns.capability import has
from hsdns.cluster.freshness import Dependencies
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Query, Reply, unwritten
from hsdns.wire.name import Name


class Endpoint(NamedTuple):
    """An address and a port; IPv4 clients of a dual-stack socket have plain IPv4 addresses."""

    address: str
    port: int


class Earlier:
    """The time whose state of the cluster answers a request, in monotonic seconds.

    `differs` is set by what answers: whether the newest state has another answer.
    """

    __slots__ = ("differs", "time")

    def __init__(self, time: float) -> None:
        self.time = time
        self.differs = False

    def compare(self, reply: Reply | None, newest: Reply | None) -> None:
        """Note the reply and that of the newest state; None for a name that does not exist, and is passed on."""
        self.differs |= _records(reply) != _records(newest)


class Resolver(Protocol):
    """What answers a request with the chain that serves its name."""

    async def resolve(self, request: Request) -> Reply:
        """Answer."""


class Nowhere:
    """What a reply that is made before anybody asks is not made of: other lookups."""

    async def resolve(self, request: Request) -> Reply:
        """Answer nothing; a reply with a nested lookup is not stored."""
        return unwritten(Rcode.SERVFAIL)


NOWHERE: Final = Nowhere()


class Request(msgspec.Struct, frozen=True):
    """A query on its way down the chain, and what is known about it besides its bytes.

    `server` is the listener in the form of metric labels (`dns://:53`), `zone` the server block's zone that matched,
    `now` monotonic seconds, `depth` the number of lookups within this server that this one is nested in.
    `dependencies` collects what the reply depends on, None where there is no answer table.  `metadata` has a function
    for the value of each label (`kubernetes/namespace`), and handlers may add to it; None where the block has no
    `metadata`.  `view` is the name of the block's view, "" where it has none.  `resolver` answers lookups nested in
    this one in place of the listener, for a chain that is only observed.  `earlier` says that a state of the cluster
    before the newest one is to be answered from.
    """

    query: Query
    client: Endpoint
    local: Endpoint
    protocol: str  # "udp" or "tcp"
    server: str
    zone: Name
    now: float
    depth: int = 0
    dependencies: Dependencies | None = None
    metadata: dict[str, Callable[[], str]] | None = None
    view: str = ""
    resolver: Resolver | None = None
    earlier: Earlier | None = None

    def replace(self, **changes: object) -> Request:
        """Copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)

    def nested(self, qname: Name, qtype: int) -> Request:
        """Make the request for a lookup within this server, with the client's own flags and EDNS.

        The reply to this request is not stored in the answer table then: no counter tells when the other one changes.
        """
        if self.dependencies is not None:
            self.dependencies.mark_uncacheable()
        query = self.query
        asked = Query.ask(qname, qtype, query_id=query.id, flags=query.flags, edns=query.edns)
        return self.replace(query=asked, depth=self.depth + 1)


Next = Callable[[Request], Awaitable[Reply]]
Spawn = Callable[[Coroutine[Any, Any, Reply]], Awaitable[Reply]]


@runtime_checkable
class Handler(Protocol):
    """A plugin that has a place in the chain."""

    @property
    def name(self) -> str:
        """The name of its directive."""

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer, or pass on to `next`."""


@runtime_checkable
class WaitsInTask(Protocol):
    """A handler whose handle() waits, for an upstream, a timer or a user's own code."""

    waits: bool


def link(handlers: Sequence[Handler], spawn: Spawn) -> Next:
    """Make one callable of a block's handlers, the first one outermost."""
    last = handlers[-1].name if handlers else "block"

    async def end(request: Request) -> Reply:
        return unwritten(Rcode.SERVFAIL, f"plugin/{last}: no next plugin found")

    following: Next = end
    for handler in reversed(handlers):
        following = _bind(handler, following, spawn)
    return following


def _records(reply: Reply | None) -> tuple[object, ...]:
    """What a client learns from a reply; an order, and the serial beside a denial, are no difference."""
    if reply is None:
        return ()
    return reply.rcode, frozenset(reply.answer), frozenset(reply.additional), reply.tc


def _bind(handler: Handler, following: Next, spawn: Spawn) -> Next:
    handle = handler.handle
    if not has(handler, WaitsInTask) or not handler.waits:
        return lambda request: handle(request, following)
    return lambda request: spawn(handle(request, following))
