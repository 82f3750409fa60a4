"""The connection to the API server: HTTP over TLS, by aiohttp.

Path: watcher.py asks through transport.py -> here -> the API server.
Rule 1: status, headers and body are handed on as they are; what they mean is decided elsewhere.  Redirects are not
        followed, so a token goes to no other server.
Rule 2: credentials and TLS files are looked at before each request; 401 has them read anew.
Rule 3: whatever goes wrong is Unreachable with a sentence; nothing of aiohttp gets out.
Rule 4: a server that is gone without a word is noticed three times over: by keep-alive and TCP_USER_TIMEOUT in the
        kernel, by the wait for the headers, and by `silence` within the body.
Rule 5: proxies come from the access alone, never from the environment.
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
from hsdns.apiserver.tls import TlsContexts
from hsdns.apiserver.transport import Answer, Unreachable
from hsdns.metrics import DEFAULT_BUCKETS, Registry

HEADERS_TIMEOUT: Final = (
    60.0  # seconds; a server that is starting holds a list back for most of a minute
)
TEXT_SILENCE: Final = 10.0  # seconds; refusals are short
READ_LEN: Final = 1 << 18  # octets that may wait for us before the server is slowed down
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
    async def get(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Answer]:
        """Send GET; the answer is good within the context."""
        access = await self._source.current()
        self.server = access.server
        host = urlsplit(access.server).netloc
        began = self._now()
        try:
            response = await self._send(access, path, query)
        except Unreachable:
            self._requests.inc(("<error>", "GET", host))
            raise
        self._requests.inc((str(response.status), "GET", host))
        if response.status == 401:
            self._source.forget(access)
        try:
            yield _Answer(response, access)
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()
            # As in client-go, a watch has no duration: it would only say how often connections are renewed.
            if query.get("watch") not in ("true", "1"):
                self._durations.observe(self._now() - began, ("GET", host))

    async def close(self) -> None:
        """End all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _send(
        self, access: Access, path: str, query: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        """Send the request and wait for the headers; raise Unreachable."""
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
                self._source.forget(access)  # the client certificate may be what is refused
            # Not chained: the errors of aiohttp carry the request's headers.
            raise Unreachable(describe(access, error, self._headers_timeout)) from None


class _Silent(Exception):
    """A body of which nothing has come for so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class _Answer:
    """An Answer."""

    def __init__(self, response: aiohttp.ClientResponse, access: Access) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._content = response.content
        self._access = access

    async def chunks(self, silence: Callable[[], float]) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        # One timer that looks how long it has been, not one for each chunk: a chunk is an event that is waited for.
        loop, content = asyncio.get_running_loop(), self._content
        heard = loop.time()
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            patience = silence()
            rest = heard + patience - loop.time()
            if rest > 0:
                timer = loop.call_later(rest, look)
            else:
                content.set_exception(_Silent(patience))

        timer = loop.call_later(silence(), look)
        try:
            while chunk := await content.readany():
                yield chunk
                heard = loop.time()
        except _Silent as silent:
            seconds = silent.seconds
            raise Unreachable(f"{self._access.server} has sent nothing for {seconds:g} s") from None
        except _FAULTS as error:
            raise Unreachable(describe(self._access, error, silence())) from None
        finally:
            timer.cancel()

    async def text(self, limit: int) -> str:
        """Read the body, at most `limit` octets of it."""
        found = bytearray()
        async for chunk in self.chunks(lambda: TEXT_SILENCE):
            found += chunk
            if len(found) >= limit:
                break
        return found[:limit].decode("utf-8", "replace")


def user_agent() -> str:
    """Say who asks, in the form of client-go: hsdns/VERSION (linux/amd64)."""
    machine = os.uname().machine
    return f"hsdns/{__version__} ({sys.platform}/{_MACHINES.get(machine, machine)})"


def _make_session() -> aiohttp.ClientSession:
    options: dict[str, Any] = {}
    # aiohttp has it since 3.12; before that the kernel's own time-outs apply, and `silence` is what notices.
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
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        read_bufsize=READ_LEN,
    )


def make_socket(address: tuple[Any, ...]) -> socket.socket:
    """Make a socket, as getaddrinfo describes it, that notices a peer that is gone within 30 s."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)
    return made
