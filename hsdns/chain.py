"""The chain of handlers that a query takes, the request that they pass on, and which server block has the chain.

Path: steps 4 and 5, `decode -> BlockChoice -> chain -> wire/encode`.
Rule 1: a handler returns a frozen Reply; to change what the handlers below it answer, it awaits `next(request)` and
        returns a changed copy.
Rule 2: all handlers are async, but run without an event loop: eager.start() steps the chain.  A handler that waits has
        `waits` (WaitsInTask) and runs in its own task, so that `asyncio.timeout` works in it.

Whether a plugin has a capability: a runtime-checkable protocol, as plugin.py lists them:
Rule: isinstance() is asked once for each class: on Python 3.11 it takes 10 µs for a protocol, and a dozen of them for
      each of thousands of blocks were half a second of each reload.

Which server block answers a query:
Source: CoreDNS 1.14.7 core/dnsserver/server.go, ServeDNS.
Rule 1: the longest zone wins, compared label by label; the root zone is the last resort; no zone is REFUSED.
Rule 2: a DS query belongs to the parent's side of a zone cut: it takes the shortest zone that matches, the root zone
        only where no other does.
Rule 3: where `view` lets several blocks serve one zone, they are tried in file order, then those of the next shorter
        zone.  A DS query then goes to the last block that takes it, of the root zone's blocks to the first.
Rule 4: each block's filters get the query as it came in, so no block sees what the filters of another one add.
Rule 5: a block without handlers refuses the query; where blocks have filters, that of the root zone is passed over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NamedTuple,
    Protocol,
    Self,
    TypeVar,
    runtime_checkable,
)

import msgspec

from hsdns.cluster.freshness import Dependencies
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query, Replaceable, Reply, unwritten
from hsdns.wire.name import ROOT, Name

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T")
_CAPACITY: Final = 1_000  # so that classes of modules that were loaded again are freed at last
_known: dict[tuple[type[Any], type[Any]], bool] = {}


def has(plugin: object, capability: type[T]) -> TypeIs[T]:
    """Whether it has, as isinstance() has said of the first one of its class."""
    key = type(plugin), capability
    found = _known.get(key)
    if found is None:
        if len(_known) >= _CAPACITY:
            _known.clear()
        found = _known[key] = isinstance(plugin, capability)
    return found


class Endpoint(NamedTuple):
    """An address and a port; IPv4 clients of a dual-stack socket have plain IPv4 addresses."""

    address: str
    port: int


class Earlier:
    """The time of the cluster state that answers a request, in monotonic seconds.

    The handler that answers sets `differs` if the current state has another answer.
    """

    __slots__ = ("differs", "time")

    def __init__(self, time: float) -> None:
        self.time = time
        self.differs = False

    def compare(self, reply: Reply | None, newest: Reply | None) -> None:
        """Compare the reply with the reply of the current state; None if the name does not exist and falls through."""
        self.differs |= _records(reply) != _records(newest)


class Resolver(Protocol):
    """Answers a request with the chain of the block for its name."""

    async def resolve(self, request: Request) -> Reply:
        """Answer."""


class Nowhere:
    """The resolver of recomputed replies, which must not contain nested lookups."""

    async def resolve(self, request: Request) -> Reply:
        """Return SERVFAIL, so that a reply with a nested lookup is not stored."""
        return unwritten(Rcode.SERVFAIL)


NOWHERE: Final = Nowhere()


class Request(Replaceable, frozen=True):
    """A query on its way down the chain, with its context.

    `server` is the listener in the form of metric labels (`dns://:53`), `zone` the server block's zone that matched,
    `now` monotonic seconds, `depth` the number of lookups within this server that this one is nested in.
    `dependencies` collects what the reply depends on, None where there is no answer table.  `metadata` has a function
    for the value of each label (`kubernetes/namespace`), and handlers may add to it; None where the block has no
    `metadata`.  `view` is the name of the block's view, "" if it has none.  `resolver` answers nested lookups instead
    of the
    listener, for a chain that is only observed.  `earlier` selects an earlier state of the cluster for the answer.
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

    def nested(self, qname: Name, qtype: int) -> Request:
        """Make the request for a lookup within this server, with the client's own flags and EDNS.

        The reply to this request is then not stored in the answer table, because no counter covers the nested reply.
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
    """Link a block's handlers to one callable, the first one outermost."""
    last = handlers[-1].name if handlers else "block"

    async def end(request: Request) -> Reply:
        return unwritten(Rcode.SERVFAIL, f"plugin/{last}: no next plugin found")

    following: Next = end
    for handler in reversed(handlers):
        following = _bind(handler, following, spawn)
    return following


