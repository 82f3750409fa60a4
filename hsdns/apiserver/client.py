"""HTTP client of the API server, on connections of connections.py.

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
import contextlib
import errno
import os
import re
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import KW_ONLY, InitVar, dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from hsdns import __version__
from hsdns.apiserver.access import Access, AccessSource, Pem
from hsdns.apiserver.connections import (
    BUFFER_LEN,
    CONNECT_TIMEOUT,
    Connections,
    ConnectTimeout,
    HttpConnection,
    HttpFault,
    Incomplete,
    Lost,
    NoResponse,
    NotHttp,
    ProxyRefused,
    ProxyUnreachable,
    Route,
    head_of,
    proxy_authorization,
)
from hsdns.apiserver.redaction import Redaction
from hsdns.apiserver.resource import JSON, is_protobuf
from hsdns.apiserver.transport import (
    Away,
    Obstacle,
    Obstacles,
    Refusal,
    Response,
    Unreachable,
    away,
    read_body,
)
from hsdns.metrics import DEFAULT_BUCKETS, Registry
from hsdns.turns import ClientContext, Timer

# Error messages for connections to the API server.
#
# Rule: a message names the server, the cause and, if known, the remedy; it contains no header and no password.


# X509_V_ERR_* of OpenSSL for which the remedy is known.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_AWAY: Final = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ETIMEDOUT)
_WRONG_NAME: Final = (62, 64)


def describe(access: Access, error: BaseException, timeout: float) -> str:
    """Return the message for an HttpFault or an error of the system; `timeout` is that of the response, in seconds."""
    server = access.server
    cause = _cause(error)
    if isinstance(error, ProxyRefused):
        proxy = _without_password(access.proxy)
        return f"the proxy {proxy} refuses to connect to {server}: {error.status} {error.reason}"
    if isinstance(error, ProxyUnreachable):
        proxy = _without_password(access.proxy)
        return f"the proxy {proxy} on the way to {server} cannot be reached: {_system(cause)}"
    if isinstance(error, Lost) and is_tls(error):  # an alert after the handshake
        return f"{server} closed the TLS connection: {_system(cause)}"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"{server} presents an invalid certificate: {_verification(access, cause)}"
    if isinstance(cause, ssl.SSLError):
        if cause.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
            return f"{server} does not speak TLS; is its scheme http://?"
        return f"{server} failed the TLS handshake: {cause.reason or cause}"
    if isinstance(cause, socket.gaierror):
        return f"{server} cannot be resolved: {cause.strerror}"
    if isinstance(cause, ConnectionRefusedError):
        return f"{server} refuses connections; is the API server running?"
    if isinstance(error, ConnectTimeout):
        return f"{server} does not accept a connection within {CONNECT_TIMEOUT:g} s"
    if isinstance(cause, TimeoutError) and cause.errno is None:
        return f"{server} does not respond within {timeout:g} s"
    if isinstance(error, Incomplete):
        return f"{server} closed the connection before the end of its response"
    if isinstance(error, NoResponse):
        return f"{server} closed the connection without a response"
    if isinstance(error, NotHttp):
        return f"{server} does not speak HTTP: {' '.join(str(error).split())[:120]}"
    if isinstance(cause, OSError):
        return f"{server} cannot be reached: {_system(cause)}"
    return f"{server} cannot be reached: {type(cause).__name__}"


def is_tls(error: BaseException) -> bool:
    """Whether it is a TLS error, possibly because the certificate was refused."""
    cause = _cause(error)
    # After the handshake, only the text of the exception shows it.
    return isinstance(cause, ssl.SSLError) or "[SSL" in str(cause)


def is_away(error: BaseException) -> bool:
    """Whether the error means that the server accepts no connections."""
    if isinstance(error, (ConnectTimeout, ConnectionRefusedError, socket.gaierror)):
        return True
    return isinstance(error, OSError) and error.errno in _AWAY


def _cause(error: BaseException) -> BaseException:
    """Return the system's error within an HttpFault, or the error itself."""
    return error.error if isinstance(error, (Lost, ProxyUnreachable)) else error


