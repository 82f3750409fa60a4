"""HTTP client of the API server, on connections of http_connection.py.

Path: watcher.py sends requests through transport.py -> here -> connections.py -> the API server.
Rule 1: status, headers and body are passed on uninterpreted.  Redirects are not followed, so that no other server
        gets the token.
Rule 2: credentials and TLS files are checked before each request; status 401 causes a reload.
Rule 3: every error is raised as Unreachable with a sentence; no other exception of a connection leaves this module.
Rule 4: a dead server is detected by the kernel (connections.py), by the timeout of the response headers, and by the
        read timeout of the body.
Rule 5: proxies come from the access only, never from the environment.
Rule 6: no request accepts compression, and a response that is compressed anyway is refused, because a few octets could
        stand for any number.
Rule 7: a server's text may echo credentials; they are removed before it gets into a message.
Rule 8: a request may be sent ahead (send_ahead); the first get() for it takes over its response.
Source: client-go rest/request.go, transport/cache.go; CoreDNS 1.14.7 plugin/kubernetes/metrics.go.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from hsdns import __version__
from hsdns.apiserver.access import Access, AccessSource
from hsdns.apiserver.connections import Connections, Route, head_of, proxy_authorization
from hsdns.apiserver.fault import describe, is_away, is_tls
from hsdns.apiserver.http_connection import BUFFER_LEN, HttpConnection, HttpFault
from hsdns.apiserver.media_type import JSON, is_protobuf
from hsdns.apiserver.obstacle import Obstacle, Obstacles, Refusal, away
from hsdns.apiserver.redaction import Redaction
from hsdns.apiserver.tls import TlsContexts
from hsdns.apiserver.transport import Away, Response, Unreachable
from hsdns.metrics import DEFAULT_BUCKETS, Registry
from hsdns.turns import Timer

# Seconds; a server that is starting may delay a list for most of a minute.
HEADERS_TIMEOUT: Final = 60.0
ERROR_READ_TIMEOUT: Final = 10.0  # seconds; the bodies of errors are short
AHEAD_LEN: Final = 1 << 23  # octets of a response to buffer before get() is called
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}
_FAULTS: Final = (HttpFault, OSError, TimeoutError)


class _Asked(NamedTuple):
    """A response whose head has arrived: its connection and route, and the access of the request."""

    connection: HttpConnection
    route: Route
    access: Access


class _Ahead(NamedTuple):
    """A request that was sent ahead, and the task that returns its response."""

    essence: dict[str, str]
    task: asyncio.Task[_Asked]


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
        self._connections = Connections()
        self._bodies: dict[HttpConnection, str] = {}  # with the path of the request
        self._ahead: dict[str, _Ahead] = {}  # by path
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
    async def get(
        self, path: str, query: Mapping[str, str], accept: str = JSON
    ) -> AsyncIterator[Response]:
        """Send a GET; the response is valid within the context."""
        access = await self._current()
        host = urlsplit(access.server).netloc
        began = self._now()
        obstacle = self.obstacles.find(path, query)
        if obstacle is not None and obstacle.status:
            self._requests.inc((str(obstacle.status), "GET", host))
            yield Refusal(path, obstacle)
            return
        try:
            asked = await self._sent_ahead(path, query, accept, obstacle)
            asked = asked or await self._send(access, path, query, accept, obstacle)
        except Unreachable:
            self._requests.inc(("<error>", "GET", host))
            raise
        connection, route, access = asked
        self._requests.inc((str(connection.status), "GET", host))
        if connection.status == 401:
            self._source.invalidate(access)
        self._bodies[connection] = path
        try:
            encoding = connection.headers.get("Content-Encoding", "identity")
            if encoding.lower() != "identity":
                raise Unreachable(
                    f"{access.server} sends a compressed response ({self.redact(encoding[:40])}), which was not asked "
                    "for; is there a proxy in front of it that compresses?"
                ) from None
            yield _Response(connection, access, self.redact)
        finally:
            del self._bodies[connection]
            if connection.is_reusable:
                self._connections.release(route, connection)
            else:
                connection.close()
            # As in client-go, watches are not measured: their duration is that of the connection.
            if query.get("watch") not in ("true", "1"):
                self._durations.observe(self._now() - began, ("GET", host))

    async def reach(self) -> None:
        """Open a connection, for the next request; raise Unreachable."""
        access = await self._current()
        if access.proxy or self.obstacles.all:
            raise Unreachable(f"whether {access.server} can be reached is not known")
        try:
            await self._connections.reach(self._route(access))
        except _FAULTS as error:
            raise self._unreachable(access, error) from None

    def send_ahead(self, path: str, query: Mapping[str, str], accept: str = JSON) -> None:
        """Send a GET on the running loop, ahead of its get(); until then at most AHEAD_LEN octets are buffered.

        A failure is dropped: get() sends the request again.
        """

        async def send() -> _Asked:
            return await self._send(await self._current(), path, query, accept, None, AHEAD_LEN)

        task = asyncio.get_running_loop().create_task(send())
        self._ahead[path] = _Ahead(_essence(query, accept), task)

    def cut(self, matches: Callable[[str], bool], error: OSError) -> None:
        """End the responses to requests for paths that match with an error."""
        for connection, path in self._bodies.items():
            if connection.error is None and matches(path):
                connection.fail(error)

    async def close(self) -> None:
        """Close all connections."""
        for path in list(self._ahead):
            await self._forget(path)
        self._connections.close()

    async def _current(self) -> Access:
        access = await self._source.current()
        self.server = access.server
        self.redact.remember(access.authorization)
        proxy = urlsplit(access.proxy)
        self.redact.remember(proxy.password or "")
        for _, value in proxy_authorization(proxy):
            self.redact.remember(value)
        return access

    async def _sent_ahead(
        self, path: str, query: Mapping[str, str], accept: str, obstacle: Obstacle | None
    ) -> _Asked | None:
        """The response to this request if it was sent ahead, else None."""
        ahead = self._ahead.get(path)
        if ahead is None:
            return None
        if obstacle is not None or ahead.essence != _essence(query, accept):
            await self._forget(path)
            return None
        del self._ahead[path]
        try:
            asked = await ahead.task
        except Unreachable:
            return None
        asked.connection.buffer_len = BUFFER_LEN
        return asked

    async def _forget(self, path: str) -> None:
        task = self._ahead.pop(path).task
        task.cancel()
        (found,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(found, _Asked):
            found.connection.close()

    async def _send(
        self,
        access: Access,
        path: str,
        query: Mapping[str, str],
        accept: str,
        obstacle: Obstacle | None,
        buffer_len: int = BUFFER_LEN,
    ) -> _Asked:
        """Send the request and wait for the response headers; raise Unreachable."""
        route = self._route(access)
        server = urlsplit(access.server)
        target = f"{route.target}{server.path}{path}{'?' if query else ''}{urlencode(query)}"
        headers = [
            ("Host", server.netloc),
            ("Accept", accept),
            ("Accept-Encoding", "identity"),
            ("User-Agent", user_agent()),
            *access.headers,
            *route.headers,
        ]
        if access.authorization:
            headers.append(("Authorization", access.authorization))
        try:
            request = head_of(f"GET {target}", headers)
        except ValueError as error:
            raise Unreachable(f"cannot ask {access.server}: {error}") from None
        try:
            if obstacle is not None:
                raise away(obstacle)
            async with asyncio.timeout(self._headers_timeout):
                connection = await self._connections.ask(route, request, buffer_len)
        except _FAULTS as error:
            raise self._unreachable(access, error) from None
        return _Asked(connection, route, access)

    def _route(self, access: Access) -> Route:
        is_secure = access.server.startswith("https:")
        return Route.of(access, self._tls.context_for(access) if is_secure else None)

    def _unreachable(self, access: Access, error: BaseException) -> Unreachable:
        if is_tls(error) and access.certificate is not None:
            self._source.invalidate(access)  # the client certificate may have been refused
        sentence = self.redact(describe(access, error, self._headers_timeout))
        return Away(sentence) if is_away(error) else Unreachable(sentence)


class _ReadTimeout(Exception):
    """No data of the body arrived for `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class _Response:
    """A Response on a connection."""

    def __init__(self, connection: HttpConnection, access: Access, redact: Redaction) -> None:
        self.status = connection.status
        self.headers: Mapping[str, str] = connection.headers
        self._connection = connection
        self._access = access
        self._redact = redact

    async def chunks(self, read_timeout: Callable[[], float]) -> AsyncIterator[bytes]:
        """Yield the body in chunks as they arrive."""
        with self._limited(read_timeout):
            while chunk := await self._connection.read():
                yield chunk

    async def feed(self, take: Callable[[bytes], bool], read_timeout: Callable[[], float]) -> None:
        """Pass the body to `take` as it arrives."""
        with self._limited(read_timeout):
            await self._connection.feed(take)

    @contextmanager
    def _limited(self, read_timeout: Callable[[], float]) -> Iterator[None]:
        """Read the body within the timeout."""
        # One timer that checks the time of the last chunk is cheaper than a timer for each chunk.
        loop, connection = asyncio.get_running_loop(), self._connection
        began = loop.time()
        timer: Timer

        def check() -> None:
            nonlocal timer
            timeout = read_timeout()
            rest = max(began, connection.last_received) + timeout - loop.time()
            if rest > 0:
                timer = Timer(loop, rest, check)
            else:
                connection.fail(_ReadTimeout(timeout))

        timer = Timer(loop, read_timeout(), check)
        try:
            yield
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
        octets = bytes(found[:limit])
        if is_protobuf(self.headers.get("Content-Type", "")):
            from hsdns.apiserver.protobuf import status_text  # noqa: PLC0415 - the reflector has it by then

            return self._redact(status_text(octets))
        return self._redact(octets.decode("utf-8", "replace"))


def user_agent() -> str:
    """Return the User-Agent in the form of client-go: hsdns/VERSION (linux/amd64)."""
    machine = os.uname().machine
    return f"hsdns/{__version__} ({sys.platform}/{_MACHINES.get(machine, machine)})"


def _essence(query: Mapping[str, str], accept: str) -> dict[str, str]:
    """What a request asks for, without the lifetime of its watch, which is random."""
    return {name: text for name, text in query.items() if name != "timeoutSeconds"} | {
        "Accept": accept
    }
