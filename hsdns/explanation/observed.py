"""A server block's chain, linked from its own handlers with an observer around each.

Path: explain.py -> here -> QueryProcessor.resolve() -> the handlers of the block.
Rule 1: the serving chain has no observers, so they cost queries nothing; an observed chain is linked separately.
Rule 2: plugins that only write logs and metrics of queries are left out.  `cache` is read, but neither stores nor
        counts.  Rules of `fault` only describe their effect; the answer without them is explained.  So an explanation
        does not count as a query in the server's statistics.
Rule 3: without `asks`, an explanation sends no queries: a plugin that would query another server names it instead.
        With it, the plugin queries the server, as for a client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from msgspec import structs

from hsdns.chain import Handler, Next, Request, Spawn, WaitsInTask, has, link
from hsdns.cluster.address import is_reverse
from hsdns.cluster.freshness import Counters
from hsdns.fastpath import Peeked
from hsdns.faults.handler import FaultHandler
from hsdns.faults.rules import Rule
from hsdns.plugins.cache import Cache
from hsdns.plugins.fault import Fault
from hsdns.plugins.forward import Forward
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.plugins.secondary import Secondary
from hsdns.query import MAX_DEPTH, QueryProcessor
from hsdns.upstream.target import HostTarget, Target
from hsdns.wire import counted
from hsdns.wire.edns import Edns
from hsdns.wire.iana import OptCode, Rcode, rcode_to_text, type_to_text
from hsdns.wire.message import Query, Reply, unwritten

# The interface of explanations to their surroundings: a command, or a running server.


Run = Callable[[Coroutine[Any, Any, Reply]], Awaitable[Reply]]
Pause = Callable[[], Awaitable[None]]
Peek = Callable[[str, bytes, float], Peeked | None]


async def _at_once(asking: Coroutine[Any, Any, Reply]) -> Reply:
    return await asking


async def go_on() -> None:
    """No pause: nothing else is to run meanwhile."""


def _nothing(server: str, query: bytes, now: float) -> Peeked | None:
    return None


class Edges(NamedTuple):
    """The surroundings of explanations: whether other servers are queried, how a chain runs, when to pause.

    `run` runs a coroutine that may wait, `spawn` runs handlers in tasks, `pause` lets other work run, `clock` is
    monotonic seconds.  `counters` are the counters of the answer tables, None if there are none.  `peek` looks a
    query's octets up in the table of a server, as metrics name it, at a time in monotonic seconds, without changing the
    table.  `is_builtin`: the Corefile is the built-in one, and the cluster's own servers may forward what it refuses.
    `is_elsewhere`: the server may run on another machine, which has other files with nameservers.  With `acts` the
    plugins act as for the query of a client.
    """

    spawn: Spawn
    asks: bool = False
    run: Run = _at_once
    pause: Pause = go_on
    clock: Callable[[], float] = lambda: 0.0
    counters: Counters | None = None
    peek: Peek = _nothing
    is_builtin: bool = False
    is_elsewhere: bool = False
    acts: bool = False


# They write logs and metrics, or look after the server.
LEFT_OUT: Final = frozenset(
    {"cancel", "debug", "errors", "health", "log", "loop", "pprof", "prometheus", "ready", "reload"}
)
UPSTREAM: Final = "forward/upstream"  # metadata of `forward`
PAYLOAD: Final = 1232  # octets


class Visit:
    """The actions of one handler: the query that it passed on, the reply that it got, and its own reply."""

    def __init__(self, handler: Handler, request: Request) -> None:
        self.handler, self.request = handler, request
        self.passed: Request | None = None
        self.below: Reply | None = None
        self.reply: Reply | None = None
        self.whom = ""  # servers that it would query
        self.is_loop = False  # whether these are on this host
        self.is_own = False  # whether it asked this server itself
        self.told = ""  # replaces the description of its replies
        # Rules of `fault`, and whether they hit for sure.
        self.foreseen: Sequence[tuple[Rule, bool]] | None = None

    @property
    def would_ask(self) -> str:
        """A description of the other server that it would query, "" if it would not."""
        if self.is_loop:
            return (
                f"queries {self.whom}, a loopback address: in a Pod that is the Pod itself, so the query comes back to "
                "this server; name the upstreams, or give the kubelet a `resolvConf` that does"
            )
        return f"would query {self.whom}; an explanation sends no queries" if self.whom else ""

    @property
    def did(self) -> str:
        """A description of what it did."""
        if self.would_ask:
            return self.would_ask
        if self.foreseen is not None:
            told = (rule.cause(hits=hits).sentence for rule, hits in self.foreseen)
            return "; ".join(told).replace("fault rule", "rule") or "passed on: no rule is about it"
        reply, parts = self.reply, []
        if reply is None:
            return "raised an error"
        if self.told:
            return f"{self.told}; {summary(reply)}"
        if self.passed is not None:
            own, on = self.request.query, self.passed.query
            if on.qname != own.qname:
                parts.append(f"changed the name to {on.qname.to_text()}")
            if on.qtype != own.qtype:
                parts.append(f"changed the type to {type_to_text(on.qtype)}")
            parts += _changes(self.below, reply)
            if not parts:
                zones = getattr(self.handler, "zones", None)
                if isinstance(self.handler, Cache) and self.below is not None and self.below.fresh:
                    return "passed on: it does not cache names of the cluster"
                is_outside = zones and own.qname.longest_of(zones) is None
                return "passed on: the name is in none of its zones" if is_outside else "passed on"
            return "; ".join(parts)
        return f"answered {summary(reply)}"


def summary(reply: Reply) -> str:
    """A description of a reply."""
    rcode = rcode_to_text(reply.rcode)
    if reply.answer:
        return f"{rcode} with {counted(len(reply.answer), 'record')}"
    return rcode if reply.rcode else f"{rcode} without records"


def _changes(below: Reply | None, reply: Reply) -> list[str]:
    if below is None or below is reply:
        return []
    found = []
    if below.rcode != reply.rcode:
        found.append(f"changed {rcode_to_text(below.rcode)} to {rcode_to_text(reply.rcode)}")
    if below.answer != reply.answer:
        before, after = set(below.answer), set(reply.answer)
        if before == after:
            found.append("changed the order of the records")
        elif {each.rdata for each in below.answer} == {each.rdata for each in reply.answer}:
            ttls = sorted({each.ttl for each in reply.answer})
            owners = {each.owner for each in below.answer} == {each.owner for each in reply.answer}
            found.append(
                f"changed the TTL to {', '.join(map(str, ttls))}"
                if owners
                else "changed the owners"
            )
        else:
            found.append(f"changed the answer to {summary(reply)}")
    return found


class _Observer:
    """A wrapper around a handler."""

    def __init__(self, handler: Handler, visits: list[Visit], edges: Edges) -> None:
        self.name = handler.name
        self.waits = has(handler, WaitsInTask) and handler.waits
        self._handler, self._visits, self._edges = handler, visits, edges

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        handler, clock = self._handler, self._edges.clock
        visit = Visit(handler, request)
        self._visits.append(visit)
        asks, acts = self._edges.asks, self._edges.acts
        whom, is_loop, is_elsewhere = _server_asked(handler, request)
        if is_elsewhere and self._edges.is_elsewhere:
            whom, is_loop, asks = is_elsewhere, False, False
        if whom and not asks:
            visit.whom, visit.is_loop = whom, is_loop
            visit.reply = unwritten(Rcode.SERVFAIL)
            return visit.reply

        if isinstance(handler, Fault | FaultHandler) and not acts:
            visit.foreseen = handler.foresee(request)
            visit.passed = request
            visit.below = visit.reply = await next(request)
            return visit.reply

        async def following(passed: Request) -> Reply:
            visit.passed = passed
            visit.below = await next(passed)
            return visit.below

        if isinstance(handler, Cache) and not acts:
            visit.reply, visit.told = await handler.look(request, following)
        elif isinstance(handler, Forward) and whom:
            # With EDNS an upstream says why it fails.
            query = structs.replace(request.query, edns=request.query.edns or Edns(PAYLOAD))
            noting = request.replace(query=query, metadata={**(request.metadata or {})})
            began = clock()
            visit.reply = await handler.handle(noting, following)
            asked = (noting.metadata or {}).get(UPSTREAM)
            took = f"{(clock() - began) * 1000:.1f} ms"
            if asked is not None and visit.passed is None:
                visit.is_own = _is_own(handler, request)
                itself = ", which is this server itself" if visit.is_own else ""
                ede = _extended_error(visit.reply)
                visit.told = f"queried {asked()}{itself}; it took {took}{ede}"
        else:
            visit.reply = await handler.handle(request, following)
        return visit.reply


def _server_asked(handler: Handler, request: Request) -> tuple[str, bool, str]:
    """The servers that a plugin would query, if any, whether all are on this host, and what they are on another one."""
    qname = request.query.qname
    if isinstance(handler, Forward):
        for route in handler.routes:
            if route.matches(qname):
                words = [
                    f"{each.host}:{each.port}" if isinstance(each, HostTarget) else str(each)
                    for each in route.targets
                ]
                files = " and ".join(route.files)
                there = f"the nameservers in {files} of its machine" if files else ""
                return " or ".join(words), all(map(_is_loopback, route.targets)), there
    if isinstance(handler, Secondary) and qname.longest_of(handler.zones) is not None:
        return "the primary server of its zone", False, ""
    return "", False, ""


def _is_own(forward: Forward, request: Request) -> bool:
    """Whether all upstreams of a name are at the port of its server, on this host."""
    port = request.server.rpartition(":")[2]
    routes = [each for each in forward.routes if each.matches(request.query.qname)][:1]
    return all(
        _is_loopback(each) and str(each.port) == port for route in routes for each in route.targets
    )


# Of an upstream's errors those that people can do something about (RFC 8914).
_ERRORS: Final = {
    6: "DNSSEC Bogus", 7: "Signature Expired", 9: "DNSKEY Missing", 10: "RRSIGs Missing", 15: "Blocked",
    17: "Filtered", 18: "Prohibited", 22: "No Reachable Authority", 23: "Network Error",
}  # fmt: skip


def _extended_error(reply: Reply) -> str:
    """What an upstream says of its failure, as the end of a sentence."""
    for code, data in reply.edns_options or ():
        if code == OptCode.EDE and len(data) >= 2:
            number, said = int.from_bytes(data[:2], "big"), data[2:].decode("utf-8", "replace")
            name = _ERRORS.get(number, f"extended error {number}")
            return f"; it says: {name}{f', {said}' if said else ''}"
    return ""


def _is_loopback(target: Target | HostTarget) -> bool:
    return isinstance(target, Target) and ip_address(target.address).is_loopback


def observed_chain(handlers: Sequence[Handler], visits: list[Visit], edges: Edges) -> Next:
    """Link the handlers of a block when it is first used; each adds its visit to the visits."""

    def ask(request: Request) -> Awaitable[Reply]:
        shown = (each for each in handlers if edges.acts or each.name not in LEFT_OUT)
        return link([_Observer(each, visits, edges) for each in shown], edges.spawn)(request)

    return ask


class Doubt(NamedTuple):
    """Why a reply is not known, empty if it is; `goes_on`: a resolver asks for another name if this one is missing.

    `is_unread`: for want of rights, objects of the cluster are not known.
    """

    why: str = ""
    goes_on: bool = False
    is_unread: bool = False


NO_FORWARD: Final = (
    "{} is outside of the cluster, and the built-in Corefile has no server for it; "
    "name the Corefile of the cluster with --conf"
)


@dataclass(eq=False, kw_only=True)
class ObservedProcessor(QueryProcessor):
    """Answers a query and the lookups nested in it; `visits` are those of its chains."""

    visits: list[Visit]
    is_builtin: bool = False
    refused: list[Request] = field(default_factory=list)

    async def resolve(self, request: Request) -> Reply:
        """Answer; the targets of CNAME records come here, too."""
        if self.blocks.choose(request) is None:
            self.refused.append(request)
        return await super().resolve(request.replace(resolver=self))

    def doubt(self) -> Doubt:
        """Why the reply is not that of a server, after the query."""
        raised = [each for each in self.visits if each.reply is None]
        if raised:
            return Doubt(
                f"plugin {raised[-1].handler.name} raised an error, which the log describes"
            )
        for each in self.visits:
            if isinstance(each.handler, Kubernetes):
                block = each.handler
                is_partial = block.store.serves
                if why := not_known(block, each.request.query):
                    return Doubt(why, is_partial and each.request.depth == 0, is_partial)
        others = [
            (each.request, f"{each.whom} would answer for {{}}")
            for each in self.visits
            if each.whom
        ]
        refused = self.refused if self.is_builtin else ()
        for request, why in (*others, *((each, NO_FORWARD) for each in refused)):
            asked = request.query.qname.to_text().removesuffix(".")
            return Doubt(why.format(asked), request.depth == 0)
        return Doubt()


def not_known(block: Kubernetes, query: Query, depth: int = 0) -> str:
    """Why it is not known whether the cluster has a name of a block; "" if it is, or is not in its zones."""
    name = query.qname
    zone = name.longest_of(block.zones)
    if zone is None or not (block.unread() and depth <= MAX_DEPTH):
        return ""
    if not block.store.serves or is_reverse(name):
        is_missing = not block.store.serves or block.answers.is_missing(name, query.qtype, zone)
        return block.unread() if is_missing else ""
    parsed = block.answers.lookup.parse(name, zone)
    if parsed is None or not parsed.namespace:
        return ""
    if block.answers.is_missing(name, query.qtype, zone):
        return block.unread(parsed.namespace.decode("utf-8", "replace"))
    value = block.store.services.values.get((parsed.namespace, parsed.name))
    alias = None if value is None else value.external_name
    return "" if alias is None else not_known(block, Query.ask(alias, query.qtype), depth + 1)


def cluster_visit(visits: Sequence[Visit], rcode: int) -> Visit | None:
    """The visit of a kubernetes plugin to a name in its zones: the one that has the name, else the first.

    None if autopath went on to a plugin that failed: then the name of the cluster does not matter.
    """
    made = [each for each in visits if each.passed is None]
    found = [
        each
        for each in visits
        if isinstance(each.handler, Kubernetes)
        and each.request.query.qname.longest_of(each.handler.zones)
    ]
    has = [each for each in found if each in made and each.reply and not each.reply.rcode]
    if rcode == Rcode.SERVFAIL and made[-1:] != found[-1:] and any(each in made for each in found):
        return next(iter(has), None)
    return next(iter(has or found), None)
