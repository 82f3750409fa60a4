"""Forwards queries to upstream servers.

Path: step 5, the last of ORDER except `whoami`; upstream/ exchanges the messages.
Source: CoreDNS 1.14.7 plugin/forward forward.go.
Rule 1: the reply is passed through: rcode, AA, RA, AD, TC and all records are those of the upstream.
Rule 2: a query is tried for at most five seconds.  After an error the next upstream is asked, and the failed one is
        probed until it answers.  Only errors count as attempts, not replies that are failed over.
Rule 3: several `forward` in a block are tried in the order of the file: the first one for the name takes the query, and
        passes it to the next one as its option `next` says.
Rule 4: an upstream that sends queries back here (`loop keep`) is not used.
Rule 5: cacheable: its replies are not `fresh`, so they are not stored in the answer table; `cache` stores them.
"""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Final, Self

from hsdns.chain import Next, Request
from hsdns.corefile.properties import Property
from hsdns.corefile.tree import Directive
from hsdns.metrics import Counter
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins.forward.route import PROPERTIES, Route, read_route
from hsdns.upstream.exchange import Policy, Upstream, UpstreamError, UpstreamOverload
from hsdns.upstream.lookup import find_targets
from hsdns.wire.decode_reply import WrongQuestion
from hsdns.wire.encode import MAX_TCP_LEN
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten

BUDGET: Final = 5.0  # seconds; plugin/forward defaultTimeout
# Seconds between two rounds through the upstreams where attempts are not counted: connections that are refused at
# once would otherwise be tried thousands of times in the five seconds.
ROUND_PAUSE: Final = 0.05


class Forward(Plugin):
    """Forwards queries, with one route for each `forward` of the block."""

    name: ClassVar[str] = "forward"
    cacheable = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = PROPERTIES

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self.routes = routes
        self._runtime: Runtime
        self._broken: Counter
        self._rejected: Counter

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse all `forward FROM TO...` of a block; files with nameservers are read here and not again."""
        return cls(tuple(read_route(directive, block) for directive in directives))

    async def start(self, runtime: Runtime) -> None:
        """Create the upstreams; raise CorefileError for unknown hosts.  Connections are opened by the first query."""
        self._runtime = runtime
        self._broken = runtime.metrics.counter(
            "coredns_forward_healthcheck_broken_total",
            "Counter of the number of complete failures of the healthchecks.",
        )
        self._rejected = runtime.metrics.counter(
            "coredns_forward_max_concurrent_rejects_total",
            "Counter of the number of queries rejected because the concurrent queries were at maximum.",
        )
        for route in self.routes:
            route.policy = Policy(route.policy_name, runtime.random)
            route.upstreams = tuple(
                Upstream(
                    target,
                    clock=runtime.clock,
                    metrics=runtime.metrics,
                    waiting=runtime.queries,
                    settings=route.settings,
                    tls=route.contexts.get(target.transport),
                )
                for target in await find_targets(route.targets, route.resolvers)
            )

    async def stop(self) -> None:
        """Close idle connections."""
        for route in self.routes:
            for upstream in route.upstreams:
                upstream.close()

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Ask the upstreams of the first route that matches the name, or pass on."""
        return await self._forward(0, request, next)

    async def _forward(self, first: int, request: Request, next: Next) -> Reply:  # noqa: A002 - as above
        """Use the first matching route from number `first`."""
        for place in range(first, len(self.routes)):
            route = self.routes[place]
            if route.matches(request.query.qname):
                break
        else:
            return await next(request)
        if 0 < route.max_concurrent <= route.in_flight:
            self._rejected.inc()
            return unwritten(
                Rcode.REFUSED, f"concurrent queries exceeded maximum {route.max_concurrent}"
            )
        route.in_flight += 1
        try:
            reply = await self._ask(route, request)
            # As in CoreDNS, `next` of the last `forward` has no effect.
            if reply.written and place + 1 < len(self.routes) and _goes_to_next(route, reply):
                return await self._forward(place + 1, request, next)
            return reply
        except WrongQuestion:
            return Reply(rcode=Rcode.FORMERR)
        finally:
            route.in_flight -= 1

    async def _ask(self, route: Route, request: Request) -> Reply:
        """Try one upstream after the other; raise WrongQuestion."""
        clock = self._runtime.clock
        upstreams = [upstream for upstream in route.upstreams if not upstream.loops]
        if not upstreams:
            return unwritten(Rcode.REFUSED, _loop_message(route))
        deadline = clock() + BUDGET
        order = route.policy.order(upstreams)
        attempts_left = route.attempts(len(upstreams))
        error = ""
        down = place = failed_over = rounds = 0
        while attempts_left > 0 and clock() < deadline:
            if place == len(order):
                place = down = 0
                rounds += 1
                if rounds > 1 and route.max_attempts == 0:
                    await self._runtime.queries.spawn(sleep(ROUND_PAUSE))
            upstream = order[place]
            place += 1
            if upstream.health.is_down(route.max_fails):
                down += 1
                if down < len(upstreams):
                    continue
                self._broken.inc()
                if route.failfast:
                    break
                # All seem to be down, which is more likely an error of the probes, so one is tried nevertheless.
                upstream = self._runtime.random.choice(upstreams)
            if request.metadata is not None:
                request.metadata["forward/upstream"] = partial(str, upstream)
            try:
                reply = await self._ask_upstream(route, upstream, request, deadline)
            except UpstreamOverload as overload:
                return unwritten(Rcode.SERVFAIL, str(overload))
            except UpstreamError as failure:
                error = str(failure)
            else:
                if reply.rcode in route.failover:
                    failed_over += 1
                    if failed_over < len(upstreams):
                        continue
                return reply
            if route.max_fails and not upstream.health.is_probing:
                self._runtime.spawn(
                    upstream.probe_until_healthy(), f"forward: probes of {upstream}"
                )
            attempts_left -= 1
            if down >= len(upstreams):
                break
        return unwritten(Rcode.SERVFAIL, error or _unhealthy_message(route))

    async def _ask_upstream(
        self, route: Route, upstream: Upstream, request: Request, deadline: float
    ) -> Reply:
        protocol, clock = route.protocol(request.protocol), self._runtime.clock
        limit = MAX_TCP_LEN if request.protocol == "tcp" else None
        reply = await upstream.ask(request.query, protocol, deadline - clock(), limit)
        left = deadline - clock()
        if reply.tc and route.prefer_udp and protocol == "udp" and left > 0:
            reply = await upstream.ask(request.query, "tcp", left)
        return reply


def _goes_to_next(route: Route, reply: Reply) -> bool:
    """Whether a reply passes the query to the next `forward`."""
    is_empty = reply.rcode == Rcode.NOERROR and not reply.answer
    return reply.rcode in route.next_rcodes or (route.next_on_nodata and is_empty)


def _loop_message(route: Route) -> str:
    named = ", ".join(map(str, route.upstreams))
    return f"every upstream of forward sends its queries back to this server: {named}"


def _unhealthy_message(route: Route) -> str:
    """The error if no upstream was asked."""
    named = ", ".join(map(str, route.upstreams))
    return f"no healthy upstream: none of {named} answers its probes"
