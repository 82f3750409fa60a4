"""Detects forwarding loops, and stops the server or disables the looping upstreams.

Path: step 5, directly before `forward`, whose loops it detects.
Source: CoreDNS 1.14.7 plugin/loop; `loop keep` exists only in hsdns.
Rule 1: a probe, a query of type HINFO with a random name, is sent to this server's own UDP socket.  If it is received
        more than twice, there is a loop.
Rule 2: probes are sent only at startup, until the first reply; two seconds later the detection ends.
Rule 3: with `keep` the probe is not forwarded; it only shows that the socket is open.  Then LoopSearch sends each
        upstream a query with a name of its own: if this server receives it, the upstream loops.
Cacheable: yes, because it handles only its own probes, and HINFO replies are never stored.

LoopSearch finds the upstreams of `forward` that send queries back to this server, and disables them:
Rule 1: each upstream gets a query with a random name of its own.  If this server receives a query for that name, the
        upstream has sent it back, because no client knows the name.
Rule 2: a disabled upstream is checked every RECHECK seconds, and enabled again when it replies without sending the
        query back.  One that does not reply is queried every second for half a minute.
Rule 3: a query that came back is never forwarded, so it does not circulate.
"""

from __future__ import annotations

import logging
import secrets
from asyncio import sleep
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from hsdns.chain import Handler, Next, Request
from hsdns.corefile.keys import optional_argument
from hsdns.corefile.properties import choice, no_body, only_once
from hsdns.corefile.tree import Directive
from hsdns.metrics import Gauge
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins.forward import Forward, Route
from hsdns.upstream.connection import UDP, connect, time_limit
from hsdns.upstream.exchange import Upstream, UpstreamError
from hsdns.upstream.target import Target
from hsdns.wire.decode import WrongQuestion
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query, Reply, unwritten
from hsdns.wire.name import MAX_NAME_LEN, Name

TRY_FOR: Final = 30.0  # seconds, for one that does not reply; plugin/loop setup.go
RETRY_AFTER: Final = 1.0
RECHECK: Final = 30.0
REPLY_TIMEOUT: Final = 2.0  # miekg/dns Exchange
MAX_NAMES: Final = 4  # remembered for each upstream
MAX_LABEL_DIGITS: Final = 19  # of 2**62
MAX_LABELS_LEN: Final = 2 * (1 + MAX_LABEL_DIGITS)

_log = logging.getLogger("hsdns.plugin.loop")


def probe_name(zone: Name) -> Name:
    """Return a name below a zone with two labels of digits, 62 random bits each, as in CoreDNS."""
    return Name.from_labels([*(str(secrets.randbits(62)).encode() for _ in range(2)), *zone.labels])


@dataclass
class _Search:
    """The search at one upstream: the names sent to it, and whether the latest of them came back."""

    route: Route
    upstream: Upstream
    names: list[bytes] = field(default_factory=list)
    came_back: bool = False
    is_running: bool = True


class LoopSearch:
    """Finds the looping upstreams of a server block; `forwards` are its `forward` plugins."""

    def __init__(self, zone: Name, server: str) -> None:
        self.forwards: tuple[Forward, ...] = ()
        self._zone = zone
        self._server = server
        self._sent: dict[bytes, _Search] = {}
        self._disabled: list[Upstream] = []
        self._runtime: Runtime
        self._gauge: Gauge

    def sees(self, request: Request) -> bool:
        """Return whether a query is one of ours that came back; if so, disable its upstream."""
        search = self._sent.get(request.query.qname.lower)
        if search is None:
            return False
        search.came_back = True
        self._disable(search.upstream, request)
        if not search.is_running:
            search.is_running = True
            self._runtime.spawn(self._follow(search), f"loop: search through {search.upstream}")
        return True

    def remark(self) -> str:
        """Return the line below OK at /ready."""
        if not self._disabled:
            return ""
        named = ", ".join(map(str, self._disabled))
        return f"disabled, because queries sent to it come back to this server: {named}"

    def run(self, runtime: Runtime) -> None:
        """Start the search at all upstreams."""
        self._runtime = runtime
        self._gauge = runtime.metrics.gauge(
            "hsdns_loop_upstreams_left_out", ("server", "zone", "to")
        )
        for forward in self.forwards:
            for route in forward.routes:
                for upstream in route.upstreams:
                    search = _Search(route, upstream)
                    runtime.spawn(self._follow(search), f"loop: search through {upstream}")

    def stop(self) -> None:
        """Reset the metric: the next configuration searches again."""
        for upstream in self._disabled:
            self._count(upstream, -1)
        self._disabled.clear()

    async def _follow(self, search: _Search) -> None:
        """Send queries to an upstream until it replies without sending one back."""
        clock, upstream = self._runtime.clock, search.upstream
        deadline = clock() + TRY_FOR
        while True:
            search.came_back = False
            replied = await self._ask(search)
            if upstream.loops:
                if replied and not search.came_back:
                    self._enable(upstream)
                    break
                await sleep(RECHECK)
            elif replied or clock() >= deadline:
                break
            else:
                await sleep(RETRY_AFTER)
        search.is_running = False

    async def _ask(self, search: _Search) -> bool:
        """Send a query with a new name; return whether any reply arrived."""
        route = search.route
        zone = route.zone if route.zone.is_at_or_below(self._zone) else self._zone
        if len(zone.wire) + MAX_LABELS_LEN > MAX_NAME_LEN:
            zone = self._zone
        qname = probe_name(zone)
        # Names are remembered after their reply or timeout: through a slow loop a query comes back later.
        self._sent[qname.lower] = search
        search.names.append(qname.lower)
        if len(search.names) > MAX_NAMES:
            del self._sent[search.names.pop(0)]
        query = Query.ask(qname, RRType.HINFO)
        try:
            await search.upstream.ask(query, route.protocol("udp"), REPLY_TIMEOUT)
        except UpstreamError:
            return False
        except WrongQuestion:
            pass
        return True

    def _disable(self, upstream: Upstream, came_from: Request) -> None:
        if upstream.loops:
            return
        upstream.loops = True
        self._disabled.append(upstream)
        self._count(upstream, 1)
        _log.error(
            'plugin/loop: Loop (%s -> %s) detected for zone "%s": a query sent to upstream %s came back to this '
            "server; it is disabled, the others stay enabled; configure another upstream, for example not a "
            "resolv.conf that points to a stub on this host",
            Target("dns", *came_from.client),
            Target("dns", *came_from.local),
            self._zone.to_text(),
            upstream,
        )

    def _enable(self, upstream: Upstream) -> None:
        upstream.loops = False
        self._disabled.remove(upstream)
        self._count(upstream, -1)
        _log.info(
            "plugin/loop: upstream %s no longer sends queries back to this server; it is enabled again",
            upstream,
        )

    def _count(self, upstream: Upstream, change: int) -> None:
        self._gauge.inc((self._server, self._zone.to_text(), str(upstream)), change)


