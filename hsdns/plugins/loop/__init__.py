"""Find out at start whether queries that are sent on come back here; end the process, or stop asking who sends them.

Path: step 5, right above `forward`, whose loops it looks for.
Source: CoreDNS 1.14.7 plugin/loop; `loop keep` is hsdns's own.
Rule 1: a real query of type HINFO, for a name that nobody can guess, is sent to this server's own UDP socket.  Seen
        once it came from us; seen a third time it goes round in circles.
Rule 2: only at start: probes stop at the first reply, and two seconds later this handler looks at nothing any more.
Rule 3: with `keep` the first visit is not sent on; it only says that the socket is open.  Then search.py asks each
        upstream for a name of its own: if that one comes, the upstream leads back here.
Rule 4: cacheable: it looks at its own probes only, and the answer table stores no reply of type HINFO.
"""

from __future__ import annotations

import asyncio
import secrets
from asyncio import sleep
from collections.abc import Sequence
from typing import ClassVar, Final, Self

from hsdns.chain import Handler, Next, Request
from hsdns.corefile.arguments import optional_argument
from hsdns.corefile.properties import choice, no_body, only_once
from hsdns.corefile.tree import CorefileError, Directive
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins.forward import Forward
from hsdns.plugins.loop.search import MAX_LABELS_LEN, LoopSearch, probe_name
from hsdns.upstream.connection import UDP, connect
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
    """Ends the process when forwarded queries come back, or with `keep` has their upstreams left out."""

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
            raise CorefileError(
                directive.name.position,
                f'zone "{zone.to_text()}" is too long for the names that loop asks for; remove loop from this block',
            )
        server = block.servers[0]
        return cls(zone, _own_address(server), server=server, keep=word is not None)

    def find_handlers(self, handlers: Sequence[Handler]) -> None:
        """Find the handlers whose upstreams may lead back here."""
        if self.search is not None:
            self.search.forwards = tuple(each for each in handlers if isinstance(each, Forward))

    async def start(self, runtime: Runtime) -> None:
        """Begin to probe; the first probes may find the socket closed and are sent again."""
        self._runtime = runtime
        runtime.spawn(self.probe(), "loop: probe")

    async def stop(self) -> None:
        """Look at nothing any more."""
        self.is_watching = False
        if self.search is not None:
            self.search.stop()

    def remark(self) -> str:
        """Name the upstreams that are left out."""
        return self.search.remark() if self.search is not None else ""

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Count the probe's visits, pass on everything."""
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
                    f'"{self.zone.to_text()}": the query "HINFO {self.qname.to_text()}", sent here to find loops, came '
                    f"back {MAX_SEEN} times; an upstream of forward sends its queries back to this server, so name "
                    "other upstreams, for instance not a resolv.conf that points to a stub on this host, or write "
                    '"loop keep" to go on without them'
                )
            if self._seen > MAX_SEEN:
                return unwritten(
                    Rcode.SERVFAIL
                )  # passed on it would go round until the process has ended
        return await next(request)

    async def probe(self) -> None:
        """Send the probe until a reply comes, for half a minute; then stop watching, or with `keep` ask upstreams."""
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
        """Send one probe; tell whether any reply came."""
        message = encode_query(Query.ask(self.qname, RRType.HINFO), secrets.randbits(16))
        try:
            async with asyncio.timeout(REPLY_TIMEOUT):
                connection = await connect(UDP, self.target, None)
                try:
                    await connection.ask(message)
                finally:
                    connection.close()
        except (OSError, TimeoutError):
            return False
        return True


def _own_address(server: str) -> Target:
    """Where a listener of the form `dns://:53` or `dns://[::1]:53` is reached from this host."""
    host, _, port = server.partition("://")[2].rpartition(":")
    return Target("dns", host.strip("[]") or "127.0.0.1", int(port))
