"""HTTP client of the API server, on aiohttp.

Path: watcher.py sends requests through transport.py -> here -> the API server.
Rule 1: status, headers and body are passed on uninterpreted.  Redirects are not followed, so that no other server
        gets the token.
Rule 2: credentials and TLS files are checked before each request; status 401 makes them be reloaded.
Rule 3: every error is raised as Unreachable with a sentence; no exception of aiohttp leaves this module.
Rule 4: a dead server is detected by TCP keep-alive and TCP_USER_TIMEOUT, by the timeout of the response headers, and by
        the read timeout of the body.
Rule 5: proxies come from the access only, never from the environment.
Rule 6: bodies are never compressed: nothing asks for it, and a response that is compressed nevertheless is refused,
        because a few octets could stand for any number.
Rule 7: what a server says gets into a message only without the credentials, which it may echo.
Source: client-go rest/request.go, transport/cache.go; CoreDNS 1.14.7 plugin/kubernetes/metrics.go.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import aiohttp
from yarl import URL

from hsdns import __version__
from hsdns.apiserver.access import Access, AccessSource
from hsdns.apiserver.fault import CONNECT_TIMEOUT, describe, is_tls
from hsdns.apiserver.obstacle import Obstacle, Obstacles, Refusal, away
from hsdns.apiserver.redaction import Redaction
from hsdns.apiserver.tls import TlsContexts
from hsdns.apiserver.transport import Response, Unreachable
from hsdns.metrics import DEFAULT_BUCKETS, Registry

# Seconds; a server that is starting may delay a list for most of a minute.
HEADERS_TIMEOUT: Final = 60.0
ERROR_READ_TIMEOUT: Final = 10.0  # seconds; the bodies of errors are short
READ_LEN: Final = 1 << 18  # octets to buffer before flow control stops the server
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
_USER_TIMEOUT_MS: Final = 30_000
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}
_FAULTS: Final = (aiohttp.ClientError, OSError, TimeoutError)


class ApiClient:
    """A Transport to one API server; `now` is a monotonic clock in seconds."""

    def __init__(
        self,
        source: AccessSource,
        registry: Registry,
        now: Callable[[], float],
        warn: Callable[[str], None],
        *,
        headers_timeout: float = HEADERS_TIMEOUT,
    ) -> None:
        self.server = source.server
        self._source = source
        self._now = now
        self._tls = TlsContexts(warn)
        self._headers_timeout = headers_timeout
        self.redact = Redaction()
        self.obstacles = Obstacles()
        self._bodies: dict[aiohttp.StreamReader, str] = {}  # with the paths
        self._session: aiohttp.ClientSession | None = None
        self._requests = registry.counter(
            "coredns_kubernetes_rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ("code", "method", "host"),
        )
        self._durations = registry.histogram(
            "coredns_kubernetes_rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb and host.",
            DEFAULT_BUCKETS,
            ("verb", "host"),
        )

    @asynccontextmanager
    async def get(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Response]:
        """Send a GET; the response is valid within the context."""
        access = await self._source.current()
        self.server = access.server
        self.redact.remember(access.authorization)
        self.redact.remember(urlsplit(access.proxy).password or "")
        host = urlsplit(access.server).netloc
        began = self._now()
        obstacle = self.obstacles.find(path, query)
        if obstacle is not None and obstacle.status:
            self._requests.inc((str(obstacle.status), "GET", host))
            yield Refusal(path, obstacle)
            return
        try:
            response = await self._send(access, path, query, obstacle)
        except Unreachable:
            self._requests.inc(("<error>", "GET", host))
            raise
        self._requests.inc((str(response.status), "GET", host))
        if response.status == 401:
            self._source.invalidate(access)
        self._bodies[response.content] = path
        try:
            encoding = response.headers.get("Content-Encoding", "identity")
            if encoding.lower() != "identity":
                raise Unreachable(
                    f"{access.server} sends a compressed response ({self.redact(encoding[:40])}), which was not asked "
                    "for; is there a proxy in front of it that compresses?"
                ) from None
            yield _Response(response, access, self.redact)
        finally:
            del self._bodies[response.content]
            if response.content.at_eof():
                response.release()
            else:
                response.close()
            # As in client-go, watches are not measured: their duration is that of the connection.
            if query.get("watch") not in ("true", "1"):
                self._durations.observe(self._now() - began, ("GET", host))

    def cut(self, matches: Callable[[str], bool], error: OSError) -> None:
        """Have an error end the responses to requests for paths that match."""
        for body, path in self._bodies.items():
            if body.exception() is None and matches(path):
                body.set_exception(error)

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _send(
        self, access: Access, path: str, query: Mapping[str, str], obstacle: Obstacle | None
    ) -> aiohttp.ClientResponse:
        """Send the request and wait for the response headers; raise Unreachable."""
        if self._session is None:
            self._session = _make_session()
        headers = dict(access.headers)
        if access.authorization:
            headers["Authorization"] = access.authorization
        options: dict[str, Any] = {}
        if access.server.startswith("https:"):
            options["ssl"] = self._tls.context_for(access)
        target = f"{access.server}{path}{'?' if query else ''}{urlencode(query)}"
        try:
            if obstacle is not None:
                raise away(obstacle)
            async with asyncio.timeout(self._headers_timeout):
                return await self._session.get(
                    URL(target, encoded=True),
                    headers=headers,
                    allow_redirects=False,
                    proxy=access.proxy or None,
                    server_hostname=access.tls_server_name or None,
                    **options,
                )
        except _FAULTS as error:
            if is_tls(error) and access.certificate is not None:
                self._source.invalidate(access)  # the client certificate may have been refused
            # Not chained: exceptions of aiohttp contain the request's headers.
            raise Unreachable(self.redact(describe(access, error, self._headers_timeout))) from None


class _ReadTimeout(Exception):
    """No data of the body arrived for `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class _Response:
    """A Response of aiohttp."""

    def __init__(self, response: aiohttp.ClientResponse, access: Access, redact: Redaction) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._content = response.content
        self._access = access
        self._redact = redact

    async def chunks(self, read_timeout: Callable[[], float]) -> AsyncIterator[bytes]:
        """Yield the body in chunks as they arrive."""
        # One timer that checks the time of the last chunk is cheaper than a timer for each chunk.
        loop, content = asyncio.get_running_loop(), self._content
        received = loop.time()
        timer: asyncio.TimerHandle

        def check() -> None:
            nonlocal timer
            timeout = read_timeout()
            rest = received + timeout - loop.time()
            if rest > 0:
                timer = loop.call_later(rest, check)
            else:
                content.set_exception(_ReadTimeout(timeout))

        timer = loop.call_later(read_timeout(), check)
        try:
            while chunk := await content.readany():
                yield chunk
                received = loop.time()
        except _ReadTimeout as error:
            seconds = error.seconds
            raise Unreachable(f"{self._access.server} has sent no data for {seconds:g} s") from None
        except _FAULTS as error:
            raise Unreachable(self._redact(describe(self._access, error, read_timeout()))) from None
        finally:
            timer.cancel()

    async def text(self, limit: int) -> str:
        """Read the body, at most `limit` octets, and remove credentials from it."""
        found = bytearray()
        async for chunk in self.chunks(lambda: ERROR_READ_TIMEOUT):
            found += chunk
            if len(found) >= limit:
                break
        return self._redact(found[:limit].decode("utf-8", "replace"))


def user_agent() -> str:
    """Return the User-Agent in the form of client-go: hsdns/VERSION (linux/amd64)."""
    machine = os.uname().machine
    return f"hsdns/{__version__} ({sys.platform}/{_MACHINES.get(machine, machine)})"


def _make_session() -> aiohttp.ClientSession:
    options: dict[str, Any] = {}
    # aiohttp has it since 3.12; before that the kernel's own timeouts and the read timeout apply.
    if "socket_factory" in inspect.signature(aiohttp.TCPConnector).parameters:
        options["socket_factory"] = make_socket
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, **options),
        timeout=aiohttp.ClientTimeout(
            total=None, connect=CONNECT_TIMEOUT, sock_connect=CONNECT_TIMEOUT
        ),
        headers={
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": user_agent(),
        },
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        read_bufsize=READ_LEN,
    )


def make_socket(address: tuple[Any, ...]) -> socket.socket:
    """Make a socket for an address of getaddrinfo() that detects a dead peer within 30 s."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)
    return made
