"""Ask one upstream one question.

Path: plugins/forward.py calls Upstream.ask() for each attempt; connection.py waits, wire/decode_reply.py reads.
Source: CoreDNS 1.14.7 plugin/pkg/proxy connect.go.
Rule 1: every query gets an ID nobody can guess (RFC 5452 section 9.2), on a socket with a port that the kernel chose.
Rule 2: a kept TCP connection that the upstream has closed meanwhile is no failure: the next one is taken.
Rule 3: a UDP reply that does not fit what the client takes, or ends too early, becomes an empty one with TC set, so
        that the client asks again over TCP.  A client that asked over TCP takes all that fits a message.
Rule 4: an error says which upstream did what, and after the first how often in a row and for how long.  Where Go has
        words for it they stand at the end, since patterns of `errors` and of log searches are written for them.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from hsdns.corefile.properties import duration_to_text
from hsdns.metrics import TIME_BUCKETS, Registry
from hsdns.upstream.connection import HTTPS, TCP, TLS, UDP, Connection, connect
from hsdns.upstream.faults import describe
from hsdns.upstream.health import PROBE_TIMEOUT, Health, HealthCheck
from hsdns.upstream.pool import Pool
from hsdns.upstream.target import Target
from hsdns.wire.decode_reply import BadReply, WrongQuestion, decode_header, decode_reply
from hsdns.wire.encode import encode_query, udp_limit
from hsdns.wire.iana import RRType, rcode_to_text
from hsdns.wire.message import RD, Query, Reply

if TYPE_CHECKING:
    from hsdns.upstream.https import HttpsConnection, HttpsLine

READ_TIMEOUT: Final = 2.0  # seconds; plugin/forward defaultReadTimeout
EXPIRE: Final = 10.0  # seconds; plugin/forward defaultExpire
OPEN_TIMEOUT: Final = (
    5.0  # seconds, for a connection that many queries wait for, each with a time of its own
)
PROXY_NAME: Final = "forward"


class UpstreamError(Exception):
    """A sentence about an upstream that did not answer; it begins with its address."""


class Manner(NamedTuple):
    """How the upstreams of a `forward` are asked; times in seconds, 0 for `max_age` and `max_idle` being no limit."""

    expire: float = EXPIRE
    max_age: float = 0.0
    max_idle: int = 0
    read_timeout: float = READ_TIMEOUT
    force_tcp: bool = False
    check: HealthCheck = HealthCheck()
    source: str | None = None
    doh_method: str = "POST"


class Upstream:
    """One upstream with its connections, its health and its numbers.

    `loops` says that what is sent there comes back to this server: it is not to be asked.
    """

    def __init__(
        self,
        target: Target,
        *,
        clock: Callable[[], float],
        metrics: Registry,
        manner: Manner = Manner(),  # noqa: B008 - immutable
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.target = target
        self.manner = manner
        self.loops = False
        self.pool = Pool(manner.expire, clock, max_age=manner.max_age, max_idle=manner.max_idle)
        self.https: HttpsLine | None = None
        self.health = Health(manner.check.interval, self._probe)
        self._name = str(target)
        self._clock = clock
        self._tls = tls
        self._failed_in_a_row = 0
        self._failed_first = 0.0
        self._durations = metrics.histogram(
            "coredns_proxy_request_duration_seconds",
            "Histogram of the time each request took.",
            TIME_BUCKETS,
            ("proxy_name", "to", "rcode"),
        )
        self._probe_failures = metrics.counter(
            "coredns_proxy_healthcheck_failures_total",
            "Counter of the number of failed healthchecks.",
            ("proxy_name", "to"),
        )
        self._reused = metrics.counter(
            "coredns_proxy_conn_cache_hits_total",
            "Counter of connection cache hits per upstream and protocol.",
            ("proxy_name", "to", "proto"),
        )
        self._opened = metrics.counter(
            "coredns_proxy_conn_cache_misses_total",
            "Counter of connection cache misses per upstream and protocol.",
            ("proxy_name", "to", "proto"),
        )
        if target.transport == "https":
            # 18 ms that only these upstreams need
            from hsdns.upstream.https import HttpsLine  # noqa: PLC0415 - as said

            self.https = HttpsLine(
                self._open_https, clock, expire=manner.expire, max_age=manner.max_age
            )

    def __str__(self) -> str:
        return self._name

    async def ask(
        self, query: Query, protocol: str, budget: float, limit: int | None = None
    ) -> Reply:
        """Ask over "udp" or "tcp", within `budget` seconds; raise UpstreamError, or WrongQuestion for a wrong reply.

        `limit` is how many octets of reply the client takes, where the query does not say it.
        """
        proto = self._proto(protocol)
        limit = udp_limit(query) if limit is None else limit
        message = encode_query(query, secrets.randbits(16))
        started = self._clock()
        seconds = min(self.manner.read_timeout, budget)
        try:
            async with asyncio.timeout(seconds):
                reply = await self._exchange(proto, message, query, limit)
        except WrongQuestion:
            raise
        except TimeoutError:
            raise self._failure(
                f"did not reply over {proto} within {seconds:g}s", "i/o timeout"
            ) from None
        except BadReply as error:
            raise self._failure(f"sent what cannot be read over {proto}: {error}") from None
        except OSError as error:
            words = "connection refused" if isinstance(error, ConnectionRefusedError) else ""
            raise self._failure(f"{describe(error)} ({proto})", words) from None
        self._failed_in_a_row = 0
        rcode = rcode_to_text(reply.rcode)
        rcode = rcode.removeprefix("RCODE")  # unknown ones are plain numbers in CoreDNS
        self._durations.observe(self._clock() - started, (PROXY_NAME, self._name, rcode))
        return reply

    def close(self) -> None:
        """Close all idle connections; those in use are closed when their reply came."""
        self.pool.close()
        if self.https is not None:
            self.https.close()

    def _proto(self, protocol: str) -> str:
        return {"tls": TLS, "https": HTTPS}.get(self.target.transport, protocol)

    def _failure(self, what: str, words: str = "") -> UpstreamError:
        """Count a failure and put it into a sentence."""
        now = self._clock()
        if not self._failed_in_a_row:
            self._failed_first = now
        self._failed_in_a_row += 1
        sentence = f"{self} {what}"
        if self._failed_in_a_row > 1:
            ago = duration_to_text(round(now - self._failed_first))
            sentence += f", {self._failed_in_a_row} failures in a row, the first {ago} ago"
        return UpstreamError(f"{sentence}: {words}" if words else sentence)

    async def _exchange(self, proto: str, message: bytes, query: Query, limit: int) -> Reply:
        """Send a query, wait for its reply and read it; a connection whose query failed is closed."""
        labels = (PROXY_NAME, self._name, proto)

        def count(was_open: bool) -> None:
            (self._reused if was_open else self._opened).inc(labels)

        if self.https is not None:
            return decode_reply(await self.https.ask(message, count), query)
        while True:
            connection = self.pool.take(proto)
            reused = connection is not None
            count(reused)
            if connection is None:
                connection = await connect(proto, self.target, self._tls, self.manner.source)
                connection.opened = self._clock()
            try:
                reply = self._read(await connection.ask(message), query, proto, limit)
            except ConnectionError:
                connection.close()
                if not (reused and proto != UDP):
                    raise
            except BaseException:
                connection.close()
                raise
            else:
                self.pool.give(proto, connection)
                return reply

    @staticmethod
    def _read(wire: bytes, query: Query, proto: str, limit: int) -> Reply:
        if proto == UDP and len(wire) > limit:
            return decode_header(wire)
        try:
            return decode_reply(wire, query)
        except BadReply as error:
            if proto == UDP and error.cut:
                return decode_header(wire)
            raise

    def _open_https(self) -> asyncio.Future[HttpsConnection]:
        """Open a connection in a task of its own: all queries that wait for it share it."""

        async def opened() -> HttpsConnection:
            try:
                async with asyncio.timeout(OPEN_TIMEOUT):
                    return await self._connect_https(self.manner.doh_method)
            except TimeoutError:
                raise OSError(0, f"no connection within {OPEN_TIMEOUT:g}s") from None

        return asyncio.get_running_loop().create_task(opened(), name=f"connection to {self}")

    async def _connect_https(self, method: str) -> HttpsConnection:
        from hsdns.upstream.https import connect_https  # noqa: PLC0415 - as in __init__

        return await connect_https(self.target, self._tls, method, self.manner.source)

    async def _probe(self) -> bool:
        """Ask on a fresh socket whether anybody is there; any reply says so."""
        check = self.manner.check
        proto = self._proto(TCP if self.manner.force_tcp else UDP)
        flags = RD if check.recursion_desired else 0
        query = Query.ask(check.domain, RRType.NS, flags=flags)
        message = encode_query(query, secrets.randbits(16))
        connection: Connection | HttpsConnection | None = None
        try:
            async with asyncio.timeout(PROBE_TIMEOUT):
                if proto == HTTPS:
                    connection = await self._connect_https("POST")
                else:
                    connection = await connect(proto, self.target, self._tls, self.manner.source)
                await connection.ask(message)
        except (OSError, TimeoutError):
            self._probe_failures.inc((PROXY_NAME, self._name))
            return False
        finally:
            if connection is not None:
                connection.close()
        return True
