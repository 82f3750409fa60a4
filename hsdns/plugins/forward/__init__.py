"""Send on to other servers what nothing above knows.

Path: step 5, the last of ORDER but `whoami`; upstream/ does the sending.
Source: CoreDNS 1.14.7 plugin/forward forward.go.
Rule 1: the reply is passed through: rcode, AA, RA, AD, TC and all records are the upstream's.
Rule 2: one query is tried for at most five seconds; after an error the next upstream is asked, and the one that failed
        is probed until it answers.  Only errors count as attempts, replies that are failed over do not.
Rule 3: several `forward` in a block are looked through in file order; the first one for the name takes the query, and
        hands it to the next one where `next` says so.
Rule 4: an upstream that `loop keep` found to lead back here is not asked.
Rule 5: cacheable: what it answers is not `fresh`, so the fast path keeps none of it; how long an upstream's reply may
        be kept is for `cache` to say.
"""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Final, Self

from hsdns.chain import Block, Handler, Next, Request, Runtime
from hsdns.corefile.properties import Property
from hsdns.corefile.tree import Directive
from hsdns.metrics import Counter
from hsdns.plugins.forward.route import PROPERTIES, Route, read_route
from hsdns.upstream.exchange import Upstream, UpstreamError
from hsdns.upstream.lookup import find_targets
from hsdns.upstream.policy import Policy
from hsdns.wire.decode_reply import WrongQuestion
from hsdns.wire.encode import MAX_TCP_LEN
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten

BUDGET: Final = 5.0  # seconds; plugin/forward defaultTimeout
# Seconds between two rounds through the upstreams where attempts are not counted: connections that are refused at
# once would otherwise be tried thousands of times in the five seconds.
ROUND_PAUSE: Final = 0.05


class Forward(Handler):
    """Asks upstream servers."""

    name: ClassVar[str] = "forward"
    waits: ClassVar[bool] = True
    cacheable = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = PROPERTIES

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self.routes = routes
        self._runtime: Runtime
        self._broken: Counter
        self._rejected: Counter

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read all of a block's `forward FROM TO...`; files with nameservers are read here and never again."""
        return cls(tuple(read_route(directive, block) for directive in directives))

    async def start(self, runtime: Runtime) -> None:
        """Make the upstreams, connections are opened at the first query; raise CorefileError for unknown hosts."""
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
        """Ask the upstreams of the first route for the name, or pass on."""
        return await self._take(0, request, next)

    async def _take(self, first: int, request: Request, next: Next) -> Reply:  # noqa: A002 - as above
        """Look through the routes from `first` on."""
        for place in range(first, len(self.routes)):
            route = self.routes[place]
            if route.takes(request.query.qname):
                break
        else:
            return await next(request)
        if 0 < route.max_concurrent <= route.asked_now:
            self._rejected.inc()
            return unwritten(
                Rcode.REFUSED, f"concurrent queries exceeded maximum {route.max_concurrent}"
            )
        route.asked_now += 1
        try:
            reply = await self._ask(route, request)
            # As in CoreDNS, the last `forward` of a block has nobody to hand on to.
            if reply.written and place + 1 < len(self.routes) and _is_for_next(route, reply):
                return await self._take(place + 1, request, next)
            return reply
        except WrongQuestion:
            return Reply(rcode=Rcode.FORMERR)
        finally:
            route.asked_now -= 1

    async def _ask(self, route: Route, request: Request) -> Reply:
        """Try one upstream after the other; raise WrongQuestion."""
        clock = self._runtime.clock
        upstreams = [upstream for upstream in route.upstreams if not upstream.loops]
        if not upstreams:
            return unwritten(Rcode.REFUSED, _all_loop(route))
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
                    await sleep(ROUND_PAUSE)
            upstream = order[place]
            place += 1
            if upstream.health.is_down(route.max_fails):
                down += 1
                if down < len(upstreams):
                    continue
                self._broken.inc()
                if route.failfast:
                    break
                # All seem down, which is more likely the fault of the probes: try one all the same.
                upstream = self._runtime.random.choice(upstreams)
            if request.metadata is not None:
                request.metadata["forward/upstream"] = partial(str, upstream)
            try:
                reply = await self._ask_upstream(route, upstream, request, deadline)
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
                    upstream.health.probe_until_healthy(), f"forward: probes of {upstream}"
                )
            attempts_left -= 1
            if down >= len(upstreams):
                break
        return unwritten(Rcode.SERVFAIL, error or _nobody_is_well(route))

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


def _is_for_next(route: Route, reply: Reply) -> bool:
    """Tell whether the next `forward` is to be asked too."""
    is_empty = reply.rcode == Rcode.NOERROR and not reply.answer
    return reply.rcode in route.next_rcodes or (route.next_on_nodata and is_empty)


def _all_loop(route: Route) -> str:
    named = ", ".join(map(str, route.upstreams))
    return f"every upstream of forward sends its queries back to this server: {named}"


def _nobody_is_well(route: Route) -> str:
    """A sentence about upstreams of which none was asked."""
    named = ", ".join(map(str, route.upstreams))
    return f"no healthy upstream: none of {named} answers its probes"
