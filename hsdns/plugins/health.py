"""Serves a liveness check over HTTP, and measures its response time.

Path: beside the queries; server/http/pages.py calls answer() for /health, server/lifecycle.py waits `lameduck` seconds
between SIGTERM and the closing of the sockets.
Source: CoreDNS 1.14.7 plugin/health.
Rule 1: the status is always 200, which shows only that the event loop runs.  Readiness is up to `ready`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from asyncio import sleep
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self

from hsdns.corefile.keys import HostPort, listen_address, split_host_port
from hsdns.corefile.properties import Property, duration, duration_to_text, one, read_properties
from hsdns.corefile.tree import Directive
from hsdns.http_page import TEXT, HttpPage
from hsdns.metrics import SLIM_TIME_BUCKETS
from hsdns.plugin import Block, Plugin, Runtime

DEFAULT_ADDRESS: Final = ":8080"
CHECK_PERIOD: Final = 1.0  # seconds, like all durations here; CoreDNS plugin/health overloaded.go
CHECK_TIMEOUT: Final = 3.0
SLOW: Final = 1.0
_log = logging.getLogger("hsdns.plugin.health")


class Health(Plugin):
    """Answers /health, and requests it from itself once per second."""

    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "lameduck": Property(one(duration()), default=0.0, syntax="DURATION"),
    }

    def __init__(self, address: str = DEFAULT_ADDRESS, lameduck: float = 0.0) -> None:
        self.address = address
        self.lameduck = lameduck

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `health [ADDRESS]`; of several in a block, the last address and the last `lameduck` take effect."""
        address = DEFAULT_ADDRESS
        for directive in directives:
            address = listen_address(directive, address)
        options = read_properties(directives, cls.PROPERTIES)
        return cls(address, options["lameduck"])

    async def start(self, runtime: Runtime) -> None:
        """Serve /health, and start the periodic self-check."""
        self._runtime = runtime
        self._durations = runtime.metrics.histogram(
            "coredns_health_request_duration_seconds", SLIM_TIME_BUCKETS
        )
        self._failures = runtime.metrics.counter("coredns_health_request_failures_total")
        runtime.serve_http(self.address, {"/health": HttpPage(self.answer)})
        host, port = split_host_port(self.address) or HostPort("", 0)
        if port:  # port 0: the kernel chooses the port, and only the listener knows it
            # Not "localhost": its lookup fails if /etc/hosts or the resolver is missing.
            runtime.spawn(self._watch(HostPort(host or "127.0.0.1", port)), "health")

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Answer a request for /health."""
        return 200, TEXT, b"OK"

    async def _watch(self, target: HostPort) -> None:
        while True:
            await sleep(CHECK_PERIOD)
            await self.check(target)

    async def check(self, target: HostPort) -> None:
        """Request /health over a socket, as the kubelet does; record the duration and whether it failed."""
        url = f"http://{target}/health"
        begin = self._runtime.clock()
        reason = ""
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                await _get(*target)
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error) or f"no response within {duration_to_text(CHECK_TIMEOUT)}"
        elapsed = self._runtime.clock() - begin
        self._durations.observe(elapsed)
        if reason:
            self._failures.inc()
            _log.warning('plugin/health: Local health request to "%s" failed: %s', url, reason)
        elif elapsed > SLOW:
            took = duration_to_text(elapsed)
            _log.warning(
                'plugin/health: Local health request to "%s" took more than 1s: %s', url, took
            )


async def _get(host: str, port: int) -> None:
    """Send a GET request and read the response; raise OSError, or ValueError if the response is not HTTP."""
    # If uvloop's connect is cancelled, its lookup continues, and a failure is logged as an unretrieved exception.
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # IPv4 first, like the listener.
    address = min(found, key=lambda each: each[0] != socket.AF_INET)[4]
    reader, writer = await asyncio.open_connection(*address[:2])
    try:
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = await reader.read(65536)
        if not answer.startswith(b"HTTP/1."):
            raise ValueError("the response is not HTTP")
    finally:
        writer.close()
