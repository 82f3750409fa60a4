"""Find the upstreams of `forward` that send queries back to this server, and leave them out.

Path: plugins/loop.py runs this with `loop keep` and tells it of every HINFO query; plugins/forward.py asks no upstream
that is marked here.
Rule 1: each upstream is asked for a name of its own that nobody can guess.  If the name is asked for here, then by way
        of that upstream: once is proof, since no client knows it.
Rule 2: an upstream that leads back is asked again every RECHECK seconds, and used again when it replies without.  One
        that replies is not asked again; one that does not is asked every second for half a minute.
Rule 3: a name that came back is never sent on, so that nothing goes round.
"""

from __future__ import annotations

import logging
import secrets
from asyncio import sleep
from dataclasses import dataclass, field
from typing import Final

from hsdns.chain import Request, Runtime
from hsdns.metrics import Gauge
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
MAX_NAMES: Final = 4  # that are remembered for an upstream
MAX_LABEL_DIGITS: Final = 19  # of 2**62
MAX_LABELS_LEN: Final = 2 * (1 + MAX_LABEL_DIGITS)

_log = logging.getLogger("hsdns.plugin.loop")


def probe_name(zone: Name) -> Name:
    """A name below a zone with two labels of digits, 62 bits each, as CoreDNS makes them."""
    return Name.from_labels([*(str(secrets.randbits(62)).encode() for _ in range(2)), *zone.labels])


@dataclass
class _Search:
    """What is known of one upstream: the names it was asked for, and whether the newest of them came back."""

    route: Route
    upstream: Upstream
    names: list[bytes] = field(default_factory=list)
    came_back: bool = False
    goes_on: bool = True


class LoopSearch:
    """What one block knows of upstreams that lead back to it; `forwards` are those of the block."""

    def __init__(self, zone: Name, server: str) -> None:
        self.forwards: tuple[Forward, ...] = ()
        self._zone = zone
        self._server = server
        self._asked: dict[bytes, _Search] = {}
        self._left_out: list[Upstream] = []
        self._runtime: Runtime
        self._gauge: Gauge

    def sees(self, request: Request) -> bool:
        """Tell whether a query is one of ours that came back; if so, leave its upstream out."""
        search = self._asked.get(request.query.qname.lower)
        if search is None:
            return False
        search.came_back = True
        self._leave_out(search.upstream, request)
        if not search.goes_on:
            search.goes_on = True
            self._runtime.spawn(self._follow(search), f"loop: search through {search.upstream}")
        return True

    def remark(self) -> str:
        """What /ready says under OK."""
        if not self._left_out:
            return ""
        named = ", ".join(map(str, self._left_out))
        return f"disabled, because queries sent to it come back to this server: {named}"

    def run(self, runtime: Runtime) -> None:
        """Begin to ask each upstream, all at once."""
        self._runtime = runtime
        self._gauge = runtime.metrics.gauge(
            "hsdns_loop_upstreams_left_out",
            "Upstreams of forward that are not asked because queries sent there come back to this server.",
            ("server", "zone", "to"),
        )
        for forward in self.forwards:
            for route in forward.routes:
                for upstream in route.upstreams:
                    search = _Search(route, upstream)
                    runtime.spawn(self._follow(search), f"loop: search through {upstream}")

    def stop(self) -> None:
        """Count what was left out no more: the next configuration looks for itself."""
        for upstream in self._left_out:
            self._count(upstream, -1)
        self._left_out.clear()

    async def _follow(self, search: _Search) -> None:
        """Ask an upstream until it has replied without asking here."""
        clock, upstream = self._runtime.clock, search.upstream
        deadline = clock() + TRY_FOR
        while True:
            search.came_back = False
            replied = await self._ask(search)
            if upstream.loops:
                if replied and not search.came_back:
                    self._use_again(upstream)
                    break
                await sleep(RECHECK)
            elif replied or clock() >= deadline:
                break
            else:
                await sleep(RETRY_AFTER)
        search.goes_on = False

    async def _ask(self, search: _Search) -> bool:
        """Ask for a new name; tell whether a reply came, whatever it says."""
        route = search.route
        zone = route.zone if route.zone.is_at_or_below(self._zone) else self._zone
        if len(zone.wire) + MAX_LABELS_LEN > MAX_NAME_LEN:
            zone = self._zone
        qname = probe_name(zone)
        # Names are remembered beyond their reply: a slow loop comes back when nobody waits for it any more.
        self._asked[qname.lower] = search
        search.names.append(qname.lower)
        if len(search.names) > MAX_NAMES:
            del self._asked[search.names.pop(0)]
        query = Query.ask(qname, RRType.HINFO)
        try:
            await search.upstream.ask(query, route.protocol("udp"), REPLY_TIMEOUT)
        except UpstreamError:
            return False
        except WrongQuestion:
            pass
        return True

    def _leave_out(self, upstream: Upstream, came_from: Request) -> None:
        if upstream.loops:
            return
        upstream.loops = True
        self._left_out.append(upstream)
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

    def _use_again(self, upstream: Upstream) -> None:
        upstream.loops = False
        self._left_out.remove(upstream)
        self._count(upstream, -1)
        _log.info(
            "plugin/loop: upstream %s no longer sends queries back to this server; it is enabled again",
            upstream,
        )

    def _count(self, upstream: Upstream, change: int) -> None:
        self._gauge.inc((self._server, self._zone.to_text(), str(upstream)), change)
