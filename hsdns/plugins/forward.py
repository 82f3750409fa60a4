"""Send on to other servers what nothing above knows.

Path: step 5, the last of ORDER but `whoami`; upstream/ does the sending.
Source: CoreDNS 1.14.7 plugin/forward forward.go and setup.go.
Rule 1: the reply is passed through: rcode, AA, RA, AD, TC and all records are the upstream's.
Rule 2: one query is tried for at most five seconds and twice as many times as there are upstreams; after an error the
        next upstream is asked, and the one that failed is probed until it answers.
Rule 3: several `forward` in a block are looked through in file order; the first one for the name takes the query.
Rule 4: cacheable: what it answers is not `fresh`, so the fast path keeps none of it; how long an upstream's reply may
        be kept is for `cache` to say.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self

from hsdns.chain import Block, Handler, Next, Request, Runtime
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.properties import (
    Property,
    choice,
    duration,
    flag,
    integer,
    one,
    read_properties,
    text,
)
from hsdns.corefile.tree import CorefileError, Directive, Line
from hsdns.metrics import Counter
from hsdns.upstream.exchange import READ_TIMEOUT, Upstream, UpstreamError
from hsdns.upstream.health import HealthCheck
from hsdns.upstream.policy import POLICIES, Policy
from hsdns.upstream.target import Target, read_targets
from hsdns.upstream.tls import make_context, read_tls
from hsdns.wire.decode_reply import WrongQuestion
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import Name

BUDGET: Final = 5.0  # seconds; plugin/forward defaultTimeout
ATTEMPTS_PER_UPSTREAM: Final = 2  # plugin/forward defaultConnectAttemptsPerUpstream
MAX_UPSTREAMS: Final = 15  # plugin/forward setup.go


def _read_health_check(line: Line) -> HealthCheck:
    """Read `DURATION [no_rec] [domain NAME]`."""
    if not line.args:
        raise CorefileError(
            line.name.position,
            'property "health_check" takes a duration such as "0.5s", found nothing',
        )
    check = HealthCheck(duration(0.001)(line.args[0]))
    words = list(line.args[1:])
    while words:
        word = words.pop(0)
        if choice("no_rec", "domain")(word) == "no_rec":
            check = check._replace(recursion_desired=False)
        elif words:
            check = check._replace(domain=zones_from_args((words.pop(0),))[0])
        else:
            raise CorefileError(
                word.position, 'word "domain" of health_check takes a name, found nothing'
            )
    return check


@dataclass
class Route:
    """One `forward` directive: which names go to which upstreams, and how."""

    zone: Name
    targets: tuple[Target, ...]
    excepted: tuple[Name, ...]
    force_tcp: bool
    prefer_udp: bool
    expire: float
    max_fails: int
    max_concurrent: int
    policy_name: str
    check: HealthCheck
    tls: ssl.SSLContext | None
    read_timeout: float = READ_TIMEOUT
    asked_now: int = 0
    upstreams: tuple[Upstream, ...] = field(default=())
    policy: Policy = field(init=False)

    def takes(self, qname: Name) -> bool:
        """Tell whether this route is for a name."""
        if not qname.is_at_or_below(self.zone):
            return False
        return qname == self.zone or not any(qname.is_at_or_below(zone) for zone in self.excepted)

    def protocol(self, request: Request) -> str:
        """The protocol to ask over: the client's, where nothing else is said."""
        if self.force_tcp:
            return "tcp"
        return "udp" if self.prefer_udp else request.protocol


