"""Ask one upstream one question.

Path: plugins/forward.py calls Upstream.ask() for each attempt; connection.py waits, wire/decode_reply.py reads.
Source: CoreDNS 1.14.7 plugin/pkg/proxy connect.go.
Rule 1: every query gets an ID nobody can guess (RFC 5452 section 9.2), on a socket with a port that the kernel chose.
Rule 2: a kept TCP connection that the upstream has closed meanwhile is no failure: the next one is taken.
Rule 3: a UDP reply that does not fit what the client takes, or ends too early, becomes an empty one with TC set, so
        that the client asks again over TCP.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable
from typing import Final

from hsdns.metrics import TIME_BUCKETS, Registry
from hsdns.upstream.connection import TCP, TLS, UDP, Connection, connect, describe
from hsdns.upstream.health import PROBE_TIMEOUT, Health, HealthCheck
from hsdns.upstream.pool import Pool
from hsdns.upstream.target import Target
from hsdns.wire.decode_reply import BadReply, WrongQuestion, decode_header, decode_reply
from hsdns.wire.encode import encode_query, udp_limit
from hsdns.wire.iana import RRType, rcode_to_text
from hsdns.wire.message import RD, Query, Reply

READ_TIMEOUT: Final = 2.0  # seconds; plugin/forward defaultReadTimeout
PROXY_NAME: Final = "forward"


class UpstreamError(Exception):
    """A sentence about an upstream that did not answer; it begins with its address."""


class Upstream:
    """One upstream with its connections, its health and its numbers."""

    def __init__(
        self,
        target: Target,
        *,
        clock: Callable[[], float],
        metrics: Registry,
        expire: float,
        check: HealthCheck,
        tls: ssl.SSLContext | None = None,
        force_tcp: bool = False,
        read_timeout: float = READ_TIMEOUT,
    ) -> None:
        self.target = target
        self.pool = Pool(expire, clock)
        self.health = Health(check.interval, self._probe)
        self._name = str(target)
        self._clock = clock
        self._check = check
        self._tls = tls
        self._force_tcp = force_tcp
        self._read_timeout = read_timeout
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

    def __str__(self) -> str:
        return self._name

    async def ask(self, query: Query, protocol: str, budget: float) -> Reply:
        """Ask over "udp" or "tcp", within `budget` seconds; raise UpstreamError, or WrongQuestion for a wrong reply."""
        proto = TLS if self.target.transport == "tls" else protocol
        message = encode_query(query, secrets.randbits(16))
        started = self._clock()
        seconds = min(self._read_timeout, budget)
        try:
            async with asyncio.timeout(seconds):
                wire, connection = await self._exchange(proto, message)
        except TimeoutError:
            raise UpstreamError(f"{self} did not reply over {proto} within {seconds:g}s") from None
        except OSError as error:
            raise UpstreamError(f"{self} {describe(error)} ({proto})") from None
        reply = self._read(wire, query, proto, connection)
        self.pool.give(proto, connection)
        rcode = rcode_to_text(reply.rcode)
        rcode = rcode.removeprefix("RCODE")  # unknown ones are plain numbers in CoreDNS
        self._durations.observe(self._clock() - started, (PROXY_NAME, self._name, rcode))
        return reply

    def close(self) -> None:
        """Close all idle connections; those in use are closed when their reply came."""
        self.pool.close()

    async def _exchange(self, proto: str, message: bytes) -> tuple[bytes, Connection]:
        """Send and wait for the reply's bytes; a connection whose query failed is closed."""
        while True:
            connection = self.pool.take(proto)
            reused = connection is not None
            labels = (PROXY_NAME, self._name, proto)
            (self._reused if reused else self._opened).inc(labels)
            if connection is None:
                connection = await connect(proto, self.target, self._tls)
            try:
                return await connection.ask(message), connection
            except ConnectionError:
                connection.close()
                if not (reused and proto != UDP):
                    raise
            except BaseException:
                connection.close()
                raise

    def _read(self, wire: bytes, query: Query, proto: str, connection: Connection) -> Reply:
        if proto == UDP and len(wire) > udp_limit(query):
            return decode_header(wire)
        try:
            return decode_reply(wire, query)
        except WrongQuestion:
            connection.close()
            raise
        except BadReply as error:
            if proto == UDP and error.cut:
                return decode_header(wire)
            connection.close()
            raise UpstreamError(f"{self} sent what cannot be read over {proto}: {error}") from None

    async def _probe(self) -> bool:
        """Ask on a fresh socket whether anybody is there; any reply says so."""
        proto = TLS if self.target.transport == "tls" else TCP if self._force_tcp else UDP
        flags = RD if self._check.recursion_desired else 0
        query = Query.ask(self._check.domain, RRType.NS, flags=flags)
        connection: Connection | None = None
        try:
            async with asyncio.timeout(PROBE_TIMEOUT):
                connection = await connect(proto, self.target, self._tls)
                await connection.ask(encode_query(query, secrets.randbits(16)))
        except (OSError, TimeoutError):
            self._probe_failures.inc((PROXY_NAME, self._name))
            return False
        finally:
            if connection is not None:
                connection.close()
        return True