def _system(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


def _verification(access: Access, error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
        advice = "renew it on the control plane, or set this host's clock"
    elif error.verify_code in _WRONG_NAME:
        advice = "connect by a name that it contains, or set tls-server-name in a kubeconfig"
    elif access.authority is not None and access.authority.path:
        advice = f"is {access.authority.path} the CA of this cluster?"
    elif access.authority is not None:
        advice = "does certificate-authority-data of the kubeconfig belong to this cluster?"
    else:
        advice = 'give the CA of the cluster ("tls CERT KEY CACERT", or certificate-authority in a kubeconfig)'
    return f"{error.verify_message}; {advice}"


def _without_password(proxy: str) -> str:
    parts = urlsplit(proxy)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


# TLS contexts for connections to the API server: trusted CAs and client certificate.
#
# Rule 1: TLS 1.2 or later, a valid certificate and a matching name are required; only `insecure` turns that off.
# Rule 2: VERIFY_X509_STRICT, the default since Python 3.13, is off: the CAs of many clusters lack the key identifiers
#         that it requires.  As in Go, every certificate in the CA file is a trust anchor.
# Rule 3: files are read and compared each time; a change makes a new context.  If the new content is invalid, a warning
#         is logged and the previous context is kept.
# Rule 4: OpenSSL gets a private key through anonymous memory or, where the system has none, through a file with mode
#         0600 that is deleted at once.
# Source: client-go transport/transport.go (TLSConfigFor); Kubernetes docs, "PKI certificates and requirements".


_CERTIFICATES: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----"
)


class _TlsError(ValueError):
    """An error in the TLS files, as a sentence for the operator."""


class _Material(NamedTuple):
    """The inputs of a context."""

    authority: bytes | None
    certificate: bytes | None
    key: bytes | None
    insecure: bool


class TlsContexts:
    """Makes the context of the current access, and a new one when its files change."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._warned = ""
        self._access: Access | None = None
        self._material: _Material | None = None
        self._context: ssl.SSLContext | None = None

    def context_for(self, access: Access) -> ssl.SSLContext:
        """Return the context, the same one until something changes; raise Unreachable."""
        try:
            material = _Material(
                _read(access.authority, "CA"),
                _read(access.certificate, "certificate"),
                _read(access.key, "key"),
                access.insecure,
            )
            if self._context is None or material != self._material:
                self._context = _make(access, material)
                self._material, self._access = material, access
            self._warned = ""
        except _TlsError as error:
            # The previous context is kept only for the same access.
            if self._context is None or _named(access) != _named(self._access):
                raise Unreachable(str(error)) from None
            if str(error) != self._warned:
                self._warned = str(error)
                self._warn(f"{error}; still using the previous files")
        return self._context


def _named(access: Access | None) -> tuple[Pem | bool | None, ...]:
    if access is None:
        return ()
    return (access.authority, access.certificate, access.key, access.insecure)


def _read(pem: Pem | None, what: str) -> bytes | None:
    """Read the PEM file, or return the PEM data; raise _TlsError."""
    if pem is None or not pem.path:
        return None if pem is None else pem.pem.encode("latin-1")
    try:
        return Path(pem.path).read_bytes()
    except OSError as error:
        raise _TlsError(f"cannot read the {what} file {pem.path}: {error.strerror}") from None


def _make(access: Access, material: _Material) -> ssl.SSLContext:
    """Make a context; raise _TlsError."""
    context = ClientContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies the certificate and its name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if material.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif material.authority is None:
        context.load_default_certs()
    else:
        _trust(context, material.authority, _origin(access.authority, "CA"))
    if material.certificate is not None and material.key is not None:
        _load_client_certificate(context, material.certificate, material.key, access)
    elif material.certificate is not None or material.key is not None:
        given, missing = ("certificate", "key") if material.certificate else ("key", "certificate")
        raise _TlsError(f"the client {given} lacks its {missing}")
    return context


def _origin(pem: Pem | None, what: str) -> str:
    return f"the {what} file {pem.path}" if pem and pem.path else f"the {what} in the kubeconfig"


def _trust(context: ssl.SSLContext, authority: bytes, origin: str) -> None:
    # Certificates only, because OpenSSL fails on comments that are not ASCII.
    found = b"\n".join(_CERTIFICATES.findall(authority))
    if not found:
        raise _TlsError(f"{origin} contains no PEM certificate")
    try:
        context.load_verify_locations(cadata=found.decode("ascii"))
    except ssl.SSLError as error:
        raise _TlsError(f"{origin} contains an invalid certificate: {error.reason}") from None


def _load_client_certificate(
    context: ssl.SSLContext, certificate: bytes, key: bytes, access: Access
) -> None:
    origin = _origin(access.certificate, "certificate")
    try:
        with _as_file(certificate + b"\n" + key) as path:
            context.load_cert_chain(path, password=_refuse)
    except _TlsError as error:
        raise _TlsError(f"{_origin(access.key, 'key')} {error}") from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise _TlsError(f"{origin} and {_origin(access.key, 'key')} do not match") from None
        raise _TlsError(
            f"{origin} or its key cannot be used: {error.reason or 'not in PEM form'}"
        ) from None


def _refuse() -> str:
    """Raise instead of letting OpenSSL prompt for a passphrase."""
    raise _TlsError("is encrypted; use a key without a passphrase")


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Provide bytes as a file with a path, within the context."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        handle = os.memfd_create("hsdns-tls", os.MFD_CLOEXEC)
        path, is_on_disk = f"/proc/self/fd/{handle}", False
    else:
        import tempfile  # noqa: PLC0415 - only for systems without anonymous files

        handle, path = tempfile.mkstemp(prefix="hsdns-tls-")  # mode 0600
        is_on_disk = True
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            yield path
    finally:
        if is_on_disk:
            os.unlink(path)


# Seconds; a server that is starting may delay a list for most of a minute.
HEADERS_TIMEOUT: Final = 60.0
ERROR_READ_TIMEOUT: Final = 10.0  # seconds; the bodies of errors are short
MAX_WRITTEN_LEN: Final = 1 << 20  # octets of the response to a request that writes
AHEAD_LEN: Final = 1 << 23  # octets of a response to buffer before get() is called
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}
_FAULTS: Final = (HttpFault, OSError, TimeoutError)


class _Request(NamedTuple):
    """A request."""

    method: str
    path: str
    query: Mapping[str, str]
    accept: str
    body: bytes = b""
    content_type: str = ""


class _Sent(NamedTuple):
    """A response whose head has arrived: its connection and route, and the access of the request."""

    connection: HttpConnection
    route: Route
    access: Access


class _Ahead(NamedTuple):
    """A request that was sent ahead, and the task that returns its response."""

    essence: dict[str, str]
    task: asyncio.Task[_Sent]


@dataclass(eq=False)
class ApiClient:
    """A Transport to one API server; `now` is a monotonic clock in seconds."""

    source: AccessSource
    registry: InitVar[Registry]
    now: Callable[[], float]
    warn: InitVar[Callable[[str], None]]
    _: KW_ONLY
    headers_timeout: float = HEADERS_TIMEOUT

    def __post_init__(self, registry: Registry, warn: Callable[[str], None]) -> None:
        self.server = self.source.server
        self._tls = TlsContexts(warn)
        self.redact = Redaction()
        self.obstacles = Obstacles()
        self._connections = Connections()
        self._bodies: dict[HttpConnection, str] = {}  # with the path of the request
        self._ahead: dict[str, _Ahead] = {}  # by path
        self._requests = registry.counter(
            "coredns_kubernetes_rest_client_requests_total", ("code", "method", "host")
        )
        self._durations = registry.histogram(
            "coredns_kubernetes_rest_client_request_duration_seconds",
            DEFAULT_BUCKETS,
            ("verb", "host"),
        )

    def get(
        self, path: str, query: Mapping[str, str], accept: str = JSON
    ) -> AbstractAsyncContextManager[Response]:
        """Send a GET; the response is valid within the context."""
        return self._response(_Request("GET", path, query, accept))

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = JSON
    ) -> tuple[int, str]:
        """Send a request that writes; return the status and the beginning of the body; raise Unreachable."""
        async with self._response(_Request(method, path, {}, JSON, body, content_type)) as response:
            return response.status, await response.text(MAX_WRITTEN_LEN)

    @asynccontextmanager
    async def _response(self, request: _Request) -> AsyncIterator[Response]:
        path, query, method = request.path, request.query, request.method
        access = await self._current()
        host = urlsplit(access.server).netloc
        began = self.now()
        obstacle = self.obstacles.find(path, query)
        if obstacle is not None and obstacle.status:
            self._requests.inc((str(obstacle.status), method, host))
            yield Refusal(path, obstacle)
            return
        try:
            asked = await self._sent_ahead(request, obstacle)
            asked = asked or await self._send(access, request, obstacle)
        except Unreachable:
            self._requests.inc(("<error>", method, host))
            raise
        connection, route, access = asked
        self._requests.inc((str(connection.status), method, host))
        if connection.status == 401:
            self.source.invalidate(access)
        self._bodies[connection] = path
        try:
            encoding = connection.headers.get("Content-Encoding", "identity")
            if encoding.lower() != "identity":
                raise Unreachable(
                    f"{access.server} sends a compressed response ({self.redact(encoding[:40])}), which hsdns did not "
                    "request; is there a proxy in front of it that compresses?"
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
                self._durations.observe(self.now() - began, (method, host))

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

        async def send() -> _Sent:
            request = _Request("GET", path, query, accept)
            return await self._send(await self._current(), request, None, AHEAD_LEN)

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
        access = await self.source.current()
        self.server = access.server
        self.redact.remember(access.authorization)
        proxy = urlsplit(access.proxy)
        self.redact.remember(proxy.password or "")
        for _, value in proxy_authorization(proxy):
            self.redact.remember(value)
        return access

    async def _sent_ahead(self, request: _Request, obstacle: Obstacle | None) -> _Sent | None:
        """The response to this request if it was sent ahead, else None."""
        path = request.path
        ahead = self._ahead.get(path)
        if ahead is None:
            return None
        if obstacle is not None or ahead.essence != _essence(request.query, request.accept):
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
        if isinstance(found, _Sent):
            found.connection.close()

    async def _send(
        self,
        access: Access,
        request: _Request,
        obstacle: Obstacle | None,
        buffer_len: int = BUFFER_LEN,
    ) -> _Sent:
        """Send the request and wait for the response headers; raise Unreachable."""
        route = self._route(access)
        server = urlsplit(access.server)
        question = f"?{urlencode(request.query)}" if request.query else ""
        target = f"{route.target}{server.path}{request.path}{question}"
        headers = [
            ("Host", server.netloc),
            ("Accept", request.accept),
            ("Accept-Encoding", "identity"),
            ("User-Agent", user_agent()),
            *access.headers,
            *route.headers,
        ]
        if access.authorization:
            headers.append(("Authorization", access.authorization))
        if request.body:
            headers += [
                ("Content-Type", request.content_type),
                ("Content-Length", str(len(request.body))),
            ]
        is_read = request.method == "GET"
        try:
            octets = head_of(f"{request.method} {target}", headers) + request.body
        except ValueError as error:
            raise Unreachable(f"cannot query {access.server}: {error}") from None
        try:
            if obstacle is not None:
                raise away(obstacle)
            async with asyncio.timeout(self.headers_timeout):
                connection = await self._connections.ask(route, octets, buffer_len, repeats=is_read)
        except _FAULTS as error:
            raise self._unreachable(access, error) from None
        return _Sent(connection, route, access)

    def _route(self, access: Access) -> Route:
        is_secure = access.server.startswith("https:")
        return Route.of(access, self._tls.context_for(access) if is_secure else None)

    def _unreachable(self, access: Access, error: BaseException) -> Unreachable:
        if is_tls(error) and access.certificate is not None:
            self.source.invalidate(access)  # the client certificate may have been refused
        sentence = self.redact(describe(access, error, self.headers_timeout))
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

    async def feed(self, take: Callable[[bytes], bool], read_timeout: Callable[[], float]) -> None:
        """Pass the body to `take` as it arrives."""
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
            await connection.feed(take)
        except _ReadTimeout as error:
            seconds = error.seconds
            raise Unreachable(f"{self._access.server} has sent no data for {seconds:g} s") from None
        except _FAULTS as error:
            raise Unreachable(self._redact(describe(self._access, error, read_timeout()))) from None
        finally:
            timer.cancel()

    async def text(self, limit: int) -> str:
        """Read the body, at most `limit` octets, and remove credentials from it."""
        octets = (await read_body(self, limit, ERROR_READ_TIMEOUT))[:limit]
        if is_protobuf(self.headers.get("Content-Type", "")):
            from hsdns.apiserver.watch_event import status_text  # noqa: PLC0415 - the reflector has it by then

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
