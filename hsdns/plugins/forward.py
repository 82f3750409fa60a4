"""Forwards queries to upstream servers.

Path: step 5, the last of ORDER except `whoami`; upstream/ exchanges the messages.
Source: CoreDNS 1.14.7 plugin/forward forward.go and setup.go.
Rule 1: the reply is passed through: rcode, AA, RA, AD, TC and all records are those of the upstream.
Rule 2: a query is tried for at most five seconds.  After an error the next upstream is asked, and the failed one is
        probed until it answers.  Only errors count as attempts, not replies that are failed over.
Rule 3: several `forward` in a block are tried in the order of the file: the first one for the name takes the query, and
        passes it to the next one as its option `next` says.
Rule 4: an upstream that sends queries back here (`loop keep`) is not used.
Rule 5: with the compiled fast path, workers ask upstreams of plain DNS themselves, if no option but those of sockets,
        `policy` and `max_concurrent` says how (native/src/forward.rs).  Here is what they leave: retries, failover,
        probes, TCP, and all that is unusual.
Rule 6: cacheable: its replies are not `fresh`, so they are not stored in the answer table; `cache` stores them.

Lookup of the addresses of upstreams given by host name, once at the start, never for -validate:
Source: CoreDNS 1.14.7 plugin/forward resolve.go.
Rule 1: without `resolver` the resolver of this host is used.  If that is this server itself, the lookup fails, because
        its sockets are not open yet.
Rule 2: with `resolver` its servers are queried in order until one has an address; A addresses come before AAAA.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from asyncio import sleep
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import Any, ClassVar, Final, Protocol, Self, runtime_checkable

from hsdns.chain import Handler, Next, Request, has
from hsdns.corefile.keys import read_ip, zones_from_args
from hsdns.corefile.properties import (
    Property,
    choice,
    duration,
    duration_to_text,
    first,
    flag,
    integer,
    many,
    read_properties,
    text,
)
from hsdns.corefile.tree import Directive, Line, Token, did_you_mean
from hsdns.fastpath import Forwarder
from hsdns.metrics import Counter
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.upstream.connection import TCP, UDP, connect, describe, time_limit
from hsdns.upstream.exchange import (
    POLICIES,
    Policy,
    Upstream,
    UpstreamError,
    UpstreamOverload,
)
from hsdns.upstream.target import (
    EXPIRE,
    HTTP2,
    READ_TIMEOUT,
    HealthCheck,
    HostTarget,
    Target,
    TlsFiles,
    UpstreamSettings,
    make_context,
    read_address,
    read_tls,
    read_upstreams,
)
from hsdns.wire.decode import BadReply, WrongQuestion, decode_reply
from hsdns.wire.encode import MAX_TCP_LEN, encode_query
from hsdns.wire.iana import ADDRESSES, Rcode, rcode_from_text, rcode_to_text
from hsdns.wire.message import Query, Reply, unwritten
from hsdns.wire.name import Name

ATTEMPTS_PER_UPSTREAM: Final = 2  # plugin/forward defaultConnectAttemptsPerUpstream
MAX_TO: Final = 15  # plugin/forward setup.go: arguments, each of which may give several upstreams
_MORE_RCODES: Final = {"NOTIMPL": Rcode.NOTIMP, "BADSIG": Rcode.BADVERS}  # miekg/dns
_ALPN: Final = {"tls": (), "https": HTTP2}


@dataclass
class Route:
    """The names to forward, their upstreams, and how; start() sets `upstreams` and `policy`."""

    zone: Name
    targets: tuple[Target | HostTarget, ...]
    options: dict[str, Any]  # the values of all PROPERTIES
    contexts: dict[str, ssl.SSLContext]  # by transport
    files: tuple[str, ...] = ()  # with nameservers that are among the targets
    in_flight: int = 0  # queries
    upstreams: tuple[Upstream, ...] = field(default=())
    policy: Policy = field(init=False)

    def matches(self, qname: Name) -> bool:
        """Whether a name is forwarded."""
        if not qname.is_at_or_below(self.zone):
            return False
        exceptions = self.options["except"]
        return (
            not exceptions
            or qname == self.zone
            or not any(qname.is_at_or_below(zone) for zone in exceptions)
        )

    def protocol(self, client_protocol: str) -> str:
        """The protocol to use: that of the client, unless an option sets another one."""
        if self.options["force_tcp"]:
            return "tcp"
        return "udp" if self.options["prefer_udp"] else client_protocol

    def named(self) -> str:
        """The upstreams, for a message."""
        return ", ".join(map(str, self.upstreams))

    def attempts(self, upstreams: int) -> float:
        """The number of attempts that may fail for one query, with this number of upstreams."""
        most: int | None = self.options["max_connect_attempts"]
        return ATTEMPTS_PER_UPSTREAM * upstreams if most is None else most or float("inf")


def _read_health_check(line: Line) -> HealthCheck:
    """Parse `DURATION [no_rec] [domain NAME]`."""
    if not line.args:
        raise line.error('property "health_check" takes a duration such as "0.5s", found nothing')
    check = HealthCheck(duration(0.001)(line.args[0]))
    words = list(line.args[1:])
    while words:
        word = words.pop(0)
        if choice("no_rec", "domain")(word) == "no_rec":
            check = check._replace(recursion_desired=False)
        elif words:
            check = check._replace(domain=zones_from_args((words.pop(0),))[0])
        else:
            raise word.error('word "domain" of health_check takes a name, found nothing')
    return check


def _zones(line: Line) -> tuple[Name, ...]:
    if not line.args:
        raise line.error(f'property "{line.name.text}" takes at least 1 zone, found nothing')
    return zones_from_args(line.args)


def _rcode(token: Token) -> int:
    word = token.text.upper()
    try:
        return _MORE_RCODES.get(word) or rcode_from_text(word)
    except ValueError:
        known = ("SERVFAIL", "NXDOMAIN", "REFUSED", "NOTIMP", "FORMERR", "NOERROR")
        raise token.error(
            f'"{token.text}" is not a response code such as NXDOMAIN{did_you_mean(word, known)}'
        ) from None


def _failover_rcode(token: Token) -> int:
    rcode = _rcode(token)
    if rcode == Rcode.NOERROR:
        raise token.error(
            "NOERROR is a success and cannot be failed over; use next_on_nodata for empty replies"
        )
    return rcode


_SECONDS: Final = duration()
PROPERTIES: Final[dict[str, Property[Any]]] = {
    "except": Property(_zones, syntax="ZONE...", repeat="extend"),
    "force_tcp": Property(flag, default=False),
    "prefer_udp": Property(flag, default=False),
    "use_caps_for_id": Property(flag, default=False),
    "expire": first(_SECONDS, "DURATION", EXPIRE),
    "max_age": first(_SECONDS, "DURATION", 0.0),
    "max_idle_conns": first(integer(0), "COUNT", 0),
    "read_timeout": first(duration(0.001), "DURATION", READ_TIMEOUT),
    "max_fails": first(integer(0, 2**32 - 1), "COUNT", 2),
    # None: ATTEMPTS_PER_UPSTREAM for each; 0: no limit.
    "max_connect_attempts": first(integer(0, 2**32 - 1), "COUNT"),
    "max_concurrent": first(integer(0), "COUNT", 0),
    "policy": first(choice(*POLICIES), "|".join(POLICIES), "random"),
    "health_check": Property(
        _read_health_check, default=HealthCheck(), syntax="DURATION [no_rec] [domain NAME]"
    ),
    "failfast_all_unhealthy_upstreams": Property(flag, default=False),
    "failover": Property(many(_failover_rcode), syntax="RCODE...", repeat="extend"),
    "next": Property(many(_rcode), syntax="RCODE...", repeat="extend"),
    "next_on_nodata": Property(flag, default=False),
    "tls": Property(read_tls, default=TlsFiles(), syntax="[CA] | CERT KEY [CA]"),
    "tls_servername": first(text, "NAME"),
    "doh_method": first(choice("POST", "GET"), "POST|GET", "POST"),
    "source_address": first(read_ip, "IP"),
    "resolver": Property(many(read_address), default=(), syntax="IP[:PORT]..."),
}


def read_route(directive: Directive, block: Block) -> Route:
    """Parse `forward FROM TO...` and its properties; raise CorefileError."""
    position = directive.name.position
    if len(directive.args) < 2:
        raise position.error(
            '"forward" takes a zone and at least one upstream, such as "forward . 10.0.0.2"'
        )
    from_token, *to_tokens = directive.args
    zones = zones_from_args((from_token,))
    if len(zones) > 1:
        block.warn(
            f'{from_token.position}: "{from_token.text}" stands for {len(zones)} zones, but forward only uses '
            f"{zones[0].to_text()}; write one forward for each"
        )
    options = read_properties((directive,), PROPERTIES)
    if 0 < options["max_age"] < options["expire"]:
        raise position.error(
            f"max_age {duration_to_text(options['max_age'])} is less than expire "
            f"{duration_to_text(options['expire'])}; increase max_age or reduce expire"
        )
    targets = _read_targets(to_tokens)
    source = options["source_address"]
    for target in targets:
        if isinstance(target, HostTarget):
            continue
        if options["tls_servername"] is not None and target.server_name is not None:
            raise position.error(
                f'"tls_servername {options["tls_servername"]}" and "%{target.server_name}" both name the server of '
                f"{target}; remove one of them"
            )
        if source is not None and (":" in source) != (":" in target.address):
            block.warn(
                f"{position}: {target} cannot be reached from source_address {source}, which is of another address "
                "family; remove one of them"
            )
    if (name := options["tls_servername"]) is not None:
        targets = [target._replace(server_name=name) for target in targets]
    contexts = _contexts(options["tls"], block, {target.transport for target in targets})
    files = tuple(each.text for each in to_tokens if each.text.startswith("/"))
    return Route(zones[0], tuple(targets), options, contexts, files)


def _contexts(files: TlsFiles, block: Block, transports: set[str]) -> dict[str, ssl.SSLContext]:
    """The TLS contexts of the transports; the files are read even if none is needed, to detect invalid ones."""
    if files != TlsFiles():
        make_context(files, block.path)
    return {
        transport: make_context(files, block.path, alpn)
        for transport, alpn in _ALPN.items()
        if transport in transports
    }


def _read_targets(tokens: list[Token]) -> list[Target | HostTarget]:
    """Parse the TO arguments; of upstreams with the same address and port the first one counts."""
    read = [(token, read_upstreams(token)) for token in tokens]
    words = [token for token, found in read if found]
    if not words:
        raise tokens[0].error(
            f'"{tokens[0].text}" contains no upstream; add a nameserver to the file, or write an address'
        )
    if len(words) > MAX_TO:
        raise words[MAX_TO].error(
            f"forward takes at most {MAX_TO} upstreams, found {len(words)}; remove some"
        )
    targets: dict[str, Target | HostTarget] = {}
    for _, found in read:
        for target in found:
            targets.setdefault(str(target), target)
    return list(targets.values())


# Options that compiled code does not know.
_ONLY_HERE: Final = ("force_tcp", "prefer_udp", "use_caps_for_id", "failover")
HANDED_OVER_AFTER: Final = 0.5  # seconds without a reply; then the chain has two attempts
BUDGET: Final = 5.0  # seconds; plugin/forward defaultTimeout
# Seconds between two rounds through the upstreams where attempts are not counted: connections that are refused at
# once would otherwise be tried thousands of times in the five seconds.
ROUND_PAUSE: Final = 0.05


@runtime_checkable
class NotesForwarded(Protocol):
    """A handler that is told what upstreams are asked and reply (`dnstap`)."""

    def note_forwarded(
        self,
        request: Request,
        server: tuple[str, int],
        protocol: str,
        asked: float,
        reply: Reply | None,
    ) -> None:
        """Take a query to an address and port, sent at `asked` seconds since the epoch; None if it got no reply."""


class Forward(Plugin):
    """Forwards queries, with one route for each `forward` of the block."""

    cacheable = True
    skips_forwarded = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = PROPERTIES

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self.routes = routes
        self._notes: list[NotesForwarded] = []
        self.compiled: Forwarder | None = None
        self._broken: Counter
        self._rejected: Counter

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse all `forward FROM TO...` of a block; files with nameservers are read here and not again."""
        return cls(tuple(read_route(directive, block) for directive in directives))

    def find_handlers(self, handlers: Sequence[Handler]) -> None:
        """Find those that are told what is forwarded."""
        self._notes = [each for each in handlers if has(each, NotesForwarded)]

    async def start(self, runtime: Runtime) -> None:
        """Create the upstreams; raise CorefileError for unknown hosts.  Connections are opened by the first query."""
        self._runtime = runtime
        self._broken = runtime.metrics.counter("coredns_forward_healthcheck_broken_total")
        self._rejected = runtime.metrics.counter("coredns_forward_max_concurrent_rejects_total")
        for route in self.routes:
            route.policy = Policy(route.options["policy"], runtime.random)
            settings = UpstreamSettings(*map(route.options.__getitem__, UpstreamSettings._fields))
            route.upstreams = tuple(
                Upstream(target, runtime, settings, route.contexts.get(target.transport))
                for target in await find_targets(route.targets, route.options["resolver"])
            )
        if Forwarder is not None and len(self.routes) == 1:
            self._compile(self.routes[0])

    def _compile(self, route: Route) -> None:
        """Let compiled code ask the upstreams, if no option says that it could not."""
        options, upstreams = route.options, route.upstreams
        if (
            any(options[name] for name in _ONLY_HERE)
            or not upstreams
            or any(
                each.target.transport != "dns" or "%" in each.target.address for each in upstreams
            )
        ):
            return
        source = options["source_address"]
        if source is not None and any(
            (":" in source) != (":" in each.target.address) for each in upstreams
        ):
            return
        self.compiled = Forwarder(
            [(each.target.address, each.target.port) for each in upstreams],
            options["policy"],
            source=source,
            expire=options["expire"],
            max_age=options["max_age"],
            max_ports=options["max_idle_conns"],
            timeout=min(HANDED_OVER_AFTER, options["read_timeout"] / 2),
            most=options["max_concurrent"],
        )
        for index, each in enumerate(upstreams):
            each.udp.share_with(self.compiled)
            each.health.changed = partial(_tell_health, self.compiled, index, options["max_fails"])

    def leave_misses_to_chain(self, leave: bool) -> None:
        """Let compiled code ask nothing, or go on."""
        if self.compiled is not None:
            self.compiled.set_paused(leave)

    def forwarded(self) -> tuple[Name, Sequence[Name]]:
        """The zone of the names that compiled code forwards, and zones that are left out."""
        route = self.routes[0]  # the only one
        return route.zone, route.options["except"]

    def count_forwarded(self) -> None:
        """Add what compiled code has counted."""
        if self.compiled is None:
            return
        for upstream, found in zip(
            self.routes[0].upstreams, self.compiled.take_counts(), strict=True
        ):
            reused, opened, forged, noerror, nxdomain = found
            upstream.add(reused, opened, forged, {"NOERROR": noerror, "NXDOMAIN": nxdomain})

    async def stop(self) -> None:
        """Close idle connections."""
        if self.compiled is not None:
            self.compiled.stop()
            self.count_forwarded()
        for route in self.routes:
            for upstream in route.upstreams:
                upstream.close()

    async def handle(self, request: Request, next: Next, first: int = 0) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Ask the upstreams of the first route that matches the name, from number `first`, or pass on."""
        for place in range(first, len(self.routes)):
            route = self.routes[place]
            if route.matches(request.query.qname):
                break
        else:
            return await next(request)
        most = route.options["max_concurrent"]
        waiting = route.in_flight + (self.compiled.waiting if most and self.compiled else 0)
        if 0 < most <= waiting:
            self._rejected.inc()
            return unwritten(Rcode.REFUSED, f"concurrent queries exceeded maximum {most}")
        self._add(route, 1)
        try:
            reply = await self._ask(route, request)
            # As in CoreDNS, `next` of the last `forward` has no effect.
            if reply.written and place + 1 < len(self.routes) and _goes_to_next(route, reply):
                return await self.handle(request, next, place + 1)
            return reply
        except WrongQuestion:
            return Reply(rcode=Rcode.FORMERR)
        finally:
            self._add(route, -1)

    def _add(self, route: Route, change: int) -> None:
        """Count a query in progress."""
        route.in_flight += change
        if self.compiled is not None:
            self.compiled.set_taken(route.in_flight)

    async def _ask(self, route: Route, request: Request) -> Reply:
        """Try one upstream after the other; raise WrongQuestion."""
        clock, options = self._runtime.clock, route.options
        upstreams = [upstream for upstream in route.upstreams if not upstream.loops]
        if not upstreams:
            reason = (
                f"every upstream of forward sends its queries back to this server: {route.named()}"
            )
            return unwritten(Rcode.REFUSED, reason)
        deadline = clock() + BUDGET
        order = route.policy.order(upstreams)
        attempts_left = route.attempts(len(upstreams))
        error = ""
        down = place = failed_over = rounds = 0
        while attempts_left > 0 and clock() < deadline:
            if place == len(order):
                place = down = 0
                rounds += 1
                if rounds > 1 and options["max_connect_attempts"] == 0:
                    await self._runtime.queries.spawn(sleep(ROUND_PAUSE))
            upstream = order[place]
            place += 1
            if upstream.health.is_down(options["max_fails"]):
                down += 1
                if down < len(upstreams):
                    continue
                self._broken.inc()
                if options["failfast_all_unhealthy_upstreams"]:
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
                if reply.rcode in options["failover"]:
                    failed_over += 1
                    if failed_over < len(upstreams):
                        continue
                return reply
            if options["max_fails"] and not upstream.health.is_probing:
                self._runtime.spawn(
                    upstream.probe_until_healthy(), f"forward: probes of {upstream}"
                )
            attempts_left -= 1
            if down >= len(upstreams):
                break
        # Without an error no upstream was asked.
        unhealthy = f"no healthy upstream: none of {route.named()} answers its probes"
        return unwritten(Rcode.SERVFAIL, error or unhealthy)

    async def _ask_upstream(
        self, route: Route, upstream: Upstream, request: Request, deadline: float
    ) -> Reply:
        protocol, clock = route.protocol(request.protocol), self._runtime.clock
        limit = MAX_TCP_LEN if request.protocol == "tcp" else None
        asked, reply = self._runtime.wall() if self._notes else 0.0, None
        try:
            reply = await upstream.ask(request.query, protocol, deadline - clock(), limit)
            left = deadline - clock()
            if reply.tc and route.options["prefer_udp"] and protocol == "udp" and left > 0:
                protocol, reply = "tcp", await upstream.ask(request.query, "tcp", left)
        finally:
            target = upstream.target
            for each in self._notes:
                each.note_forwarded(request, (target.address, target.port), protocol, asked, reply)
        return reply


def _tell_health(compiled: Forwarder, upstream: int, max_fails: int, failures: int) -> None:
    compiled.set_down(upstream, 0 < max_fails < failures)


def _goes_to_next(route: Route, reply: Reply) -> bool:
    """Whether a reply passes the query to the next `forward`."""
    if reply.rcode in route.options["next"]:
        return True
    is_empty = reply.rcode == Rcode.NOERROR and not reply.answer
    return is_empty and bool(route.options["next_on_nodata"])


ASK_TIMEOUT: Final = 2.0  # seconds; plugin/forward resolve.go
SYSTEM_TIMEOUT: Final = 15.0  # seconds: timeout times attempts of resolv.conf(5), for three servers


async def find_targets(
    targets: Sequence[Target | HostTarget], resolvers: Sequence[Target] = ()
) -> list[Target]:
    """Replace host names by their addresses, without duplicates; raise CorefileError if a name has none."""
    found: dict[str, Target] = {}
    for target in targets:
        if isinstance(target, Target):
            found.setdefault(str(target), target)
            continue
        try:
            addresses = await _lookup(target.host, resolvers)
        except OSError as error:
            raise target.position.error(
                f'cannot resolve "{target.host}": {error.strerror or error}; write an address, or use another '
                "resolver"
            ) from None
        for address in addresses:
            found.setdefault(str(target.at(address)), target.at(address))
    return list(found.values())


async def _lookup(host: str, resolvers: Sequence[Target]) -> list[str]:
    """Return all addresses of a host, at least one; raise OSError."""
    if not resolvers:
        return await _lookup_here(host)
    reason = ""
    for resolver in resolvers:
        addresses = []
        for rrtype in ADDRESSES:
            try:
                reply = await _ask(resolver, Name.from_text(host.removesuffix(".") + "."), rrtype)
            except OSError as error:
                reason = error.strerror or str(error)
                break
            addresses += [str(ip_address(rr.rdata)) for rr in reply.answer if rr.rrtype == rrtype]
            reason = f"{resolver} has no address for it ({rcode_to_text(reply.rcode)})"
        if addresses:
            return addresses
    raise OSError(0, reason)


async def _lookup_here(host: str) -> list[str]:
    try:
        async with asyncio.timeout(SYSTEM_TIMEOUT):
            found = await asyncio.get_running_loop().getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except TimeoutError:
        raise OSError(
            0, f"the resolver of this host did not reply within {SYSTEM_TIMEOUT:g}s"
        ) from None
    return [str(address[0]) for *_, address in found]


async def _ask(resolver: Target, qname: Name, rrtype: int) -> Reply:
    """Query over UDP, and over TCP if the reply is truncated; raise OSError."""
    query = Query.ask(qname, rrtype)
    reply = Reply(tc=True)
    for protocol in (UDP, TCP):
        if not reply.tc:
            break
        try:
            async with time_limit(ASK_TIMEOUT):
                connection = await connect(protocol, resolver, None)
                try:
                    wire = await connection.ask(encode_query(query, secrets.randbits(16)))
                finally:
                    connection.close()
            reply = decode_reply(wire, query)
        except TimeoutError:
            raise OSError(0, f"{resolver} did not reply within {ASK_TIMEOUT:g}s") from None
        except BadReply as error:
            raise OSError(0, f"{resolver} sent a malformed reply: {error}") from None
        except OSError as error:
            raise OSError(0, f"{resolver} {describe(error)}") from None
    return reply
