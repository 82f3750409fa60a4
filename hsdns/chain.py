"""Plugins, handlers and the chain that a query walks.

Path: step 5, `zones -> chain -> wire/encode`.
Rule 1: a handler returns a frozen Reply; to change what is below, it awaits `next(request)` and returns another one.
Rule 2: handlers are one colour (async) but run without an event loop: the chain is stepped by eager.start().  A handler
        that really waits says `waits = True` and is given a task of its own, so `asyncio.timeout` works in it.
Rule 3: opting in, not out: `cacheable` is False unless the handler's module doc says why its replies may be kept.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import msgspec

from hsdns.cluster.freshness import Counters, Dependencies
from hsdns.corefile.properties import Property
from hsdns.corefile.tree import Directive, Token
from hsdns.metrics import Registry
from hsdns.wire.edns import MAX_PAYLOAD_SIZE
from hsdns.wire.iana import Rcode
from hsdns.wire.message import RR, Query, Reply, unwritten
from hsdns.wire.name import Name


class Endpoint(NamedTuple):
    """An address and port as text and number; IPv4 clients of a dual-stack socket are plain IPv4 here."""

    address: str
    port: int


class Request(msgspec.Struct, frozen=True):
    """A query on its way down the chain, and what is known about it besides its bytes.

    `server` is the listener in the form of metric labels (`dns://:53`), `zone` the server block's zone that matched,
    `now` monotonic seconds, `depth` how many lookups of the server's own this one is nested in.  `dependencies`
    the answer depends on, where the fast path would keep it; None where nobody asks.  `metadata` gives the value of
    each label (`kubernetes/namespace`) when called, and handlers may add to it; None where the block has no `metadata`.
    `view` is the name of the block's view, "" where it has none.
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

    def replace(self, **changes: object) -> Request:
        """Copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)


Next = Callable[[Request], Awaitable[Reply]]
Spawn = Callable[[Coroutine[Any, Any, Reply]], Awaitable[Reply]]
HttpHandler = Callable[[str], tuple[int, str, bytes]]  # path?query -> status, content type, body


class Readiness(NamedTuple):
    """What plugins say to /ready, all sorted by name.

    `unready` names those that are not ready, `relapsed` those of them for whom having been ready once is not enough;
    `remarks` are lines for the operator: `kubernetes: serving a snapshot`.
    """

    unready: list[str]
    relapsed: list[str]
    remarks: list[str]

    @classmethod
    def of(cls, plugins: Iterable[Plugin]) -> Self:
        """Ask plugins; a name that stands in several blocks is named once."""
        asked = [(plugin, plugin.ready(), plugin.remark()) for plugin in plugins]
        unready = {plugin.name for plugin, ready, _ in asked if not ready}
        relapsed = {plugin.name for plugin, ready, _ in asked if not ready and plugin.may_relapse}
        remarks = {f"{plugin.name}: {remark}" for plugin, _, remark in asked if remark}
        return cls(sorted(unready), sorted(relapsed), sorted(remarks))


class Running(Protocol):
    """A task that ends when it is cancelled by whoever began it."""

    def cancel(self) -> object:
        """End it, in one of the next steps of the loop."""


class Runtime(Protocol):
    """What the edges hand to plugins that start: the only way to sockets, clocks, tasks and chance."""

    random: Random
    metrics: Registry
    counters: Counters  # what the fast path's answers depend on
    stopping: bool  # from SIGTERM on

    def clock(self) -> float:
        """Monotonic seconds."""

    def wall(self) -> float:
        """Seconds since the epoch."""

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> Awaitable[Any]:
        """Run a coroutine as a task that is cancelled when the configuration stops."""

    def spawn_lasting(self, coro: Coroutine[Any, Any, Any], name: str) -> Running:
        """Run a coroutine as a task that goes on when the configuration stops, for Plugin.inherit()."""

    async def resolve(self, request: Request) -> Reply:
        """Ask this very server, through whichever block owns the name (CoreDNS upstream.Lookup)."""

    def serve_http(self, address: str, paths: dict[str, HttpHandler]) -> None:
        """Answer GET requests for these paths on `host:port`; the socket outlives a reload that asks for it again."""

    def readiness(self) -> Readiness:
        """Ask all plugins whether they are ready."""

    def local_addresses(self, servers: Sequence[str]) -> list[str]:
        """Addresses on which these servers are reached: the bound ones, else all of this host but loopback."""

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition holds, at most so many seconds; tell whether it does."""

    def names_answered_first_changed(self) -> None:
        """Have names_answered_first() of all handlers asked again."""

    def fail(self, reason: str) -> None:
        """End the process with status 1, after logging the reason as fatal."""

    async def reload_if_changed(self) -> None:
        """Read the Corefile; where its digest is a new one change over, or log and count why not.  Never raises."""