def all_names(found: Iterable[Sequence[Name] | None]) -> tuple[Name, ...] | None:
    """The names that several parts of a chain answer first; None, for any name, if one of them does."""
    names: list[Name] = []
    for each in found:
        if each is None:
            return None
        names += each
    return tuple(names)


def zones_within(zone: Name, own: Sequence[Name]) -> tuple[Name, ...] | None:
    """The names in a zone that a handler with zones of its own answers first: those; None if one contains it all."""
    if any(zone.is_at_or_below(each) for each in own):
        return None
    return tuple(each for each in own if each.is_at_or_below(zone))


def _records(reply: Reply | None) -> tuple[object, ...]:
    """The parts of a reply that matter to a client; the order and the serial of a denial are ignored."""
    if reply is None:
        return ()
    return reply.rcode, frozenset(reply.answer), frozenset(reply.additional), reply.tc


def _bind(handler: Handler, following: Next, spawn: Spawn) -> Next:
    handle = handler.handle
    if not has(handler, WaitsInTask) or not handler.waits:
        return lambda request: handle(request, following)
    return lambda request: spawn(handle(request, following))


_ROOT: Final = ROOT.lower


@runtime_checkable
class RequestFilter(Protocol):
    """A handler that sees a query before its block is chosen (CoreDNS: Viewer and FilterFunc, `metadata`)."""

    def filter_request(self, request: Request) -> Request | None:
        """Return the request as the block is to see it; None where the query is not for this block."""


class Candidate(NamedTuple, Generic[T]):
    """A block that serves a zone: its chain, or what else is to be found; None for a block without handlers."""

    zone: Name
    block: T | None
    filters: tuple[RequestFilter, ...] = ()


class BlockChoice(Generic[T]):
    """The server blocks of one listener.

    `blocks` gives the candidates of each zone in file order.
    """

    def __init__(self, blocks: Mapping[Name, Sequence[Candidate[T]]]) -> None:
        self._candidates = {zone.lower: tuple(found) for zone, found in blocks.items()}
        self._first = {
            zone: found[0]._replace(zone=ROOT) if found[0].zone == ROOT else found[0]
            for zone, found in self._candidates.items()
        }
        self._only_root = self._first.get(_ROOT) if len(self._first) == 1 else None
        self._has_filters = any(
            each.filters for found in self._candidates.values() for each in found
        )

    @classmethod
    def by_zone(cls, blocks: Mapping[Name, T | None]) -> Self:
        """Choose by the zone alone, one block for each."""
        return cls({zone: (Candidate(zone, block),) for zone, block in blocks.items()})

    def choose(self, request: Request) -> tuple[Request, T] | None:
        """Find the block for a query, and the request as that block sees it; None where the query is refused.

        Raises what a filter raises.
        """
        query = request.query
        if self._has_filters:
            return self._choose_filtered(request)
        found = self._only_root or self.match(query.qname, query.qtype)
        if found is None or found.block is None:
            return None
        zone = found.zone
        if request.zone is not zone:
            request = msgspec.structs.replace(request, zone=zone)
        return request, found.block

    def match(self, qname: Name, qtype: int) -> Candidate[T] | None:
        """Find the zone for a question, and the first block that serves it, whatever its filters say."""
        if self._only_root is not None:
            return self._only_root
        found = None
        first = self._first
        for suffix in qname.ancestors():
            candidate = first.get(suffix)
            if candidate is not None:
                if suffix == _ROOT and found is not None:
                    return found  # Rule 2
                found = candidate
                if qtype != RRType.DS:
                    return found
        return found

    def _choose_filtered(self, request: Request) -> tuple[Request, T] | None:
        query = request.query
        found: tuple[Request, T] | None = None
        for suffix in query.qname.ancestors():
            is_root = suffix == _ROOT
            if is_root and found is not None:
                break
            for candidate in self._candidates.get(suffix, ()):
                if candidate.block is None:
                    if is_root:
                        continue
                    return None
                filtered = _filter(request.replace(zone=candidate.zone), candidate.filters)
                if filtered is not None:
                    found = filtered, candidate.block
                    if query.qtype != RRType.DS or (is_root and query.qname != ROOT):
                        return found
        return found


def _filter(request: Request, filters: Sequence[RequestFilter]) -> Request | None:
    filtered: Request | None = request
    for each in filters:
        if filtered is None:
            return None
        filtered = each.filter_request(filtered)
    return filtered
