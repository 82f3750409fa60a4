"""Detection of upstreams of `forward` that send queries back to this server; they are disabled.

Path: plugins/loop runs this with `loop keep` and passes it every HINFO query; plugins/forward does not use an upstream
that is marked here.
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
from dataclasses import dataclass, field
from typing import Final

from hsdns.chain import Request
from hsdns.metrics import Gauge
from hsdns.plugin import Runtime
from hsdns.plugins.forward import Forward
from hsdns.plugins.forward.route import Route
from hsdns.upstream.exchange import Upstream, UpstreamError
from hsdns.upstream.target import Target
from hsdns.wire.decode_reply import WrongQuestion
from hsdns.wire.iana import RRType
from hsdns.wire.message import Query
from hsdns.wire.name import MAX_NAME_LEN, Name

TRY_FOR: Final = 30.0  # seconds, for an upstream that does not reply
RETRY_AFTER: Final = 1.0
RECHECK: Final = 30.0
REPLY_TIMEOUT: Final = 2.0
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
            "hsdns_loop_upstreams_left_out",
            "Upstreams of forward that are disabled because queries sent to them come back to this server.",
            ("server", "zone", "to"),
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
