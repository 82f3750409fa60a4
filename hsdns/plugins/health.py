"""Say over HTTP that the process lives, and watch how fast it says so.

Path: beside the queries; server/http.py calls answer() for /health, server/lifecycle.py waits `lameduck` seconds
between SIGTERM and the closing of the sockets.
Source: CoreDNS 1.14.7 plugin/health.
Rule 1: the answer is always 200, it only proves that the event loop turns.  Whether the server should get traffic
        is the business of `ready`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from asyncio import sleep
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self

from hsdns.corefile.arguments import HostPort, listen_address, optional_argument, split_host_port
from hsdns.corefile.properties import Property, duration, duration_to_text, one, read_properties
from hsdns.corefile.tree import Directive
from hsdns.metrics import SLIM_TIME_BUCKETS
from hsdns.plugin import Block, Plugin, Runtime

DEFAULT_ADDRESS: Final = ":8080"
CHECK_PERIOD: Final = 1.0  # seconds, as are all here; CoreDNS plugin/health overloaded.go
CHECK_TIMEOUT: Final = 3.0
SLOW: Final = 1.0
_TEXT: Final = "text/plain; charset=utf-8"
_log = logging.getLogger("hsdns.plugin.health")


class Health(Plugin):
    """Answers /health and asks itself once a second."""

    name: ClassVar[str] = "health"
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "lameduck": Property(one(duration()), default=0.0, syntax="DURATION"),
    }

    def __init__(self, address: str = DEFAULT_ADDRESS, lameduck: float = 0.0) -> None:
        self.address = address
        self.lameduck = lameduck

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `health [ADDRESS]`; of several in a block the last one that says something wins."""
        address = DEFAULT_ADDRESS
        for directive in directives:
            token = optional_argument(directive)
            if token is not None:
                address = listen_address(token)
        options = read_properties(directives, cls.PROPERTIES)
        return cls(address, options["lameduck"])

    async def start(self, runtime: Runtime) -> None:
        """Have /health answered, and begin to ask."""
        self._runtime = runtime
        self._durations = runtime.metrics.histogram(
            "coredns_health_request_duration_seconds",
            "Histogram of the time (in seconds) each request took.",
            SLIM_TIME_BUCKETS,
        )
        self._failures = runtime.metrics.counter(
            "coredns_health_request_failures_total", "The number of times the health check failed."
        )
        runtime.serve_http(self.address, {"/health": self.answer})
        host, port = split_host_port(self.address) or HostPort("", 0)
        if port:  # the kernel chooses for port 0, and only the listener knows what
            # Of all the addresses that it listens on, one has to be asked; the name of it would be looked up, and that
            # fails where the file of hosts or the resolver is not there.
            runtime.spawn(self._watch(HostPort(host or "127.0.0.1", port)), "health")

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Answer a request for /health."""
        return 200, _TEXT, b"OK"

    async def _watch(self, target: HostPort) -> None:
        while True:
            await sleep(CHECK_PERIOD)
            await self.check(target)

    async def check(self, target: HostPort) -> None:
        """Ask /health over a socket, as the kubelet would; count how long it took and whether it failed."""
        host, port = target
        url = f"http://{host if ':' not in host else f'[{host}]'}:{port}/health"
        begin = self._runtime.clock()
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                await _ask(host, port)
        except (OSError, TimeoutError, ValueError) as error:
            self._durations.observe(self._runtime.clock() - begin)
            self._failures.inc()
            reason = str(error) or f"no answer within {duration_to_text(CHECK_TIMEOUT)}"
            _log.warning('plugin/health: Local health request to "%s" failed: %s', url, reason)
            return
        elapsed = self._runtime.clock() - begin
        self._durations.observe(elapsed)
        if elapsed > SLOW:
            took = duration_to_text(elapsed)
            _log.warning(
                'plugin/health: Local health request to "%s" took more than 1s: %s', url, took
            )


async def _ask(host: str, port: int) -> None:
    """Send a GET and wait for the whole answer; raise OSError, or ValueError where it is none."""
    # uvloop's connect would go on with a lookup that is cancelled, and complain that nobody hears of its failure.
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    address = min(found, key=lambda each: each[0] != socket.AF_INET)[4]  # as the listener chose
    reader, writer = await asyncio.open_connection(*address[:2])
    try:
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = await reader.read(65536)
        if not answer.startswith(b"HTTP/1."):
            raise ValueError("the answer is not HTTP")
    finally:
        writer.close()