class Block(NamedTuple):
    """What a plugin's setup may know of the server block that it stands in."""

    zones: tuple[Name, ...]
    servers: tuple[str, ...]  # one `dns://:53` for each key
    plugins: frozenset[str]  # names of all directives in the block
    # Imports are relative to this folder, other paths in the file to the working directory.
    corefile_dir: str
    validating: bool  # -validate: touch nothing but what is named in the Corefile
    warn: Callable[[str], None]  # a sentence for the operator that does not stop the start
    root: str = ""  # what `root` says: the folder of relative paths; "" is the working directory
    # The words of -source, which replaces the block's own `source`.
    source: tuple[Token, ...] | None = None

    def path(self, text: str) -> str:
        """A path that a directive names: relative ones are relative to the block's `root`."""
        return os.path.join(self.root, text)


class Transfer(NamedTuple):
    """A zone as one moment had it: its SOA record, and what stands between that and its repetition at the end."""

    soa: RR
    records: Iterator[RR]


class Plugin:
    """A directive of the Corefile.  Subclasses stand one a file in hsdns/plugins, named after the directive."""

    name: ClassVar[str]
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {}
    may_relapse: bool = False  # whether /ready goes on asking once the plugin was ready

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read all of a block's occurrences of the directive; raise CorefileError.  No sockets, no waiting."""
        raise NotImplementedError(cls.name)

    def inherit(self, old: Plugin) -> bool:
        """Share what a plugin of the configuration before has running; True where that is what this one would begin.

        Asked at a reload, before start(), of each pair with one name until one says yes.  Both may go on: the old one
        where the new configuration does not start, the new one where it does; stop() of each gives up its share.
        """
        return False

    async def start(self, runtime: Runtime) -> None:
        """Begin what runs beside the queries; called once, in ORDER, before the block's sockets are read."""

    async def stop(self) -> None:
        """End it; called once, in ORDER, also when a later plugin's start failed."""

    def ready(self) -> bool:
        """Whether /ready may say yes for this plugin."""
        return True

    def remark(self) -> str:
        """What an operator should know of a plugin that is ready all the same; one line, "" for nothing."""
        return ""


class Handler(Plugin):
    """A plugin that stands in the chain."""

    waits: ClassVar[bool] = False
    cacheable: bool = False
    rotates: ClassVar[bool] = False  # whether it puts addresses in another order each time
    counts: ClassVar[bool] = False  # whether it counts what passes
    guards: ClassVar[bool] = False  # whether enter() is to be asked
    max_payload: int = MAX_PAYLOAD_SIZE  # the largest EDNS payload size that it lets through
    view: str = ""  # the view that it makes of its block

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer, or pass on to `next`."""
        raise NotImplementedError(self.name)

    def meet(self, handlers: Sequence[Handler]) -> None:
        """Learn who stands in the same chain; called once, when all blocks are set up."""

    def enter(self, request: Request) -> Request | None:
        """Look at a query before its block is chosen; None where the block is not for it.  Only with `guards`."""
        return request

    def transfer(self, zone: Name) -> Transfer | None:
        """All of a zone, for `transfer`; None where it has no such zone, LookupError where it has not got it yet."""
        return None

    def metadata(self, request: Request) -> Mapping[str, Callable[[], str]]:
        """What it knows of a query: a label `PLUGIN/NAME` and how to find its value; called for every query."""
        return {}

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """Names in a zone at or below which it may answer before those behind it; None for any.

        When what it says would change, the handler calls Runtime.names_answered_first_changed().
        """
        return ()


def hand_over(old: Iterable[Plugin], new: Iterable[Plugin]) -> None:
    """Let the plugins of a new configuration, none of them started, inherit from those that run."""
    running = list(old)
    for plugin in new:
        for known in running:
            if known.name == plugin.name and plugin.inherit(known):
                break


def fold(handlers: Sequence[Handler], spawn: Spawn) -> Next:
    """Make one callable of a block's handlers, first one outermost."""
    last = handlers[-1].name if handlers else "block"

    async def end(request: Request) -> Reply:
        return unwritten(Rcode.SERVFAIL, f"plugin/{last}: no next plugin found")

    following: Next = end
    for handler in reversed(handlers):
        following = _bind(handler, following, spawn)
    return following


def _bind(handler: Handler, following: Next, spawn: Spawn) -> Next:
    handle = handler.handle
    if not handler.waits:
        return lambda request: handle(request, following)
    return lambda request: spawn(handle(request, following))
