"""Exchange of a query and its reply with one upstream.

Path: plugins/forward.py calls Upstream.ask() for each attempt; multiplexer.py sends over UDP, connection.py and
https.py over streams; wire/decode.py decodes.
Source: CoreDNS 1.14.7 plugin/pkg/proxy connect.go and health.go, plugin/pkg/up up.go, plugin/forward policy.go.
Rule 1: every query has an unpredictable ID (RFC 5452 section 9.2) and a source port chosen by the kernel.
Rule 2: if the upstream has closed an idle TCP connection, the query is sent over the next one.
Rule 3: a UDP reply that is cut, or larger than the client's limit, becomes an empty one with TC set, so that the client
        retries over TCP.  Over TCP the only limit is that of a message.
Rule 4: queries that wait for replies over TCP or TLS have a share of the descriptors, MAX_STREAMS at most; one more is
        not sent, so that a silent upstream does not take those of sockets, clients and files.
Rule 5: EDNS cookies are neither sent on nor returned (RFC 7873 section 3).  A reply to a query with a client subnet is
        for no other query, unless it says that it is for all networks (RFC 7871 section 7.3.1).
Rule 6: an error names the upstream and what it did, and after the first one also the number and time of the previous
        ones.  It ends with Go's words, if Go has any, because patterns of `errors` and log searches expect them.
Rule 7: of the health of an upstream only probes count: a failed query starts them, each failed probe increments the
        count, and the first reply of any kind resets it and ends them.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from hsdns.corefile.properties import duration_to_text
from hsdns.limits import descriptor_limit
from hsdns.metrics import TIME_BUCKETS
from hsdns.plugin import Runtime
from hsdns.upstream.connection import (
    HTTPS,
    TCP,
    TLS,
    UDP,
    Connection,
    Displaced,
    Pool,
    connect,
    describe,
    time_limit,
)
from hsdns.upstream.multiplexer import Multiplexer, sent_on
from hsdns.upstream.target import Target, UpstreamSettings
from hsdns.upstream.udp_socket import UdpSockets
from hsdns.wire.decode import BadReply, WrongQuestion, decode_header, decode_in_turns, decode_reply
from hsdns.wire.encode import encode_query, udp_limit
from hsdns.wire.iana import OptCode, RRType, rcode_to_text
from hsdns.wire.message import RD, Query, Reply

PROBE_TIMEOUT: Final = 1.0  # plugin/pkg/proxy health.go defaultTimeout


class Health:
    """The failures of one upstream."""

    def __init__(self, interval: float) -> None:
        self.failures = 0
        self.is_probing = False  # a second run of probes would count failures twice
        self.changed: Callable[[int], object] = lambda failures: None  # called with a new number
        self._interval = interval

    def is_down(self, max_fails: int) -> bool:
        """Whether more than `max_fails` consecutive probes failed; 0 means never down."""
        return max_fails > 0 and self.failures > max_fails

    def probe_until_healthy(
        self, probe: Callable[[], Awaitable[bool]]
    ) -> Coroutine[Any, Any, None]:
        """Probe until a reply comes; `probe` returns whether one did.

        The probes are running from this call on, not only once their task runs: queries may fail together.
        """
        self.is_probing = True
        return self._run(probe)

    async def _run(self, probe: Callable[[], Awaitable[bool]]) -> None:
        try:
            while not await probe():
                self.failures += 1
                self.changed(self.failures)
                await asyncio.sleep(self._interval)
            self.failures = 0
            self.changed(0)
        finally:
            self.is_probing = False


T = TypeVar("T")

POLICIES: Final = ("random", "round_robin", "sequential")


class Policy:
    """Orders upstreams by one of POLICIES."""

    def __init__(self, name: str, random: Random) -> None:
        self._name = name
        self._random = random
        self._turn = 0

    def order(self, upstreams: Sequence[T]) -> Sequence[T]:
        """Return the upstreams in the order to try them.

        `random` shuffles them and `sequential` keeps the order of the Corefile; `round_robin` moves the next one to the
        front and keeps the order of the others (no rotation).
        """
        if len(upstreams) < 2 or self._name == "sequential":
            return upstreams
        if self._name == "random":
            return self._random.sample(upstreams, len(upstreams))
        self._turn += 1
        first = self._turn % len(upstreams)
        return [upstreams[first], *upstreams[:first], *upstreams[first + 1 :]]


if TYPE_CHECKING:
    from hsdns.upstream.https import HttpsConnection, HttpsPool

# Of the process, if its limit of descriptors is not lower; server/transport/admission.py leaves room for them.
MAX_STREAMS: Final = 4096
PROXY_NAME: Final = "forward"
_SCOPE_AT: Final = 3  # octets of family, then of the prefix length of the query: RFC 7871 section 6


class UpstreamError(Exception):
    """An upstream did not reply or not correctly; the message begins with its address."""


class UpstreamOverload(UpstreamError):
    """An upstream has too many queries to answer for this one; asking it again only adds to them."""


class Streams:
    """The queries that wait for replies over streams of their own, of all upstreams: each takes a descriptor."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Have one more meanwhile; raise Displaced."""
        if self.used >= self.most:
            raise Displaced(f"is not queried: {self.most} queries over streams wait")
        self.used += 1
        try:
            yield
        finally:
            self.used -= 1