MAX_SEEN: Final = 2  # the probe itself, and one more for a client that retried it
WATCH_AFTER_REPLY: Final = 2.0


class Loop(Plugin):
    """Ends the process if forwarded queries come back, or with `keep` disables their upstreams."""

    cacheable = True

    def __init__(self, zone: Name, target: Target, *, server: str = "", keep: bool = False) -> None:
        self.zone, self.target = zone, target
        self.qname = probe_name(zone)
        self.search = LoopSearch(zone, server) if keep else None
        self.is_watching = True
        self.skips_forwarded = (
            not keep
        )  # nobody else asks for HINFO; with `keep` upstreams are left out
        self._seen = 0

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `loop [keep]`; the block's first zone and first address are probed."""
        directive = only_once(directives)
        word = optional_argument(directive)
        if word is not None:
            choice("keep")(word)
        no_body(directive)
        zone = block.zones[0]
        if len(zone.wire) + MAX_LABELS_LEN > MAX_NAME_LEN:
            raise directive.error(
                f'zone "{zone.to_text()}" is too long for the names of loop\'s probes; remove loop from this block'
            )
        server = block.servers[0]
        return cls(zone, _own_address(server), server=server, keep=word is not None)

    def find_handlers(self, handlers: Sequence[Handler]) -> None:
        """Find the `forward` plugins whose upstreams may loop."""
        if self.search is not None:
            self.search.forwards = tuple(each for each in handlers if isinstance(each, Forward))

    async def start(self, runtime: Runtime) -> None:
        """Start sending probes; they are repeated until the socket is open."""
        self._runtime = runtime
        runtime.spawn(self.probe(), "loop: probe")

    async def stop(self) -> None:
        """Stop the detection."""
        self.is_watching = False
        if self.search is not None:
            self.search.stop()

    def remark(self) -> str:
        """Name the disabled upstreams."""
        return self.search.remark() if self.search is not None else ""

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Count how often the probe is received, and pass the query on."""
        query = request.query
        if query.qtype != RRType.HINFO:
            return await next(request)
        if self.search is not None:
            is_ours = query.qname == self.qname or self.search.sees(request)
            return unwritten(Rcode.REFUSED) if is_ours else await next(request)
        if query.qname != self.qname:
            return await next(request)
        if self.is_watching:
            self._seen += 1
            if self._seen == MAX_SEEN + 1:
                self._runtime.fail(
                    f"plugin/loop: Loop ({Target('dns', *request.client)} -> {self.target}) detected for zone "
                    f'"{self.zone.to_text()}": the query "HINFO {self.qname.to_text()}", sent to detect loops, came '
                    f"back {MAX_SEEN} times; an upstream of forward sends its queries back to this server; configure "
                    "other upstreams, for example not a resolv.conf that points to a stub on this host, or write "
                    '"loop keep" to disable looping upstreams'
                )
            if self._seen > MAX_SEEN:
                # If it were passed on, it would circulate until the process has ended.
                return unwritten(Rcode.SERVFAIL)
        return await next(request)

    async def probe(self) -> None:
        """Send the probe until a reply arrives, for half a minute; then stop, or with `keep` start the search."""
        clock = self._runtime.clock
        deadline = clock() + TRY_FOR
        while clock() < deadline:
            if await self._ask():
                if self.search is None:
                    await sleep(WATCH_AFTER_REPLY)
                break
            self._seen = 0
            await sleep(RETRY_AFTER)
        self.is_watching = False
        if self.search is not None:
            self.search.run(self._runtime)

    async def _ask(self) -> bool:
        """Send one probe; return whether a reply arrived."""
        message = encode_query(Query.ask(self.qname, RRType.HINFO), secrets.randbits(16))
        try:
            async with time_limit(REPLY_TIMEOUT):
                connection = await connect(UDP, self.target, None)
                try:
                    await connection.ask(message)
                finally:
                    connection.close()
        except (OSError, TimeoutError):
            return False
        return True


def _own_address(server: str) -> Target:
    """Return the address at which a listener such as `dns://:53` or `dns://[::1]:53` is reached from this host."""
    host, _, port = server.partition("://")[2].rpartition(":")
    return Target("dns", host.strip("[]") or "127.0.0.1", int(port))
