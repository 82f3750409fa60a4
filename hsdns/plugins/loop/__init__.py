"""Detects forwarding loops, and stops the server or disables the looping upstreams.

Path: step 5, directly before `forward`, whose loops it detects.
Source: CoreDNS 1.14.7 plugin/loop; `loop keep` exists only in hsdns.
Rule 1: a probe, a query of type HINFO with a random name, is sent to this server's own UDP socket.  If it is received
        more than twice, there is a loop.
Rule 2: probes are sent only at startup, until the first reply; two seconds later the detection ends.
Rule 3: with `keep` the probe is not forwarded; it only shows that the socket is open.  Then search.py sends each
        upstream a query with a name of its own: if this server receives it, the upstream loops.
Cacheable: yes, because it handles only its own probes, and HINFO replies are never stored.
"""

from __future__ import annotations

import secrets
from asyncio import sleep
from collections.abc import Sequence
from typing import ClassVar, Final, Self

from hsdns.chain import Handler, Next, Request
from hsdns.corefile.keys import optional_argument
from hsdns.corefile.properties import choice, no_body, only_once
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins.forward import Forward
from hsdns.plugins.loop.search import MAX_LABELS_LEN, LoopSearch, probe_name
from hsdns.upstream.connection import UDP, connect, time_limit
from hsdns.upstream.target import Target
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query, Reply, unwritten
from hsdns.wire.name import MAX_NAME_LEN, Name

MAX_SEEN: Final = 2  # the probe itself, and one more for a client that retried it
TRY_FOR: Final = 30.0  # seconds; plugin/loop setup.go
REPLY_TIMEOUT: Final = 2.0  # miekg/dns Exchange
RETRY_AFTER: Final = 1.0
WATCH_AFTER_REPLY: Final = 2.0


class Loop(Plugin):
    """Ends the process if forwarded queries come back, or with `keep` disables their upstreams."""

    name: ClassVar[str] = "loop"
    cacheable = True

    def __init__(self, zone: Name, target: Target, *, server: str = "", keep: bool = False) -> None:
        self.zone, self.target = zone, target
        self.qname = probe_name(zone)
        self.search = LoopSearch(zone, server) if keep else None
        self.is_watching = True
        self._seen = 0
        self._runtime: Runtime

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