class Upstream:
    """An upstream with its connections, health and metrics; none of them leads back to it (hsdns/memory.py, rule 3).

    `loops` means that queries sent there come back to this server, so it must not be used.
    """

    _streams: ClassVar[Streams] = Streams(MAX_STREAMS)

    def __init__(
        self,
        target: Target,
        runtime: Runtime,
        settings: UpstreamSettings,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        clock, metrics, waiting = runtime.clock, runtime.metrics, runtime.queries
        self.target = target
        self.settings = settings
        self.loops = False
        self.pool = Pool(settings, clock)
        self.https: HttpsPool | None = None
        self.health = Health(settings.health_check.interval)
        self._forged = metrics.counter("hsdns_forward_forged_total", ("to",))
        self.udp = Multiplexer(
            UdpSockets(target, settings.source_address, clock).open,
            clock,
            waiting.waits,
            settings,
            open_stream=partial(_Stream, weakref.ref(self)),
            forged=partial(self._forged.inc, (str(target),)),
        )
        self._streams.most = min(MAX_STREAMS, descriptor_limit() // 4)
        self._last = b"", Reply()  # the last datagram and its decoded reply
        self.spawn = waiting.spawn
        self._name = str(target)
        self._over = {"tls": TLS, "https": HTTPS}.get(target.transport)  # None: as asked
        self._clock = clock
        self._tls = tls
        self.failed = 0  # queries, since it was made
        self._consecutive_failures = 0
        self._first_failure = 0.0
        self._durations = metrics.histogram(
            "coredns_proxy_request_duration_seconds", TIME_BUCKETS, ("proxy_name", "to", "rcode")
        )
        self._probe_failures = metrics.counter(
            "coredns_proxy_healthcheck_failures_total", ("proxy_name", "to")
        )
        self._reused = metrics.counter(
            "coredns_proxy_conn_cache_hits_total", ("proxy_name", "to", "proto")
        )
        self._opened = metrics.counter(
            "coredns_proxy_conn_cache_misses_total", ("proxy_name", "to", "proto")
        )
        if target.transport == "https":
            # Imported only for these upstreams: the import takes 7 ms.
            from hsdns.upstream.https import HttpsPool, connect_https  # noqa: PLC0415 - as said

            self._connect_https = partial(
                connect_https, target, tls, source=settings.source_address
            )
            self.https = HttpsPool(
                partial(self._connect_https, settings.doh_method), clock, settings
            )

    def __str__(self) -> str:
        return self._name

    async def ask(
        self, query: Query, protocol: str, budget: float, limit: int | None = None
    ) -> Reply:
        """Query over "udp" or "tcp", within `budget` seconds; raise UpstreamError, or WrongQuestion.

        `limit` is the client's maximum of octets, by default that of the query.
        """
        proto = self._over or protocol
        started = self._clock()
        seconds = min(self.settings.read_timeout, budget)
        try:
            if proto == UDP:
                wire = await self.udp.ask(query, seconds, partial(self._count, UDP))
                reply = self._read_datagram(
                    wire, query, udp_limit(query) if limit is None else limit
                )
            elif self.https is not None:
                reply = await self._in_task(proto, query, seconds)
            else:
                with self._streams.one():
                    reply = await self._in_task(proto, query, seconds)
        except WrongQuestion:
            raise
        except Displaced as error:
            raise UpstreamOverload(f"{self} {error}") from None
        except TimeoutError:
            raise self._failure(
                f"did not reply over {proto} within {seconds:g}s", "i/o timeout"
            ) from None
        except BadReply as error:
            raise self._failure(f"sent a malformed reply over {proto}: {error}") from None
        except OSError as error:
            words = "connection refused" if isinstance(error, ConnectionRefusedError) else ""
            raise self._failure(f"{describe(error)} ({proto})", words) from None
        self._consecutive_failures = 0
        rcode = rcode_to_text(reply.rcode)
        rcode = rcode.removeprefix("RCODE")  # CoreDNS writes unknown ones as plain numbers
        self._durations.observe(self._clock() - started, (PROXY_NAME, self._name, rcode))
        return _returned(query, reply)

    def close(self) -> None:
        """Close all idle connections; those in use are closed after their reply."""
        self.udp.close()
        self.pool.close()
        if self.https is not None:
            self.https.close()

    def add(
        self, reused: int, opened: int, forged: int, durations: Mapping[str, Sequence[int]]
    ) -> None:
        """Count exchanges of the compiled twin: durations by rcode, with their sum in nanoseconds."""
        for counter, amount in ((self._reused, reused), (self._opened, opened)):
            if amount:
                counter.inc((PROXY_NAME, self._name, UDP), amount)
        if forged:
            self._forged.inc((self._name,), forged)
        for rcode, (*cells, nanoseconds) in durations.items():
            if nanoseconds:
                self._durations.add((*cells, nanoseconds / 1e9), (PROXY_NAME, self._name, rcode))

    def probe_until_healthy(self) -> Coroutine[Any, Any, None]:
        """Probe it until a reply comes."""
        return self.health.probe_until_healthy(self._probe)

    def _failure(self, what: str, words: str = "") -> UpstreamError:
        """Count a failure and return its error."""
        now = self._clock()
        if not self._consecutive_failures:
            self._first_failure = now
        self._consecutive_failures += 1
        self.failed += 1
        sentence = f"{self} {what}"
        if self._consecutive_failures > 1:
            ago = duration_to_text(round(now - self._first_failure))
            sentence += f", {self._consecutive_failures} failures in a row, the first {ago} ago"
        return UpstreamError(f"{sentence}: {words}" if words else sentence)

    def _count(self, proto: str, was_open: bool) -> None:
        """Count a connection that was used, open before or opened for it."""
        (self._reused if was_open else self._opened).inc((PROXY_NAME, self._name, proto))

    def _read_datagram(self, wire: bytes, query: Query, limit: int) -> Reply:
        """Decode a reply over UDP, once for all queries that share it."""
        if len(wire) > limit:
            return decode_header(wire)
        if self._last[0] is not wire:
            try:
                self._last = wire, decode_reply(wire, query)
            except BadReply as error:
                if error.is_truncated:
                    return decode_header(wire)
                raise
        return self._last[1]

    async def _in_task(self, proto: str, query: Query, seconds: float) -> Reply:
        """Send a query over a stream, in a task of its own if this is none."""
        if asyncio.current_task() is not None:
            return await self._exchange(proto, query, seconds)
        outcome = await self.spawn(_outcome(self._exchange(proto, query, seconds)))
        if isinstance(outcome, Exception):
            raise outcome
        reply: Reply = outcome
        return reply

    async def _exchange(self, proto: str, query: Query, seconds: float) -> Reply:
        """Send a query over a stream within `seconds` and decode its reply, in a task."""
        message = encode_query(sent_on(query), secrets.randbits(16))
        count = partial(self._count, proto)
        async with time_limit(seconds):
            if self.https is not None:
                return await decode_in_turns(await self.https.ask(message, count), query)
            return await self._ask_stream(proto, message, partial(decode_in_turns, query=query))

    async def ask_over_tcp(self, message: bytes) -> bytes:
        """Send a query that the multiplexer does not send over UDP; raise OSError."""
        with self._streams.one():
            async with asyncio.timeout(self.settings.read_timeout):
                return await self._ask_stream(TCP, message, _as_it_is)

    async def _ask_stream(
        self, proto: str, message: bytes, decode: Callable[[bytes], Awaitable[T]]
    ) -> T:
        """Send a query over a connection that no other query uses meanwhile; close it after an error."""
        while True:
            connection = self.pool.take(proto)
            reused = connection is not None
            self._count(proto, reused)
            if connection is None:
                connection = await connect(
                    proto, self.target, self._tls, self.settings.source_address
                )
                connection.opened = self._clock()
            try:
                reply = await decode(await connection.ask(message))
            except ConnectionError:
                connection.close()
                if not reused:
                    raise
            except BaseException:
                connection.close()
                raise
            else:
                self.pool.give(proto, connection)
                return reply

    async def _probe(self) -> bool:
        """Query over a new connection; return whether there was any reply."""
        check = self.settings.health_check
        proto = self._over or (TCP if self.settings.force_tcp else UDP)
        flags = RD if check.recursion_desired else 0
        query = Query.ask(check.domain, RRType.NS, flags=flags)
        message = encode_query(query, secrets.randbits(16))
        connection: Connection | HttpsConnection | None = None
        try:
            async with time_limit(PROBE_TIMEOUT):
                if proto == HTTPS:
                    connection = await self._connect_https("POST")
                else:
                    connection = await connect(
                        proto, self.target, self._tls, self.settings.source_address
                    )
                await connection.ask(message)
        except (OSError, TimeoutError):
            self._probe_failures.inc((PROXY_NAME, self._name))
            return False
        finally:
            if connection is not None:
                connection.close()
        return True


class _Stream:
    """A query over TCP that the multiplexer treats as one over a socket of its own; it is sent in a task."""

    def __init__(
        self,
        upstream: weakref.ref[Upstream],
        receive: Callable[[bytes], None],
        fail: Callable[[OSError], None],
    ) -> None:
        self._upstream = upstream
        self._ends: tuple[Callable[[bytes], None], Callable[[OSError], None]] | None = receive, fail

    def send(self, message: bytes) -> None:
        """Send the query."""
        upstream = self._upstream()
        if upstream is not None:
            upstream.spawn(self._ask(upstream, message))

    def close(self) -> None:
        """Wait for its reply no more."""
        self._ends = None

    async def _ask(self, upstream: Upstream, message: bytes) -> None:
        error: OSError
        try:
            wire = await upstream.ask_over_tcp(message)
        except Displaced as displaced:
            error = displaced
        except OSError as failure:
            error = OSError(0, f"{failure.strerror or failure} over TCP, after forged replies")
        else:
            if self._ends is not None:
                self._ends[0](wire)
            return
        if self._ends is not None:
            self._ends[1](error)


async def _as_it_is(wire: bytes) -> bytes:
    return wire


def _returned(query: Query, reply: Reply) -> Reply:
    """The reply without the upstream's cookie, and for this query only if its client subnet matters."""
    options = reply.edns_options
    if options and any(code == OptCode.COOKIE for code, _ in options):
        reply = reply.replace(edns_options=tuple(o for o in options if o[0] != OptCode.COOKIE))
    if query.edns is None or all(code != OptCode.SUBNET for code, _ in query.edns.options):
        return reply
    scopes = [data[_SCOPE_AT:][:1] for code, data in options or () if code == OptCode.SUBNET]
    return reply if scopes == [b"\0"] else reply.held(lambda: False)


async def _outcome(exchange: Coroutine[Any, Any, Reply]) -> Reply | Exception:
    """Return the exception of an upstream's error: a raised one would be logged as an error of this server."""
    try:
        return await exchange
    except (OSError, BadReply) as error:
        return error