class Forward(Handler):
    """Asks upstream servers."""

    name: ClassVar[str] = "forward"
    waits: ClassVar[bool] = True
    cacheable = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "except": Property(lambda line: _zones(line), syntax="ZONE...", repeat="collect"),
        "force_tcp": Property(flag, default=False),
        "prefer_udp": Property(flag, default=False),
        "expire": Property(one(duration()), default=10.0, syntax="DURATION"),
        "max_fails": Property(one(integer(0, 2**32 - 1)), default=2, syntax="COUNT"),
        "max_concurrent": Property(one(integer(0)), default=0, syntax="COUNT"),
        "policy": Property(one(choice(*POLICIES)), default="random", syntax="|".join(POLICIES)),
        "health_check": Property(
            _read_health_check, default=HealthCheck(), syntax="DURATION [no_rec] [domain NAME]"
        ),
        "tls": Property(read_tls, syntax="[CA] | CERT KEY [CA]"),
        "tls_servername": Property(one(text), syntax="NAME"),
    }
    NOT_YET: ClassVar[frozenset[str]] = frozenset(
        {
            "max_age",
            "max_idle_conns",
            "max_connect_attempts",
            "read_timeout",
            "next",
            "next_on_nodata",
            "failfast_all_unhealthy_upstreams",
            "failover",
            "doh_method",
            "source_address",
            "resolver",
        }
    )

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self.routes = routes
        self._runtime: Runtime
        self._broken: Counter
        self._rejected: Counter

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read all of a block's `forward FROM TO...`; files with nameservers are read here and never again."""
        return cls(tuple(cls._read_route(directive, block) for directive in directives))

    @classmethod
    def _read_route(cls, directive: Directive, block: Block) -> Route:
        position = directive.name.position
        if len(directive.args) < 2:
            raise CorefileError(
                position,
                '"forward" takes a zone and at least one upstream, such as "forward . 10.0.0.2"',
            )
        from_token, *to_tokens = directive.args
        zones = zones_from_args((from_token,))
        if len(zones) > 1:
            block.warn(
                f'{from_token.position}: "{from_token.text}" stands for {len(zones)} zones, of which forward takes '
                f"only {zones[0].to_text()}; write one forward for each"
            )
        options = read_properties((directive,), cls.PROPERTIES, not_yet=cls.NOT_YET)
        found = dict.fromkeys(target for token in to_tokens for target in read_targets(token))
        if not found:
            raise CorefileError(
                to_tokens[0].position,
                f'"{to_tokens[0].text}" names no upstream; add a nameserver to the file, or name an address',
            )
        if len(found) > MAX_UPSTREAMS:
            raise CorefileError(
                to_tokens[0].position,
                f"forward takes at most {MAX_UPSTREAMS} upstreams, found {len(found)}; leave some out",
            )
        server_name, tls = options["tls_servername"], options["tls"]
        for target in found:
            if server_name is not None and target.server_name is not None:
                raise CorefileError(
                    position,
                    f'"tls_servername {server_name}" and "%{target.server_name}" both name the server of {target}; '
                    "remove one of them",
                )
        if tls is None and any(target.transport == "tls" for target in found):
            tls = make_context()
        return Route(
            zone=zones[0],
            targets=tuple(
                target if server_name is None else target._replace(server_name=server_name)
                for target in found
            ),
            excepted=tuple(zone for line in options["except"] for zone in line),
            force_tcp=options["force_tcp"],
            prefer_udp=options["prefer_udp"],
            expire=options["expire"],
            max_fails=options["max_fails"],
            max_concurrent=options["max_concurrent"],
            policy_name=options["policy"],
            check=options["health_check"],
            tls=tls,
        )

    async def start(self, runtime: Runtime) -> None:
        """Make the upstreams; connections are opened at the first query."""
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
                    expire=route.expire,
                    check=route.check,
                    tls=route.tls,
                    force_tcp=route.force_tcp,
                    read_timeout=route.read_timeout,
                )
                for target in route.targets
            )

    async def stop(self) -> None:
        """Close idle connections."""
        for route in self.routes:
            for upstream in route.upstreams:
                upstream.close()

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Ask the upstreams of the first route for the name, or pass on."""
        for route in self.routes:
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
            return await self._ask(route, request)
        finally:
            route.asked_now -= 1

    async def _ask(self, route: Route, request: Request) -> Reply:
        """Try one upstream after the other."""
        clock, upstreams = self._runtime.clock, route.upstreams
        deadline = clock() + BUDGET
        order = route.policy.order(upstreams)
        attempts_left = ATTEMPTS_PER_UPSTREAM * len(upstreams)
        error = "no upstream was asked"
        down, place = 0, 0
        while attempts_left and clock() < deadline:
            if place == len(order):
                place = down = 0
            upstream = order[place]
            place += 1
            if upstream.health.is_down(route.max_fails):
                down += 1
                if down < len(upstreams):
                    continue
                # All seem down, which is more likely the fault of the probes: try one all the same.
                self._broken.inc()
                upstream = self._runtime.random.choice(upstreams)
            try:
                reply = await self._ask_upstream(route, upstream, request, deadline)
            except WrongQuestion:
                return Reply(rcode=Rcode.FORMERR)
            except UpstreamError as failure:
                error = str(failure)
            else:
                return reply
            if route.max_fails and not upstream.health.is_probing:
                self._runtime.spawn(
                    upstream.health.probe_until_well(), f"forward: probes of {upstream}"
                )
            attempts_left -= 1
            if down >= len(upstreams):
                break
        return unwritten(Rcode.SERVFAIL, error)

    async def _ask_upstream(
        self, route: Route, upstream: Upstream, request: Request, deadline: float
    ) -> Reply:
        protocol, clock = route.protocol(request), self._runtime.clock
        reply = await upstream.ask(request.query, protocol, deadline - clock())
        if reply.tc and route.prefer_udp and not route.force_tcp and protocol == "udp":
            reply = await upstream.ask(request.query, "tcp", deadline - clock())
        return reply


def _zones(line: Line) -> tuple[Name, ...]:
    if not line.args:
        raise CorefileError(
            line.name.position, f'property "{line.name.text}" takes at least 1 zone, found nothing'
        )
    return zones_from_args(line.args)
